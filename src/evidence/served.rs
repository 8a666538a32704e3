//! Which certificate a component serves, against the one on disk.

use std::net::SocketAddr;
use std::time::Duration;

use chrono::{DateTime, Utc};

use super::Verdict;
use crate::api::{Identity, handshake};
use crate::host::Deadline;
use crate::inventory::{Leaf, x509};

/// A certificate that a server showed, with proof that it has the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// Where it was seen.
    pub addr: SocketAddr,
    /// Serial number, lower-case hexadecimal.
    pub serial: String,
    /// The end of its validity (UTC).
    pub not_after: DateTime<Utc>,
}

/// What was seen of a server.
#[derive(Debug, Clone)]
pub(super) struct Shown {
    pub addr: SocketAddr,
    pub leaf: Leaf,
}

impl Shown {
    pub fn served(&self) -> Served {
        Served { addr: self.addr, serial: self.leaf.serial.clone(), not_after: self.leaf.not_after }
    }

    /// Whether it is this very certificate. Compared as a whole: all that client-go makes and signs for itself have the same
    /// serial, 2 (seen with 1.20.2), kubelet's among them.
    pub fn is(&self, file: &Leaf) -> bool {
        self.leaf.der_sha256 == file.der_sha256
    }
}

/// Asks at the addresses in turn, all within `deadline`: the first that shows `file`, else the first that shows anything.
///
/// # Errors
/// None of them shows a certificate: why, for each.
pub(super) fn look(
    addrs: &[SocketAddr],
    sni: Option<&str>,
    identity: Option<&Identity>,
    file: Option<&Leaf>,
    deadline: Deadline,
) -> Result<Shown, String> {
    let mut other = None;
    let mut errors = Vec::new();
    for &addr in addrs {
        let left = deadline.left().unwrap_or(Duration::ZERO);
        let seen = match handshake(addr, sni, identity, left) {
            Ok(seen) => seen,
            Err(error) => {
                errors.push(format!("{addr}: {error}"));
                continue;
            }
        };
        match x509::certificate(&seen.leaf_der).and_then(|certificate| x509::leaf(&certificate)) {
            Ok(leaf) => {
                let shown = Shown { addr, leaf };
                if file.is_none_or(|file| shown.is(file)) {
                    return Ok(shown);
                }
                other.get_or_insert(shown);
            }
            Err(why) => errors.push(format!("{addr}: its certificate cannot be read: {why}")),
        }
    }
    other.ok_or_else(|| if errors.is_empty() { "no address to ask at".to_owned() } else { errors.join(", ") })
}

/// Whether a server that shows another certificate than the file's is this node's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    /// It is.
    Ours,
    /// It is another one, or nothing shows that it is ours.
    Another,
}

/// Judges a server by what it shows. `there_for` is how long the file has been there at least; `reload` is the time within which
/// the component serves a new file by itself, None where it never does.
pub(super) fn judge(
    shown: &Shown,
    file: &Leaf,
    server: Server,
    there_for: Option<Duration>,
    reload: Option<Duration>,
) -> (Verdict, String) {
    let addr = shown.addr;
    if shown.is(file) {
        return (Verdict::InUse, format!("serves the certificate on disk at {addr}"));
    }
    if server == Server::Another {
        return (Verdict::Unknown, format!("another server answers at {addr}: its certificate is not this node's"));
    }
    if is_pending(shown, file, server, there_for, reload) {
        let seconds = reload.unwrap_or_default().as_secs();
        let what = another(shown, file);
        return (Verdict::Unknown, format!("reload pending: {what}, which it reads by itself within {seconds} s"));
    }
    let what = another(shown, file);
    match reload {
        None => (Verdict::Stale, format!("{what}, and reads it at its start only")),
        Some(_) => (Verdict::Stale, format!("{what}, which it should have read by itself by now")),
    }
}

/// Whether a server of ours may still come to read the new file by itself.
pub(super) fn is_pending(
    shown: &Shown,
    file: &Leaf,
    server: Server,
    there_for: Option<Duration>,
    reload: Option<Duration>,
) -> bool {
    let in_time = reload.is_some_and(|reload| there_for.is_none_or(|age| age <= reload));
    !shown.is(file) && server == Server::Ours && in_time
}

fn another(shown: &Shown, file: &Leaf) -> String {
    let addr = shown.addr;
    format!(
        "serves another certificate at {addr} (serial {}) than the one on disk ({})",
        shown.leaf.serial, file.serial
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Leaf, Server, Shown, Verdict, judge};

    fn leaf(der: &str, serial: &str) -> Leaf {
        Leaf {
            subject: String::new(),
            common_name: String::new(),
            organizations: Vec::new(),
            issuer: String::new(),
            sans: Vec::new(),
            usages: Vec::new(),
            serial: serial.to_owned(),
            not_before: chrono::DateTime::UNIX_EPOCH,
            not_after: chrono::DateTime::UNIX_EPOCH,
            key_algorithm: String::new(),
            is_ca: false,
            der_sha256: der.to_owned(),
            key_sha256: String::new(),
        }
    }

    #[test]
    fn what_is_served_is_judged_by_file_server_and_reload_time() {
        use Server::{Another, Ours};
        use Verdict::{InUse, Stale, Unknown};
        let file = leaf("new", "2");
        let (new, old) = (leaf("new", "2"), leaf("old", "2"));
        let minutes = |minutes: u64| Some(Duration::from_secs(minutes * 60));
        let reload = Some(Duration::from_secs(90));
        let table = [
            (&new, Ours, None, None, InUse),
            (&new, Another, minutes(1), reload, InUse),
            // an equal serial is not enough
            (&old, Ours, minutes(2), reload, Stale),
            (&old, Ours, minutes(1), reload, Unknown),
            (&old, Ours, None, reload, Unknown),
            (&old, Ours, None, None, Stale),
            (&old, Another, minutes(60), None, Unknown),
        ];
        for (leaf, server, there_for, reload, expected) in table {
            let shown = Shown { addr: "127.0.0.1:6443".parse().unwrap(), leaf: leaf.clone() };
            assert_eq!(
                judge(&shown, &file, server, there_for, reload).0,
                expected,
                "{server:?} {there_for:?} {reload:?}"
            );
        }
    }
}
