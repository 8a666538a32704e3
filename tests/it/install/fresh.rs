//! A machine that has nothing of it yet.

use k8s_certs_renew::cli::install::InstallArgs;
use k8s_certs_renew::files::Root;
use k8s_certs_renew::host::Signals;
use k8s_certs_renew::install::{Job, install};
use k8s_certs_renew::report::{Console, Voice};

use super::machine::{DROP_IN, Machine, PATHS, PROGRAM, RECORD, SERVICE, SETTINGS, TIMER, changed};

const LINK: &str = "/etc/systemd/system/timers.target.wants/k8s-certs-renew.timer";

#[test]
fn everything_is_put_in_place_enabled_and_started() {
    let machine = Machine::new();
    let before = machine.listing();
    let ran = machine.install();
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert_eq!(machine.acts(), ["daemon-reload", "enable k8s-certs-renew.timer", "start k8s-certs-renew.timer"]);
    let mut expected = [
        PROGRAM,
        SETTINGS,
        SERVICE,
        TIMER,
        "/etc/systemd/system/k8s-certs-renew.service.d",
        DROP_IN,
        "/var/lib/k8s-certs-renew",
        RECORD,
        "/etc/systemd/system/timers.target.wants",
        LINK,
    ];
    expected.sort_unstable();
    let after = machine.listing();
    assert_eq!(changed(&before, &after), expected);
    assert!(after[PROGRAM].starts_with("file 755 ") && after[DROP_IN].starts_with("file 644 "));
    assert_eq!((&*after["/var/lib/k8s-certs-renew"], &after[RECORD][..8]), ("dir 700", "file 600"));
    assert_eq!(machine.read(SERVICE), include_str!("../../../units/k8s-certs-renew.service"));
    assert_eq!(machine.read(TIMER), include_str!("../../../units/k8s-certs-renew.timer"));
    assert_eq!(machine.starts(), ["/usr/local/bin/k8s-certs-renew run"]);
    assert!(ran.out.contains("k8s-certs-renew.timer fires next on 2026-04-06 03:00:00 UTC"), "{}", ran.out);
    assert!(ran.out.ends_with("Next: k8s-certs-renew --dry-run\n"), "{}", ran.out);
}

#[test]
fn a_second_time_writes_nothing_and_runs_nothing() {
    let machine = Machine::new();
    assert_eq!(machine.install().code, 0);
    let (before, _) = (machine.listing(), machine.acts());
    let ran = machine.install();
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert!(ran.out.starts_with("Everything is in place\n"), "{}", ran.out);
    assert_eq!((machine.listing(), machine.acts()), (before, Vec::new()));
}

#[test]
fn what_was_stopped_disabled_or_not_read_by_systemd_is_mended() {
    let machine = Machine::new();
    assert_eq!(machine.install().code, 0);
    let before = machine.listing();
    machine.acts();
    machine.flag("active", false);
    machine.flag("stale", true);
    std::fs::remove_file(machine.on_host(LINK)).unwrap();
    assert_eq!(machine.install().code, 0);
    assert_eq!(machine.acts(), ["daemon-reload", "enable k8s-certs-renew.timer", "start k8s-certs-renew.timer"]);
    assert_eq!(machine.listing(), before);
}

#[test]
fn a_dry_run_shows_every_file_and_command_and_changes_nothing() {
    let machine = Machine::new();
    let before = machine.listing();
    let ran = machine.install_dry();
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert_eq!((machine.listing(), machine.acts()), (before, Vec::new()));
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(
        lines,
        [
            "would make directory /var/lib/k8s-certs-renew (0700)",
            "would write /var/lib/k8s-certs-renew/install.json (0600)",
            "would write /usr/local/bin/k8s-certs-renew (0755): this program",
            "would write /etc/default/k8s-certs-renew (0644)",
            "would write /etc/systemd/system/k8s-certs-renew.service (0644)",
            "would write /etc/systemd/system/k8s-certs-renew.timer (0644)",
            "would make directory /etc/systemd/system/k8s-certs-renew.service.d (0755)",
            "would write /etc/systemd/system/k8s-certs-renew.service.d/50-k8s-certs-renew.conf (0644)",
            "would run systemctl daemon-reload",
            "would run systemctl enable k8s-certs-renew.timer",
            "would run systemctl start k8s-certs-renew.timer",
            "Dry run: nothing was changed",
        ]
    );
    machine.install();
    machine.write(DROP_IN, "[Service]\nExecStart=\nExecStart=/bin/true\n");
    let ran = machine.install_dry();
    assert!(ran.out.contains("\n    - ExecStart=/bin/true\n"), "{}", ran.out);
    assert!(ran.out.contains("\n    + ExecStart=/usr/local/bin/k8s-certs-renew run\n"), "{}", ran.out);
}

#[test]
fn uninstall_gives_back_what_was_there() {
    for machine in [Machine::new(), Machine::new().offline()] {
        // an operator's own, from before
        machine.write(DROP_IN, "[Service]\nNice=5\n");
        machine.chmod(DROP_IN, 0o640);
        let before = machine.listing();
        assert_eq!(machine.install().code, 0);
        assert_eq!(machine.install().code, 0);
        machine.acts();
        let ran = machine.uninstall();
        assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
        assert_eq!(changed(&before, &machine.listing()), Vec::<String>::new(), "{}", ran.out);
        assert!(!machine.is("active"));
        let again = machine.uninstall();
        assert!(again.out.starts_with("Nothing of an installation is here\n"), "{}", again.out);
    }
}

