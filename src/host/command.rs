//! Runs programs: the only place that does.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use super::clock::{Clock, SystemClock};
use super::deadline::Deadline;

/// The environment of every program, whatever ours is: no proxy, no endpoint, no configuration file slips in by it.
pub const ENVIRONMENT: [(&str, &str); 3] = [
    ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/bin"),
    ("HOME", "/root"),
    ("LC_ALL", "C"),
];

/// What is kept of a program's output, each of stdout and stderr.
const KEPT: usize = 8 * 1024 * 1024;
/// A program that writes more than this is stopped: its output lies in memory.
const MOST: u64 = 64 * 1024 * 1024;
/// How often the size of the output is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// How long killed processes may take to go. One in an uninterruptible wait is left to the kernel after that.
const GOING: Duration = Duration::from_secs(2);

/// A program with its arguments, its deadline and what it inherits.
#[derive(Debug, Clone)]
pub struct Call<'fd> {
    program: PathBuf,
    args: Vec<String>,
    variables: Vec<(&'static str, String)>,
    deadline: Duration,
    keep_open: Option<BorrowedFd<'fd>>,
}

/// What a program that was started has done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// How it ended.
    pub status: Status,
    /// Its standard output, the first 8 MiB.
    pub stdout: Vec<u8>,
    /// Its standard error, the first 8 MiB.
    pub stderr: Vec<u8>,
    /// From start to end, in real time.
    pub took: Duration,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// By itself, with this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// It did not end before its deadline; its process group was killed.
    TimedOut,
}

/// A program that could not be run to an end.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It could not be started, for instance because it is built for another machine.
    #[error("{program:?} cannot be started: {source}")]
    Start {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It wrote without end, and was killed.
    #[error("{program:?} was stopped: it wrote more than {} MiB", MOST / 1024 / 1024)]
    Flood {
        /// The program.
        program: PathBuf,
    },
    /// Its end or its output could not be had.
    #[error("{program:?} cannot be watched: {source}")]
    Watch {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl<'fd> Call<'fd> {
    /// A call of the program at this absolute path, without arguments, with a deadline of one minute.
    pub fn new(program: &Path) -> Self {
        Self {
            program: program.to_path_buf(),
            args: Vec::new(),
            variables: Vec::new(),
            deadline: Duration::from_secs(60),
            keep_open: None,
        }
    }

    /// Adds arguments. No shell ever sees them.
    #[must_use]
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Adds a variable to the fixed environment.
    #[must_use]
    pub fn env(mut self, name: &'static str, value: &str) -> Self {
        self.variables.push((name, value.to_owned()));
        self
    }

    /// Sets the real time after which the program and its process group are killed.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Lets the program inherit an open file, so that a lock is held until the program too has ended. It gets it as its
    /// stdin: the one way in which no program that another thread starts at that moment gets it too. The file has to
    /// stand at its end, so that there is nothing to read.
    #[must_use]
    pub fn keep_open(mut self, fd: BorrowedFd<'fd>) -> Self {
        self.keep_open = Some(fd);
        self
    }

    /// Runs the program to its end or its deadline.
    ///
    /// It gets the fixed [`ENVIRONMENT`], `/` as its directory, nothing on stdin, and a process group of its own, so that
    /// Ctrl-C on our terminal does not reach it. Its output goes to files in memory and not to pipes: a daemon that it leaves
    /// behind with its stdout open cannot hold us up. What it leaves behind after its own end is not touched.
    ///
    /// # Errors
    /// It cannot be started or watched, or floods us with output. A bad exit code and a deadline that passes are no errors here.
    pub fn run(&self) -> Result<Output, CommandError> {
        let begin = SystemClock.since_boot();
        let watch = |source: io::Error| CommandError::Watch { program: self.program.clone(), source };
        let stdout = memory("stdout").map_err(watch)?;
        let stderr = memory("stderr").map_err(watch)?;
        let handle = self.start(&stdout, &stderr)?;
        let status = match self.wait(&handle, [&stdout, &stderr]) {
            Ok(status) => status,
            Err(error) => {
                end_group(&handle);
                return Err(error);
            }
        };
        Ok(Output {
            status,
            stdout: contents(&stdout).map_err(watch)?,
            stderr: contents(&stderr).map_err(watch)?,
            took: SystemClock.since_boot().saturating_sub(begin),
        })
    }

    #[expect(clippy::disallowed_methods, reason = "the one place that runs programs")]
    fn start(&self, stdout: &File, stderr: &File) -> Result<duct::Handle, CommandError> {
        let start = |source: io::Error| CommandError::Start { program: self.program.clone(), source };
        let stdin = match self.keep_open {
            Some(fd) => File::from(fd.try_clone_to_owned().map_err(start)?),
            None => File::open("/dev/null").map_err(start)?,
        };
        let variables = self.variables.iter().map(|(name, value)| (*name, value.as_str()));
        duct::cmd(&self.program, &self.args)
            .full_env(ENVIRONMENT.into_iter().chain(variables))
            .dir("/")
            .stdin_file(stdin)
            .stdout_file(stdout.try_clone().map_err(start)?)
            .stderr_file(stderr.try_clone().map_err(start)?)
            .unchecked()
            .before_spawn(|command| {
                command.process_group(0);
                Ok(())
            })
            .start()
            .map_err(start)
    }

    fn wait(&self, handle: &duct::Handle, outputs: [&File; 2]) -> Result<Status, CommandError> {
        let watch = |source: io::Error| CommandError::Watch { program: self.program.clone(), source };
        let deadline = Deadline::after(self.deadline);
        loop {
            let left = deadline.left();
            if let Some(ended) = handle.wait_timeout(left.unwrap_or_default().min(LOOK)).map_err(watch)? {
                return Ok(Status::of(ended.status));
            }
            if left.is_none() {
                end_group(handle);
                return Ok(Status::TimedOut);
            }
            for output in outputs {
                if output.metadata().map_err(watch)?.len() > MOST {
                    return Err(CommandError::Flood { program: self.program.clone() });
                }
            }
        }
    }
}

impl Output {
    /// Whether the program ended by itself with exit code 0.
    pub fn success(&self) -> bool {
        self.status == Status::Code(0)
    }

    /// Standard output as text, what is not UTF-8 replaced.
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// How it ended, and its last words, for a message: the last lines of stderr that say something, else those of
    /// stdout. Bounded, on one line, with control characters escaped. Only for programs whose output holds no secret.
    pub fn last_words(&self) -> String {
        let words =
            [&self.stderr, &self.stdout].into_iter().map(|bytes| last_lines(bytes)).find(|words| !words.is_empty());
        match words {
            Some(words) => format!("{}: {words}", self.status),
            None => format!("{} without a word", self.status),
        }
    }
}

impl Status {
    fn of(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, signal) => Self::Signal(signal.unwrap_or(0)),
        }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(number) => write!(f, "ended by signal {number}"),
            Self::TimedOut => f.write_str("killed at its deadline"),
        }
    }
}

