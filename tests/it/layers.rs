//! The table of layers: a module imports lower layers only.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Each module below `src`, and its layer.
const LAYERS: [(&str, u8); 26] = [
    ("cli", 7),
    ("check", 6),
    ("install", 6),
    ("kubelet", 6),
    ("run", 6),
    ("restore", 6),
    ("remains", 6),
    ("report", 6),
    ("settings", 6),
    ("plan", 5),
    ("turn", 5),
    ("steps", 5),
    ("decision", 4),
    ("evidence", 3),
    ("inventory", 2),
    ("runtime", 2),
    ("api", 2),
    ("node", 1),
    ("journal", 1),
    ("lock", 1),
    ("calendar", 0),
    ("host", 0),
    ("files", 0),
    ("exit", 0),
    ("lib", 8),
    ("main", 8),
];

/// Layer 6 has an order of its own: check and restore look as a run does, all use reports, and settings. In layer 5 a turn uses steps.
const WITHIN: [(&str, &str); 20] = [
    ("check", "run"),
    ("check", "report"),
    ("check", "settings"),
    ("check", "kubelet"),
    ("check", "remains"),
    ("remains", "settings"),
    ("remains", "report"),
    ("kubelet", "report"),
    ("kubelet", "settings"),
    ("install", "report"),
    ("install", "settings"),
    ("install", "remains"),
    ("restore", "run"),
    ("restore", "report"),
    ("run", "report"),
    ("run", "kubelet"),
    ("run", "settings"),
    ("report", "settings"),
    ("turn", "steps"),
    ("plan", "turn"),
];

#[test]
fn imports_go_one_way() {
    let layers: BTreeMap<&str, u8> = LAYERS.into_iter().collect();
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let files = sources(&src);
    assert!(files.len() > 40, "only {} files were found", files.len());
    let mut seen = 0;
    for file in files {
        let module = file.strip_prefix(&src).unwrap().iter().next().unwrap().to_str().unwrap().trim_end_matches(".rs");
        let own = *layers.get(module).unwrap_or_else(|| panic!("'{module}' is not in the table"));
        let text = std::fs::read_to_string(&file).unwrap();
        for (index, _) in text.match_indices("crate::") {
            let rest = &text[index + "crate::".len()..];
            let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap();
            let Some(layer) = layers.get(name) else {
                panic!("{}: 'crate::{name}' is not in the table", file.display());
            };
            seen += 1;
            let allowed = name == module || *layer < own || WITHIN.contains(&(module, name));
            assert!(allowed, "{}: layer {own} imports '{name}' of layer {layer}", file.display());
        }
    }
    assert!(seen > 100, "only {seen} imports were found");
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}
