//! Changes one user's embedded credential in the text of a kubeconfig; every other byte stays.

use std::ops::Range;

use base64::Engine;
use serde::Deserialize;
use serde_json::Value;

use super::yaml::{self, Spanned, YamlError};

const CERTIFICATE: &str = "client-certificate-data";
const KEY: &str = "client-key-data";

/// Why a kubeconfig is not edited. Names the field and the line, never a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    /// It is not one YAML document of a kubeconfig's shape.
    #[error("cannot be edited as one YAML document: {0}")]
    Yaml(#[from] YamlError),
    /// There is no such user, or it does not hold this field.
    #[error("the user has no field '{0}'")]
    NotEmbedded(&'static str),
    /// The value is written in a form that is not safe to edit in place.
    #[error(
        "field '{field}' at line {line} is {form}; only a plain or quoted value is edited \
         (write the value on the line of its field)"
    )]
    Form {
        /// The field.
        field: &'static str,
        /// Line of the value, from 1.
        line: u64,
        /// What it is instead.
        form: &'static str,
    },
    /// The edited text does not read as the same kubeconfig with two other values, as with an anchor around the user.
    #[error(
        "the edit would change more than '{CERTIFICATE}' and '{KEY}' of one user (an anchor or merge key around it?)"
    )]
    ChangesMore,
}

/// The text with another `client-certificate-data` and `client-key-data` (both given as PEM) for the user at this index
/// of the list `users`.
///
/// The style of the quotes, comments, order, line ends and a byte order mark stay. The result was parsed again and
/// differs in those two values only.
///
/// # Errors
/// [`EditError`]; block scalars, aliases, anchors, tags and merge keys on the two values are refused.
pub fn with_credential(text: &[u8], user: usize, certificate: &[u8], key: &[u8]) -> Result<Vec<u8>, EditError> {
    let config: Config = yaml::parse(text)?;
    let fields = config.users.get(user).and_then(|entry| entry.user.as_ref());
    let encode = |pem| base64::engine::general_purpose::STANDARD.encode(pem);
    let mut changes = [
        (CERTIFICATE, fields.and_then(|fields| fields.certificate.as_ref()), encode(certificate)),
        (KEY, fields.and_then(|fields| fields.key.as_ref()), encode(key)),
    ]
    .into_iter()
    .map(|(field, old, new)| Ok((inner_range(text, field, old.ok_or(EditError::NotEmbedded(field))?)?, field, new)))
    .collect::<Result<Vec<_>, EditError>>()?;
    changes.sort_by_key(|(range, ..)| range.start);

    let mut result = Vec::with_capacity(text.len() + certificate.len() + key.len());
    let mut copied = 0;
    for (range, _, new) in &changes {
        result.extend_from_slice(text.get(copied..range.start).ok_or(EditError::ChangesMore)?);
        result.extend_from_slice(new.as_bytes());
        copied = range.end;
    }
    result.extend_from_slice(text.get(copied..).ok_or(EditError::ChangesMore)?);

    let mut wanted: Value = yaml::parse(text)?;
    for (_, field, new) in changes {
        let value = wanted.pointer_mut(&format!("/users/{user}/user/{field}")).ok_or(EditError::ChangesMore)?;
        *value = Value::String(new);
    }
    match yaml::parse::<Value>(&result) {
        Ok(is) if is == wanted => Ok(result),
        _ => Err(EditError::ChangesMore),
    }
}

#[derive(Deserialize)]
struct Config {
    users: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    user: Option<Fields>,
}

#[derive(Deserialize)]
struct Fields {
    #[serde(rename = "client-certificate-data")]
    certificate: Option<Spanned<String>>,
    #[serde(rename = "client-key-data")]
    key: Option<Spanned<String>>,
}

