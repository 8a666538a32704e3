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

/// What every variable of ours begins with.
pub const PREFIX: &str = "K8S_CERTS_RENEW_";
/// The file of settings, below the root.
pub const FILE: &str = "/etc/default/k8s-certs-renew";
/// Options of a single call, which no layer below the command line may set.
const TYPED_ONLY: [&str; 7] = ["dry-run", "force", "at", "root", "yes", "help", "version"];

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
            return Err(refuse(anyhow!("{}: {}", setting.place, in_one_line(&error))));
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
        .filter_map(Arg::get_long)
        .filter(|long| !TYPED_ONLY.contains(long))
        .map(|long| (variable(long), long.to_owned()))
        .collect()
}

/// The command, and every one below it.
fn verbs(command: &Command) -> Vec<&Command> {
    std::iter::once(command).chain(command.get_subcommands().flat_map(verbs)).collect()
}

fn variable(long: &str) -> String {
    format!("{PREFIX}{}", long.to_uppercase().replace('-', "_"))
}

fn from_environment(
    environment: &[(OsString, OsString)],
    known: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, Setting>, LayerError> {
    let mut settings = BTreeMap::new();
    for (name, value) in environment {
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else { continue };
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
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
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
            _ => Err(refuse(anyhow!("{place}: expected yes, no, 1, 0, true or false, found '{value}'"))),
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
fn in_one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let first: Vec<&str> = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim).collect();
    first.join(" ").trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::{Arg, ArgAction, Command};

    use super::{LayerError, matches, options, parse_file};

    fn command() -> Command {
        let number = Arg::new("days_buffer").long("days-buffer").value_parser(clap::value_parser!(u32));
        let list = Arg::new("on_calendar").long("on-calendar").action(ArgAction::Append);
        let flag = Arg::new("quiet").long("quiet").action(ArgAction::SetTrue);
        let dry = Arg::new("dry_run").long("dry-run").action(ArgAction::SetTrue);
        let root = Arg::new("root").long("root").value_parser(clap::value_parser!(std::path::PathBuf));
        let args = [number, list, flag, dry, root];
        Command::new("x")
            .args(args.clone())
            .args_conflicts_with_subcommands(true)
            .subcommand(Command::new("run").args(args))
            .subcommand(Command::new("calendar").arg(Arg::new("iterations").long("iterations")))
    }

    fn strings(list: &[&str]) -> Vec<OsString> {
        list.iter().map(OsString::from).collect()
    }

    fn parse(argv: &[&str], env: &[(&str, &str)], file: &str) -> Result<(Option<u32>, Vec<String>, bool), String> {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("etc/default")).unwrap();
        std::fs::write(dir.path().join("etc/default/k8s-certs-renew"), file).unwrap();
        let mut argv = strings(argv);
        argv.extend([OsString::from("--root"), dir.path().into()]);
        let env: Vec<_> = env.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))).collect();
        let matches = matches(&command(), &argv, &env).map_err(|error| match error {
            LayerError::Clap(error) => error.to_string(),
            LayerError::Setting(failure) => format!("{} {failure}", failure.exit.code()),
        })?;
        let matches = matches.subcommand().map_or(&matches, |(_, matches)| matches);
        let list = matches.get_many::<String>("on_calendar").into_iter().flatten().cloned().collect();
        Ok((matches.get_one("days_buffer").copied(), list, matches.get_flag("quiet")))
    }

    #[test]
    fn the_command_line_wins_over_the_environment_and_that_over_the_file() {
        let file = "# ours\nK8S_CERTS_RENEW_DAYS_BUFFER=1\nK8S_CERTS_RENEW_QUIET=yes\n";
        let env = [("K8S_CERTS_RENEW_DAYS_BUFFER", "2"), ("HOME", "/root")];
        assert_eq!(parse(&["x", "run"], &[], file), Ok((Some(1), vec![], true)));
        assert_eq!(parse(&["x", "run"], &env, file), Ok((Some(2), vec![], true)));
        assert_eq!(parse(&["x", "run", "--days-buffer", "3"], &env, file), Ok((Some(3), vec![], true)));
        assert_eq!(parse(&["x", "--days-buffer", "3"], &env, file), Ok((Some(3), vec![], true)));
        assert_eq!(parse(&["x", "run"], &[("K8S_CERTS_RENEW_QUIET", "no")], file), Ok((Some(1), vec![], false)));
    }

    #[test]
    fn lists_replace_those_of_a_lower_layer() {
        let file = "K8S_CERTS_RENEW_ON_CALENDAR='Mon 03:00; daily'\n";
        let list = |list: &[&str]| Ok((None, list.iter().map(|&item| item.to_owned()).collect(), false));
        assert_eq!(parse(&["x", "run"], &[], file), list(&["Mon 03:00", "daily"]));
        assert_eq!(parse(&["x", "run"], &[("K8S_CERTS_RENEW_ON_CALENDAR", "a b\nc")], file), list(&["a b", "c"]));
        assert_eq!(parse(&["x", "run", "--on-calendar", "d"], &[], file), list(&["d"]));
        assert_eq!(parse(&["x", "run"], &[("K8S_CERTS_RENEW_ON_CALENDAR", "")], ""), list(&[]));
    }

    #[test]
    fn blanks_stars_and_quotes_make_one_value() {
        let value = "Mon *-*-1,2,3,4,5,6,7 03:00:00";
        for quoted in [value.to_owned(), format!("\"{value}\""), format!("'{value}'")] {
            let file = format!("K8S_CERTS_RENEW_ON_CALENDAR={quoted}\n");
            assert_eq!(parse(&["x"], &[], &file), Ok((None, vec![value.to_owned()], false)));
            let env = [("K8S_CERTS_RENEW_ON_CALENDAR", quoted.as_str())];
            assert_eq!(parse(&["x"], &env, ""), Ok((None, vec![value.to_owned()], false)));
        }
    }

    #[test]
    fn a_wrong_setting_is_refused_and_its_place_named() {
        let cases = [
            (
                parse(&["x"], &[], "\nK8S_CERTS_RENEW_DAYS_BUFER=3\n"),
                "line 2: unknown setting 'K8S_CERTS_RENEW_DAYS_BUFER'",
            ),
            (
                parse(&["x"], &[], "nhlVLF82pbvYEyPIQHcR5Q==\n"),
                "line 1: what stands before '=' is no name of a setting",
            ),
            (parse(&["x"], &[], "K8S_CERTS_RENEW_DAYS_BUFFER=x\n"), "line 1: K8S_CERTS_RENEW_DAYS_BUFFER"),
            (parse(&["x"], &[("K8S_CERTS_RENEW_DRY_RUN", "1")], ""), "unknown setting 'K8S_CERTS_RENEW_DRY_RUN'"),
            (parse(&["x"], &[("K8S_CERTS_RENEW_QUIET", "perhaps")], ""), "expected yes, no"),
            (parse(&["x"], &[], "days\n"), "line 1: expected NAME=VALUE"),
        ];
        for (result, expected) in cases {
            let error = result.unwrap_err();
            assert!(error.starts_with("78 ") && error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_setting_of_another_verb_is_passed_over() {
        assert_eq!(parse(&["x", "run"], &[("K8S_CERTS_RENEW_ITERATIONS", "9")], ""), Ok((None, vec![], false)));
    }

    #[test]
    fn the_last_line_of_a_name_counts() {
        let known = options(&command());
        let settings = parse_file("K8S_CERTS_RENEW_DAYS_BUFFER=1\nK8S_CERTS_RENEW_DAYS_BUFFER=2\n", &known).unwrap();
        assert_eq!(settings.iter().map(|setting| setting.value.as_str()).collect::<Vec<_>>(), ["2"]);
    }
}
