//! Three layers of settings, one set of parsers: what the environment and the file say becomes arguments.
//!
//! Command line over environment over file. A setting of a lower layer is dropped where a higher one gives the same
//! option, so repeatable options replace and do not add up. The file is read by the program itself, so that the
//! timer's run and a run by hand judge alike.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context, anyhow};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::exit::{Exit, Failure};
use crate::files::{Root, is_absent};
use crate::turn::hooks::VARIABLES;

/// What every variable of ours begins with.
pub const PREFIX: &str = "K8S_CERTS_RENEW_";
/// The file of settings, below the root.
pub const FILE: &str = "/etc/default/k8s-certs-renew";
/// Options of a single call, which no layer below the command line may set.
const TYPED_ONLY: [&str; 8] = ["dry-run", "force", "at", "root", "yes", "purge", "help", "version"];

/// Characters of a wrong value that are shown.
const LONGEST: usize = 60;

/// One setting as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Setting {
    /// Long option name, such as `days-buffer`.
    option: String,
    value: String,
    /// For messages: the variable, and the file and line where it stands in one.
    place: String,
    separator: char,
}

/// Parses `argv` with the settings of environment and file put in as arguments before the typed ones.
///
/// # Errors
/// What is typed wrong ends with clap's own error ([`LayerError::Clap`], which is also how `--help` arrives); a setting
/// that is unknown or does not parse ends with [`Exit::Config`] and the place where it stands.
pub fn matches(
    command: &Command,
    argv: &[OsString],
    environment: &[(OsString, OsString)],
) -> Result<ArgMatches, LayerError> {
    let typed = command.clone().try_get_matches_from(argv).map_err(LayerError::Clap)?;
    let (mut verb, mut typed_of_verb) = (command, &typed);
    while let Some((name, matches)) = typed_of_verb.subcommand() {
        (verb, typed_of_verb) = (verb.find_subcommand(name).unwrap_or(verb), matches);
    }
    let known = options(command);
    let root = typed_of_verb.try_get_one::<std::path::PathBuf>("root").ok().flatten();
    let mut settings = from_environment(environment, &known)?;
    for setting in from_file(root.map_or(Path::new("/"), |path| path), &known)? {
        settings.entry(setting.option.clone()).or_insert(setting);
    }
    let mut layered: Vec<OsString> = Vec::new();
    for setting in settings.values() {
        let Some(arg) = verb.get_arguments().find(|arg| arg.get_long() == Some(&setting.option)) else {
            // an option of another verb
            continue;
        };
        if typed_of_verb.value_source(arg.get_id().as_str()) == Some(ValueSource::CommandLine) {
            continue;
        }
        let arguments = as_arguments(setting, arg)?;
        let alone = command_line(argv, verb_position(command, argv), &arguments, false);
        if let Err(error) = command.clone().try_get_matches_from(alone) {
            if suits_another_verb(command, verb, setting) {
                continue;
            }
            let told = shortened(&in_one_line(&error), &setting.value, setting.separator);
            return Err(refuse(anyhow!("{}: {told}", setting.place)));
        }
        layered.extend(arguments);
    }
    if layered.is_empty() {
        return Ok(typed);
    }
    let argv = command_line(argv, verb_position(command, argv), &layered, true);
    command.clone().try_get_matches_from(argv).map_err(LayerError::Clap)
}

/// Why no settings came out.
#[derive(Debug)]
pub enum LayerError {
    /// The command line is wrong, or asks for help or version.
    Clap(clap::Error),
    /// A setting is wrong.
    Setting(Failure),
}

fn refuse(error: anyhow::Error) -> LayerError {
    LayerError::Setting(Failure::new(Exit::Config, error))
}

/// The options of every verb that may stand in environment and file, by variable name.
fn options(command: &Command) -> BTreeMap<String, String> {
    verbs(command)
        .into_iter()
        .flat_map(Command::get_arguments)
        .filter(|arg| is_setting(arg))
        .filter_map(Arg::get_long)
        .map(|long| (variable(long), long.to_owned()))
        .collect()
}

/// Whether environment and file may set it.
pub(super) fn is_setting(arg: &Arg) -> bool {
    arg.get_long().is_some_and(|long| !TYPED_ONLY.contains(&long))
}

/// The command, and every one below it.
fn verbs(command: &Command) -> Vec<&Command> {
    std::iter::once(command).chain(command.get_subcommands().flat_map(verbs)).collect()
}

/// The name in environment and file of the option with this long name.
pub(super) fn variable(long: &str) -> String {
    format!("{PREFIX}{}", long.to_uppercase().replace('-', "_"))
}

fn from_environment(
    environment: &[(OsString, OsString)],
    known: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, Setting>, LayerError> {
    let mut settings = BTreeMap::new();
    for (name, value) in environment {
        // a hook may call this program
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX) && !VARIABLES.contains(name)) else {
            continue;
        };
        let option = known.get(name).ok_or_else(|| refuse(unknown(name, "the environment", known)))?;
        let value = value.to_str().ok_or_else(|| refuse(anyhow!("environment variable {name}: not UTF-8 text")))?;
        if !value.is_empty() {
            let place = format!("environment variable {name}");
            let setting = Setting { option: option.clone(), value: unquoted(value).to_owned(), place, separator: '\n' };
            settings.insert(option.clone(), setting);
        }
    }
    Ok(settings)
}

