//! Where kubespray's own job stands.

use k8s_certs_renew::settings::timer::TimerSettings;

use super::machine::{
    DROP_IN, KUBESPRAY_SERVICE, KUBESPRAY_TIMER, Machine, PROGRAM, RECORD, SERVICE, SETTINGS, TIMER, changed,
};

const OURS: [&str; 1] = ["/usr/local/bin/k8s-certs-renew run"];

#[test]
fn it_is_taken_over_by_a_drop_in_with_calendar_and_delay_kept() {
    let machine = Machine::new().of_kubespray();
    let before = machine.listing();
    let ran = machine.install();
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert!(ran.out.contains("taking over from /usr/local/bin/k8s-certs-renew.sh; /etc/systemd/system/k8s-certs-renew.service stays as it is"), "{}", ran.out);
    assert_eq!(machine.acts(), ["daemon-reload"], "the timer runs already");
    assert_eq!(machine.starts(), OURS);
    assert_eq!((&*machine.read(SERVICE), &*machine.read(TIMER)), (KUBESPRAY_SERVICE, KUBESPRAY_TIMER));
    let timer = TimerSettings::read(&machine.root(), "k8s-certs-renew.timer").unwrap();
    assert_eq!(timer.calendars[0].0, "Mon *-*-1,2,3,4,5,6,7 03:30:00");
    let expected = [
        "/etc/systemd/system/k8s-certs-renew.service.d",
        DROP_IN,
        "/var/lib/k8s-certs-renew",
        RECORD,
        PROGRAM,
        SETTINGS,
    ];
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(changed(&before, &machine.listing()), expected);

    let ran = machine.uninstall();
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    assert_eq!(changed(&before, &machine.listing()), Vec::<String>::new());
    assert_eq!(machine.acts(), ["daemon-reload"]);
    assert!(machine.is("active"));
    assert_eq!(machine.starts(), ["/usr/local/bin/k8s-certs-renew.sh"]);
    assert!(ran.out.contains("starts what /etc/systemd/system/k8s-certs-renew.service says again"), "{}", ran.out);
}

#[test]
fn one_that_was_never_enabled_is_not_enabled_afterwards() {
    let machine = Machine::new();
    machine.playbook();
    let before = machine.listing();
    assert_eq!(machine.install().code, 0);
    assert!(machine.is("active"));
    assert_eq!(machine.uninstall().code, 0);
    assert_eq!(changed(&before, &machine.listing()), Vec::<String>::new());
    assert!(!machine.is("active"));
}

#[test]
fn a_playbook_that_writes_its_units_over_ours_changes_nothing_and_they_stay_when_ours_go() {
    let machine = Machine::new();
    assert_eq!(machine.install().code, 0);
    machine.playbook();
    assert_eq!(machine.starts(), OURS);
    machine.acts();
    let ran = machine.install();
    assert!(ran.out.starts_with("Everything is in place\n"), "{}", ran.out);
    let ran = machine.uninstall();
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.err.contains("note: /etc/systemd/system/k8s-certs-renew.service was changed since, and stays"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("stays enabled, since its file is another's now"), "{}", ran.err);
    assert_eq!((&*machine.read(SERVICE), &*machine.read(TIMER)), (KUBESPRAY_SERVICE, KUBESPRAY_TIMER));
    assert_eq!(machine.acts(), ["daemon-reload"]);
    assert!(!machine.exists(DROP_IN) && !machine.exists(PROGRAM));
}

#[test]
fn a_base_with_settings_of_its_own_changes_nothing_of_how_the_job_runs() {
    let machine = Machine::new().of_kubespray();
    machine.write(SERVICE, "[Unit]\nConditionPathExists=/nowhere\n[Service]\nType=simple\nUser=kube\nEnvironment=A=b\nExecStartPre=/bin/false\nExecStart=/a\nExecStart=/b\nSuccessExitStatus=20\n");
    assert_eq!(machine.install().code, 0);
    let unit = k8s_certs_renew::node::unit_files::Unit::load(&machine.root(), "k8s-certs-renew.service").unwrap();
    assert_eq!(unit.values("Service", "ExecStart"), OURS);
    for key in ["User", "Environment", "ExecStartPre"] {
        assert_eq!(unit.values("Service", key), Vec::<&str>::new(), "{key}");
    }
    assert_eq!(unit.values("Unit", "ConditionPathExists"), ["/etc/kubernetes/manifests/kube-apiserver.yaml"]);
    assert_eq!(unit.values("Service", "SuccessExitStatus"), ["10"]);
    assert_eq!(unit.last("Service", "Type"), Some("oneshot"));
}

#[test]
fn other_jobs_that_renew_are_told_and_left() {
    let machine = Machine::new();
    machine.write("/etc/systemd/system/certs.timer", "[Timer]\nOnCalendar=weekly\n");
    machine.write("/etc/systemd/system/certs.service", "[Service]\nExecStart=/bin/sh -c 'kubeadm certs renew all'\n");
    machine.link("/etc/systemd/system/certs.timer", "/etc/systemd/system/timers.target.wants/certs.timer");
    machine.write("/etc/systemd/system/idle.timer", "[Timer]\nOnCalendar=weekly\nUnit=certs.service\n");
    machine
        .write("/etc/cron.d/kube", "# kubeadm certs renew all\n\n0 3 1 * * root /usr/local/bin/k8s-certs-renew.sh\n");
    machine.write("/etc/cron.monthly/renew", "#!/bin/sh\nkubeadm alpha certs renew all\n");
    machine.write("/var/spool/cron/crontabs/root", "@monthly /usr/bin/kubeadm certs renew all\n");
    let theirs = |machine: &Machine| {
        let mut listing = machine.listing();
        listing.retain(|path, _| path.contains("cron") || path.contains("certs."));
        listing
    };
    let before = theirs(&machine);
    let ran = machine.install();
    assert_eq!(ran.code, 0, "{}", ran.err);
    let warnings: Vec<&str> = ran.err.lines().collect();
    assert_eq!(
        warnings,
        [
            "warning: another job renews certificates too: /etc/systemd/system/certs.service, line 2: '/bin/sh -c 'kubeadm certs renew all''; to stop it: systemctl disable --now certs.timer",
            "warning: another job renews certificates too: /etc/cron.d/kube, line 3: '0 3 1 * * root /usr/local/bin/k8s-certs-renew.sh'; to stop it: take the line out",
            "warning: another job renews certificates too: /var/spool/cron/crontabs/root, line 1: '@monthly /usr/bin/kubeadm certs renew all'; to stop it: take the line out",
        ],
        "what is not enabled or not executable starts nothing"
    );
    machine.chmod("/etc/cron.monthly/renew", 0o755);
    assert!(machine.install().err.contains("/etc/cron.monthly/renew, line 2"));
    machine.chmod("/etc/cron.monthly/renew", 0o644);
    assert_eq!(theirs(&machine), before);
}
