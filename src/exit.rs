//! Exit codes: the only table of them.

use std::fmt;

/// How a run ends, for systemd, monitoring and scripts.
///
/// Codes 64 to 78 keep the meaning of `sysexits.h`.
#[must_use]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exit {
    /// Nothing was due, or everything was done and proven; also: this is no control plane.
    Ok,
    /// Something was renewed, restarted or copied, and proven (only with `--detailed-exitcode`).
    Changed,
    /// A real run would act (only with `--dry-run --detailed-exitcode`).
    WouldChange,
    /// The renewal failed, or left something undone.
    RenewalFailed,
    /// Renewed, but a component is not proven to use the new certificate.
    NotProven,
    /// kube-apiserver's `/readyz` was not reached in time.
    NotReady,
    /// Renewed, but the restart was put off because it would have done harm.
    Deferred,
    /// Only a copy of the kubeconfig could not be written.
    CopyFailed,
    /// A due certificate cannot be renewed on this node: external CA, or a CA that ends first.
    CannotRenew,
    /// A certificate that must be judged cannot be read.
    CannotRead,
    /// The clock cannot be trusted.
    ClockUntrusted,
    /// The command line is wrong.
    Usage,
    /// A tool that the run needs is missing.
    ToolMissing,
    /// A fault of this program.
    Fault,
    /// State, backup or lock cannot be written, or a backup not read.
    State,
    /// Another run, or kubeadm, is at work.
    Busy,
    /// Not started by root.
    NotRoot,
    /// The configuration is wrong: a setting, a unit file, a manifest; or a backup that is not to be put back.
    Config,
    /// Ended by this signal.
    Signal(i32),
    /// A check found what somebody should look at (Monitoring Plugins development guidelines, like the two that follow).
    Warning,
    /// A check found what does not work, or will not for much longer.
    Critical,
    /// A check cannot tell.
    Unknown,
}

impl Exit {
    /// The number that the process ends with.
    pub fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Warning => 1,
            Self::Critical => 2,
            Self::Unknown => 3,
            Self::Changed => 10,
            Self::WouldChange => 11,
            Self::RenewalFailed => 20,
            Self::NotProven => 21,
            Self::NotReady => 22,
            Self::Deferred => 23,
            Self::CopyFailed => 24,
            Self::CannotRenew => 25,
            Self::CannotRead => 26,
            Self::ClockUntrusted => 27,
            Self::Usage => 64,
            Self::ToolMissing => 69,
            Self::Fault => 70,
            Self::State => 74,
            Self::Busy => 75,
            Self::NotRoot => 77,
            Self::Config => 78,
            Self::Signal(number) => 128_u8.saturating_add(u8::try_from(number).unwrap_or(127)),
        }
    }

    /// Whether the run ended as it should.
    pub fn is_success(self) -> bool {
        matches!(self, Self::Ok | Self::Changed | Self::WouldChange)
    }

    /// The one to report of several.
    ///
    /// A signal and the codes from 64 up end a run at once, so they come first; then, by how much an operator
    /// has to worry, 20, 22, 21, 23, 26, 25, 24; success only if nothing else is there.
    pub fn worst(all: impl IntoIterator<Item = Self>) -> Self {
        all.into_iter().min_by_key(|exit| exit.rank()).unwrap_or(Self::Ok)
    }

    fn rank(self) -> u8 {
        match self {
            Self::Signal(_) => 0,
            Self::Fault => 1,
            Self::State => 2,
            Self::Busy => 3,
            Self::NotRoot => 4,
            Self::Usage => 5,
            Self::Config => 6,
            Self::ToolMissing => 7,
            Self::ClockUntrusted => 8,
            Self::RenewalFailed => 9,
            Self::NotReady => 10,
            Self::NotProven => 11,
            Self::Deferred => 12,
            Self::CannotRead => 13,
            Self::CannotRenew => 14,
            Self::CopyFailed => 15,
            Self::Critical => 16,
            Self::Unknown => 17,
            Self::Warning => 18,
            Self::WouldChange => 19,
            Self::Changed => 20,
            Self::Ok => 21,
        }
    }
}

/// An error that also says how the process is to end.
#[derive(Debug)]
pub struct Failure {
    /// The exit code to end with.
    pub exit: Exit,
    /// What was being done, to what, why it failed and what to do.
    pub error: anyhow::Error,
}

impl Failure {
    /// A failure with this exit code.
    pub fn new(exit: Exit, error: impl Into<anyhow::Error>) -> Self {
        Self { exit, error: error.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut said = String::new();
        for cause in self.error.chain().map(ToString::to_string) {
            // many an error's own text ends with its cause already
            if said.ends_with(&cause) || (!said.is_empty() && said.contains(&format!(": {cause}"))) {
                continue;
            }
            if !said.is_empty() {
                said.push_str(": ");
            }
            said.push_str(&cause);
        }
        f.write_str(&said)
    }
}

/// Gives an error its exit code on the way up.
pub trait OrExit<T> {
    /// Turns the error into a [`Failure`] that ends with `exit`.
    ///
    /// # Errors
    /// The error itself, now with its exit code.
    fn or_exit(self, exit: Exit) -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> OrExit<T> for Result<T, E> {
    fn or_exit(self, exit: Exit) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(exit, error))
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::{Exit, Failure};

    #[test]
    fn of_several_the_one_that_needs_an_operator_first_is_reported() {
        let order = [20, 22, 21, 23, 26, 25, 24, 10, 0];
        let all = [
            Exit::RenewalFailed,
            Exit::NotReady,
            Exit::NotProven,
            Exit::Deferred,
            Exit::CannotRead,
            Exit::CannotRenew,
            Exit::CopyFailed,
            Exit::Changed,
            Exit::Ok,
        ];
        for from in 0..all.len() {
            assert_eq!(Exit::worst(all[from..].iter().rev().copied()).code(), order[from]);
        }
        assert_eq!(Exit::worst([]), Exit::Ok);
    }

    #[test]
    fn each_cause_is_said_once() {
        let told = |error: anyhow::Error| Failure::new(Exit::State, error).to_string();
        assert_eq!(told(anyhow!("a").context("b").context("c")), "c: b: a");
        assert_eq!(
            told(anyhow!("larger than 16 MiB").context("cannot read 'x': larger than 16 MiB")),
            "cannot read 'x': larger than 16 MiB"
        );
        let inside = "cannot read 'x': is a directory; name the zone";
        assert_eq!(told(anyhow!("is a directory").context(inside).context("no")), format!("no: {inside}"));
    }

    #[test]
    fn a_signal_is_told_as_the_shell_tells_it() {
        assert_eq!(Exit::Signal(15).code(), 143);
        assert_eq!(Exit::Signal(2).code(), 130);
    }
}
