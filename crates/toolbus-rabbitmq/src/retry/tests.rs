use lapin::types::FieldTable;

use super::*;

#[test]
fn a_delay_is_rounded_up_to_one_of_a_few() {
    let check = |after_ms, expected_ms| {
        let delay = delay(Duration::from_millis(after_ms));
        assert_eq!(delay, Duration::from_millis(expected_ms), "after {after_ms} ms");
    };
    check(0, 100);
    check(100, 100);
    check(101, 250);
    check(700, 1_000);
    check(5_000, 5_000);
    check(61_000, 120_000);
    check(86_400_001, 86_400_000);
    assert_eq!(delay(Duration::MAX), DELAY_MAX);
    assert!(DELAYS_MS.is_sorted());
    assert_eq!(DELAYS_MS.last().map(|ms| Duration::from_millis(*ms)), Some(DELAY_MAX));
}

#[test]
fn a_message_remembers_what_its_retry_queue_would_make_it_forget() {
    let mut headers = FieldTable::default();
    headers.insert("rb-source".into(), long("agent"));
    headers.insert("x-death".into(), long("of the last time"));
    headers.insert("x-first-death-queue".into(), long("of the last time"));
    let received = BasicProperties::default()
        .with_headers(headers)
        .with_message_id("m".into())
        .with_expiration("60000".into());

    let expiration = Some(Duration::from_secs(60));
    let kept = properties(&received, "tool.invoke", 2, expiration);
    assert_eq!(kept.message_id(), received.message_id());
    assert_eq!(kept.delivery_mode(), &Some(2));
    assert_eq!(kept.expiration(), &None, "its own expiry would end its wait");
    let memo = Memo { attempt: Some(2), topic: Some("tool.invoke".into()), expiration };
    assert_eq!(Memo::of(&kept), memo);

    let again = properties(&kept, "tool.invoke", 3, None);
    assert_eq!(Memo::of(&again).attempt, Some(3));
    assert_eq!(Memo::of(&again).expiration, expiration);
    let mut left = again.headers().clone().unwrap().inner().clone();
    forget(&mut left);
    assert_eq!(left.keys().map(|name| name.as_str()).collect::<Vec<_>>(), ["rb-source"]);
}

#[test]
fn what_a_stranger_writes_there_is_no_memo() {
    assert_eq!(Memo::of(&BasicProperties::default()), Memo::default());
    let mut headers = FieldTable::default();
    headers.insert(ATTEMPT.into(), AMQPValue::LongInt(3));
    headers.insert(TOPIC.into(), AMQPValue::LongString(b"\xff\xfe"[..].into()));
    headers.insert(EXPIRATION.into(), long("soon"));
    let properties = BasicProperties::default().with_headers(headers);
    assert_eq!(Memo::of(&properties), Memo::default());
}
