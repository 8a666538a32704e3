//! Values in the JSON that runtimes' programs print.

use serde_json::Value;

/// A text, or nothing where it is absent or something else.
pub(super) fn text(value: &Value, path: &[&str]) -> String {
    at(value, path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The texts of a list, or none where it is absent or something else.
pub(super) fn texts(value: &Value, key: &str) -> Vec<String> {
    let items = value.get(key).and_then(Value::as_array);
    items.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// A number that is written as one or as a text: protobuf's JSON writes 64-bit numbers as texts.
pub(super) fn number(value: &Value, path: &[&str]) -> i64 {
    match at(value, path) {
        Some(Value::Number(number)) => number.as_i64().unwrap_or_default(),
        Some(Value::String(text)) => text.parse().unwrap_or_default(),
        _ => 0,
    }
}

/// A small number, as [`number`].
pub(super) fn count(value: &Value, path: &[&str]) -> u32 {
    u32::try_from(number(value, path)).unwrap_or_default()
}

fn at<'a>(value: &'a Value, path: &[&str]) -> Option<&'a Value> {
    path.iter().try_fold(value, |value, key| value.get(key))
}
