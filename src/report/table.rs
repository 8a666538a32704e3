//! The table of certificates in the log.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use comfy_table::{ContentArrangement, Table, presets};

use crate::inventory::{Certificate, Inventory, Manager, Problem};

use super::words;

/// Every certificate of the node, one a line: what it is, when it ends, who renews it, and how it stands.
pub fn certificates(inventory: &Inventory, due: &[&str], now: DateTime<Utc>, color: bool) -> String {
    let mut table = plain(&["CERTIFICATE", "EXPIRES (UTC)", "RESIDUAL", "AUTHORITY", "MANAGER", "STATE"]);
    for certificate in shown(inventory) {
        let state = state(certificate, due.contains(&certificate.name.as_str()), now);
        table.add_row([
            words::tame(&certificate.name).into_owned(),
            certificate.not_after().map_or_else(|| "-".to_owned(), words::minute),
            certificate.not_after().map_or_else(|| "-".to_owned(), |at| words::residual(at, now)),
            words::tame(certificate.ca_name.as_deref().unwrap_or_default()).into_owned(),
            certificate.manager.to_string(),
            if color { paint(&state) } else { state },
        ]);
    }
    finish(&table)
}

/// What kubeadm renews, and what else has changed, with the old and the new serial.
pub fn renewed(before: &Inventory, after: &Inventory, now: DateTime<Utc>, width: Option<u16>) -> String {
    let mut table = plain(&["CERTIFICATE", "EXPIRES (UTC)", "RESIDUAL", "OLD SERIAL", "NEW SERIAL"]);
    let olds: BTreeMap<&str, &str> = serials(before).collect();
    // 90 columns hold two serials of 64 bits beside the rest
    let short = width.is_some_and(|width| width < 90);
    let cut = |serial: &str| match serial.get(..8) {
        Some(head) if short && serial.len() > 8 => format!("{head}.."),
        _ => serial.to_owned(),
    };
    let of_the_job = |certificate: &&Certificate| {
        let serial = certificate.leaf.as_ref().map(|leaf| leaf.serial.as_str());
        certificate.manager == Manager::Kubeadm || serial != olds.get(certificate.name.as_str()).copied()
    };
    for certificate in after.certificates.iter().filter(of_the_job) {
        let Some(leaf) = &certificate.leaf else { continue };
        let old = olds.get(certificate.name.as_str()).copied().unwrap_or("-");
        let new = if old == leaf.serial { "unchanged".to_owned() } else { cut(&leaf.serial) };
        let residual = words::residual(leaf.not_after, now);
        let name = words::tame(&certificate.name).into_owned();
        table.add_row([name, words::minute(leaf.not_after), residual, cut(old), new]);
    }
    finish(&table)
}

/// How a certificate stands, in one or two words.
pub fn state(certificate: &Certificate, due: bool, now: DateTime<Utc>) -> String {
    let has = |wanted: fn(&Problem) -> bool| certificate.problems.iter().any(wanted);
    let word = match () {
        () if certificate.missing => "missing",
        () if certificate.leaf.is_none() => "unreadable",
        () if has(|problem| matches!(problem, Problem::NotYetValid { .. })) => "not yet valid",
        () if certificate.not_after().is_some_and(|at| at < now) => "expired",
        () if has(Problem::is_damage) => "damaged",
        () if due => "due",
        () if has(Problem::is_unreadable) => "not judged",
        () => "ok",
    };
    word.to_owned()
}

fn shown(inventory: &Inventory) -> impl Iterator<Item = &Certificate> {
    let there = |certificate: &&Certificate| certificate.required || !certificate.missing;
    inventory.certificates.iter().chain(&inventory.authorities).filter(there)
}

fn serials(inventory: &Inventory) -> impl Iterator<Item = (&str, &str)> {
    let all = inventory.certificates.iter().chain(&inventory.authorities);
    all.filter_map(|certificate| Some((certificate.name.as_str(), certificate.leaf.as_ref()?.serial.as_str())))
}

pub(super) fn plain(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header.to_vec());
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

pub(super) fn finish(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

fn paint(state: &str) -> String {
    let color = match state {
        "ok" => "32",
        "due" => "33",
        _ => "31",
    };
    format!("\x1b[{color}m{state}\x1b[0m")
}
