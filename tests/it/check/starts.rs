//! What starts renewals, as a check tells it.

use std::time::{Duration, SystemTime};

use super::check;
use super::states::{self, State, now};
use crate::install::machine::{KUBESPRAY_SERVICE, KUBESPRAY_TIMER};
use crate::support::pki::days;

const SERVICE: &str = "/etc/systemd/system/k8s-certs-renew.service";
const STAMP: &str = "/var/lib/systemd/timers/stamp-k8s-certs-renew.timer";

fn fired(state: &State, days_ago: i64) {
    state.site.tree.write(STAMP, "");
    let seconds = u64::try_from((now() - days(days_ago)).timestamp()).unwrap();
    let file = std::fs::File::options().write(true).open(state.site.tree.on_host(STAMP)).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
}

#[test]
fn a_timer_that_starts_kubesprays_script_is_told_with_what_takes_it_over() {
    let state = states::fresh();
    assert_eq!(check(&state, &[]).code, 0);
    state.site.tree.write(SERVICE, KUBESPRAY_SERVICE);
    state.site.tree.write("/etc/systemd/system/k8s-certs-renew.timer", KUBESPRAY_TIMER);
    let checked = check(&state, &[]);
    assert_eq!(checked.code, 1, "{}", checked.out);
    checked.expect("warning", "timer", "k8s-certs-renew.timer starts '/usr/local/bin/k8s-certs-renew.sh' (/etc/systemd/system/k8s-certs-renew.service)");
    checked.expect("warning", "timer", "k8s-certs-renew install");
    assert!(check(&state, &["-o", "json"]).out.contains("\"timerArmed\": false"));
    // as install leaves it, and as somebody may start it too
    let drop_in = include_str!("../../../units/k8s-certs-renew.service.d/50-k8s-certs-renew.conf");
    state.site.tree.write("/etc/systemd/system/k8s-certs-renew.service.d/50-k8s-certs-renew.conf", drop_in);
    assert_eq!(check(&state, &[]).code, 0, "{}", check(&state, &[]).out);
    let wrapped = "[Service]\nExecStart=/bin/sh -c 'exec /opt/bin/k8s-certs-renew run'\n";
    state.site.tree.remove("/etc/systemd/system/k8s-certs-renew.service.d/50-k8s-certs-renew.conf");
    state.site.tree.write(SERVICE, wrapped);
    assert_eq!(check(&state, &[]).code, 0);
}

#[test]
fn another_job_that_renews_is_told() {
    let state = states::fresh();
    state.site.tree.write("/etc/cron.d/certs", "@monthly root kubeadm certs renew all\n");
    let checked = check(&state, &[]);
    assert_eq!(checked.code, 1, "{}", checked.out);
    checked.expect("warning", "job", "another job renews certificates too: /etc/cron.d/certs, line 1");
}

// T11
#[test]
fn a_timer_that_has_not_fired_for_two_periods_is_told() {
    let state = states::fresh();
    fired(&state, 20);
    assert_eq!(check(&state, &[]).code, 0, "{}", check(&state, &[]).out);
    fired(&state, 70);
    let checked = check(&state, &[]);
    assert_eq!(checked.code, 1, "{}", checked.out);
    checked.expect("warning", "timer", "should have fired at least twice since");
}

// T11
#[test]
fn a_delay_larger_than_the_days_buffer_is_told() {
    let state = states::fresh();
    let timer = "/etc/systemd/system/k8s-certs-renew.timer";
    state.site.tree.edit(timer, |text| text.replace("RandomizedDelaySec=30min", "RandomizedDelaySec=8d"));
    let checked = check(&state, &[]);
    checked.expect("warning", "job", "more than the days-buffer of 7");
}

#[test]
fn a_masked_timer_is_told() {
    let state = states::fresh();
    state.site.tree.remove("/etc/systemd/system/k8s-certs-renew.timer");
    state.site.tree.link("/dev/null", "/etc/systemd/system/k8s-certs-renew.timer");
    check(&state, &[]).expect("warning", "job", "k8s-certs-renew.timer is masked");
}
