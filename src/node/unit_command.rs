//! What a service is started with: `ExecStart=` of a unit with its variables put in, as systemd does it (systemd.exec(5) and
//! systemd.service(5) of systemd 252).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::files::{Root, is_absent};

use super::unit_files::{Unit, UnitError};

/// The command line of a service, and where its words stand.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnitCommand {
    /// The words, the program first.
    pub argv: Vec<String>,
    /// The unit file, its drop-ins and the files of variables, in the order in which they are applied.
    pub files: Vec<PathBuf>,
    /// Files of variables that are there and cannot be read.
    pub unread: Vec<PathBuf>,
}

/// The command line of the service of this name below the root; None where there is no such unit, it is masked, or it starts
/// nothing. Of several commands the last one counts (only `Type=oneshot` may have several).
///
/// # Errors
/// A unit file that counts cannot be read.
pub fn unit_command(root: &Root, name: &str) -> Result<Option<UnitCommand>, UnitError> {
    let unit = Unit::load(root, name)?;
    let Some(exec) = unit.last("Service", "ExecStart") else { return Ok(None) };
    let mut command = UnitCommand { files: unit.files.clone(), ..UnitCommand::default() };
    let mut variables = BTreeMap::new();
    for word in unit.values("Service", "Environment").into_iter().flat_map(words) {
        if let Some((name, value)) = word.split_once('=') {
            variables.insert(name.to_owned(), value.to_owned());
        }
    }
    // files win over Environment=, a later one over an earlier one
    for file in unit.values("Service", "EnvironmentFile") {
        let path = PathBuf::from(file.trim_start_matches('-'));
        match root.read(&path) {
            Ok(text) => {
                variables.extend(environment_file(&String::from_utf8_lossy(&text)));
                command.files.push(path);
            }
            Err(error) if is_absent(&error) => {}
            Err(_) => command.unread.push(path),
        }
    }
    let whole = exec.trim_start_matches(['-', ':', '+', '!', '|']);
    let (names_itself, whole) = whole.strip_prefix('@').map_or((false, whole), |rest| (true, rest));
    let mut argv = words(whole).into_iter().flat_map(|word| expand(&word, &variables));
    command.argv.extend(argv.next());
    if names_itself {
        argv.next();
    }
    command.argv.extend(argv);
    Ok(Some(command).filter(|command| !command.argv.is_empty()))
}

/// The variables that a file of them sets, in order.
///
/// As systemd reads an `EnvironmentFile=`: comments begin with `#` or `;`, values may be quoted, quoted ones may go over several
/// lines, and a backslash at the end of a line joins the next one to it.
pub fn environment_file(text: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text).chars().peekable();
    loop {
        while rest.next_if(|c| c.is_whitespace()).is_some() {}
        match rest.peek() {
            None => return found,
            Some('#' | ';') => {
                while rest.next_if(|c| *c != '\n').is_some() {}
                continue;
            }
            Some(_) => {}
        }
        let mut name = String::new();
        while let Some(c) = rest.next_if(|c| *c != '=' && *c != '\n') {
            name.push(c);
        }
        if rest.next() != Some('=') {
            continue;
        }
        let mut value = String::new();
        let mut quote = None;
        while let Some(c) = rest.next() {
            match (quote, c) {
                (None, '\n') => break,
                (None, '"' | '\'') => quote = Some(c),
                (Some(open), _) if c == open => quote = None,
                (None | Some('"'), '\\') => match rest.next() {
                    // the line goes on
                    Some('\n') | None => {}
                    Some(escaped) => value.push(escaped),
                },
                _ => value.push(c),
            }
        }
        found.push((name.trim().to_owned(), value.trim().to_owned()));
    }
}

/// Splits a value into words: at blanks, but for those in quotes.
pub fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match (quote, c) {
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (Some(open), _) if c == open => quote = None,
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(rest.next()),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// `$NAME` as a word of its own becomes the words of its value, `${NAME}` in any place its value as it is, `$$` a dollar.
fn expand(word: &str, variables: &BTreeMap<String, String>) -> Vec<String> {
    if let Some(name) = word.strip_prefix('$').filter(|name| !name.starts_with(['{', '$'])) {
        return variables.get(name).map(|value| words(value)).unwrap_or_default();
    }
    let mut out = String::new();
    let mut rest = word;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        rest = after;
        if let Some(after) = rest.strip_prefix('$') {
            out.push('$');
            rest = after;
        } else if let Some((name, after)) = rest.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            out.push_str(variables.get(name).map_or("", String::as_str));
            rest = after;
        } else {
            out.push('$');
        }
    }
    out.push_str(rest);
    vec![out]
}

