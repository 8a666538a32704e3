//! What tests, demo and benches share: certificates with chosen dates, nodes below temporary roots, stand-in tools.
#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "each of tests, demo and benches uses its own part, and a fixture that cannot be made is to stop the test"
)]

pub mod manifests;
pub mod pki;
pub mod specs;
pub mod tree;