/// Kills the process group of a child that has not been waited for, and waits until it is gone, but not for ever.
fn end_group(handle: &duct::Handle) {
    let group = handle.pids().first().and_then(|pid| i32::try_from(*pid).ok()).and_then(Pid::from_raw);
    let Some(group) = group else { return };
    let deadline = Deadline::after(GOING);
    // The leader is not reaped yet, so its number still means this group. Nobody to be told if it has just gone.
    let _ = rustix::process::kill_process_group(group, Signal::KILL);
    let _ = handle.wait_timeout(GOING);
    while deadline.left().is_some() && rustix::process::test_kill_process_group(group).is_ok() {
        SystemClock.sleep(Duration::from_millis(5));
    }
}

fn memory(name: &str) -> io::Result<File> {
    match rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC) {
        // a kernel before 3.17; a file without a name does as well
        Err(Errno::NOSYS) => tempfile::tempfile(),
        made => Ok(File::from(made?)),
    }
}

/// The first part of what was written. The file offset is shared with the program, and with what it left behind, so it is
/// neither used nor moved.
fn contents(file: &File) -> io::Result<Vec<u8>> {
    let length = usize::try_from(file.metadata()?.len()).unwrap_or(KEPT).min(KEPT);
    let mut bytes = vec![0; length];
    let mut filled = 0;
    while filled < length {
        match file.read_at(&mut bytes[filled..], filled as u64)? {
            0 => break,
            more => filled += more,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

fn last_lines(bytes: &[u8]) -> String {
    const LINES: usize = 3;
    const CHARACTERS: usize = 300;
    let from = bytes.len().saturating_sub(16 * 1024);
    let text = String::from_utf8_lossy(&bytes[from..]);
    let mut lines: Vec<&str> = text.lines().rev().map(str::trim).filter(|line| !line.is_empty()).take(LINES).collect();
    lines.reverse();
    let mut words = String::new();
    for line in lines {
        if !words.is_empty() {
            words.push_str(" | ");
        }
        for (at, character) in line.chars().enumerate() {
            if at == CHARACTERS {
                words.push('…');
                break;
            }
            if character.is_control() {
                words.extend(character.escape_default());
            } else {
                words.push(character);
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Output, Status};

    fn output(stdout: &str, stderr: &str) -> Output {
        Output { status: Status::Code(1), stdout: stdout.into(), stderr: stderr.into(), took: Duration::ZERO }
    }

    #[test]
    fn last_words_are_the_last_lines_of_stderr_else_of_stdout() {
        assert_eq!(output("out", "a\nb\n\nc\nd\n \n").last_words(), "exit code 1: b | c | d");
        assert_eq!(output("said here\n", "\n").last_words(), "exit code 1: said here");
        assert_eq!(output("", "").last_words(), "exit code 1 without a word");
    }

    #[test]
    fn last_words_are_bounded_and_cannot_play_with_the_terminal() {
        let words = output("", &format!("\u{1b}[31m{}\r", "x".repeat(5000))).last_words();
        assert!(words.starts_with("exit code 1: \\u{1b}[31mxxx") && words.ends_with('…'), "{words}");
        assert!(words.len() < 400);
    }
}
