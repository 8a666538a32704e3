//! The command `k8s-certs-renew`: from arguments to exit code.

use std::io::{IsTerminal, stderr, stdin, stdout};
use std::process::ExitCode;

use k8s_certs_renew::cli::{Process, Terminal, main as run};
use k8s_certs_renew::host::ask::{self, Answer};
use k8s_certs_renew::host::{Signals, SystemClock};

#[expect(clippy::disallowed_methods, reason = "main is where arguments and environment come in")]
fn main() -> ExitCode {
    let signals = Signals::install().unwrap_or_else(|_| Signals::none());
    let process = Process {
        argv: std::env::args_os().collect(),
        environment: std::env::vars_os().collect(),
        terminal: terminal(),
        is_root: rustix::process::geteuid().is_root(),
        clock: &SystemClock,
        signals: &signals,
    };
    ExitCode::from(run(&process, &mut stdout().lock(), &mut stderr().lock()).code())
}

fn terminal() -> Terminal {
    let width = stdout().is_terminal().then(|| rustix::termios::tcgetwinsize(stdout()).map_or(80, |size| size.ws_col));
    let answer = stdin().is_terminal().then_some(ask::line as Answer);
    Terminal { answer, width, err: stderr().is_terminal() }
}
