//! What the docs list is what the program has.

use std::collections::BTreeSet;
use std::path::Path;

fn file(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The codes in the program's own table, but for those of `check`.
fn codes() -> BTreeSet<u8> {
    let source = file("src/exit.rs");
    let (_, rest) = source.split_once("pub fn code(self)").unwrap();
    let (table, _) = rest.split_once("pub fn").unwrap();
    let rows = table.lines().filter_map(|line| line.trim().split_once(" => ")?.1.strip_suffix(',')?.parse().ok());
    let found: BTreeSet<u8> = rows.filter(|code| !(1..=3).contains(code)).collect();
    assert!(found.len() > 15, "{found:?}");
    found
}

#[test]
fn every_exit_code_has_its_row() {
    let page = file("docs/exit-codes.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" |")?.0.parse().ok());
    assert_eq!(rows.collect::<BTreeSet<u8>>(), codes());
}

#[test]
fn the_readme_names_every_exit_code() {
    let page = file("README.md");
    let (_, table) = page.split_once("| code | meaning |").unwrap();
    let named = table
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" |"))
        .flat_map(|(cell, _)| cell.split(", "));
    assert_eq!(named.filter_map(|code| code.parse().ok()).collect::<BTreeSet<u8>>(), codes());
}
