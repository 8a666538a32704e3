//! Integration tests: behaviour of whole parts and of the whole program.
#![allow(clippy::unwrap_used, reason = "clippy's own allowance for tests does not reach their helper functions")]

#[path = "../support/mod.rs"]
mod support;

mod api;
mod backup;
mod calendar;
mod calendar_command;
mod calendar_systemd;
mod check;
mod command;
mod decision;
mod docs;
mod evidence;
mod install;
mod inventory;
mod kubeconfig_copy;
mod kubelet;
mod kubelet_api;
mod layers;
mod lock;
mod monitoring;
mod node;
mod output;
mod pki;
mod run;
mod runtime;
mod settings_table;
mod timer;
mod turn_race;
mod units;
mod world;
