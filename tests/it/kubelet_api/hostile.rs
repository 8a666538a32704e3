//! Requests that nobody may get approved: each is refused, for its own reason, and stays as it is.

use rcgen::SanType;
use serde_json::Value;

use super::api::{Api, NODES, REQUESTS, node};
use super::csrs::{Csr, dns, ip, pem};

/// The rules that did not hold, by `kubelet approve --all-nodes`.
fn rules(answer: &Value, name: &str) -> Vec<String> {
    let all = answer["requests"].as_array().unwrap();
    let one = all.iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("no '{name}' in {answer:#}"));
    assert_eq!(one["result"], "refused", "{one:#}");
    one["refusals"].as_array().unwrap().iter().map(|one| one["rule"].as_str().unwrap().to_owned()).collect()
}

/// One hostile request, alone with a good one: which rules refuse it. The good one is approved all the same.
fn refused(api: &Api, object: &Value) -> Vec<String> {
    let name = object["metadata"]["name"].as_str().unwrap().to_owned();
    api.with(|state| *state.lists.get_mut(REQUESTS).unwrap() = vec![object.clone(), Csr::node1("good").object()]);
    let (code, answer) = api.json(&["approve", "--all-nodes"]);
    assert_eq!(code, 1, "{answer:#}");
    assert!(api.conditions(&name).is_empty(), "'{name}' was touched");
    assert_eq!(api.conditions("good"), ["Approved"], "{answer:#}");
    rules(&answer, &name)
}

#[test]
fn each_hostile_request_is_refused_for_its_own_reason() {
    let api = Api::new();
    let bad = |change: fn(&mut Csr)| Csr::node2("bad").but(change).object();
    let table: [(&str, Value, &[&str]); 26] = [
        ("another node's name", bad(|csr| csr.common_name = "system:node:node1".to_owned()), &["subject"]),
        (
            "made by another node",
            bad(|csr| csr.user = "system:node:node1".to_owned()),
            &["subject", "name-foreign", "name-foreign"],
        ),
        ("made by a user", bad(|csr| csr.user = "mallory".to_owned()), &["requester", "subject"]),
        ("made by a node that is gone", Csr::of("bad", "gone", vec![dns("gone")]).object(), &["requester"]),
        ("not of the nodes' group", bad(|csr| csr.groups = vec!["system:authenticated"]), &["group"]),
        ("a foreign name", bad(|csr| csr.sans.push(dns("evil.example.com"))), &["name-foreign"]),
        ("a foreign address", bad(|csr| csr.sans.push(ip("198.51.100.9"))), &["name-foreign"]),
        ("a name like its own", bad(|csr| csr.sans = vec![dns("node2.evil.example.com")]), &["name-foreign"]),
        ("a wildcard", bad(|csr| csr.sans = vec![dns("*")]), &["name-foreign"]),
        ("an address as a name", bad(|csr| csr.sans = vec![dns("192.0.2.11")]), &["name-foreign"]),
        ("kube-apiserver's name", bad(|csr| csr.sans.push(dns("kubernetes"))), &["name-foreign"]),
        ("no name", bad(|csr| csr.sans.clear()), &["name-missing"]),
        (
            "an e-mail address",
            bad(|csr| csr.sans.push(SanType::Rfc822Name("a@example.com".try_into().unwrap()))),
            &["name-kind"],
        ),
        ("a URI", bad(|csr| csr.sans.push(SanType::URI("spiffe://x/y".try_into().unwrap()))), &["name-kind"]),
        (
            "only a URI",
            bad(|csr| csr.sans = vec![SanType::URI("spiffe://x/y".try_into().unwrap())]),
            &["name-missing", "name-kind"],
        ),
        ("an extra usage", bad(|csr| csr.usages.push("client auth")), &["usages"]),
        (
            "for clients",
            bad(|csr| csr.usages = vec!["digital signature", "key encipherment", "client auth"]),
            &["usages"],
        ),
        ("for no use", bad(|csr| csr.usages.clear()), &["usages"]),
        ("a second organization", bad(|csr| csr.organizations.push("system:masters")), &["subject"]),
        ("another organization", bad(|csr| csr.organizations = vec!["system:masters"]), &["subject"]),
        ("no organization", bad(|csr| csr.organizations.clear()), &["subject"]),
        ("a look-alike signer", bad(|csr| csr.signer = Some("kubernetes.io/kubelet-serving2")), &["signer"]),
        ("a signer of another domain", bad(|csr| csr.signer = Some("example.com/kubelet-serving")), &["signer"]),
        ("a huge lifetime", bad(|csr| csr.expires = Some(i64::from(i32::MAX))), &["lifetime"]),
        ("a lifetime of a minute", bad(|csr| csr.expires = Some(60)), &["lifetime"]),
        // basicConstraints, a CA
        ("to be a CA", bad(|csr| csr.extensions.push((vec![2, 5, 29, 19], vec![0x30, 3, 1, 1, 0xff]))), &["extras"]),
    ];
    for (what, object, expected) in &table {
        assert_eq!(refused(&api, object), *expected, "{what}");
    }
}

