//! Canonical JSON: one text for each value, so that two values are equal just when their texts are.
//!
//! It is RFC 8785 (JCS): no blanks, members sorted by the UTF-16 units of their names, strings with
//! the fewest escapes, numbers as ECMAScript writes them. It differs in one place: an integer below
//! 10²¹ is written with all its digits. The RFC reads every number as a double, to which
//! 9007199254740993 and 9007199254740992 are the same; a tool that is sent the one would run with
//! what was approved for the other.

use std::fmt::Write as _;

use serde_json::{Map, Number, Value};

/// From here on ECMAScript writes numbers with an exponent.
const EXPONENT_MIN: f64 = 1e21;

/// The canonical text of a value.
#[must_use]
pub fn canonical_text(value: &Value) -> String {
    let mut text = String::new();
    write_value(&mut text, value);
    text
}

fn write_value(text: &mut String, value: &Value) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(true) => text.push_str("true"),
        Value::Bool(false) => text.push_str("false"),
        Value::Number(number) => write_number(text, number),
        Value::String(string) => write_string(text, string),
        Value::Array(values) => {
            text.push('[');
            for (at, value) in values.iter().enumerate() {
                if at > 0 {
                    text.push(',');
                }
                write_value(text, value);
            }
            text.push(']');
        }
        Value::Object(members) => write_members(text, members),
    }
}

fn write_members(text: &mut String, members: &Map<String, Value>) {
    let mut sorted: Vec<_> = members.iter().collect();
    sorted.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));

    text.push('{');
    for (at, (name, value)) in sorted.into_iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        write_string(text, name);
        text.push(':');
        write_value(text, value);
    }
    text.push('}');
}

fn write_string(text: &mut String, string: &str) {
    text.push('"');
    for c in string.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\u{8}' => text.push_str("\\b"),
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '\u{c}' => text.push_str("\\f"),
            '\r' => text.push_str("\\r"),
            '\0'..='\u{1f}' => {
                let _ = write!(text, "\\u{:04x}", u32::from(c));
            }
            _ => text.push(c),
        }
    }
    text.push('"');
}

fn write_number(text: &mut String, number: &Number) {
    let written = match (number.as_i64(), number.as_u64(), number.as_f64()) {
        (Some(integer), _, _) => write!(text, "{integer}"),
        (_, Some(integer), _) => write!(text, "{integer}"),
        (_, _, Some(float)) if float.fract() == 0.0 && float.abs() < EXPONENT_MIN => {
            // Exact: such a double is an integer, and below 2^127.
            #[expect(clippy::cast_possible_truncation, reason = "it is below 10^21")]
            let integer = float as i128;
            write!(text, "{integer}")
        }
        (_, _, Some(float)) => {
            write_float(text, float, &number.to_string());
            Ok(())
        }
        (None, None, None) => write!(text, "{number}"),
    };
    // A string takes everything.
    let _ = written;
}

/// Writes a number that is no integer below [`EXPONENT_MIN`], as `Number::toString` of ECMAScript
/// does. `shortest` is what serde_json writes: the fewest digits that are read as the same number,
/// and of two such numbers that are as near the even one, as in ECMAScript. What the standard
/// library writes is the other one at times.
fn write_float(text: &mut String, float: f64, shortest: &str) {
    let shortest = shortest.trim_start_matches('-');
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((shortest, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = [whole, fraction].concat();
    let digits = all.trim_start_matches('0');
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let zeros = all.len() - digits.len();
    let digits = digits.trim_end_matches('0');
    if float < 0.0 {
        text.push('-');
    }

    // Where the decimal point stands, counted from before the first digit.
    let places = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    let point = exponent + places(whole.len()) - places(zeros);
    match usize::try_from(point) {
        Ok(point) if point > 0 && point <= 21 => {
            // It has a fraction, so there are digits behind the point.
            let (whole, fraction) = digits.split_at(point.min(digits.len()));
            let _ = write!(text, "{whole}.{fraction}");
        }
        _ if (-5..=0).contains(&point) => {
            text.push_str("0.");
            (point..0).for_each(|_| text.push('0'));
            text.push_str(digits);
        }
        _ => {
            let (first, rest) = digits.split_at(1);
            text.push_str(first);
            if !rest.is_empty() {
                let _ = write!(text, ".{rest}");
            }
            let _ = write!(text, "e{exponent:+}");
        }
    }
}

#[cfg(test)]
mod tests;
