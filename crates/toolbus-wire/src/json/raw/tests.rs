use super::*;

fn raw(text: &str) -> RawJson {
    RawJson::parse(text.to_owned()).unwrap()
}

#[test]
fn a_text_stays_as_it_was_written() {
    let text = r#"{"b":12345678901234567890123,"a":1.50,"é\u0041":[ ]}"#;
    let written = serde_json::to_string(&raw(text)).unwrap();
    assert_eq!(written, text);
    let read: RawJson = serde_json::from_str(&written).unwrap();
    assert_eq!(read, raw(text));
}

#[test]
fn what_is_most_of_a_text_shares_it() {
    let bytes = Bytes::from(format!(r#" {{"id":1,"large":"{}","small":[2]}} "#, "x".repeat(100)));
    let address = bytes.as_ptr().addr();
    let whole = RawJson::parse_bytes(bytes).unwrap();
    let large = whole.member("large").unwrap();
    assert_eq!(large.text(), format!("\"{}\"", "x".repeat(100)));
    assert_eq!(large.text().as_ptr().addr(), address + whole.text().find("\"x").unwrap() + 1);
    assert_eq!(whole.member("small"), Some(raw("[2]")));
    assert_eq!(
        (whole.text().len(), serde_json::to_string(&whole).unwrap()),
        (131, whole.text().to_owned())
    );

    let elsewhere: Box<RawValue> = serde_json::from_str("[3]").unwrap();
    assert_eq!(whole.part(&elsewhere).text(), "[3]");
    assert!(RawJson::parse_bytes(Bytes::from_static(b"\"\xff\"")).is_err());
}

#[test]
fn a_value_with_too_many_values_is_not_made() {
    assert_eq!(raw("[1,2]").to_value(3), Ok(serde_json::json!([1, 2])));
    assert_eq!(raw("[1,2,3]").to_value(3), Err(ValueError::TooMany { max: 3 }));
}

#[test]
fn what_no_value_can_hold_is_not_taken_for_nothing() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for text in [r#"["\ud800"]"#, &deep, "[1e999]"] {
        assert_eq!(raw(text).to_value(1_000), Err(ValueError::Unreadable), "{text}");
    }
}

#[test]
fn a_member_is_replaced_where_it_stands() {
    let object = raw(r#"{"a":1,"b":2,"a":3}"#);
    let with = |name, value: Option<&str>| {
        object.with_member(name, value.map(raw).as_ref()).text().to_owned()
    };
    assert_eq!(with("a", Some("9")), r#"{"a":9,"b":2}"#);
    assert_eq!(with("a", None), r#"{"b":2}"#);
    assert_eq!(with("c", Some("[1]")), r#"{"a":1,"b":2,"a":3,"c":[1]}"#);
    assert_eq!(raw("{}").with_member("a", None).text(), "{}");
    assert_eq!(raw("[1]").with_member("a", Some(&raw("1"))).text(), "[1]");
    assert_eq!(object.member("a"), Some(raw("1")));
    assert_eq!(RawJson::member_of(br#" {"a":1.50,"a":2} "#, "a"), Some(raw("1.50")));
    assert_eq!(RawJson::member_of(b"{\"a\":1", "a"), None);
}

#[test]
fn several_members_are_replaced_in_one_pass() {
    let object = raw(r#"{"a":1,"b":2,"a":3}"#);
    let (nine, list) = (raw("9"), raw("[1]"));
    let changes = [("a", Some(&nine)), ("c", None), ("d", Some(&list)), ("b", None)];
    assert_eq!(object.with_members(&changes).text(), r#"{"a":9,"d":[1]}"#);
    assert_eq!(object.with_members(&[]).text(), object.text());
    assert_eq!(raw("null").with_members(&changes).text(), "null");
}

#[test]
fn an_object_is_made_of_members() {
    let members = [("a\"", raw("1.50")), ("b", raw("{}"))];
    let made = RawJson::of_members(members.iter().map(|(name, value)| (name, value.as_raw())));
    assert_eq!(made.text(), r#"{"a\"":1.50,"b":{}}"#);
    assert_eq!(RawJson::of_members(std::iter::empty::<(&str, _)>()).text(), "{}");
}

#[test]
fn a_text_with_a_member_twice_means_no_value() {
    let value = serde_json::json!({"a": {"b": 2}});
    assert!(raw(r#"{"a": {"b": 2}}"#).means(&value));
    assert!(!raw(r#"{"a": {"b": 1, "b": 2}}"#).means(&value));
    assert!(!raw(r#"{"a": {"b": 1}}"#).means(&value));
}
