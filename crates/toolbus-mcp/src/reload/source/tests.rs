use super::*;

fn text(text: &str) -> Seen {
    Seen::Text(text.to_owned())
}

fn names(source: &Source) -> Vec<&str> {
    source.config.servers.iter().map(|entry| entry.name.as_str()).collect()
}

#[test]
fn what_makes_no_sense_changes_nothing() {
    let mut source = Source::of_agents(PathBuf::from("r.json"));
    assert!(!source.is_other(&Seen::Missing), "it need not be there");
    source.take(text(r#"{"mcpServers": {"a": {"url": "http://a/"}, "b": {"url": "http://b/"}}}"#));
    assert_eq!(names(&source), ["a", "b"]);
    let nonsense = [
        text(""),
        text("{"),
        text("[]"),
        text(r#"{"mcpServer": {}}"#),
        text(r#"{"mcpServers": []}"#),
        Seen::Missing,
        Seen::Unreadable(io::ErrorKind::PermissionDenied),
    ];
    for seen in nonsense {
        assert!(source.is_other(&seen));
        let again = match &seen {
            Seen::Text(said) => text(said),
            Seen::Missing => Seen::Missing,
            Seen::Unreadable(kind) => Seen::Unreadable(*kind),
        };
        source.take(seen);
        assert_eq!(names(&source), ["a", "b"]);
        assert!(!source.is_other(&again), "it is told once");
    }
    source.take(text(r#"{"mcpServers": {}}"#));
    assert_eq!(names(&source), [""; 0], "an empty list is one");
}

#[test]
fn agents_do_not_have_the_environment() {
    let said = r#"{"mcpServers": {"a": {"url": "http://a/", "headers": {"X": "${HOME}"}}}}"#;
    let mut of_agents = Source::of_agents(PathBuf::from("r.json"));
    of_agents.take(text(said));
    assert!(of_agents.config.servers.is_empty());
    let path = PathBuf::from("mcp.json");
    let mut of_operator = Source::of_operator(path, Seen::Missing, Config::default());
    of_operator.take(text(said));
    assert_eq!(names(&of_operator), ["a"]);
}
