//! A certificate that kubelet rotates: the link to the current one, what it leads to, and how old that is (client-go
//! `certificate_store.go` and `certificate_manager.go`, alike from 1.13 to 1.35).

use std::path::{Path, PathBuf};

use chrono::{DateTime, TimeDelta, Utc};

use crate::files::is_absent;
use crate::inventory::{Certificate, Leaf, Problem};

use super::view::View;

/// What stands at the place of the link.
#[derive(Debug, Clone)]
pub enum Link {
    /// Nothing.
    Missing,
    /// It cannot be looked at: why.
    Unseen(String),
    /// A link to nowhere.
    Dangling(PathBuf),
    /// A file of its own. Rotation fails there for good ("expected ... to be a symlink").
    File(Box<Certificate>),
    /// A link to a file.
    Leads(Box<Certificate>),
}

/// Looks at `kubelet-client-current.pem` or `kubelet-server-current.pem`.
pub fn link(view: &View<'_>, path: &Path) -> Link {
    let root = &view.looked.node.root;
    match root.symlink_metadata(path) {
        Err(error) if is_absent(&error) => Link::Missing,
        Err(error) => Link::Unseen(error.to_string()),
        Ok(metadata) => {
            let certificate = Box::new(view.certificate(path, path));
            match certificate.problems.iter().find_map(|problem| match problem {
                Problem::DanglingLink { target } => Some(target.clone()),
                _ => None,
            }) {
                Some(target) => Link::Dangling(target),
                None if metadata.is_symlink() => Link::Leads(certificate),
                None => Link::File(certificate),
            }
        }
    }
}

/// Where in its life a certificate stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Age {
    /// Not yet valid.
    NotYet,
    /// Not yet to be replaced.
    Young,
    /// Within the window in which kubelet picks its moment.
    Window,
    /// Past the window: it should have been replaced.
    Overdue,
    /// Over.
    Expired,
}

/// The window in which a rotating kubelet asks for the next certificate: 70 to 90 % of the life, a moment drawn anew at each start
/// (`Jitter(life, 0.2) - 0.3 life`).
pub fn window(leaf: &Leaf) -> (DateTime<Utc>, DateTime<Utc>) {
    let life = leaf.not_after - leaf.not_before;
    let at = |tenths: i32| leaf.not_before + life / 10 * tenths;
    (at(7), at(9))
}

/// How old it is. A request takes a moment after the window's end: an hour, or a hundredth of the life where that is less.
pub fn age(leaf: &Leaf, now: DateTime<Utc>) -> Age {
    let (from, to) = window(leaf);
    let margin = ((leaf.not_after - leaf.not_before) / 100).min(TimeDelta::hours(1));
    match () {
        () if now < leaf.not_before => Age::NotYet,
        () if now > leaf.not_after => Age::Expired,
        () if now > to + margin => Age::Overdue,
        () if now >= from => Age::Window,
        () => Age::Young,
    }
}

/// The newest of the files beside the link that kubelet has written: their names hold the local time of the writing.
pub fn newest(view: &View<'_>, link: &Path, prefix: &str) -> Option<PathBuf> {
    let dir = link.parent()?;
    let names = view.looked.node.root.list(dir).ok()?;
    let own = link.file_name()?.to_str()?;
    let of_kubelet = |name: &&String| {
        let stamp = name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(".pem"));
        name.as_str() != own && stamp.is_some_and(|stamp| stamp.starts_with(|c: char| c.is_ascii_digit()))
    };
    names.iter().rev().find(of_kubelet).map(|name| dir.join(name))
}

#[cfg(test)]
mod tests {
    use chrono::{DateTime, TimeDelta, Utc};

    use super::{Age, age, window};
    use crate::inventory::Leaf;

    fn leaf(from: DateTime<Utc>, hours: i64) -> Leaf {
        Leaf {
            subject: String::new(),
            common_name: String::new(),
            organizations: Vec::new(),
            issuer: String::new(),
            sans: Vec::new(),
            usages: Vec::new(),
            serial: String::new(),
            not_before: from,
            not_after: from + TimeDelta::hours(hours),
            key_algorithm: String::new(),
            is_ca: false,
            der_sha256: String::new(),
            key_sha256: String::new(),
        }
    }

    // L05
    #[test]
    fn the_window_is_of_the_life_and_not_of_days() {
        let from: DateTime<Utc> = "2026-03-01T00:00:00Z".parse().unwrap();
        for hours in [24, 8760] {
            let leaf = leaf(from, hours);
            let at = |permille: i64| from + TimeDelta::seconds(hours * 3600 / 1000 * permille);
            let table = [
                (-10, Age::NotYet),
                (40, Age::Young),
                (690, Age::Young),
                (710, Age::Window),
                (890, Age::Window),
                (950, Age::Overdue),
                (1010, Age::Expired),
            ];
            for (permille, expected) in table {
                assert_eq!(age(&leaf, at(permille)), expected, "{permille} of 1000 of {hours} h");
            }
            let life = TimeDelta::hours(hours);
            assert_eq!(window(&leaf), (from + life / 10 * 7, from + life / 10 * 9));
        }
    }
}
