//! What tests, demo and benches share: certificates with chosen dates, nodes below temporary roots, stand-in tools.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "each of tests, demo and benches uses its own part, and a fixture that cannot be made is to stop the test"
)]

pub mod client_auth;
pub mod clock;
pub mod cluster;
pub mod events;
pub mod fake;
pub mod fake_crictl;
pub mod fake_docker;
pub mod fake_kubeadm;
pub mod fake_pki;
pub mod faults;
pub mod kubelet;
pub mod manifests;
pub mod net;
pub mod pki;
pub mod servers;
pub mod shown;
pub mod site;
pub mod specs;
pub mod tls_server;
pub mod tree;
pub mod world;