/// The bytes of a value without its quotes.
fn inner_range(text: &[u8], field: &'static str, value: &Spanned<String>) -> Result<Range<usize>, EditError> {
    let refused = |form| EditError::Form { field, line: value.referenced.line(), form };
    let range = yaml::range_in(text, value).ok_or_else(|| refused("an alias, or comes from a merge key"))?;
    // a block scalar's header, an anchor, a tag or a comment would stand between the colon and the value
    if text[..range.start].trim_ascii_end().last() != Some(&b':') {
        return Err(refused("a block scalar, or has an anchor, a tag or a comment before it"));
    }
    match &text[range.clone()] {
        [quote @ (b'"' | b'\''), .., last] if quote == last => Ok(range.start + 1..range.end - 1),
        plain if plain == value.value.as_bytes() => Ok(range),
        _ => Err(refused("spread over several lines")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{EditError, with_credential};

    // base64 of "old certificate", "old key", "new" and "newer key"
    const OLD: [&str; 2] = ["b2xkIGNlcnRpZmljYXRl", "b2xkIGtleQ=="];
    const NEW: [&str; 2] = ["bmV3", "bmV3ZXIga2V5"];

    fn edit(text: &str, user: usize) -> Result<String, EditError> {
        with_credential(text.as_bytes(), user, b"new", b"newer key").map(|text| String::from_utf8(text).unwrap())
    }

    fn with_new(text: &str) -> String {
        text.replace(OLD[0], NEW[0]).replace(OLD[1], NEW[1])
    }

    #[test]
    fn only_the_two_values_change_however_the_file_is_written() {
        let [certificate, key] = OLD;
        let block = format!(
            "# prod, and the lab\napiVersion: v1\nusers:\n  - name: lab # other\n    user: {{token: x}}\n\
             \x20 - name: \"admin é🔑\"\n    user:\n        client-key-data:   {key}   # first\n\
             \x20       client-certificate-data:\n          {certificate}\n        extra: [a, 'b']\ntail: 1"
        );
        let cases = [
            ("block", block.clone()),
            ("windows lines", block.replace('\n', "\r\n")),
            ("byte order mark", format!("\u{feff}{block}")),
            ("single quotes", block.replace(key, &format!("'{key}'"))),
            ("double quotes", block.replace(certificate, &format!("\"{certificate}\""))),
            ("document markers", format!("---\n{block}\n...\n")),
            (
                "flow",
                format!("users: [{{}}, {{user: {{client-certificate-data: {certificate}, client-key-data: {key}}}}}]"),
            ),
            (
                "JSON",
                format!(
                    r#"{{"users":[{{"name":"x"}},{{"user":{{"client-certificate-data":"{certificate}","client-key-data" : "{key}"}}}}]}}"#
                ),
            ),
        ];
        for (name, text) in cases {
            assert_eq!(edit(&text, 1).unwrap_or_else(|error| panic!("{name}: {error}")), with_new(&text), "{name}");
        }
    }

    #[test]
    fn a_value_in_an_unsafe_form_is_refused_with_its_line() {
        let [certificate, key] = OLD;
        let text = |value: &str| {
            format!("users:\n- user:\n    client-key-data: {key}\n    client-certificate-data: {value}\n")
        };
        for value in [
            format!("|\n      {certificate}"),
            format!(">-\n      {certificate}"),
            format!("&a {certificate}"),
            format!("!!str {certificate}"),
            format!("# note\n      {certificate}"),
            format!("{}\n      {}", &certificate[..4], &certificate[4..]),
        ] {
            let error = edit(&text(&value), 0).unwrap_err();
            assert!(
                matches!(error, EditError::Form { field: "client-certificate-data", line: 4 | 5, .. }),
                "{value}: {error:?}"
            );
            assert!(!format!("{error} {error:?}").contains(&certificate[4..]), "{error:?}");
        }
        let aliases = [
            format!("x: &a {certificate}\n{}", text("*a")),
            format!(
                "x: &a {{client-certificate-data: {certificate}}}\nusers:\n- user:\n    <<: *a\n    client-key-data: {key}\n"
            ),
            format!("x: &a {{client-certificate-data: {certificate}, client-key-data: {key}}}\nusers:\n- user: *a\n"),
        ];
        for text in aliases {
            assert!(matches!(edit(&text, 0), Err(EditError::Form { .. })), "{text}");
        }
    }

    #[test]
    fn an_edit_that_would_reach_another_user_is_refused() {
        let [certificate, key] = OLD;
        let text = format!(
            "users:\n- name: a\n  user: &u\n    client-certificate-data: {certificate}\n    client-key-data: {key}\n\
             - name: b\n  user: *u\n"
        );
        assert_eq!(edit(&text, 0), Err(EditError::ChangesMore));
    }

    #[test]
    fn what_is_not_there_is_named() {
        let [certificate, _] = OLD;
        let text = format!("users:\n- user:\n    client-certificate-data: {certificate}\n    client-key: /a.key\n");
        assert_eq!(edit(&text, 0), Err(EditError::NotEmbedded("client-key-data")));
        assert_eq!(edit(&text, 7), Err(EditError::NotEmbedded("client-certificate-data")));
        assert!(matches!(edit("users: [", 0), Err(EditError::Yaml(_))));
        assert!(matches!(edit(&format!("{text}---\n{text}"), 0), Err(EditError::Yaml(_))));
    }

    proptest! {
        #[test]
        fn an_edit_changes_nothing_but_the_two_values(
            count in 1..5_usize,
            pick in 0..5_usize,
            indent in 2..6_usize,
            quotes in prop::collection::vec(0..3_usize, 10),
            names in prop::collection::vec("[a-zé🔑 #:'-]{0,8}", 5),
            comments in prop::collection::vec("[ -~é]{0,12}", 5),
            windows: bool,
            key_first: bool,
        ) {
            let pick = pick % count;
            let mut text = String::from("apiVersion: v1\nusers:\n");
            for user in 0..count {
                let values = if user == pick { OLD } else { ["b3RoZXI=", "b3RoZXJz"] };
                let quoted = |which: usize| match quotes[user * 2 + which] {
                    0 => values[which].to_owned(),
                    1 => format!("'{}'", values[which]),
                    _ => format!("\"{}\"", values[which]),
                };
                let pad = " ".repeat(indent);
                let mut fields = [
                    format!("{pad}client-certificate-data: {} # {}\n", quoted(0), comments[user]),
                    format!("{pad}client-key-data: {}\n", quoted(1)),
                ];
                if key_first {
                    fields.reverse();
                }
                text += &format!("# {}\n- name: '{}'\n  user:\n{}", comments[user], names[user].replace('\'', "''"), fields.concat().replace(&pad, &format!("  {pad}")));
            }
            if windows {
                text = text.replace('\n', "\r\n");
            }
            prop_assert_eq!(edit(&text, pick).unwrap(), with_new(&text));
        }
    }
}
