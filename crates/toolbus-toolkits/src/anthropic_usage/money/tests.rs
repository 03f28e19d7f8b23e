//! Cents and dollars.

use super::*;

#[test]
fn rule_17_halves_go_to_the_even_cent() {
    for (amount, usd) in [
        (json!("12.5"), json!(0.12)),
        (json!("13.5"), json!(0.14)),
        (json!("12.50001"), json!(0.13)),
        (json!(12.5), json!(0.12)),
        (json!(150), json!(1.5)),
        (json!("0"), json!(0.0)),
        (json!("-250.4"), json!(-2.5)),
        (json!(" 99 "), json!(0.99)),
        (json!("123456789.49"), json!(1234567.89)),
    ] {
        let found = in_dollars(json!({"amount": amount, "currency": "USD"}));
        assert_eq!(found, json!({"currency": "USD", "amount_usd": usd}), "{amount}");
    }
}

#[test]
fn mx_u4_only_objects_with_both_members_change() {
    let check = |value: Value, expected: Value| assert_eq!(in_dollars(value), expected);
    check(
        json!({"data": [{"results": [{"amount": "250", "currency": "USD", "model": "m"}]}], "amount": "1"}),
        json!({"data": [{"results": [{"currency": "USD", "model": "m", "amount_usd": 2.5}]}], "amount": "1"}),
    );
    for amount in ["", "x", "1e5", "1.2.3", "--1", ".", "9".repeat(40).as_str()] {
        let value = json!({"amount": amount, "currency": "USD"});
        check(value.clone(), value);
    }
    let other = json!({"amount": null, "currency": "USD"});
    check(other.clone(), other);
}
