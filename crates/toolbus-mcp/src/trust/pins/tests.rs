//! First sight, change, vanishing and coming back, damage, and limits.

use serde_json::json;

use super::*;
use ToolChanges::{Announce, Quarantine};

fn definition(name: &str, description: &str) -> (String, Definition) {
    let members = json!({"name": name, "description": description});
    let members = members.as_object().expect("an object").clone();
    (name.to_owned(), Definition::new(members))
}

struct Server(PinDocument);

impl Server {
    fn seen(tools: &[(&str, &str)]) -> Self {
        let mut server = Self(PinDocument::new("s"));
        assert_eq!(server.list_at(tools, PriorPins::First, Announce, 1), [""; 0]);
        server
    }

    fn list(&mut self, tools: &[(&str, &str)], policy: ToolChanges) -> Vec<String> {
        self.list_at(tools, PriorPins::Known, policy, 2)
    }

    fn list_at(
        &mut self,
        tools: &[(&str, &str)],
        prior: PriorPins,
        policy: ToolChanges,
        now_ms: u64,
    ) -> Vec<String> {
        let listed: Vec<_> = tools.iter().map(|(name, text)| definition(name, text)).collect();
        let before = self.0.clone();
        let verdict = self.0.review_listing(&listed, prior, policy, now_ms);
        assert_eq!(verdict.edited, self.0 != before, "{verdict:?}");
        verdict
            .changes
            .into_iter()
            .map(|(tool, lines)| format!("{tool}: {}", lines.join(";")))
            .collect()
    }

    fn held_back(&self) -> Vec<&str> {
        self.0.withheld.keys().map(String::as_str).collect()
    }
}

#[test]
fn what_is_the_same_and_what_is_new_is_no_change() {
    let mut server = Server::seen(&[("a", "x"), ("b", "y")]);
    for policy in [Announce, Quarantine] {
        assert_eq!(server.list(&[("b", "y"), ("a", "x")], policy), [""; 0]);
        assert_eq!(server.list(&[("a", "x"), ("c", "z")], policy), [""; 0]);
    }
    assert_eq!(server.0.tools["c"].first_seen_ms, 2);
    assert_eq!(server.held_back(), [""; 0]);
}

#[test]
fn an_announced_change_is_told_once_and_shown_until_it_is_accepted() {
    let mut server = Server::seen(&[("a", "x")]);
    let told = server.list(&[("a", "evil")], Announce);
    assert_eq!(told, [r#"a: description: "x" → "evil""#]);
    assert_eq!(server.list(&[("a", "evil")], Announce), [""; 0]);
    let changed = server.0.tools["a"].changed.clone().expect("shown");
    assert_eq!((changed.at_ms, changed.difference.len()), (2, 1));
    assert_eq!(server.0.tools["a"].first_seen_ms, 1, "the name is as old as before");
    assert_eq!(server.0.accept(Some("b"), 3), [""; 0]);
    assert_eq!(server.0.accept(None, 3), ["a"]);
    assert_eq!(server.0.tools["a"].changed, None);
}

#[test]
fn a_quarantined_change_is_held_back_until_it_is_accepted() {
    let mut server = Server::seen(&[("a", "x"), ("b", "y")]);
    assert_eq!(server.list(&[("a", "evil"), ("b", "y")], Quarantine).len(), 1);
    assert_eq!(server.held_back(), ["a"]);
    assert_eq!(server.list(&[("a", "evil"), ("b", "y")], Quarantine), [""; 0], "no news");
    assert_eq!(server.0.accept(Some("a"), 3), ["a"]);
    // What waited is accepted, not what comes after it.
    assert_eq!(server.list(&[("a", "worse"), ("b", "y")], Quarantine).len(), 1);
    assert_eq!(server.held_back(), ["a"]);
    assert_eq!(server.list(&[("a", "evil"), ("b", "y")], Quarantine), [""; 0], "it went back");
    assert_eq!(server.held_back(), [""; 0]);
}

#[test]
fn a_tool_that_comes_back_as_another_is_a_change() {
    let mut server = Server::seen(&[("a", "x"), ("b", "y")]);
    server.list(&[("b", "y")], Quarantine);
    server.list(&[], Quarantine);
    assert_eq!(server.list(&[("a", "evil")], Quarantine).len(), 1);
    assert_eq!(server.held_back(), ["a"]);
    server.list(&[], Quarantine);
    assert_eq!(server.held_back(), [""; 0], "gone again");
    assert_eq!(server.list(&[("a", "evil"), ("b", "z")], Announce).len(), 2);
}

#[test]
fn lost_pins_vouch_for_nothing_where_that_matters() {
    let mut server = Server(PinDocument::new("s"));
    assert_eq!(server.list_at(&[("a", "x")], PriorPins::Lost, Quarantine, 1).len(), 1);
    server.list(&[("a", "x"), ("late", "y")], Quarantine);
    assert_eq!(server.held_back(), ["a", "late"]);
    assert_eq!(server.0.accept(None, 3), ["a", "late"]);
    assert_eq!(server.list(&[("a", "x"), ("new", "y")], Quarantine), [""; 0]);
    assert_eq!(server.held_back(), [""; 0]);

    let mut server = Server(PinDocument::new("s"));
    assert_eq!(server.list_at(&[("a", "x")], PriorPins::Lost, Announce, 1), [""; 0]);
    assert_eq!(server.0.tools.len(), 1);
}

#[test]
fn names_that_find_no_room_are_not_let_in_by_quarantine() {
    let mut server = Server(PinDocument::new("s"));
    let names: Vec<String> = (0..PINS_MAX).map(|number| format!("t{number}")).collect();
    let tools: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    server.list_at(&tools, PriorPins::First, Quarantine, 1);
    let listed = [definition("one-more", "")];
    let verdict = server.0.clone().review_listing(&listed, PriorPins::Known, Announce, 2);
    assert_eq!((verdict.unpinned, verdict.changes.len()), (1, 0));
    let verdict = server.0.review_listing(&listed, PriorPins::Known, Quarantine, 2);
    assert_eq!((verdict.unpinned, verdict.changes.len()), (1, 1));
    assert_eq!(server.held_back(), ["one-more"]);
    assert_eq!(server.0.tools.len(), PINS_MAX);
}

#[test]
fn only_so_many_bytes_of_vanished_tools_are_kept() {
    let big = "x".repeat(CATALOGUE_BYTES_MAX * 2 / 3);
    let mut server = Server::seen(&[("a", &big)]);
    server.list(&[("b", &big)], Quarantine);
    assert_eq!(server.0.tools["a"].kept.definition, "");
    let told = server.list(&[("a", "evil")], Quarantine);
    assert_eq!(told, ["a: its definition; the former one was too much to keep"]);
}

#[test]
fn only_so_many_differences_are_kept() {
    let names: Vec<String> = (0..300).map(|number| format!("t{number}")).collect();
    let with = |text| names.iter().map(|name| (name.as_str(), text)).collect::<Vec<_>>();
    let mut server = Server::seen(&with("x"));
    assert_eq!(server.list(&with("y"), Announce).len(), 300);
    let kept = |server: &Server| {
        let changes = server.0.tools.values().filter_map(|pin| pin.changed.as_ref());
        changes.filter(|changed| !changed.difference.is_empty()).count()
    };
    assert_eq!(kept(&server), DIFFERENCES_MAX);
    assert_eq!(server.list(&with("z"), Announce).len(), 300);
    assert!(kept(&server) <= 300);
}
