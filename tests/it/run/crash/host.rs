//! The program in a process of its own that is killed as soon as a given line is said: between two steps, where no tool
//! and no server has a hand in it.

use std::io::{self, Write};
use std::process::{Command, ExitStatus, Stdio};

use k8s_certs_renew::cli::{Process, Terminal, main};
use k8s_certs_renew::host::Signals;
use rustix::process::{Signal, getpid, kill_process};

use super::super::{command_line, now};
use crate::support::clock::StillClock;
use crate::support::site::Site;

const WORDS: &str = "CRASH_TEST_WORDS";
const ARGV: &str = "CRASH_TEST_ARGV";
/// Words that no line has: the process is killed when the program is through.
pub const THE_END: &str = "(the end)";

/// Runs the program on the node in this very executable, started anew: it is always the program of this source.
/// Gives what it said, and how its process ended.
pub fn killed_at(site: &Site, args: &[&str], words: &str) -> (ExitStatus, String) {
    let argv: Vec<String> = command_line(site, args).into_iter().map(|word| word.into_string().unwrap()).collect();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "run::crash::host::the_program_in_a_process_of_its_own", "--nocapture"]);
    command.env(WORDS, words).env(ARGV, serde_json::to_string(&argv).unwrap());
    let output = command.stdin(Stdio::null()).output().unwrap();
    (output.status, String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

// no test of its own: what `killed_at` starts
#[test]
fn the_program_in_a_process_of_its_own() {
    let (Ok(words), Ok(argv)) = (std::env::var(WORDS), std::env::var(ARGV)) else { return };
    let argv: Vec<String> = serde_json::from_str(&argv).unwrap();
    let process = Process {
        argv: argv.into_iter().map(Into::into).collect(),
        environment: Vec::new(),
        terminal: Terminal::default(),
        is_root: true,
        clock: &StillClock::at(now()),
        signals: &Signals::none(),
    };
    let (mut out, mut err) = (Kills::at(&words), Kills::at(&words));
    let exit = main(&process, &mut out, &mut err);
    if words == THE_END {
        kill();
    }
    panic!("ended with {} before '{words}' was said", exit.code());
}

/// Kills its own process when a line with the words has been written.
struct Kills<'a> {
    words: &'a str,
    line: Vec<u8>,
}

impl<'a> Kills<'a> {
    fn at(words: &'a str) -> Self {
        Self { words, line: Vec::new() }
    }
}

impl Write for Kills<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for byte in bytes {
            self.line.push(*byte);
            if *byte == b'\n' {
                let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
                io::stdout().write_all(line.as_bytes())?;
                if line.contains(self.words) {
                    kill();
                }
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn kill() {
    kill_process(getpid(), Signal::KILL).unwrap();
    std::thread::park();
}
