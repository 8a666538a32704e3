//! A timer that still fires where there is nothing to renew.

use std::path::{Path, PathBuf};

use crate::files::Root;
use crate::node::unit_files::{Unit, wanted_by};
use crate::report::check_report::{Machine, Owner, Remain, Status};
use crate::settings::timer::DEFAULT_TIMER;

use super::ours::{SERVICE, is_our_unit};
use super::{Looked, remain};

/// A link that systemd keeps for as long as a unit is active, also one whose file was deleted (systemd `unit_export_state_files`, 235
/// and later).
const ACTIVE: &str = "/run/systemd/units/invocation:k8s-certs-renew.timer";

/// The timer, if it fires: systemd has it loaded, or will at the next boot. Our own service is passed over by its condition, and so no
/// trouble where no control plane ever was: whoever installs it everywhere means it.
pub(super) fn fires(looked: &Looked<'_>, machine: &Machine) -> Option<Remain> {
    let root = &looked.node.root;
    let unit = Unit::load(root, DEFAULT_TIMER).ok()?;
    let is_enabled = unit.found && !unit.masked && !wanted_by(root, DEFAULT_TIMER).ok()?.is_empty();
    let is_active = root.symlink_metadata(Path::new(ACTIVE)).is_ok();
    if !is_enabled && !is_active {
        return None;
    }
    let (what, remove) = match (unit.found, is_active) {
        (false, _) => (
            "a timer that systemd still has loaded, though its file is gone",
            format!("systemctl stop {DEFAULT_TIMER}; systemctl daemon-reload"),
        ),
        (true, true) => ("a timer that fires", format!("systemctl disable --now {DEFAULT_TIMER}")),
        (true, false) => ("a timer that is enabled", format!("systemctl disable --now {DEFAULT_TIMER}")),
    };
    let (is_passed_over, why) = service(root);
    let owner =
        if unit.files.first().is_some_and(|file| is_our_unit(root, file)) { Owner::Ours } else { Owner::Kubespray };
    let place = unit.files.first().cloned().unwrap_or_else(|| PathBuf::from(ACTIVE));
    let status = if is_passed_over && machine.was.is_empty() { Status::Ok } else { Status::Warning };
    Some(Remain { status, ..remain(owner, &place, what, &why, remove) })
}

/// Whether what it starts is passed over here, and what comes of it.
fn service(root: &Root) -> (bool, String) {
    let Ok(service) = Unit::load(root, SERVICE) else {
        return (false, format!("it starts {SERVICE}, which cannot be read"));
    };
    let manifest = "/etc/kubernetes/manifests/kube-apiserver.yaml";
    let conditions = service.values("Unit", "ConditionPathExists");
    match service.last("Service", "ExecStart") {
        _ if conditions.contains(&manifest) => {
            (true, format!("it fires in vain: {SERVICE} is passed over, as there is no '{manifest}'"))
        }
        Some(command) => (false, format!("each time it starts '{command}', which has nothing to renew here")),
        None => (false, format!("it fires in vain: there is no {SERVICE}")),
    }
}
