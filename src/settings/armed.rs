//! Whether the timer is set: from the unit files alone, since the job asks no systemd.

use crate::files::Root;
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
        if wanted_by(root, timer)?.is_empty() {
            return Ok(Self::No(format!(
                "{timer} is not enabled, so that nothing starts the job after the next boot (systemctl enable --now {timer})"
            )));
        }
        Ok(Self::Yes)
    }
}
