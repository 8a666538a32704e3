//! The real binary, built by the cargo that runs the demo.

use std::path::{Path, PathBuf};
use std::process::Command;

const NAME: &str = "k8s-certs-renew";

/// Builds the program, and returns its path: `cargo run --example` builds the library and the demo, not the program.
///
/// # Errors
/// It cannot be built, or is not where it should be.
pub fn build() -> Result<PathBuf, String> {
    let demo = std::env::current_exe().map_err(|error| format!("cannot find this executable: {error}"))?;
    let profile = demo.parent().and_then(Path::parent).ok_or("this executable is not where cargo puts examples")?;
    let program = profile.join(NAME);
    // set by `cargo run`; started by hand, the demo takes what is there
    if let Some(cargo) = std::env::var_os("CARGO") {
        let mut command = Command::new(cargo);
        command.args(["build", "--quiet", "--bin", NAME]).arg("--manifest-path").arg(manifest());
        match profile.file_name().and_then(|name| name.to_str()) {
            Some("debug") | None => {}
            Some(name) => drop(command.args(["--profile", name])),
        }
        if let Some(target) = profile.parent() {
            command.arg("--target-dir").arg(target);
        }
        let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
        if !status.success() {
            return Err(format!("`cargo build --bin {NAME}` ended with {status}"));
        }
    }
    if program.is_file() {
        return Ok(program);
    }
    Err(format!(
        "'{}' is not built; run `cargo build`, or start the demo by `cargo run --example demo`",
        program.display()
    ))
}

fn manifest() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")
}
