use super::*;

#[test]
fn names_are_bounded_where_they_come_in() {
    let longest = "x".repeat(ID_BYTES_MAX);
    assert_eq!(ToolName::parse(&longest).unwrap().as_str(), longest);
    let error = ToolName::parse("x".repeat(ID_BYTES_MAX + 1)).unwrap_err();
    assert_eq!(error.to_string(), "a tool name of 257 bytes is over the limit of 256");
    assert!(ToolId::parse("a\u{1b}[2J").is_err());
    // Peers send any text, and get it back.
    assert!(CallId::parse("\u{1}\n of a peer").is_ok());
    assert!(ToolName::parse("\u{1}\n of a peer").is_ok());
    assert_eq!(ToolId::of("mcp:x", &"y".repeat(1_000)).as_str().len(), ID_BYTES_MAX);
}

#[test]
fn a_session_is_segments_of_plain_characters() {
    for text in ["session/abc", "blazor-session", "patrol/a.b/c_1", "user@example.org", "größe/1"]
    {
        assert_eq!(SessionId::parse(text).unwrap().as_str(), text);
    }
    for text in ["", "/", "a//b", "a/", "/a", "a/../b", ".", "a b", "a\nb", "a\\b", "a/*"] {
        assert!(SessionId::parse(text).is_err(), "{text:?}");
    }
}
