//! Restores that are cut off, or that fail half-way.

use std::io::{self, Write};

use k8s_certs_renew::cli::{Process, Terminal, main};
use k8s_certs_renew::host::Signals;

use super::{ALL, DIR, FIRST, RESTARTS, SECOND, ids, now, renewed, restore};
use crate::run::run;
use crate::run::seen::{changed, files, owed};
use crate::support::clock::StillClock;
use crate::support::site::Site;

/// A writer that does something as soon as these words come.
pub struct OnWords {
    pub words: &'static str,
    pub act: Box<dyn FnMut()>,
}

impl Write for OnWords {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if String::from_utf8_lossy(bytes).contains(self.words) {
            (self.act)();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs the program with these outputs; gives the exit code.
pub fn call_with(argv: &[&str], out: &mut dyn Write, err: &mut dyn Write) -> u8 {
    let process = Process {
        argv: argv.iter().map(Into::into).collect(),
        environment: Vec::new(),
        terminal: Terminal::default(),
        is_root: true,
        clock: &StillClock::at(now()),
        signals: &Signals::none(),
    };
    main(&process, out, err).code()
}

/// Restores the first backup, and cuts it off as soon as it says this. A panic of the writer stands for the kill: nothing of the
/// program runs after it.
fn cut_off(site: &Site, words: &'static str) {
    let argv = ["k8s-certs-renew", "restore", FIRST, "--yes", "-v", "--root", site.tree.dir().to_str().unwrap()];
    let mut err = OnWords { words, act: Box::new(|| std::panic::resume_unwind(Box::new("cut off"))) };
    assert_eq!(call_with(&argv, &mut io::sink(), &mut err), 70, "{words}");
}

#[test]
fn a_pair_that_a_cut_has_torn_is_mended_by_the_next_run() {
    let (site, _) = renewed();
    cut_off(&site, "put back 'admin.conf'");
    let path = site.tree.pki("apiserver.crt");
    site.tree.write(&path, site.tree.read(&format!("{DIR}/{FIRST}{path}")));
    let serials = site.serials();
    let ran = run(&site, &[]);
    assert_eq!(ran.code, 0, "{}", ran.text());
    let said = format!("apiserver: half-written by a run that was cut off; put back from the backup '{SECOND}'");
    assert!(ran.err.contains(&said), "{}", ran.err);
    assert_eq!(site.renewed_since(&serials), site.tree.renewed_by_kubeadm());
    assert_eq!(owed(&site), None);
    assert_eq!(run(&site, &["--detailed-exitcode"]).code, 0);
}

#[test]
fn a_restore_that_is_cut_off_anywhere_leaves_a_journal_that_knows_it() {
    // kube-apiserver shows not what it logs in with; the others are restarted where their files were replaced
    let table = [
        ("put back 'admin.conf'", 1),
        ("put back 'controller-manager.conf'", 2),
        ("put back 'scheduler.conf'", 3),
        ("put back '/root", 3),
    ];
    for (words, restarts) in table {
        let (site, before) = renewed();
        cut_off(&site, words);
        assert_eq!(owed(&site).unwrap(), ALL, "{words}");
        assert_eq!(ids(&site), [FIRST, SECOND], "{words}");
        // nobody restores it to the end: what is on disk is what has to be in use
        let ran = run(&site, &[]);
        assert_eq!(ran.code, 0, "{words}: {}", ran.text());
        assert_eq!(site.world.acts(), RESTARTS[..restarts], "{words}");
        assert_eq!(owed(&site), None);
        // or somebody does
        let ran = restore(&site, &[FIRST, "--yes"]);
        assert_eq!(ran.code, 0, "{words}: {}", ran.text());
        let mut left = changed(&before, &files(&site));
        left.retain(|path| path != "/root/.kube/config");
        assert_eq!(left, Vec::<String>::new(), "{words}");
        assert_eq!(run(&site, &[]).code, 0);
        assert_eq!(owed(&site), None);
    }
}

/// Restores the first backup, and does this to the node as soon as the first file is put back.
fn meanwhile(site: &Site, act: impl Fn(&Site)) -> (u8, String) {
    let root = site.tree.dir().to_str().unwrap();
    let (mut said, mut is_done) = (Vec::new(), false);
    let mut err = Meanwhile { said: &mut said, act: &mut || act(site), is_done: &mut is_done };
    let argv = ["k8s-certs-renew", "restore", FIRST, "--yes", "-v", "--root", root];
    let code = call_with(&argv, &mut io::sink(), &mut err);
    (code, String::from_utf8(said).unwrap())
}

struct Meanwhile<'a> {
    said: &'a mut Vec<u8>,
    act: &'a mut dyn FnMut(),
    is_done: &'a mut bool,
}

impl Write for Meanwhile<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.said.extend_from_slice(bytes);
        if !*self.is_done && String::from_utf8_lossy(self.said).contains("put back 'admin.conf'") {
            *self.is_done = true;
            (self.act)();
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_file_that_cannot_be_put_back_takes_back_those_before_it() {
    let (site, _) = renewed();
    let before = files(&site);
    let saved = format!("{DIR}/{FIRST}/etc/kubernetes/controller-manager.conf");
    let (code, err) = meanwhile(&site, |site| site.tree.remove(&saved));
    assert_eq!(code, 74, "{err}");
    assert!(err.contains("what was replaced before it is as it was"), "{err}");
    assert_eq!(changed(&before, &files(&site)), Vec::<String>::new());
    assert_eq!(owed(&site), None);
}

#[test]
fn what_cannot_even_be_taken_back_is_said_and_stays_in_the_journal() {
    let (site, _) = renewed();
    let path = "/etc/kubernetes/controller-manager.conf";
    let (code, err) = meanwhile(&site, |site| {
        site.tree.remove(path);
        site.tree.write(&format!("{path}/in/the/way"), "");
    });
    assert_eq!(code, 74, "{err}");
    assert!(err.contains("could not be taken back") && err.contains(&format!("then restore '{SECOND}'")), "{err}");
    assert_eq!(owed(&site).unwrap(), ALL);
    std::fs::remove_dir_all(site.tree.on_host(path)).unwrap();
    assert_eq!(restore(&site, &[SECOND, "--yes"]).code, 0);
}

#[test]
fn a_journal_that_cannot_be_written_stops_it_before_the_first_file() {
    let (site, _) = renewed();
    let (state, aside) = ("/var/lib/k8s-certs-renew/state.json", "/var/lib/k8s-certs-renew/state.json.damaged");
    site.tree.write(state, "{");
    site.tree.write(&format!("{aside}/in/the/way"), "");
    let before = files(&site);
    let ran = restore(&site, &[FIRST, "--yes"]);
    assert_eq!(ran.code, 74, "{}", ran.text());
    assert!(ran.err.contains("nothing was changed"), "{}", ran.err);
    assert_eq!(changed(&before, &files(&site)), Vec::<String>::new());
}
