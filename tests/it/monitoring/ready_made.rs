//! `docs/monitoring` and the shipped unit, against what the program does.

use std::collections::BTreeSet;
use std::path::Path;

use k8s_certs_renew::files::Root;
use k8s_certs_renew::node::unit_files::Unit;
use regex_lite::Regex;
use serde_json::Value;

use super::metrics::of_all;
use super::samples;

const ALERTS: &str = include_str!("../../../docs/monitoring/alerts.yml");
const DASHBOARD: &str = include_str!("../../../docs/monitoring/dashboard.json");
const README: &str = include_str!("../../../docs/monitoring/README.md");

fn named(text: &str) -> BTreeSet<String> {
    let pattern = Regex::new("k8s_certs_renew_[a-z_]+").unwrap();
    pattern.find_iter(text).map(|found| found.as_str().to_owned()).collect()
}

#[test]
fn rules_and_dashboard_name_only_metrics_that_there_are_and_the_page_names_all() {
    let outputs = of_all();
    let there: BTreeSet<String> =
        outputs.iter().flat_map(|(_, text)| samples(text)).map(|(name, ..)| name.to_owned()).collect();
    assert!(there.len() > 15, "{there:?}");
    for (file, text) in [("alerts.yml", ALERTS), ("dashboard.json", DASHBOARD)] {
        let named = named(text);
        assert!(named.len() > 5, "{file}: {named:?}");
        assert_eq!(named.difference(&there).collect::<Vec<_>>(), Vec::<&String>::new(), "{file}");
    }
    let mut explained = named(README);
    explained.retain(|name| there.contains(name));
    assert_eq!(explained, there, "README.md explains all of them");
}

#[test]
fn labels_in_rules_and_dashboard_are_labels_that_there_are() {
    let label = Regex::new(r"[{,]([a-z]+)=~?!?").unwrap();
    let outputs = of_all();
    let there: BTreeSet<String> = outputs
        .iter()
        .flat_map(|(_, text)| samples(text))
        .flat_map(|(_, labels, _)| {
            let labels = format!("{{{labels}");
            label.captures_iter(&labels).map(|found| found[1].to_owned()).collect::<Vec<_>>()
        })
        // Prometheus' own
        .chain(["instance", "job", "file"].map(str::to_owned))
        .collect();
    let selector = Regex::new(r"k8s_certs_renew_[a-z_]+\{([^}]*)\}").unwrap();
    let name = Regex::new(r"([a-z]+)(=~|!~|!=|=)").unwrap();
    for text in [ALERTS.to_owned(), DASHBOARD.replace("\\\"", "\"")] {
        for found in selector.captures_iter(&text) {
            for used in name.captures_iter(&found[1]) {
                assert!(there.contains(&used[1]), "{}: no label '{}' in {there:?}", &found[0], &used[1]);
            }
        }
    }
}

#[test]
fn every_panel_of_the_dashboard_asks_for_something_and_has_a_title() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{panel}");
        assert!(panel["title"].as_str().is_some_and(|title| !title.is_empty()), "{panel}");
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{panel}");
        for target in targets {
            assert!(target["expr"].as_str().unwrap().contains("k8s_certs_renew_"), "{target}");
        }
    }
    assert!(panels.len() > 5);
}

#[test]
fn the_service_may_write_to_the_collectors_directory() {
    let dir = tempfile::tempdir().unwrap();
    let units = dir.path().join("etc/systemd/system");
    std::fs::create_dir_all(&units).unwrap();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("units/k8s-certs-renew.service");
    std::fs::copy(shipped, units.join("k8s-certs-renew.service")).unwrap();
    let unit = Unit::load(&Root::new(dir.path()).unwrap(), "k8s-certs-renew.service").unwrap();
    // /var stays writable; with `full` or `strict` it would not, and ReadWritePaths= would be needed
    assert_eq!(unit.last("Service", "ProtectSystem"), Some("true"));
    for key in ["ReadOnlyPaths", "InaccessiblePaths", "TemporaryFileSystem", "DynamicUser", "User"] {
        assert_eq!(unit.last("Service", key), None, "{key}");
    }
    // the directory is another user's
    assert!(unit.last("Service", "CapabilityBoundingSet").unwrap().contains("CAP_DAC_OVERRIDE"));
}
