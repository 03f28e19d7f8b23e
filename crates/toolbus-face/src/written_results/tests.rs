use super::*;

fn raw(text: &str) -> RawJson {
    RawJson::parse(text.to_owned()).unwrap()
}

fn event(meta: &MetaObject, members: &str) -> Bytes {
    let meta = serde_json::to_string(meta).unwrap();
    format!(
        "data: {{\"jsonrpc\":\"2.0\",\"id\":\"\\\"result\\\":{{}}\",\"result\":{{\"content\":[],\"_meta\":{meta}{members}}}}}\nid: 3\n\n"
    )
    .into()
}

fn filled(event: &Bytes, slot: &ResultSlot, recent: Option<&RecentResults>) -> String {
    let parts = fill_event(event.clone(), slot, recent);
    String::from_utf8(parts.concat()).unwrap()
}

#[test]
fn a_result_is_put_where_its_stand_in_is() {
    let slot = ResultSlot::default();
    let result = r#"{"content":[],"structuredContent":12345678901234567890123}"#;
    let meta = slot.keep(raw(result));
    let head = "data: {\"jsonrpc\":\"2.0\",\"id\":\"\\\"result\\\":{}\",\"result\":";
    assert_eq!(filled(&event(&meta, ""), &slot, None), format!("{head}{result}}}\nid: 3\n\n"));

    let other = Bytes::from("data: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n");
    assert_eq!(filled(&other, &slot, None).as_bytes(), other);
}

#[test]
fn a_result_has_the_members_of_its_client_s_era() {
    let slot = ResultSlot::default();
    let newer = r#","resultType":"complete","ttlMs":0"#;
    let meta = slot.keep(raw("{\"a\":1,\n\"ttlMs\":5}"));
    let text = filled(&event(&meta, newer), &slot, None);
    assert!(text.contains(r#"{"a":1,"ttlMs":5,"resultType":"complete"}"#), "{text}");

    let meta = slot.keep(raw(r#"{"resultType":"complete","a":1,"ttlMs":5}"#));
    let text = filled(&event(&meta, ""), &slot, None);
    assert!(text.contains(r#""result":{"a":1,"ttlMs":5}"#), "{text}");
}

#[test]
fn what_is_sent_again_is_found_while_there_is_room() {
    let (slot, recent) = (ResultSlot::default(), RecentResults::default());
    let first = event(&slot.keep(raw(r#"{"a":1}"#)), "");
    assert!(filled(&first, &slot, Some(&recent)).contains(r#"{"a":1}"#));
    let later = ResultSlot::default();
    assert!(filled(&first, &later, Some(&recent)).contains(r#"{"a":1}"#));

    let large = format!(r#"{{"a":"{}"}}"#, "x".repeat(RECENT_BYTES_MAX - 4));
    let second = event(&slot.keep(raw(&large)), "");
    assert!(filled(&second, &slot, Some(&recent)).contains(&large));
    assert!(filled(&first, &later, Some(&recent)).contains("no longer kept"));
}
