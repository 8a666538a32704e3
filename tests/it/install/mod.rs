//! `install` and `uninstall` on whole roots, with a stand-in for systemctl.

mod alone;
mod commands;
mod fresh;
mod hostile;
mod kubespray;
pub mod machine;
mod old_systemd;
mod owed;
mod package;
mod purge;