#[test]
fn what_is_no_single_sound_request_is_refused() {
    let api = Api::new();
    let csr = Csr::node2("bad");
    let good = pem(&csr.der());
    let mut forged = csr.der();
    // a name inside: the signature does not cover what is there now
    let at = forged.windows(5).position(|bytes| bytes == b"node2").unwrap();
    let mut torn = forged.clone();
    *torn.last_mut().unwrap() ^= 1;
    forged[at + 4] = b'3';
    let table: [(&str, Vec<u8>, &[&str]); 8] = [
        ("a broken signature", pem(&torn).into_bytes(), &["signature"]),
        ("a name changed after it was signed", pem(&forged).into_bytes(), &["signature", "subject"]),
        ("no PEM", b"hello".to_vec(), &["request"]),
        ("cut off", good.as_bytes()[..good.len() / 2].to_vec(), &["request"]),
        ("two requests", format!("{good}{}", pem(&Csr::node1("x").der())).into_bytes(), &["request"]),
        ("a certificate", good.replace("CERTIFICATE REQUEST", "CERTIFICATE").into_bytes(), &["request"]),
        ("huge", [good.as_bytes(), &vec![b'\n'; 1 << 20]].concat(), &["request"]),
        ("bytes behind it", pem(&[csr.der(), vec![0]].concat()).into_bytes(), &["request"]),
    ];
    for (what, request, expected) in &table {
        assert_eq!(refused(&api, &csr.object_of(request)), *expected, "{what}");
    }
    let mut object = csr.object();
    object["spec"]["request"] = "not base64!".into();
    assert_eq!(refused(&api, &object), ["request"]);
}

/// Which of two lists of names counts is another one for other programs.
#[test]
fn names_in_two_places_are_refused() {
    let api = Api::new();
    let san = |name: &str| {
        [&[0x30, u8::try_from(name.len()).unwrap() + 2, 0x82, u8::try_from(name.len()).unwrap()], name.as_bytes()]
            .concat()
    };
    let twice = Csr::node2("bad").but(|csr| csr.extensions.push((vec![2, 5, 29, 17], san("kubernetes"))));
    assert_eq!(refused(&api, &twice.object()), ["request"]);
    // a second attribute with extensions: SET { SEQUENCE { SEQUENCE { OID, OCTET STRING } } }
    let inner = san("kubernetes");
    let wrap = |tag: u8, content: &[u8]| [&[tag, u8::try_from(content.len()).unwrap()], content].concat();
    let extension = wrap(0x30, &[vec![6, 3, 0x55, 0x1d, 0x11], wrap(4, &inner)].concat());
    let values = wrap(0x31, &wrap(0x30, &extension));
    let attribute = rcgen::Attribute { oid: &[1, 2, 840, 113_549, 1, 9, 14], values };
    let second = Csr::node2("bad").but(|csr| csr.attributes.push(attribute));
    assert_eq!(refused(&api, &second.object()), ["request"]);
}

