//! `k8s-certs-renew completions`: what makes a shell complete commands and options.

use std::io::Write;

use anyhow::anyhow;
use clap::CommandFactory;
use clap_complete::Generator;
use clap_complete::shells;

use crate::exit::{Exit, Failure, OrExit};

use super::args::Cli;

/// Options of `completions`.
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// For which shell
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: Shell,
}

/// The shells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Shell {
    /// To be sourced, or put into /usr/share/bash-completion/completions/k8s-certs-renew
    Bash,
    /// To be put into a directory of $fpath as _k8s-certs-renew
    Zsh,
    /// To be put into ~/.config/fish/completions/k8s-certs-renew.fish
    Fish,
}

/// Prints the completions.
///
/// # Errors
/// The output cannot be written: [`Exit::State`].
pub fn run(args: &CompletionsArgs, out: &mut dyn Write) -> Result<Exit, Failure> {
    write(args.shell, out).map_err(|error| anyhow!("cannot write the output: {error}")).or_exit(Exit::State)?;
    Ok(Exit::Ok)
}

fn write(shell: Shell, out: &mut dyn Write) -> std::io::Result<()> {
    let mut command = Cli::command();
    let name = command.get_name().to_owned();
    command.set_bin_name(name.as_str());
    command.build();
    match shell {
        Shell::Bash => {
            let mut script = Vec::new();
            shells::Bash.try_generate(&command, &mut script)?;
            // clap_complete 4.6 spells a hyphen of the program's name in two ways, and then completes nothing after a command
            // (clap-rs/clap issue 6421)
            let script = String::from_utf8_lossy(&script);
            let mended = script.replace(&name.replace('-', "__subcmd__"), &name.replace('-', "__"));
            out.write_all(mended.as_bytes())
        }
        Shell::Zsh => shells::Zsh.try_generate(&command, out),
        Shell::Fish => shells::Fish.try_generate(&command, out),
    }
}

#[cfg(test)]
mod tests {
    use super::{CompletionsArgs, Shell, run};

    #[test]
    fn every_shell_gets_every_command() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut out = Vec::new();
            assert!(run(&CompletionsArgs { shell }, &mut out).is_ok());
            let text = String::from_utf8(out).unwrap();
            for word in ["calendar", "restore", "approve", "days-buffer"] {
                assert!(text.contains(word), "{shell:?} lacks {word}");
            }
        }
    }
}
