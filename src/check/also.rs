//! `--also`: from paths and patterns to files.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::files::{Root, is_absent};

/// The files that were asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files {
    /// Paths without a wildcard, as they were given.
    pub named: Vec<PathBuf>,
    /// What the patterns match, each once, sorted.
    pub matched: Vec<PathBuf>,
    /// Patterns that match nothing, and directories that could not be listed for one.
    pub without: Vec<(PathBuf, String)>,
}

/// Looks up paths and patterns below the root: `*` stands for any number of characters in one part of a path, `?` for one,
/// and neither for a dot at its beginning, as in a shell.
pub fn files(root: &Root, given: &[PathBuf]) -> Files {
    let mut files = Files::default();
    let mut matched = BTreeSet::new();
    for pattern in given {
        if !has_wildcard(pattern) {
            if !files.named.contains(pattern) {
                files.named.push(pattern.clone());
            }
            continue;
        }
        let mut refused = Vec::new();
        let found = expand(root, pattern, &mut refused);
        if found.is_empty() && refused.is_empty() {
            files.without.push((pattern.clone(), "matches nothing".to_owned()));
        }
        files.without.append(&mut refused);
        matched.extend(found);
    }
    files.matched = matched.into_iter().filter(|path| !files.named.contains(path)).collect();
    files
}

fn has_wildcard(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?'])
}

fn expand(root: &Root, pattern: &Path, refused: &mut Vec<(PathBuf, String)>) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::from("/")];
    let parts: Vec<_> = pattern.components().filter(|part| !matches!(part, Component::RootDir)).collect();
    for (index, part) in parts.iter().enumerate() {
        let pattern = part.as_os_str().to_string_lossy();
        if !pattern.contains(['*', '?']) {
            found.iter_mut().for_each(|path| path.push(part));
            continue;
        }
        let mut next = Vec::new();
        for dir in found {
            match root.list_raw(&dir) {
                Ok(names) => {
                    let hits = names.iter().filter(|name| matches(&pattern, &name.to_string_lossy()));
                    next.extend(hits.map(|name| dir.join(name)));
                }
                Err(error) if is_absent(&error) => {}
                Err(error) => refused.push((dir, format!("cannot be listed: {error}"))),
            }
        }
        found = next;
        // the rest is not looked for in files
        if index + 1 < parts.len() {
            found.retain(|path| root.metadata(path).is_ok_and(|metadata| metadata.is_dir()));
        }
    }
    let ends_plain = parts.last().is_some_and(|part| !has_wildcard(Path::new(part)));
    found.retain(|path| !ends_plain || root.symlink_metadata(path).is_ok());
    found
}

/// Whether the pattern matches the whole name.
fn matches(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let (pattern, name): (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut in_name) = (0, 0);
    // where the last star stands, and up to where it reaches
    let mut star = None;
    while in_name < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, in_name));
                at += 1;
            }
            Some(&character) if character == '?' || character == name[in_name] => {
                at += 1;
                in_name += 1;
            }
            _ => {
                let Some((stood, reached)) = star else { return false };
                star = Some((stood, reached + 1));
                at = stood + 1;
                in_name = reached + 1;
            }
        }
    }
    pattern[at..].iter().all(|&character| character == '*')
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{Files, files, matches};
    use crate::files::{Replace, Root};

    #[test]
    fn a_star_is_any_text_a_question_mark_one_character_and_a_leading_dot_is_named() {
        let table = [
            ("*", "a.pem", true),
            ("*.pem", "a.pem", true),
            ("*.pem", ".pem", false),
            (".*", ".pem", true),
            ("*.pem", "a.pem.old", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b", false),
            ("??.crt", "ab.crt", true),
            ("??.crt", "a.crt", false),
            ("?", "ä", true),
            ("**", "x", true),
            ("a?", "a", false),
            ("", "", true),
            ("*a", "aaab", false),
        ];
        for (pattern, name, expected) in table {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    fn tree() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::new(dir.path()).unwrap();
        for path in ["/srv/a/tls.crt", "/srv/b/tls.crt", "/srv/b/tls.key", "/srv/c", "/srv/.d/tls.crt"] {
            root.create_dir(Path::new(path).parent().unwrap(), 0o755).unwrap();
            root.replace(Path::new(path), b"x", &Replace::with_mode(0o644)).unwrap();
        }
        std::os::unix::fs::symlink("/etc", dir.path().join("srv/out")).unwrap();
        std::os::unix::fs::symlink("/srv", dir.path().join("srv/round")).unwrap();
        (dir, root)
    }

    fn found(root: &Root, given: &[&str]) -> Files {
        files(root, &given.iter().map(PathBuf::from).collect::<Vec<_>>())
    }

    fn paths(paths: &[&str]) -> Vec<PathBuf> {
        paths.iter().map(PathBuf::from).collect()
    }

    #[test]
    fn patterns_are_looked_up_below_the_root_and_plain_paths_are_kept_as_they_are() {
        let (_dir, root) = tree();
        let all = found(&root, &["/srv/*/tls.crt", "/srv/b/*", "/srv/b/tls.key", "/gone", "/srv/b/tls.key"]);
        assert_eq!(all.named, paths(&["/srv/b/tls.key", "/gone"]));
        // a link that leads round is a directory like others, and what it leads to is not looked through again
        assert_eq!(all.matched, paths(&["/srv/a/tls.crt", "/srv/b/tls.crt"]));
        assert_eq!(all.without, []);
    }

    #[test]
    fn names_that_are_not_utf_8_lead_to_their_files() {
        use std::os::unix::ffi::OsStrExt;
        let (dir, root) = tree();
        let name = std::ffi::OsStr::from_bytes(b"k\xe4se.pem");
        std::fs::write(dir.path().join("srv/a").join(name), "x").unwrap();
        let path = Path::new("/srv/a").join(name);
        assert_eq!(found(&root, &["/srv/a/k?se.pem"]).matched, [path]);
        // a part without a wildcard too
        std::fs::create_dir(dir.path().join("srv/b").join(name)).unwrap();
        std::fs::write(dir.path().join("srv/b").join(name).join("tls.crt"), "x").unwrap();
        let pattern = Path::new("/srv/b").join(name).join("*.crt");
        assert_eq!(files(&root, std::slice::from_ref(&pattern)).matched, [pattern.with_file_name("tls.crt")]);
    }

    #[test]
    fn a_pattern_that_matches_nothing_is_told() {
        let (_dir, root) = tree();
        for pattern in ["/srv/*.pem", "/nowhere/*", "/srv/c/*", "/srv/?/none.crt", "/srv/out/*"] {
            let without = found(&root, &[pattern]).without;
            assert_eq!(without, [(PathBuf::from(pattern), "matches nothing".to_owned())]);
        }
    }
}
