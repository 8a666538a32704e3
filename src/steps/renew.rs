//! Renewing by kubeadm, whose word counts for nothing: the files are read again, and judged.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::host::Call;
use crate::inventory::{Certificate, Inventory, Problem};
use crate::lock::Lock;
use crate::node::{Node, yaml};

use super::{Context, Deadlines};

/// What kubeadm is called with.
#[derive(Debug)]
pub struct Kubeadm<'a> {
    /// The program.
    pub program: &'a Path,
    /// A configuration file that names the same certificate directory, so that kubeadm asks no API.
    pub config: Option<&'a Path>,
    /// The directory of the certificates.
    pub cert_dir: &'a Path,
    /// Whether one `kubeadm certs renew all` may do it.
    pub all: bool,
    /// Held by kubeadm too, so that the kubeadm of a killed run still keeps others out.
    pub lock: Option<&'a Lock>,
}

/// What came of a renewal.
#[derive(Debug)]
pub struct Renewed {
    /// The files as they are now.
    pub inventory: Inventory,
    /// What was renewed, and is as it should be.
    pub done: Vec<String>,
    /// What was not, and why.
    pub undone: Vec<(String, String)>,
}

/// One call, for those who want to see what happens.
pub type OnCall<'a> = dyn FnMut(&str) + 'a;

/// Puts back what came out worse than it was, and gives what is on disk then.
pub type Mend<'a> = dyn FnMut(Inventory) -> Inventory + 'a;

/// Renews the certificates of these names.
///
/// [`Kubeadm::all`] lets one `kubeadm certs renew all` do it; what that leaves undone is renewed by its own call each. kubeadm stops
/// at the first error and leaves the rest as it is, and ends with 0 though nothing was renewed (facts of 1.20.2 to 1.36.2),
/// so only the serials tell. A certificate counts as renewed if it has a new serial, a matching key, its CA's signature,
/// and the names and usages that it had. What the one call spoilt is put back before its own, since a renewal copies the
/// names of the certificate that is there.
///
/// A signal ends it before the next call; the one that is under way is left to end.
pub fn renew(
    context: &Context<'_>,
    kubeadm: &Kubeadm<'_>,
    before: &Inventory,
    names: &[String],
    read: &dyn Fn() -> Inventory,
    mend: &mut Mend<'_>,
    say: &mut OnCall<'_>,
) -> Renewed {
    let Context { clock, signals, deadlines, .. } = context;
    let begin = clock.since_boot();
    let left = || deadlines.renewal.saturating_sub(clock.since_boot().saturating_sub(begin));
    let mut words = String::new();
    let mut inventory = None;
    if kubeadm.all {
        words = kubeadm.call("all", kubeadm.config.is_some(), left(), deadlines, say);
        let mut now = read();
        let unchanged = names.iter().all(|name| !is_new(before, &now, name));
        if kubeadm.config.is_some() && unchanged && signals.received().is_none() {
            // the file may be of an API version that this kubeadm refuses
            words = kubeadm.call("all", false, left(), deadlines, say);
            now = read();
        }
        inventory = Some(mend(now));
    }
    let undone = |inventory: &Inventory| -> Vec<String> {
        names.iter().filter(|name| judge(before, inventory, name).is_err()).cloned().collect()
    };
    let mut inventory = inventory.unwrap_or_else(|| before.clone());
    let mut said = Vec::new();
    for name in undone(&inventory) {
        if let Some(number) = signals.received() {
            words = format!("ended by signal {number} before its own call; the next run renews it");
            break;
        }
        if left().is_zero() {
            words = format!("the time for renewals, {} s, is over", deadlines.renewal.as_secs());
            break;
        }
        words = kubeadm.call(&name, kubeadm.config.is_some(), left(), deadlines, say);
        if kubeadm.config.is_some() && signals.received().is_none() && !is_new(before, &read(), &name) {
            words = kubeadm.call(&name, false, left(), deadlines, say);
        }
        said.push((name, words.clone()));
    }
    if !said.is_empty() {
        inventory = read();
    }
    let mut done = Vec::new();
    let mut undone = Vec::new();
    for name in names {
        match judge(before, &inventory, name) {
            Ok(()) => done.push(name.clone()),
            Err(why) => {
                let words = said.iter().find(|(of, _)| of == name).map_or(words.as_str(), |(_, words)| words);
                undone.push((name.clone(), if words.is_empty() { why } else { format!("{why} (kubeadm: {words})") }));
            }
        }
    }
    Renewed { inventory, done, undone }
}

