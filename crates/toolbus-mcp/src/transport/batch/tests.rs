use super::{BATCH_MAX, Batch};

fn read(text: &str) -> Option<(Vec<String>, usize)> {
    let batch = Batch::read(text.as_bytes())?;
    let messages = batch.messages.iter().map(|message| message.get().to_owned());
    Some((messages.collect(), batch.length))
}

#[test]
fn only_arrays_are_batches() {
    assert_eq!(read(r#" [{"id": 1}, 2,[3]]"#).unwrap().0, [r#"{"id": 1}"#, "2", "[3]"]);
    assert_eq!(read("\u{feff}[1]").unwrap(), (vec!["1".to_owned()], 1));
    assert_eq!(read("[]").unwrap(), (Vec::new(), 0));
    for text in ["", "{}", r#"{"a": [1]}"#, "[1", "[1,]", "[1]]", &"[".repeat(100_000)] {
        assert_eq!(read(text), None, "{text}");
    }
}

#[test]
fn a_long_batch_is_taken_in_part() {
    let text = format!("[{}0]", "1,".repeat(1_000_000));
    let (messages, length) = read(&text).unwrap();
    assert_eq!((messages.len(), length), (BATCH_MAX, 1_000_001));
}