fn from_file(root: &Path, known: &BTreeMap<String, String>) -> Result<Vec<Setting>, LayerError> {
    let path = Path::new(FILE);
    // a root that does not exist is the caller's error to report
    let Ok(root) = Root::new(root) else { return Ok(Vec::new()) };
    let text = match root.read_to_string(path) {
        Ok(text) => text,
        // settings that were put elsewhere and are gone are not the same as none
        Err(error) if is_absent(&error) => match root.read_link(path) {
            Ok(target) => {
                let message = format!(
                    "'{FILE}' is a link to '{}', where nothing is; put the settings there, or remove the link",
                    target.display()
                );
                return Err(refuse(anyhow!(message)));
            }
            Err(_) => return Ok(Vec::new()),
        },
        Err(error) => return Err(refuse(anyhow!(error).context(format!("cannot read the settings in '{FILE}'")))),
    };
    parse_file(&text, known).map_err(refuse)
}

fn parse_file(text: &str, known: &BTreeMap<String, String>) -> anyhow::Result<Vec<Setting>> {
    let mut settings: Vec<Setting> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        let place = format!("{FILE}, line {}", index + 1);
        let (name, value) = line.split_once('=').with_context(|| format!("{place}: expected NAME=VALUE"))?;
        let name = name.trim();
        let option = known.get(name).ok_or_else(|| unknown(name, &place, known))?;
        let value = unquoted(value.trim()).to_owned();
        settings.retain(|setting| &setting.option != option);
        if !value.is_empty() {
            settings.push(Setting { option: option.clone(), value, place: format!("{place}: {name}"), separator: ';' });
        }
    }
    Ok(settings)
}

fn unknown(name: &str, place: &str, known: &BTreeMap<String, String>) -> anyhow::Error {
    let known = known.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    // what is no name may be a line of a key that has got into the file
    if !name.bytes().all(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b'_')) {
        return anyhow!("{place}: what stands before '=' is no name of a setting; the settings are {known}");
    }
    anyhow!("{place}: unknown setting '{name}'; the settings are {known}")
}

/// Takes one pair of matching quotes off: people quote values with blanks, and `EnvironmentFile=` would too.
fn unquoted(value: &str) -> &str {
    let value = value.trim();
    ['"', '\''].iter().find_map(|&quote| value.strip_prefix(quote)?.strip_suffix(quote)).unwrap_or(value)
}

fn as_arguments(setting: &Setting, arg: &Arg) -> Result<Vec<OsString>, LayerError> {
    let Setting { option, value, place, separator } = setting;
    match arg.get_action() {
        ArgAction::SetTrue | ArgAction::Count => match value.to_ascii_lowercase().as_str() {
            "yes" | "1" | "true" => Ok(vec![format!("--{option}").into()]),
            "no" | "0" | "false" => Ok(Vec::new()),
            _ => Err(refuse(anyhow!("{place}: expected yes, no, 1, 0, true or false, found '{}'", short(value)))),
        },
        ArgAction::Append => Ok(value
            .split(*separator)
            .map(unquoted)
            .filter(|value| !value.is_empty())
            .map(|value| format!("--{option}={value}").into())
            .collect()),
        _ => Ok(vec![format!("--{option}={value}").into()]),
    }
}

/// Whether another verb has an option of this name that takes this value, as `--output` differs from verb to verb.
fn suits_another_verb(command: &Command, verb: &Command, setting: &Setting) -> bool {
    let others = verbs(command).into_iter().skip(1).filter(|other| !std::ptr::eq(*other, verb));
    others.filter_map(|other| other.get_arguments().find(|arg| arg.get_long() == Some(&setting.option))).any(|arg| {
        let Ok(arguments) = as_arguments(setting, arg) else { return false };
        // on its own, without what else that verb wants
        let alone = Command::new("setting").arg(arg.clone());
        alone.try_get_matches_from(std::iter::once(OsString::from("setting")).chain(arguments)).is_ok()
    })
}

/// Where the verb stands in `argv`: the last of the first arguments that each name one below the one before.
fn verb_position(command: &Command, argv: &[OsString]) -> usize {
    let (mut verb, mut position) = (command, 0);
    while let Some(next) = argv.get(position + 1).and_then(|arg| verb.find_subcommand(arg.to_str()?)) {
        (verb, position) = (next, position + 1);
    }
    position
}

fn command_line(argv: &[OsString], verb: usize, arguments: &[OsString], typed: bool) -> Vec<OsString> {
    let (head, tail) = argv.split_at(argv.len().min(verb + 1));
    let tail: &[OsString] = if typed { tail } else { &[] };
    head.iter().chain(arguments).chain(tail).cloned().collect()
}

/// The first paragraph of clap's message, without its `error:`.
/// A message with the setting's values in it, each no longer than [`short`] makes it.
fn shortened(message: &str, value: &str, separator: char) -> String {
    let long = value.split(separator).map(unquoted).chain([value]).filter(|value| value.len() > LONGEST);
    long.fold(message.to_owned(), |message, value| message.replace(value, &short(value)))
}

/// A wrong value as it is shown, 60 characters at most: a key or a whole file that got into a setting is not to fill the log.
pub fn short(value: &str) -> String {
    if value.chars().count() <= LONGEST {
        return value.to_owned();
    }
    let begin: String = value.chars().take(LONGEST).collect();
    format!("{begin}... ({} characters)", value.chars().count())
}

fn in_one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let first: Vec<&str> = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim).collect();
    first.join(" ").trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests;
