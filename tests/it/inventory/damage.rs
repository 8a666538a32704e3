//! One bad file never hides the others, and no bytes make the reader panic.

use std::collections::BTreeSet;

use base64::Engine;
use k8s_certs_renew::inventory::{Inventory, Problem};
use proptest::prelude::*;

use super::now;
use crate::support::tree::Tree;

/// The certificates of which the file is a part.
fn made_of(inventory: &Inventory, file: &str) -> BTreeSet<String> {
    let all = inventory.certificates.iter().chain(&inventory.authorities);
    all.filter(|c| c.files().iter().any(|path| path.to_str() == Some(file))).map(|c| c.name.clone()).collect()
}

#[test]
fn any_damaged_file_is_told_at_its_own_certificate_and_nowhere_else() {
    for tree in [Tree::kubespray(now()), Tree::kubeadm(now())] {
        let healthy = tree.inventory();
        let files: BTreeSet<String> = healthy
            .certificates
            .iter()
            .chain(&healthy.authorities)
            .filter(|certificate| !certificate.missing)
            .flat_map(|certificate| certificate.files().into_iter().map(|path| path.to_str().unwrap().to_owned()))
            .collect();
        assert!(files.len() > 20, "{files:?}");
        for file in files {
            let text = tree.read(&file);
            for damaged in ["", "garbage\n", &text[..text.len() / 2]] {
                tree.write(&file, damaged);
                let inventory = tree.inventory();
                let told: BTreeSet<String> = super::problems(&inventory).into_iter().map(|(name, _)| name).collect();
                assert_eq!(told, made_of(&healthy, &file), "{file}: {damaged:.20}");
                assert!(super::problems(&inventory).iter().all(|(_, all)| all.iter().any(Problem::is_unreadable)));
                assert_eq!(inventory.certificates.len(), healthy.certificates.len(), "{file}");
            }
            tree.write(&file, text);
        }
        assert_eq!(tree.inventory(), healthy);
    }
}

#[test]
fn what_no_signature_covers_is_looked_at_as_go_does() {
    let tree = Tree::kubeadm(now());
    let file = tree.pki("apiserver.crt");
    let text = tree.read(&file);
    let base64 = base64::engine::general_purpose::STANDARD;
    let der = base64.decode(text.lines().filter(|line| !line.starts_with('-')).collect::<String>()).unwrap();
    // behind what is signed stands the algorithm once more: `30 0a 06 08 <ecdsa-with-SHA256>`
    let outer = der.windows(8).rposition(|bytes| bytes == [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02]).unwrap();
    for (at, byte) in [(outer + 7, 3), (outer - 2, 0xc7), (outer - 4, 0x10), (0, 0x10)] {
        let mut der = der.clone();
        der[at] = byte;
        let pem = format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", base64.encode(&der));
        tree.write(&file, pem);
        let problems = super::problems_of(&tree.inventory(), "apiserver");
        assert!(problems.iter().any(Problem::is_unreadable), "{at}: {problems:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]
    #[test]
    fn no_change_of_bytes_in_a_certificate_or_its_key_makes_the_reader_panic(
        at in any::<prop::sample::Index>(), byte in any::<u8>(), of_key in any::<bool>(), cut in any::<bool>()
    ) {
        thread_local!(static TREE: Tree = Tree::kubeadm(now()));
        TREE.with(|tree| {
            let file = tree.pki(if of_key { "apiserver.key" } else { "apiserver.crt" });
            let text = tree.read(&file);
            let base64 = base64::engine::general_purpose::STANDARD;
            let label = text.lines().next().unwrap().trim_matches('-').replace("BEGIN ", "");
            let mut der = base64.decode(text.lines().filter(|line| !line.starts_with('-')).collect::<String>()).unwrap();
            let at = at.index(der.len());
            let changed = der[at] != byte || cut;
            der[at] = byte;
            if cut {
                der.truncate(at);
            }
            tree.write(&file, format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", base64.encode(&der)));
            let inventory = tree.inventory();
            // every byte of a certificate is signed, or must be as Go wants it; of a key only what is derived from it shows
            assert!(!changed || of_key || !super::problems_of(&inventory, "apiserver").is_empty());
            // whose server the changed certificate may no longer name, which is worth a note and no more
            assert!(super::problems_of(&inventory, "scheduler.conf").iter().all(Problem::is_note));
            tree.write(&file, text);
        });
    }
}