/// A kubelet tells the addresses of its Node itself.
#[test]
fn a_node_that_lies_about_its_addresses_gets_no_certificate_for_others() {
    let api = Api::new();
    let lies = |addresses: &[&str]| {
        api.with(|state| state.lists.get_mut(NODES).unwrap()[1] = node("node2", addresses, false));
    };
    lies(&["node2", "192.0.2.11", "kubernetes"]);
    let wants = |san: SanType| Csr::of("bad", "node2", vec![dns("node2"), san]).object();
    assert_eq!(refused(&api, &wants(dns("KUBERNETES"))), ["name-apiserver"]);
    // an address that two claim is nobody's, until somebody has looked
    lies(&["node2", "192.0.2.10"]);
    let both = vec![wants(ip("192.0.2.10")), Csr::node1("good").object()];
    api.with(|state| *state.lists.get_mut(REQUESTS).unwrap() = both);
    let (_, answer) = api.json(&["approve", "--all-nodes"]);
    assert_eq!(
        (rules(&answer, "bad"), rules(&answer, "good")),
        (vec!["name-shared".to_owned()], vec!["name-shared".to_owned()])
    );
    assert!(api.writes().iter().all(|write| !write.contains("/bad/")));
}

#[test]
fn a_lifetime_that_is_longer_than_the_cas_is_refused_and_one_within_bounds_is_not() {
    let api = Api::new();
    let ca = crate::support::pki::Ca::new(
        "kubernetes",
        crate::support::pki::Algorithm::P256,
        super::api::now() - crate::support::pki::days(10),
        super::api::now() + crate::support::pki::days(100),
    );
    api.tree.write("/etc/kubernetes/pki/signing.crt", &ca.pair.cert);
    api.tree.edit("/etc/kubernetes/manifests/kube-controller-manager.yaml", |text| {
        text.replace(
            "--cluster-signing-cert-file=/etc/kubernetes/pki/ca.crt",
            "--cluster-signing-cert-file=/etc/kubernetes/pki/signing.crt",
        )
    });
    let asks = |days: i64| Csr::node2("bad").but(|csr| csr.expires = Some(days * 86_400)).object();
    assert_eq!(refused(&api, &asks(101)), ["lifetime"]);
    api.with(|state| *state.lists.get_mut(REQUESTS).unwrap() = vec![asks(99)]);
    assert_eq!(api.json(&["approve", "--all-nodes"]).0, 0);
    assert_eq!(api.conditions("bad"), ["Approved"]);
}

#[test]
fn a_thousand_of_them_are_refused_and_the_good_one_among_them_is_approved() {
    let api = Api::new();
    let foreign = pem(&Csr::node2("x").but(|csr| csr.sans.push(dns("evil"))).der());
    for number in 0..1000 {
        let csr = Csr::node2(&format!("bad-{number:04}"));
        api.add(REQUESTS, csr.object_of(foreign.as_bytes()));
    }
    api.add(REQUESTS, Csr::node2("good").object());
    let (code, answer) = api.json(&["approve", "--all-nodes"]);
    assert_eq!((code, answer["requests"].as_array().unwrap().len()), (1, 1001));
    for number in 0..1000 {
        assert_eq!(rules(&answer, &format!("bad-{number:04}")), ["name-foreign"]);
    }
    assert_eq!(api.writes(), [format!("PUT {REQUESTS}/good/approval")]);
}

#[test]
fn text_from_a_request_cannot_play_with_the_terminal() {
    let api = Api::new();
    let csr = Csr::node2("bad\u{1b}[2J").but(|csr| csr.user = "x\napproved: 'y'\u{202e}".to_owned());
    api.add(REQUESTS, csr.object());
    let checked = api.kubelet(&["approve", "--all-nodes"]);
    assert_eq!(checked.code, 1);
    assert!(!checked.out.contains(['\u{1b}', '\u{202e}']) && !checked.out.contains("\napproved"), "{}", checked.out);
}