#[test]
fn uninstall_stops_first_and_reloads_last_and_forgets_a_failure() {
    let machine = Machine::new();
    machine.install();
    machine.acts();
    machine.service_is("failed");
    assert_eq!(machine.uninstall().code, 0);
    assert_eq!(
        machine.acts(),
        [
            "stop k8s-certs-renew.timer",
            "disable k8s-certs-renew.timer",
            "daemon-reload",
            "reset-failed k8s-certs-renew.service"
        ]
    );
}

#[test]
fn a_failed_run_that_waits_to_be_started_again_is_called_off() {
    let machine = Machine::new().of_kubespray();
    machine.install();
    machine.acts();
    machine.service_is("activating");
    assert_eq!(machine.uninstall().code, 0);
    assert_eq!(machine.acts(), ["stop k8s-certs-renew.service", "daemon-reload"]);
}

#[test]
fn only_root_may_change_the_machine_itself() {
    let machine = Machine::new();
    let signals = Signals::none();
    let job = Job { root: Root::host(), is_root: false, ..machine.job(&signals, false) };
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let voice = Voice { text: true, quiet: false, verbose: false, color_out: false, color_err: false, width: None };
    let failure = install(&job, &mut Console::new(&mut out, &mut err, voice)).unwrap_err();
    assert_eq!(failure.exit.code(), 77);
    assert_eq!((out.len(), machine.acts()), (0, Vec::new()));
}

#[test]
fn changed_settings_and_the_state_stay_and_it_is_said() {
    let machine = Machine::new();
    machine.install();
    machine.write(SETTINGS, "K8S_CERTS_RENEW_DAYS_BUFFER=14\n");
    machine.write("/var/lib/k8s-certs-renew/state.json", "{}");
    let ran = machine.uninstall();
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert!(machine.exists(SETTINGS) && machine.exists("/var/lib/k8s-certs-renew/state.json"));
    assert!(!machine.exists(RECORD) && !machine.exists(PROGRAM));
    assert!(
        ran.out.contains("/var/lib/k8s-certs-renew, /etc/default/k8s-certs-renew stay (--purge removes them)"),
        "{}",
        ran.out
    );
}

#[test]
fn an_image_gets_files_and_links_and_nothing_is_started() {
    let machine = Machine::new().offline();
    let ran = machine.install();
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert_eq!(machine.acts(), [format!("--root={} enable k8s-certs-renew.timer", machine.root().dir().display())]);
    assert!(machine.exists(LINK) && !machine.is("active"));
    assert!(ran.out.contains("starts with the machine"), "{}", ran.out);
}

#[test]
fn whatever_it_was_killed_between_a_second_time_completes_it_and_it_can_be_undone() {
    type Make = fn() -> Machine;
    let kinds: [Make; 3] = [Machine::new, || Machine::new().of_kubespray(), || Machine::new().offline()];
    for make in kinds {
        let whole = make();
        assert_eq!(whole.install().code, 0);
        let steps = make().planned().len();
        assert!(steps > 5);
        for done in 0..=steps {
            let machine = make();
            let before = machine.listing();
            machine.planned().iter().take(done).for_each(|action| machine.act(action));
            if done % 2 == 0 {
                assert_eq!(machine.install().code, 0);
                assert_eq!(changed(&whole.listing(), &machine.listing()), Vec::<String>::new(), "after {done}");
            }
            let ran = machine.uninstall();
            assert_eq!(changed(&before, &machine.listing()), Vec::<String>::new(), "after {done}: {}", ran.out);
        }
        let steps = whole.planned_undo(false).len();
        for done in 0..=steps {
            let machine = make();
            let before = machine.listing();
            machine.install();
            machine.planned_undo(false).iter().take(done).for_each(|action| machine.act(action));
            let ran = machine.uninstall();
            assert_eq!(changed(&before, &machine.listing()), Vec::<String>::new(), "undo after {done}: {}", ran.out);
        }
    }
}

#[test]
fn settings_that_hardening_forbids_come_as_a_drop_in_that_goes_again() {
    let mut machine = Machine::new();
    machine.written = vec!["/usr/share/metrics".into(), "/tmp/backups".into()];
    assert_eq!(machine.install().code, 0);
    assert!(machine.read(PATHS).ends_with("[Service]\nPrivateTmp=no\nReadWritePaths=\"-/usr/share/metrics\"\n"));
    machine.written = vec!["/usr/share/metrics".into()];
    machine.acts();
    assert_eq!(machine.install().code, 0);
    assert!(!machine.read(PATHS).contains("PrivateTmp"));
    assert_eq!(machine.acts(), ["daemon-reload"]);
    machine.written = Vec::new();
    assert_eq!(machine.install().code, 0);
    assert!(!machine.exists(PATHS));
    assert_eq!(machine.acts(), ["daemon-reload"]);
}

#[test]
fn a_program_at_home_stays_and_a_newer_one_replaces_an_older() {
    let machine = Machine::new().from("/usr/local/bin/k8s-certs-renew");
    assert_eq!(machine.install().code, 0);
    machine.uninstall();
    assert!(machine.exists(PROGRAM), "it was not put there by install");

    let machine = Machine::new();
    machine.write(PROGRAM, "an older one");
    assert_eq!(machine.install().code, 0);
    assert!(machine.listing()[PROGRAM].starts_with("file 755 \u{7f}ELF"));
}

#[test]
fn the_options_are_known_to_all() {
    use clap::Args;
    let command = InstallArgs::augment_args(clap::Command::new("install"));
    for option in ["root", "dry-run", "bin-dir", "systemctl", "verbose"] {
        assert!(command.get_arguments().any(|arg| arg.get_long() == Some(option)), "{option}");
    }
}