/// The first of these files in whose text a flag stands, given with its dashes; either spelling of it.
pub fn file_with(root: &Root, files: &[PathBuf], flag: &str) -> Option<PathBuf> {
    let underscored = format!("--{}", flag.trim_start_matches('-').replace('-', "_"));
    let has = |path: &&PathBuf| {
        let text = root.read(Path::new(path)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        [flag, &underscored].iter().any(|name| {
            text.match_indices(name).any(|(at, _)| {
                let next = text[at + name.len()..].chars().next();
                next.is_none_or(|next| !next.is_alphanumeric() && next != '-' && next != '_')
            })
        })
    };
    // what is applied last counts
    files.iter().rev().find(has).cloned()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{environment_file, file_with, unit_command};
    use crate::files::{Replace, Root};

    fn root(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path()).unwrap();
        for (path, text) in files {
            let path = Path::new(path);
            root.create_dir(path.parent().unwrap(), 0o755).unwrap();
            root.replace(path, text.as_bytes(), &Replace::with_mode(0o644)).unwrap();
        }
        (dir, root)
    }

    #[test]
    fn kubeadms_drop_in_is_put_together_as_systemd_does() {
        let (_dir, root) = root(&[
            ("/lib/systemd/system/kubelet.service", "[Service]\nExecStart=/usr/bin/kubelet\n"),
            (
                "/usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf",
                "[Service]\nEnvironment=\"KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf\"\nEnvironment=\"KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml\"\nEnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env\nEnvironmentFile=-/etc/default/kubelet\nExecStart=\nExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS\n",
            ),
            (
                "/var/lib/kubelet/kubeadm-flags.env",
                "KUBELET_KUBEADM_ARGS=\"--rotate-certificates=false --node-ip=192.0.2.1\"\n",
            ),
        ]);
        let command = unit_command(&root, "kubelet.service").unwrap().unwrap();
        let expected = [
            "/usr/bin/kubelet",
            "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf",
            "--kubeconfig=/etc/kubernetes/kubelet.conf",
            "--config=/var/lib/kubelet/config.yaml",
            "--rotate-certificates=false",
            "--node-ip=192.0.2.1",
        ];
        assert_eq!(command.argv, expected);
        let place = file_with(&root, &command.files, "--rotate-certificates");
        assert_eq!(place.as_deref(), Some(Path::new("/var/lib/kubelet/kubeadm-flags.env")));
        assert_eq!(file_with(&root, &command.files, "--rotate"), None);
    }

    #[test]
    fn kubesprays_variables_over_several_lines_are_one_value() {
        let text = "# made by hand\nKUBELET_HOSTNAME=\"--hostname-override=node1\"\n\nKUBELET_ARGS=\"--config=/etc/kubernetes/kubelet-config.yaml \\\n  --kubeconfig=/etc/kubernetes/kubelet.conf \\\n \"\nEMPTY=\nno assignment\n; comment\nX='a b'\n";
        let found = environment_file(text);
        let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["KUBELET_HOSTNAME", "KUBELET_ARGS", "EMPTY", "X"]);
        let words = super::words(&found[1].1);
        assert_eq!(
            words,
            ["--config=/etc/kubernetes/kubelet-config.yaml", "--kubeconfig=/etc/kubernetes/kubelet.conf"]
        );
        assert_eq!(found[3].1, "a b");
    }

    #[test]
    fn variables_in_braces_are_one_word_and_prefixes_of_the_program_fall_away() {
        let (_dir, root) = root(&[(
            "/etc/systemd/system/x.service",
            "[Service]\nEnvironment=A='1 2' B=b\nExecStart=-/opt/x --a=${A} $B --price=$$5 ${NONE} $NONE 'c d'\n",
        )]);
        let command = unit_command(&root, "x.service").unwrap().unwrap();
        assert_eq!(command.argv, ["/opt/x", "--a=1 2", "b", "--price=$5", "", "c d"]);
        assert_eq!(unit_command(&root, "y.service").unwrap(), None);
    }
}
