//! The one reader of YAML. Its errors carry a place, never a piece of the text: the text may hold keys and tokens.

use std::ops::Range;

use serde::de::DeserializeOwned;
use serde_json::Value;
pub use serde_saphyr::Spanned;

/// What is wrong with a YAML text, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum YamlError {
    /// The text does not parse, or does not have the shape that was asked for.
    #[error("not valid YAML at line {line}, column {column}")]
    Invalid {
        /// Line, from 1.
        line: u64,
        /// Column, from 1.
        column: u64,
    },
    /// The text does not parse, and the parser cannot say where.
    #[error("not valid YAML")]
    Unplaced,
    /// The bytes are not UTF-8.
    #[error("not UTF-8 text")]
    NotText,
}

/// The one document of a YAML text.
///
/// # Errors
/// The text is no single YAML document of the shape `T`.
pub fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T, YamlError> {
    serde_saphyr::from_str_with_options(as_text(text)?, options()).map_err(|error| place(&error))
}

/// Every document of a YAML text, empty ones left out.
///
/// # Errors
/// One of the documents does not parse.
pub fn parse_all(text: &[u8]) -> Result<Vec<Value>, YamlError> {
    let documents: Vec<Value> =
        serde_saphyr::from_multiple_with_options(as_text(text)?, options()).map_err(|error| place(&error))?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

/// A scalar as text, as a program that wants a string reads it.
pub fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(yes) => Some(yes.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// The text at a path of keys, such as `["metadata", "name"]`.
pub fn text_at(value: &Value, path: &[&str]) -> Option<String> {
    scalar(at(value, path)?)
}

/// The value at a path of keys.
pub fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}

/// The list at a path of keys; empty where there is none.
pub fn list_at<'a>(value: &'a Value, path: &[&str]) -> &'a [Value] {
    at(value, path).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Where a value stands in the text that it was parsed from, in bytes, quotes included.
///
/// `None` for a value that an alias or a merge key (`<<`) brings in from elsewhere. The span of a block scalar leaves
/// its header out, that of a value with an anchor or a tag leaves those out.
pub fn range_in<T>(text: &[u8], value: &Spanned<T>) -> Option<Range<usize>> {
    if value.referenced != value.defined {
        return None;
    }
    let span = value.defined.span();
    let skipped = if text.starts_with(BOM) { BOM.len() } else { 0 };
    let start = usize::try_from(span.byte_offset()?).ok()? + skipped;
    let end = start + usize::try_from(span.byte_len()?).ok()?;
    text.get(start..end).map(|_| start..end)
}

const BOM: &[u8] = b"\xef\xbb\xbf";

fn as_text(text: &[u8]) -> Result<&str, YamlError> {
    let text = text.strip_prefix(BOM).unwrap_or(text);
    std::str::from_utf8(text).map_err(|_| YamlError::NotText)
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! { with_snippet: false }
}

fn place(error: &serde_saphyr::Error) -> YamlError {
    match error.location() {
        Some(location) if location.line() > 0 => {
            YamlError::Invalid { line: location.line(), column: location.column() }
        }
        _ => YamlError::Unplaced,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{YamlError, list_at, parse, parse_all, text_at};

    #[test]
    fn an_error_tells_the_place_and_not_the_text() {
        let error = parse::<Value>(b"users:\n- name: x\n  user: {token: hunter2\n").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        assert!(matches!(error, YamlError::Invalid { line: 3.., .. }), "{error:?}");
    }

    #[test]
    fn scalars_read_as_text_whatever_their_type() {
        let value: Value = parse(b"a: 6443\nb: yes\nc: 'x'\nd: {e: [1]}\n").unwrap();
        assert_eq!(text_at(&value, &["a"]).as_deref(), Some("6443"));
        assert_eq!(text_at(&value, &["c"]).as_deref(), Some("x"));
        assert_eq!(list_at(&value, &["d", "e"]).len(), 1);
        assert_eq!(list_at(&value, &["nowhere"]).len(), 0);
    }

    #[test]
    fn several_documents_and_a_byte_order_mark_are_read() {
        let documents = parse_all(b"\xef\xbb\xbfkind: A\n---\nkind: B\n---\n").unwrap();
        assert_eq!(documents.len(), 2);
    }
}
