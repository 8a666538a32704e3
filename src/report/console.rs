//! What is said while the job runs: the log lines on stdout, warnings and errors on stderr.

use std::fmt;
use std::io::Write;

use super::words::tame;

/// Where the job talks to. Its lines are the old script's, so that filters of its log go on working.
pub struct Console<'a> {
    out: &'a mut dyn Write,
    err: &'a mut dyn Write,
    /// How much is said.
    pub voice: Voice,
}

/// How much is said, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Voice {
    /// Whether stdout belongs to the log; else it is kept for one JSON document.
    pub text: bool,
    /// Only what went wrong.
    pub quiet: bool,
    /// Also each command.
    pub verbose: bool,
    /// Whether stdout may be coloured.
    pub color_out: bool,
    /// Whether stderr may be coloured.
    pub color_err: bool,
    /// Columns of the terminal; none where it is none.
    pub width: Option<u16>,
}

impl<'a> Console<'a> {
    /// A console.
    pub fn new(out: &'a mut dyn Write, err: &'a mut dyn Write, voice: Voice) -> Self {
        Self { out, err, voice }
    }

    /// A headline of the log: `## What happens ##`.
    pub fn headline(&mut self, text: &str) {
        self.say(&format!("## {text} ##"));
    }

    /// A headline about what stands in the way. Where the log is not to be seen, a warning says it.
    pub fn obstacle(&mut self, text: &str) {
        if self.voice.text && !self.voice.quiet {
            self.headline(text);
        } else {
            self.warn(text);
        }
    }

    /// A line of the log.
    pub fn say(&mut self, text: &str) {
        if self.voice.text && !self.voice.quiet {
            self.out(&tame(text));
        }
    }

    /// A finished table of the log, which has tamed what it was given.
    pub fn table(&mut self, table: &str) {
        if self.voice.text && !self.voice.quiet {
            self.out(table);
        }
    }

    /// Text for stdout whatever the voice: a finished document.
    pub fn out(&mut self, text: &str) {
        // a reader that went away is no reason to leave a node half done
        let _ = writeln!(self.out, "{text}").and_then(|()| self.out.flush());
    }

    /// A question to the person at the terminal; the answer comes behind it.
    pub fn question(&mut self, text: &str) {
        let _ = write!(self.err, "{} ", tame(text)).and_then(|()| self.err.flush());
    }

    /// What is worth knowing and no trouble.
    pub fn note(&mut self, text: &str) {
        if !self.voice.quiet {
            self.labelled("note", "36", text);
        }
    }

    /// Something that a person should look at.
    pub fn warn(&mut self, text: &str) {
        self.labelled("warning", "33", text);
    }

    /// Something that went wrong.
    pub fn error(&mut self, text: &str) {
        self.labelled("error", "31", text);
    }

    /// A detail, such as a command that was run.
    pub fn detail(&mut self, text: &str) {
        if self.voice.verbose {
            self.labelled("run", "2", text);
        }
    }

    fn labelled(&mut self, label: &str, color: &str, text: &str) {
        let text = tame(text);
        let _ = if self.voice.color_err {
            writeln!(self.err, "\x1b[{color}m{label}:\x1b[0m {text}")
        } else {
            writeln!(self.err, "{label}: {text}")
        };
    }
}

impl fmt::Debug for Console<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").field("voice", &self.voice).finish_non_exhaustive()
    }
}
