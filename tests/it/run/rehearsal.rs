//! A real run after a dry run takes exactly the steps that the dry run has told.

use proptest::prelude::{ProptestConfig, Strategy, proptest};
use serde_json::Value;

use super::seen::run_impatiently;
use super::{files, now, plan, run, site, stacked, untouched};
use crate::support::faults::Runtime;
use crate::support::pki::days;
use crate::support::site::Site;
use crate::support::tree::{Layout, Plan};
use crate::support::world::demo;

/// A run's exit code, and its steps with their results.
fn steps(site: &Site, args: &[&str]) -> (u8, Vec<[String; 3]>) {
    let ran = run(site, &[&["--output", "json", "--detailed-exitcode"], args].concat());
    let report: Value = serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}", ran.text()));
    assert_eq!(report["exitCode"], ran.code);
    let text = |step: &Value, field: &str| step[field].as_str().unwrap().to_owned();
    let steps = report["steps"].as_array().unwrap();
    (ran.code, steps.iter().map(|step| ["step", "object", "result"].map(|field| text(step, field))).collect())
}

/// A dry run, then a real one: the same steps, and the same exit code but for 11 and 10.
fn rehearse_and_run(site: &Site, args: &[&str]) -> (u8, Vec<[String; 3]>) {
    let before = files(site);
    site.world.forget_calls();
    let (foreseen, planned) = steps(site, &[args, &["--dry-run"]].concat());
    untouched(site, &before);
    let (code, taken) = steps(site, args);
    let names = |steps: &[[String; 3]]| -> Vec<[String; 2]> {
        steps.iter().map(|[step, object, _]| [step.clone(), object.clone()]).collect()
    };
    assert_eq!(names(&planned), names(&taken));
    assert!(planned.iter().all(|[.., result]| result == "planned"), "{planned:?}");
    assert_eq!(if foreseen == 11 { 10 } else { foreseen }, code);
    (code, taken)
}

#[test]
fn whatever_the_node_the_real_run_does_what_the_dry_run_said() {
    let copy = "/root/.kube/config";
    let prepared = |site: Site, prepare: &dyn Fn(&Site)| {
        prepare(&site);
        site
    };
    let owing = |site: &Site| {
        site.world.fault(|faults| faults.runtime = Runtime::Down);
        assert_eq!(run_impatiently(site, &[]).code, 23);
        site.world.fault(|_| {});
    };
    let outdated = |site: &Site| {
        let (ca, spec) = site.tree.spec("admin.conf", now() + days(20));
        site.tree.write(copy, site.tree.kubeconfig("admin", &ca.issue(&spec)));
    };
    let table: [(Site, &[&str], u8, usize); 11] = [
        (site(300), &[], 0, 0),
        (site(5), &[], 10, 8),
        (stacked(5), &[], 10, 9),
        (site(300), &["--force", "--kubeconfig-copy", "none"], 10, 7),
        (prepared(site(5), &|site| site.tree.remove(copy)), &[], 10, 8),
        (prepared(site(300), &|site| site.tree.remove(copy)), &[], 0, 0),
        (prepared(site(300), &outdated), &[], 10, 1),
        (prepared(site(5), &owing), &[], 10, 5),
        (prepared(site(5), &|site| site.tree.remove("/etc/kubernetes/ssl/front-proxy-ca.key")), &[], 25, 8),
        (prepared(site(5), &|site| site.tree.remove("/etc/kubernetes/ssl/ca.key")), &[], 25, 5),
        (prepared(site(5), &|site| site.tree.write("/etc/kubernetes/scheduler.conf", "users: [")), &[], 20, 7),
    ];
    for (index, (site, args, code, count)) in table.iter().enumerate() {
        let (ended, taken) = rehearse_and_run(site, args);
        assert_eq!((ended, taken.len()), (*code, *count), "case {index}: {taken:?}");
        assert!(taken.iter().all(|[.., result]| result == "done"), "case {index}: {taken:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    // the threshold is 42 days away: what ends before makes a run, and one run is enough
    #[test]
    fn any_mix_of_dates_is_renewed_once_and_as_it_was_foretold(
        stack in proptest::bool::ANY,
        left in proptest::collection::vec(proptest::sample::select(vec![-5_i64, 3, 41, 43, 300]).no_shrink(), 11),
    ) {
        let layout = if stack { Layout::Kubeadm } else { Layout::Kubespray };
        let names = if stack { stacked_names() } else { plan(300).ends.into_keys().collect() };
        let ends: Vec<(String, i64)> = names.into_iter().zip(left).collect();
        let node = ends.iter().fold(Plan::new(layout, now()), |plan, (name, left)| plan.ends(name, now() + days(*left)));
        let site = Site::new(&demo(), node);
        let before = site.serials();
        let (code, taken) = rehearse_and_run(&site, &[]);
        let due = ends.iter().any(|(_, left)| *left < 42);
        assert_eq!((code, taken.is_empty()), if due { (10, false) } else { (0, true) }, "{ends:?}: {taken:?}");
        let renewed = if due { site.tree.renewed_by_kubeadm() } else { Vec::new() };
        assert_eq!(site.renewed_since(&before), renewed);
        assert_eq!(steps(&site, &[]), (0, Vec::new()));
    }
}

fn stacked_names() -> Vec<String> {
    stacked(300).tree.renewed_by_kubeadm().into_iter().map(str::to_owned).collect()
}

#[test]
fn below_another_root_the_tools_of_this_machine_are_not_asked() {
    let site = site(5);
    let root = site.tree.dir().to_str().unwrap().to_owned();
    let argv = ["k8s-certs-renew", "run", "--dry-run", "--root", root.as_str()].map(std::ffi::OsString::from).to_vec();
    // were they asked, these would answer for the node
    let path = site.world.dir().to_str().unwrap().to_owned();
    let ran = super::start(argv, &[("PATH", &path)], &k8s_certs_renew::host::Signals::none());
    assert_eq!(ran.code, 0, "{}", ran.text());
    assert!(ran.err.contains("the tools of this machine tell nothing of another root"), "{}", ran.err);
    assert_eq!(site.world.calls(), Vec::<String>::new());
}