impl Kubeadm<'_> {
    /// Calls `kubeadm certs renew`, and gives its last words back.
    fn call(
        &self,
        what: &str,
        with_config: bool,
        left: Duration,
        deadlines: &Deadlines,
        say: &mut OnCall<'_>,
    ) -> String {
        let place = match self.config.filter(|_| with_config) {
            Some(config) => ["--config".to_owned(), config.display().to_string()],
            None => ["--cert-dir".to_owned(), self.cert_dir.display().to_string()],
        };
        let args = ["certs".to_owned(), "renew".to_owned(), what.to_owned()].into_iter().chain(place);
        let mut call = Call::new(self.program).args(args.clone()).deadline(deadlines.kubeadm_call.min(left));
        if let Some(lock) = self.lock {
            call = call.keep_open(lock.fd());
        }
        let shown = format!("kubeadm {}", args.collect::<Vec<_>>().join(" "));
        match call.run() {
            Ok(output) => {
                say(&format!("{shown}: {}, {:.1} s", output.status, output.took.as_secs_f64()));
                output.last_words()
            }
            Err(error) => {
                say(&format!("{shown}: {error}"));
                error.to_string()
            }
        }
    }
}

fn is_new(before: &Inventory, now: &Inventory, name: &str) -> bool {
    serial(now, name).is_some_and(|serial| Some(serial) != self::serial(before, name))
}

fn serial<'a>(inventory: &'a Inventory, name: &str) -> Option<&'a str> {
    inventory.get(name)?.leaf.as_ref().map(|leaf| leaf.serial.as_str())
}

/// Whether the certificate was renewed as it should be.
fn judge(before: &Inventory, now: &Inventory, name: &str) -> Result<(), String> {
    let certificate = now.get(name).ok_or("it is gone")?;
    let first = || certificate.problems.first().map_or_else(|| "cannot be read".to_owned(), ToString::to_string);
    let leaf = certificate.leaf.as_ref().ok_or_else(first)?;
    if !is_new(before, now, name) {
        return Err("unchanged: it has the serial that it had".to_owned());
    }
    // what follows from names and usages alone was so before, if those are the same
    let spoilt = |problem: &&Problem| spoils(problem) && !problem.is_kept_by_renewal();
    if let Some(problem) = certificate.problems.iter().find(spoilt) {
        return Err(problem.to_string());
    }
    match before.get(name).and_then(|certificate| certificate.leaf.as_ref()) {
        Some(old) if old.identity() != leaf.identity() => Err("it has other names or usages than before".to_owned()),
        _ => Ok(()),
    }
}

/// Problems that make a renewed certificate worse than the old one.
pub fn spoils(problem: &Problem) -> bool {
    problem.is_unreadable() || problem.is_damage()
}

/// Whether what kubeadm left is worse than what was there: it has to be put back.
pub fn is_spoilt(before: &Certificate, now: &Certificate) -> bool {
    let identity = |certificate: &Certificate| certificate.leaf.as_ref().map(crate::inventory::Leaf::identity);
    let fresh = now.problems.iter().any(|problem| spoils(problem) && !before.problems.contains(problem));
    fresh || (before.leaf.is_some() && identity(before) != identity(now))
}

/// kubeadm's configuration file, where it may be used, and else why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Config {
    /// It names the directory that is to be renewed.
    Use(PathBuf),
    /// It must not be used: why. kubeadm would renew another directory without a word.
    Leave(String),
    /// There is none.
    None,
}

/// Looks at kubeadm's configuration: `given`, else `kubeadm-config.yaml` in the kubernetes directory.
pub fn config(node: &Node, given: Option<&Path>) -> Config {
    let usual = node.kubernetes_dir.join("kubeadm-config.yaml");
    let path = given.unwrap_or(&usual);
    if given.is_none() && !node.root.exists(path) {
        return Config::None;
    }
    let leave = |why: String| Config::Leave(format!("'{}' is not used: {why}", path.display()));
    let documents = match node.root.read(path).map_err(|error| error.to_string()) {
        Ok(text) => match yaml::parse_all(&text) {
            Ok(documents) => documents,
            Err(error) => return leave(error.to_string()),
        },
        Err(error) => return leave(format!("it cannot be read: {error}")),
    };
    let cluster =
        |document: &&serde_json::Value| yaml::text_at(document, &["kind"]).as_deref() == Some("ClusterConfiguration");
    let Some(document) = documents.iter().find(cluster) else {
        return leave("it holds no ClusterConfiguration".to_owned());
    };
    let dir = yaml::text_at(document, &["certificatesDir"]).unwrap_or_else(|| "/etc/kubernetes/pki".to_owned());
    if node.real(Path::new(&dir)) != node.real(&node.cert_dir) {
        return leave(format!(
            "its certificatesDir is '{dir}', and the certificates are in '{}'",
            node.cert_dir.display()
        ));
    }
    Config::Use(path.to_path_buf())
}
