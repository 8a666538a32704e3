//! Whether private keys are inside.

use std::path::Path;

use crate::files::{Root, Usage};

use super::MOST;

/// Files that are read at most to see whether a key is inside.
const MOST_READ: usize = 200;

/// How much is at a path, and whether a file there holds a private key or a kubeconfig's: by its content, or by the name where it cannot
/// be read. None where nothing is there.
pub(super) fn look(root: &Root, path: &Path) -> Option<(Usage, bool)> {
    let (mut keys, mut read) = (false, 0);
    let usage = root.walk(path, MOST, &mut |file| {
        if !keys && read < MOST_READ && may_hold_one(file) {
            read += 1;
            keys = holds_one(root, file);
        }
    });
    Some((usage.ok()?, keys))
}

fn may_hold_one(file: &Path) -> bool {
    file.extension().is_some_and(|end| ["key", "pem", "conf", "config", "crt"].iter().any(|known| end == *known))
}

fn holds_one(root: &Root, file: &Path) -> bool {
    match root.read(file) {
        Ok(text) => ["PRIVATE KEY-----", "client-key-data:"].iter().any(|mark| contains(&text, mark.as_bytes())),
        Err(_) => file.to_string_lossy().ends_with(".key") || file.to_string_lossy().ends_with("-key.pem"),
    }
}

fn contains(text: &[u8], mark: &[u8]) -> bool {
    text.windows(mark.len()).any(|window| window == mark)
}
