//! Writes the man pages from what the program itself is made of: `cargo run --example man DIR`.
//!
//! Section 1 has a page for the program and one for each command, from the definitions that `--help` is printed from, and the
//! exit codes of `docs/exit-codes.md`. Section 5 is about the file of settings: the table of settings, and the rules in
//! `docs/settings.md`. The file itself, as packages install it, is written along with them (`DIR/default`).

mod markdown;

use std::error::Error;
use std::fs;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};
use k8s_certs_renew::cli::args::Cli;
use k8s_certs_renew::settings::{layers, table};

const EXIT_CODES: &str = include_str!("../exit-codes.md");
const SETTINGS: &str = include_str!("../settings.md");
const MANUAL: &str = "Kubernetes control plane certificates";

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args_os().nth(1).ok_or("usage: cargo run --example man DIR")?;
    pages(Path::new(&dir))
}

fn pages(dir: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(dir)?;
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let mut names = Vec::new();
    list(&command, &mut names);
    write(&command, &names, dir)?;
    fs::write(dir.join(format!("{}.5", command.get_name())), settings(&command)?)?;
    fs::write(dir.join("default"), table::file(&command))?;
    Ok(())
}

/// The names of all pages of section 1.
fn list(command: &Command, names: &mut Vec<String>) {
    names.push(page_name(command));
    command.get_subcommands().filter(|below| !below.is_hide_set()).for_each(|below| list(below, names));
}

fn page_name(command: &Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}

fn write(command: &Command, names: &[String], dir: &Path) -> Result<(), Box<dyn Error>> {
    let name = page_name(command);
    fs::write(dir.join(format!("{name}.1")), page(command, names)?)?;
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        write(below, names, dir)?;
    }
    Ok(())
}

fn page(command: &Command, names: &[String]) -> Result<Vec<u8>, Box<dyn Error>> {
    let name = page_name(command);
    let man = Man::new(command.clone().help_template("{all-args}")).source(source()).manual(MANUAL);
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let first = about.split(". ").next().unwrap_or_default();
    section("NAME").text([roman(format!("{name} - {first}"))]).to_writer(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.get_subcommands().next().is_some() {
        man.render_subcommands_section(&mut text)?;
    }
    // the other commands' codes are told where they are described
    if name == "k8s-certs-renew" || name == "k8s-certs-renew-run" {
        exit_codes().to_writer(&mut text)?;
        files().to_writer(&mut text)?;
    }
    let others = names.iter().filter(|other| **other != name).map(|other| (other.as_str(), "1"));
    see_also(others.chain([("k8s-certs-renew", "5")])).to_writer(&mut text)?;
    Ok(text)
}

fn settings(command: &Command) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut roff = Roff::new();
    roff.control("TH", ["k8s-certs-renew", "5", "", &source(), MANUAL]);
    roff.control("SH", ["NAME"]);
    roff.text([roman(format!("k8s-certs-renew - settings of k8s-certs-renew(1) in {}", layers::FILE))]);
    roff.control("SH", ["SYNOPSIS"]);
    roff.text([bold(layers::FILE)]);
    roff.control("SH", ["DESCRIPTION"]);
    // what stands above the page's first heading of its own
    let rules = SETTINGS.split("\n## ").next().unwrap_or_default();
    markdown::render(rules, &mut roff);
    roff.control("SH", ["SETTINGS"]);
    for setting in table::table(command) {
        roff.control("TP", []);
        roff.text([bold(setting.variable.as_str())]);
        for (index, meaning) in setting.meanings.iter().enumerate() {
            if index > 0 {
                roff.control("IP", []);
            }
            let mut text = format!("{}: {}.", meaning.commands.join(", "), meaning.help.trim_end_matches('.'));
            if !meaning.values.is_empty() {
                text.push_str(&format!(" One of {}.", meaning.values.join(", ")));
            }
            if let Some(default) = &meaning.default {
                text.push_str(&format!(" Default: {default}."));
            }
            if meaning.repeatable && !meaning.help.contains("repeatable") {
                text.push_str(" A list.");
            }
            roff.text([roman(text)]);
        }
    }
    let mut text = Vec::new();
    roff.to_writer(&mut text)?;
    see_also([("k8s-certs-renew", "1"), ("systemd.time", "7")].into_iter()).to_writer(&mut text)?;
    Ok(text)
}

fn exit_codes() -> Roff {
    let mut roff = section("EXIT STATUS");
    for row in markdown::rows(EXIT_CODES) {
        let [code, happened, to_do] = row.as_slice() else { continue };
        roff.control("TP", []);
        roff.text([bold(code.as_str())]);
        roff.text(markdown::inline(happened));
        if !matches!(to_do.as_str(), "" | "nothing") {
            roff.control("IP", []);
            roff.text([vec![roman("What to do: ")], markdown::inline(to_do)].concat());
        }
    }
    roff
}

fn files() -> Roff {
    let mut roff = section("FILES");
    for (path, what) in [
        (layers::FILE, "settings, see k8s-certs-renew(5)"),
        ("/var/lib/k8s-certs-renew/state.json", "the journal: how the last run ended, and what it owes"),
        ("/var/lib/k8s-certs-renew/backups", "what runs have replaced, with private keys; k8s-certs-renew-restore(1)"),
        ("/run/k8s-certs-renew.lock", "held by the run that is at work, and by its kubeadm"),
        ("k8s-certs-renew.service, k8s-certs-renew.timer", "units of systemd(1)"),
    ] {
        roff.control("TP", []);
        roff.text([bold(path)]);
        roff.text([roman(what)]);
    }
    roff
}

fn see_also<'a>(pages: impl Iterator<Item = (&'a str, &'a str)>) -> Roff {
    let mut line: Vec<Inline> = Vec::new();
    for (name, number) in pages {
        if !line.is_empty() {
            line.push(roman(", "));
        }
        line.extend([bold(name), roman(format!("({number})"))]);
    }
    let mut roff = section("SEE ALSO");
    roff.text(line);
    roff
}

fn section(heading: &str) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", [heading]);
    roff
}

fn source() -> String {
    format!("k8s-certs-renew {}", env!("CARGO_PKG_VERSION"))
}
