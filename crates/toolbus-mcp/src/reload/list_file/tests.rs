use super::*;

fn text(text: &str) -> ListContent {
    ListContent::Text(text.to_owned())
}

fn names(source: &ListFile) -> Vec<&str> {
    source.config.servers.iter().map(|entry| entry.name.as_str()).collect()
}

#[test]
fn what_makes_no_sense_changes_nothing() {
    let mut source = ListFile::of_agents(PathBuf::from("r.json"));
    assert!(!source.differs_from(&ListContent::Missing), "it need not be there");
    source.update_from(text(
        r#"{"mcpServers": {"a": {"url": "http://a/"}, "b": {"url": "http://b/"}}}"#,
    ));
    assert_eq!(names(&source), ["a", "b"]);
    let nonsense = [
        text(""),
        text("{"),
        text("[]"),
        text(r#"{"mcpServer": {}}"#),
        text(r#"{"mcpServers": []}"#),
        ListContent::Missing,
        ListContent::Unreadable(io::ErrorKind::PermissionDenied),
    ];
    for seen in nonsense {
        assert!(source.differs_from(&seen));
        let again = match &seen {
            ListContent::Text(said) => text(said),
            ListContent::Missing => ListContent::Missing,
            ListContent::Unreadable(kind) => ListContent::Unreadable(*kind),
        };
        source.update_from(seen);
        assert_eq!(names(&source), ["a", "b"]);
        assert!(!source.differs_from(&again), "it is told once");
    }
    source.update_from(text(r#"{"mcpServers": {}}"#));
    assert_eq!(names(&source), [""; 0], "an empty list is one");
}

#[test]
fn agents_do_not_have_the_environment() {
    let said = r#"{"mcpServers": {"a": {"url": "http://a/", "headers": {"X": "${HOME}"}}}}"#;
    let mut of_agents = ListFile::of_agents(PathBuf::from("r.json"));
    of_agents.update_from(text(said));
    assert!(of_agents.config.servers.is_empty());
    let path = PathBuf::from("mcp.json");
    let mut of_operator = ListFile::operators(path, ListContent::Missing, Config::default());
    of_operator.update_from(text(said));
    assert_eq!(names(&of_operator), ["a"]);
}
