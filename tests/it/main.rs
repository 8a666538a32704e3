//! Integration tests: behaviour of whole parts and of the whole program.
#![allow(clippy::unwrap_used, reason = "clippy's own allowance for tests does not reach their helper functions")]

mod calendar;
mod calendar_systemd;
mod command;
mod lock;
