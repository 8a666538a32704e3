//! kubelet's configuration file, read as kubelet reads it.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::files::{Root, is_absent};
use crate::node::yaml;

/// The fields that this program goes by.
const FIELDS: [&str; 5] =
    ["featureGates", "rotateCertificates", "serverTLSBootstrap", "tlsCertFile", "tlsPrivateKeyFile"];
/// Those of them that are truth values.
const SWITCHES: [&str; 2] = ["rotateCertificates", "serverTLSBootstrap"];

/// A configuration: the file that `--config` names, with those of `--config-dir` over it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// The file; None where kubelet has none.
    pub path: Option<PathBuf>,
    /// Why it cannot be read, and whether nothing is there.
    pub unreadable: Option<(String, bool)>,
    /// What in it does not do what it looks like.
    pub faults: Vec<String>,
    value: Value,
}

impl Config {
    /// Reads it below the root. `dir` is `--config-dir` (1.28 and later): its `*.conf` files by name, each over the one before,
    /// field by field (kubelet `server.go`, `mergeKubeletConfigurations`).
    pub fn read(root: &Root, path: Option<&Path>, dir: Option<&Path>) -> Self {
        let mut config = Self { path: path.map(Path::to_path_buf), ..Self::default() };
        let names = dir.and_then(|dir| root.list(dir).ok()).unwrap_or_default();
        let over = names.iter().filter(|name| name.ends_with(".conf")).filter_map(|name| Some(dir?.join(name)));
        for path in path.map(Path::to_path_buf).into_iter().chain(over) {
            let text = match root.read(&path) {
                Ok(text) => text,
                Err(error) => {
                    config.unreadable = Some((format!("'{}': {error}", path.display()), is_absent(&error)));
                    continue;
                }
            };
            match yaml::parse_all(&text) {
                Ok(documents) => {
                    let document = documents.into_iter().next().unwrap_or_default();
                    config.note_faults(&path, &document);
                    merge(&mut config.value, document);
                }
                Err(error) => config.unreadable = Some((format!("'{}': {error}", path.display()), false)),
            }
        }
        config
    }

    /// A truth value. One that is written as text is none: kubelet does not start with it.
    pub fn switch(&self, field: &str) -> Option<bool> {
        self.value.get(field)?.as_bool()
    }

    /// A path or another text; an empty one counts as none.
    pub fn text(&self, field: &str) -> Option<String> {
        yaml::text_at(&self.value, &[field]).filter(|text| !text.is_empty())
    }

    /// A feature gate of `featureGates`.
    pub fn gate(&self, name: &str) -> Option<bool> {
        self.value.get("featureGates")?.get(name)?.as_bool()
    }

    /// Where it stands, for people.
    pub fn place(&self) -> String {
        self.path.as_ref().map_or_else(|| "no file".to_owned(), |path| format!("'{}'", path.display()))
    }

    fn note_faults(&mut self, path: &Path, document: &Value) {
        let place = path.display();
        let Some(fields) = document.as_object() else {
            self.faults.push(format!("'{place}' holds no settings: kubelet runs with its defaults"));
            return;
        };
        for (key, value) in fields {
            match FIELDS.iter().find(|field| field.eq_ignore_ascii_case(key)) {
                Some(field) if field != key => {
                    self.faults.push(format!("'{key}' in '{place}' is not read: the field is '{field}'"));
                }
                Some(field) if SWITCHES.contains(field) && !value.is_boolean() && !value.is_null() => {
                    self.faults.push(format!("{key} in '{place}' is no truth value: kubelet does not start with it"));
                }
                Some(_) => {}
                None => stray(value, key, &mut |inner, field| {
                    self.faults.push(format!(
                        "'{field}' below '{inner}' in '{place}' is not read: it belongs to the outermost level"
                    ));
                }),
            }
        }
    }
}

/// Fields of ours that stand below another one.
fn stray(value: &Value, inner: &str, found: &mut dyn FnMut(&str, &str)) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                match FIELDS.iter().find(|field| field.eq_ignore_ascii_case(key)) {
                    Some(field) => found(inner, field),
                    None => stray(value, key, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| stray(item, inner, found)),
        _ => {}
    }
}

fn merge(under: &mut Value, over: Value) {
    match (under, over) {
        (Value::Object(under), Value::Object(over)) => {
            for (key, value) in over {
                merge(under.entry(key).or_insert(Value::Null), value);
            }
        }
        (_, Value::Null) => {}
        (under, over) => *under = over,
    }
}
