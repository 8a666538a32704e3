//! Whether the timer is set: from the unit files alone, since the job asks no systemd.

use std::path::Path;

use crate::files::Root;
use crate::node::unit_command::{unit_command, words};
use crate::node::unit_files::{Unit, UnitError, wanted_by};

/// Whether systemd starts the job by itself after each boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Armed {
    /// The timer is there and enabled, and so is what it starts there.
    Yes,
    /// There is no such timer, or it is masked.
    NoTimer,
    /// The timer is there, and something is missing: what, in words.
    No(String),
}

impl Armed {
    /// Looks. One that was started by hand (`systemctl start`) and not enabled is gone after the next boot, and counts as not
    /// armed; one that was enabled and stopped by hand cannot be told from files.
    ///
    /// # Errors
    /// A unit file or a directory cannot be read, or `timer` is not the name of a unit.
    pub fn look(root: &Root, timer: &str) -> Result<Self, UnitError> {
        let unit = Unit::load(root, timer)?;
        if !unit.found || unit.masked {
            return Ok(Self::NoTimer);
        }
        // systemd.timer(5): without `Unit=` the service of the same name
        let service = unit
            .last("Timer", "Unit")
            .map_or_else(|| format!("{}.service", timer.strip_suffix(".timer").unwrap_or(timer)), str::to_owned);
        let service = Unit::load(root, &service)?;
        if !service.found || service.masked {
            let how = if service.masked { "masked" } else { "not installed" };
            return Ok(Self::No(format!("{timer} starts {}, which is {how}", service.name)));
        }
        if let Some(command) = unit_command(root, &service.name)?.filter(|command| !is_ours(&command.argv)) {
            let last = service.assignments("Service").filter(|one| one.key == "ExecStart").last();
            let file = last.map(|one| one.file.display().to_string()).unwrap_or_default();
            return Ok(Self::No(format!(
                "{timer} starts '{}' ({file}), not this program; to have it start this one: k8s-certs-renew install",
                command.argv.join(" ")
            )));
        }
        if wanted_by(root, timer)?.is_empty() {
            return Ok(Self::No(format!(
                "{timer} is not enabled, so that nothing starts the job after the next boot (systemctl enable --now {timer})"
            )));
        }
        Ok(Self::Yes)
    }
}

/// Whether a command line runs this program: by whatever path, also within a shell's `-c`, or behind another program that starts it.
fn is_ours(argv: &[String]) -> bool {
    let is_program = |word: &String| Path::new(word).file_name().is_some_and(|name| name == "k8s-certs-renew");
    argv.iter().flat_map(|word| words(word)).any(|word| is_program(&word))
}
