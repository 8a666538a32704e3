//! The file of settings as it is first written: every setting of the job and of a check, each commented out with its default.

use clap::{Arg, ArgAction, Command};

use super::layers::{is_setting, variable};

/// Columns of the comments.
const WIDTH: usize = 100;

const HEAD: &str = "\
# Settings of k8s-certs-renew, for the timer's runs and for those by hand; the program reads this file itself.
# What is typed comes first, then the environment, then this file. Lists: values parted by ';'. Flags: yes or no.
# A name that is not known ends the program with 78.
";

/// Verbs whose settings are shown; the others' are either the same, or of one call.
const VERBS: [&str; 2] = ["run", "check"];

/// The text for [`super::layers::FILE`], from the definitions of the options.
pub fn template(command: &Command) -> String {
    let mut text = HEAD.to_owned();
    let mut told: Vec<String> = Vec::new();
    for verb in VERBS.iter().filter_map(|verb| command.find_subcommand(verb)) {
        for arg in verb.get_arguments() {
            let Some(long) = arg.get_long().filter(|long| is_setting(long)) else { continue };
            let name = variable(long);
            if !told.contains(&name) {
                text.push('\n');
                text.push_str(&comment(arg, command));
                text.push_str(&format!("#{name}={}\n", default(arg)));
                told.push(name);
            }
        }
    }
    text
}

fn default(arg: &Arg) -> String {
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        return "no".to_owned();
    }
    let values: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    values.join("; ")
}

fn comment(arg: &Arg, command: &Command) -> String {
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let mut text = wrapped(&help);
    let mut values: Vec<String> = Vec::new();
    // an option of two verbs may take other values in each
    for verb in VERBS.iter().filter_map(|verb| command.find_subcommand(verb)) {
        let same = verb.get_arguments().find(|other| other.get_long() == arg.get_long());
        let flag = matches!(arg.get_action(), ArgAction::SetTrue);
        for value in same.filter(|_| !flag).into_iter().flat_map(Arg::get_possible_values) {
            if !values.iter().any(|known| known == value.get_name()) {
                values.push(value.get_name().to_owned());
            }
        }
    }
    if !values.is_empty() {
        text.push_str(&wrapped(&format!("one of: {}", values.join(", "))));
    }
    text
}

fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut line = String::from("#");
    for word in text.split_whitespace() {
        if line.len() + 1 + word.len() > WIDTH {
            lines.push_str(&line);
            lines.push('\n');
            "#".clone_into(&mut line);
        }
        line.push(' ');
        line.push_str(word);
    }
    lines.push_str(&line);
    lines.push('\n');
    lines
}
