//! Amounts of cost reports, which come in cents.

use serde_json::{Map, Value, json};

/// Most digits of an amount that is read.
const DIGITS_MAX: usize = 30;

/// A report whose amounts of cents are amounts of US dollars, at every depth.
pub(super) fn in_dollars(value: Value) -> Value {
    match value {
        Value::Array(values) => Value::Array(values.into_iter().map(in_dollars).collect()),
        Value::Object(members) => {
            let cents = members.get("currency").and(members.get("amount")).and_then(cents_of);
            let mut converted: Map<String, Value> = members
                .into_iter()
                .filter(|(name, _)| cents.is_none() || name != "amount")
                .map(|(name, value)| (name, in_dollars(value)))
                .collect();
            if let Some(cents) = cents {
                converted.insert("amount_usd".to_owned(), json!(cents as f64 / 100.0));
            }
            Value::Object(converted)
        }
        plain => plain,
    }
}

/// Whole cents, with a half to the even one; `None` where it is no amount.
fn cents_of(amount: &Value) -> Option<i64> {
    let text = match amount {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.as_str()),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = !(whole.is_empty() && fraction.is_empty())
        && whole.len() + fraction.len() <= DIGITS_MAX
        && whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit());
    if !is_number {
        return None;
    }

    let cents: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let rest = fraction.trim_end_matches('0');
    let is_up = match rest.as_bytes() {
        [] | [b'0'..=b'4', ..] => false,
        [b'5'] => cents % 2 == 1,
        _ => true,
    };
    let cents = cents.checked_add(i64::from(is_up))?;
    Some(if is_negative { -cents } else { cents })
}

#[cfg(test)]
mod tests;
