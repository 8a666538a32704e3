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
fn a_value_that_is_wrong_is_shown_in_part() {
    let long = "x".repeat(100_000);
    for name in ["DAYS_BUFFER", "QUIET"] {
        let variable = format!("K8S_CERTS_RENEW_{name}");
        for error in [
            parse(&["x", "run"], &[(&variable, &long)], "").unwrap_err(),
            parse(&["x", "run"], &[], &format!("{variable}={long}\n")).unwrap_err(),
        ] {
            assert!(error.starts_with("78 ") && error.len() < 300, "{error:.400}");
            assert!(error.contains(&variable) && error.contains("xxx... (100000 characters)"), "{error}");
        }
    }
}

#[test]
fn a_link_to_settings_that_are_gone_is_refused_and_so_is_one_that_leads_round() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("etc/default")).unwrap();
    let file = dir.path().join("etc/default/k8s-certs-renew");
    for (target, words) in
        [("/srv/gone", "is a link to '/srv/gone', where nothing is"), ("k8s-certs-renew", "cannot read the settings")]
    {
        std::os::unix::fs::symlink(target, &file).unwrap();
        let argv = [OsString::from("x"), "run".into(), "--root".into(), dir.path().into()];
        let Err(LayerError::Setting(failure)) = matches(&command(), &argv, &[]) else { panic!("{target} is accepted") };
        assert_eq!(failure.exit.code(), 78);
        assert!(failure.to_string().contains(words), "{failure}");
        std::fs::remove_file(&file).unwrap();
    }
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
        (parse(&["x"], &[], "nhlVLF82pbvYEyPIQHcR5Q==\n"), "line 1: what stands before '=' is no name of a setting"),
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
