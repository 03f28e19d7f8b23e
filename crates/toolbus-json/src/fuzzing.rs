//! The parsers of this crate as targets of a fuzzer.

use serde_json::Value;

use crate::{DEPTH_MAX, Limits, OverLimit, count_values, from_slice, from_str};

/// What a text may have here: little, so that inputs exceed it.
const LIMITS: Limits = Limits { bytes: 4 << 10, values: 100, depth: 8, string_bytes: 64 };

/// Reads bytes as JSON. Asserts that no more is built of them than was counted, and that what is
/// read keeps the limits.
pub fn values(bytes: &[u8]) {
    let counted = count_values(bytes);
    let exact =
        Limits { bytes: bytes.len(), values: counted, depth: usize::MAX, string_bytes: usize::MAX };
    if let Err(over) = exact.check(bytes) {
        assert_eq!(over, OverLimit::ReservedName);
        assert!(from_slice::<Value>(bytes, &exact).is_err());
        return;
    }
    if !bytes.is_empty() {
        let max = counted - 1;
        assert_eq!(exact.with_values(max).check(bytes), Err(OverLimit::Values { max }));
    }

    let read: Option<Value> = from_slice(bytes, &exact).ok();
    if let Some(read) = &read {
        let (values, depth) = measure(read);
        assert!(values <= counted, "{values} values, of which {counted} were counted");
        assert!(depth <= DEPTH_MAX, "a depth of {depth}");
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        assert_eq!(from_str(text, &exact).ok(), read);
    }

    if let Ok(read) = from_slice::<Value>(bytes, &LIMITS) {
        let (values, depth) = measure(&read);
        assert!(values <= LIMITS.values && depth <= LIMITS.depth, "{values} values, {depth} deep");
    }
}

/// How many values there are, and how deep they are nested.
fn measure(value: &Value) -> (usize, usize) {
    let parts: Vec<&Value> = match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(members) => members.values().collect(),
        _ => return (1, 0),
    };
    parts.into_iter().map(measure).fold((1, 1), |(values, depth), (of_part, depth_of_part)| {
        (values + of_part, depth.max(depth_of_part + 1))
    })
}
