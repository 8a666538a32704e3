//! Benches of the targets that the project sets itself.
#![allow(clippy::unwrap_used, reason = "a bench that cannot go on fails")]

mod calendar;
mod check;
#[path = "../support/mod.rs"]
mod support;

mod inventory;

fn main() {
    divan::main();
}
