//! Settings: command line over environment over `/etc/default/k8s-certs-renew`, and what the timer says.

pub mod armed;
pub mod layers;
pub mod schedule;
pub mod table;
pub mod timer;
