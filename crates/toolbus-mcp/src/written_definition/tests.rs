use super::*;

/// A server decides how many members a definition has, and how many definitions there are.
#[test]
fn a_definition_of_many_members_is_written_in_one_pass() {
    const MEMBERS: usize = 20_000;

    let members: Vec<_> = (0..MEMBERS).map(|number| format!(r#""m{number}":1.50"#)).collect();
    let text = format!("{{{}}}", members.join(","));
    let written = RawJson::parse(text.clone()).expect("it is JSON");
    let read = WrittenDefinition::read(&written).expect("it is an object");
    assert_eq!(read.without(&[]).expect("it has members").text(), text);
}

#[test]
fn a_member_that_stands_twice_is_written_as_it_was_looked_through() {
    let written = RawJson::parse(r#"{"a":1.50,"b":[ ],"a":2.50}"#.to_owned()).expect("it is JSON");
    let mut read = WrittenDefinition::read(&written).expect("it is an object");
    let text = |json: Option<RawJson>| json.map(|json| json.text().to_owned());
    assert_eq!(text(read.written("a")).as_deref(), Some("2.5"));
    assert_eq!(text(read.take("b")).as_deref(), Some("[ ]"));
    assert_eq!(text(read.without(&["a"])), None);
}
