//! The table of settings: every name that environment and file may hold, as the command line defines it.

use clap::{Arg, ArgAction, Command};

use super::layers::{FILE, is_setting, variable};

/// A name, and what it means where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Such as `K8S_CERTS_RENEW_DAYS_BUFFER`.
    pub variable: String,
    /// Such as `days-buffer`.
    pub option: String,
    /// Its meanings: one, unless commands differ about it, as about `--output`.
    pub meanings: Vec<Meaning>,
}

/// What a setting means to some commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meaning {
    /// Such as `run` and `kubelet check`.
    pub commands: Vec<String>,
    /// The option's help.
    pub help: String,
    /// What it is where nothing sets it; `None` where the help tells it, or where it is nothing.
    pub default: Option<String>,
    /// All values that it takes, where they can be counted.
    pub values: Vec<String>,
    /// Whether it takes several.
    pub repeatable: bool,
}

/// The settings of `command` and all commands below it, by name.
pub fn table(command: &Command) -> Vec<Setting> {
    let mut table: Vec<Setting> = Vec::new();
    for (name, verb) in named(command, "") {
        for arg in verb.get_arguments().filter(|arg| is_setting(arg) && !arg.is_hide_set()) {
            let Some(long) = arg.get_long() else { continue };
            let meaning = Meaning::of(arg, name.clone());
            let setting = match table.iter().position(|setting| setting.option == long) {
                Some(known) => &mut table[known],
                None => {
                    let row = Setting { variable: variable(long), option: long.to_owned(), meanings: Vec::new() };
                    table.push(row);
                    let last = table.len() - 1;
                    &mut table[last]
                }
            };
            match setting.meanings.iter_mut().find(|known| known.is_like(&meaning)) {
                Some(known) => known.commands.extend(meaning.commands),
                None => setting.meanings.push(meaning),
            }
        }
    }
    table.sort_by(|a, b| a.variable.cmp(&b.variable));
    table
}

/// The file of settings as it is installed: every setting with its meaning and its default, all commented out.
pub fn file(command: &Command) -> String {
    let mut text = format!(
        "# {FILE}: settings of k8s-certs-renew, for the timer's run and for runs by hand.\n\
         # A name that is not known ends the program with 78. See k8s-certs-renew(5).\n"
    );
    for setting in table(command) {
        text.push('\n');
        let several = setting.meanings.len() > 1;
        for meaning in &setting.meanings {
            let commands = if several { format!("{}: ", meaning.commands.join(", ")) } else { String::new() };
            let values =
                if meaning.values.is_empty() { String::new() } else { format!(" ({})", meaning.values.join(", ")) };
            text.push_str(&wrapped(&format!("{commands}{}{values}", meaning.help)));
        }
        let default = setting.meanings.iter().find_map(|meaning| meaning.default.as_deref()).unwrap_or("");
        text.push_str(&format!("#{}={default}\n", setting.variable));
    }
    text
}

impl Meaning {
    fn of(arg: &Arg, command: String) -> Self {
        let is_flag = matches!(arg.get_action(), ArgAction::SetTrue | ArgAction::Count);
        let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        let possible = || arg.get_possible_values().into_iter().filter(|value| !value.is_hide_set());
        Self {
            commands: vec![command],
            help: arg.get_help().map(ToString::to_string).unwrap_or_default(),
            default: match defaults.as_slice() {
                _ if is_flag => Some("no".to_owned()),
                [] => None,
                some => Some(some.join("; ")),
            },
            values: if is_flag {
                vec!["yes".to_owned(), "no".to_owned()]
            } else {
                possible().map(|value| value.get_name().to_owned()).collect()
            },
            repeatable: matches!(arg.get_action(), ArgAction::Append),
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        (&self.help, &self.default, &self.values) == (&other.help, &other.default, &other.values)
    }
}

/// The commands below this one that can be named, with their names; this one itself is what runs without any.
fn named<'a>(command: &'a Command, above: &str) -> Vec<(String, &'a Command)> {
    let below = command.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help");
    below
        .flat_map(|verb| {
            let name = format!("{above}{}", verb.get_name());
            let further = named(verb, &format!("{name} "));
            std::iter::once((name, verb)).chain(further)
        })
        .collect()
}

fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut width = 0;
    for word in text.split_whitespace() {
        if width == 0 || width + 1 + word.len() > 100 {
            lines.push_str(if width == 0 { "#" } else { "\n#" });
            width = 1;
        }
        lines.push(' ');
        lines.push_str(word);
        width += 1 + word.len();
    }
    lines.push('\n');
    lines
}
