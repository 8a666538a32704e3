//! Authorities beside those that the node's layout names: old and new side by side in one file, and inside kubeconfigs. Pure.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};

use crate::decision::moment;
use crate::inventory::{Certificate, Kind, Leaf, Manager, Problem, Trust};
use crate::report::check_report::{Finding, Status};

/// What was found.
#[derive(Debug, Default)]
pub struct Beside {
    /// Further authorities, each once, named after the file that they are in.
    pub certificates: Vec<Certificate>,
    /// What is to be said of them.
    pub findings: Vec<Finding>,
}

/// Compares what is trusted in the authorities' files and in kubeconfigs with the authorities that sign.
pub fn beside(authorities: &[Certificate], files: &[Trust], kubeconfigs: &[Trust], now: DateTime<Utc>) -> Beside {
    let mut found = Beside::default();
    let signing = authorities.iter().filter_map(|authority| authority.leaf.as_ref());
    let mut known: BTreeSet<&str> = signing.map(|leaf| leaf.der_sha256.as_str()).collect();
    for trust in files {
        let manager =
            authorities.iter().find(|one| one.name == trust.holder).map_or(Manager::External, |one| one.manager);
        let mut number = 1;
        for leaf in trust.authorities.iter().filter(|leaf| known.insert(&leaf.der_sha256)) {
            number += 1;
            found.certificates.push(of(trust, &format!("{} ({number})", trust.holder), leaf, manager, now));
        }
        if trust.authorities.len() > 1 {
            found.findings.push(side_by_side(trust, authorities));
        }
    }
    for trust in kubeconfigs {
        for leaf in trust.authorities.iter().filter(|leaf| known.insert(&leaf.der_sha256)) {
            let name = format!("{} (its CA)", trust.holder);
            found.certificates.push(of(trust, &name, leaf, Manager::External, now));
        }
    }
    found.findings.extend(without_the_new(authorities, files, kubeconfigs));
    found
}

fn of(trust: &Trust, name: &str, leaf: &Leaf, manager: Manager, now: DateTime<Utc>) -> Certificate {
    let mut problems = Vec::new();
    if leaf.not_after < now {
        problems.push(Problem::Expired { at: leaf.not_after });
    }
    if leaf.not_before > now {
        problems.push(Problem::NotYetValid { from: leaf.not_before });
    }
    Certificate {
        name: name.to_owned(),
        path: trust.path.clone(),
        kind: Kind::Bundle,
        manager,
        ca_name: None,
        required: false,
        missing: false,
        externally_managed: false,
        not_renewable: None,
        leaf: Some(leaf.clone()),
        problems,
    }
}

fn side_by_side(trust: &Trust, authorities: &[Certificate]) -> Finding {
    let signing = authorities.iter().find(|one| one.name == trust.holder).and_then(|one| one.leaf.as_ref());
    let ends: Vec<String> = trust
        .authorities
        .iter()
        .map(|leaf| {
            let signs = signing.is_some_and(|signing| signing.der_sha256 == leaf.der_sha256);
            format!(
                "{} until {}{}",
                leaf.common_name,
                moment(leaf.not_after),
                if signs { " (this one signs)" } else { "" }
            )
        })
        .collect();
    let message = format!(
        "{} authorities side by side in '{}': {}. Once every certificate is renewed, and every kubeconfig and component knows the one that signs, take the others out; kubeadm 1.20 renews nothing as long as there are several",
        trust.authorities.len(),
        trust.path.display(),
        ends.join("; "),
    );
    Finding { status: Status::Ok, about: trust.holder.clone(), message }
}

/// Kubeconfigs that know an authority of the cluster's file, and not the one that signs: they refuse what it has signed.
fn without_the_new(authorities: &[Certificate], files: &[Trust], kubeconfigs: &[Trust]) -> Vec<Finding> {
    let of_cluster = |name: &&Certificate| name.name == "ca";
    let Some(signing) = authorities.iter().find(of_cluster).and_then(|ca| ca.leaf.as_ref()) else { return Vec::new() };
    let all: BTreeSet<&str> = files
        .iter()
        .filter(|trust| trust.holder == "ca")
        .flat_map(|trust| &trust.authorities)
        .map(|leaf| leaf.key_sha256.as_str())
        .collect();
    let lacking = kubeconfigs.iter().filter(|trust| {
        let knows = |wanted: &dyn Fn(&str) -> bool| trust.authorities.iter().any(|leaf| wanted(&leaf.key_sha256));
        !knows(&|key| key == signing.key_sha256) && knows(&|key| all.contains(key))
    });
    lacking
        .map(|trust| Finding {
            status: Status::Warning,
            about: trust.holder.clone(),
            message: "knows the old CA of ca.crt only, and refuses a kube-apiserver whose certificate the new one has signed: put all of ca.crt into its certificate-authority-data".to_owned(),
        })
        .collect()
}
