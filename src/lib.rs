//! Renews a Kubernetes control plane's certificates and sees that they are in use.
//!
//! The modules stand in layers; each imports lower layers only (`tests/it/layers.rs` holds the table).

pub mod calendar;
pub mod exit;
pub mod files;
pub mod host;

pub mod journal;
pub mod lock;
pub mod node;

pub mod api;
pub mod inventory;
pub mod runtime;

pub mod evidence;

pub mod decision;

pub mod plan;
pub mod steps;
pub mod turn;

pub mod check;
pub mod install;
pub mod kubelet;
pub mod remains;
pub mod report;
pub mod restore;
pub mod run;
pub mod settings;

pub mod cli;
