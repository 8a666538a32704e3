//! What the demo shows, step by step.

use std::path::Path;

use chrono::{DateTime, Utc};
use k8s_certs_renew::host::clock::{Clock, SystemClock};

use super::checks::{COMPONENTS, Seen, check, run};
use super::support::fake::say;
use super::support::site::{Site, due};
use super::support::tls_server::Answer;
use super::support::tree::Layout;

const REAL: &str = "\
This is k8s-certs-renew at work on a small node that is made for it.
Real:           the program, every certificate, key and kubeconfig, the TLS handshakes.
Stand-ins:      kubeadm and crictl (this demo under their names), containerd and the kubelet (a
                file that says what runs), kube-apiserver, kube-controller-manager and
                kube-scheduler (small TLS servers in this process).
Nothing outside of two temporary directories, DIR and BIN/.., is touched; they are removed at the end.";

/// A timer as kubespray sets it up.
const TIMER: &str = "\
[Timer]
OnCalendar=Mon *-*-1,2,3,4,5,6,7 03:00:00
RandomizedDelaySec=30min
Persistent=yes
";

/// Shows it.
///
/// # Errors
/// Something did not end as promised.
pub fn tell(program: &Path) -> Result<(), String> {
    say(REAL);
    let site = node(SystemClock.now())?;
    let options = ["--root", "DIR", "--kubeadm", "BIN/kubeadm", "--crictl", "BIN/crictl"].join(" ");
    say(format!("Each command below also has: {options}"));
    let old = Seen::at(&site);

    say("\n1. The node's certificates end in 5 days. A dry run says what would be done.");
    let code = run(program, &site, &["--dry-run"], |_| None)?;
    check(code == 0, "it ended with 0")?;
    check(Seen::at(&site) == old && site.world.acts().is_empty(), "nothing was changed")?;

    say("\n2. The job, as the timer starts it; exit code 10 tells that something was done.");
    let mut is_begun = false;
    let code = run(program, &site, &["--detailed-exitcode"], |line| {
        is_begun |= line.starts_with("## Renewing");
        match line {
            _ if !is_begun => Some("as in the dry run"),
            _ => line.ends_with("unchanged").then_some("unchanged"),
        }
    })?;
    check(code == 10, "it ended with 10")?;
    let new = Seen::at(&site);
    let renewed = site.renewed_since(&old.serials).len();
    check(renewed == old.serials.len(), &format!("all {renewed} certificates have new serials"))?;
    let moved = |(old, new): (&Option<String>, &Option<String>)| new.is_some() && old != new;
    let restarted = old.sandboxes.iter().zip(&new.sandboxes).all(moved);
    check(restarted, &format!("{} run in new sandboxes", COMPONENTS.join(", ")))?;
    check(
        new.copy != old.copy && new.copy == site.tree.read("/etc/kubernetes/admin.conf"),
        "/root/.kube/config is the new admin.conf",
    )?;
    let login =
        site.servers.apiserver.requests().iter().any(|request| request.status == 200 && request.client.is_some());
    check(login, "kube-apiserver let the new admin.conf in")?;
    say("  What the stand-ins were told to change:");
    site.world.acts().iter().for_each(|act| say(format!("    {act}")));
    site.world.forget_calls();

    say("\n3. The job again: nothing is due any more.");
    let mut is_judged = false;
    let code = run(program, &site, &["--detailed-exitcode"], |line| {
        is_judged |= line.starts_with("next firing");
        (!is_judged).then_some("the table, with the new dates")
    })?;
    check(code == 0, "it ended with 0: nothing to do")?;
    check(Seen::at(&site) == new && site.world.acts().is_empty(), "nothing was changed")?;
    say("\nAll of it ended as promised.");
    Ok(())
}

/// A node as kubespray sets it up, whose kubeadm certificates end in 5 days; its kube-apiserver needs a moment to come back.
fn node(now: DateTime<Utc>) -> Result<Site, String> {
    let demo = std::env::current_exe().map_err(|error| format!("cannot find this executable: {error}"))?;
    let site = Site::with(&demo, due(Layout::Kubespray, now), |setup| setup.real_uptime = true);
    site.tree.write("/etc/systemd/system/k8s-certs-renew.timer", TIMER);
    site.servers.apiserver.script(|script| {
        script.restarted =
            vec![Answer::Closes, Answer::Closes, Answer::Status(500), Answer::Status(500), Answer::Ready];
    });
    Ok(site)
}
