//! The demo: the program's whole job on a node that is made for it, with stand-ins for what a machine without Kubernetes lacks.
//!
//! The same executable acts as the stand-in tools, for the demo and for the tests: see `support::fake`.

#[path = "../support/mod.rs"]
mod support;

mod binary;
mod checks;
mod story;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use support::fake::say;

fn main() -> ExitCode {
    let mut args = std::env::args();
    let argv0 = args.next().unwrap_or_default();
    let args: Vec<String> = args.collect();
    if let Some(code) = support::fake::act(Path::new(&argv0), args.clone()) {
        return code;
    }
    match args.first().map(String::as_str) {
        None => {}
        Some(support::world::FINGERPRINT_OPTION) => {
            let _ = write!(std::io::stdout(), "{}", support::world::fingerprint());
            return ExitCode::SUCCESS;
        }
        Some(_) => {
            say("usage: cargo run --example demo");
            return ExitCode::from(64);
        }
    }
    match binary::build().and_then(|program| story::tell(&program)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            say(format!("\nThe demo failed: {why}"));
            ExitCode::FAILURE
        }
    }
}
