//! kubelet's own certificates: whether they rotate, why not, and what helps.

pub mod approve;
pub mod bootstrap;
pub mod check;
mod client;
pub mod cluster;
mod conf;
pub mod config;
pub mod csr;
pub mod finding;
mod go_duration;
pub mod json;
pub mod login;
pub mod objects;
pub mod program;
pub mod rbac;
mod rotated;
mod rotation;
mod say;
mod serving;
pub mod settings;
mod signing;
pub mod text;
pub mod versions;
pub mod view;
pub mod worker;
