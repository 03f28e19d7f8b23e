//! First sight, change, vanishing and coming back, damage, and limits.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::catalogue::Listing;
use crate::tool_filter::ToolFilter;
use crate::transport::fuzz::{hostile_listings, listed_tools};
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
        let tools = tools.iter().map(|(name, text)| definition(name, text)).collect();
        let listed = ListedDefinitions { tools, ..ListedDefinitions::default() };
        let before = self.0.clone();
        let verdict = self.0.review_listing(&listed, prior, policy, now_ms);
        assert_eq!(verdict.edited, self.0 != before, "{verdict:?}");
        verdict
            .changes
            .into_iter()
            .map(|(item, lines)| format!("{}: {}", item.arguments(), lines.join(";")))
            .collect()
    }

    /// The tools whose changes were accepted.
    fn accept(&mut self, tool: Option<&str>) -> Vec<String> {
        let tool = tool.map(|name| PinnedItem::Tool(name.to_owned()));
        let accepted = self.0.accept(tool.as_ref(), 3);
        accepted.iter().map(PinnedItem::arguments).collect()
    }

    fn held_back(&self) -> Vec<&str> {
        self.0.tools.withheld.keys().map(String::as_str).collect()
    }
}

#[test]
fn what_is_the_same_is_no_change() {
    let mut server = Server::seen(&[("a", "x"), ("b", "y")]);
    for policy in [Announce, Quarantine] {
        assert_eq!(server.list(&[("b", "y"), ("a", "x")], policy), [""; 0]);
        assert_eq!(server.list(&[("a", "x")], policy), [""; 0]);
    }
    assert_eq!(server.held_back(), [""; 0]);
}

#[test]
fn what_is_new_is_a_change_once_the_server_is_known() {
    let mut server = Server::seen(&[("a", "x")]);
    assert_eq!(server.list(&[("a", "x"), ("b", "y")], Announce), ["b: it is new"]);
    assert_eq!(server.list(&[("a", "x"), ("b", "y")], Announce), [""; 0]);
    assert_eq!(server.accept(None), ["b"]);
    assert_eq!(server.0.tools.pins["b"].first_seen_ms, 2);

    let told = server.list(&[("a", "x"), ("b", "y"), ("c", "z")], Quarantine);
    assert_eq!(told, [r#"c: description is new: "z";name is new: "c""#]);
    assert_eq!(server.held_back(), ["c"]);
    assert_eq!(server.accept(Some("c")), ["c"]);
    assert_eq!(server.list(&[("a", "x"), ("c", "z")], Quarantine), [""; 0]);
}

/// One kind can be seen for the first time after another, and be away for a while.
#[test]
fn each_kind_is_pinned_when_it_is_first_seen() {
    let mut server = Server::seen(&[("a", "x")]);
    let listed = |prompts: Option<&[(&str, &str)]>, introduction: Option<&str>| {
        let prompt = |(name, text): &(&str, &str)| definition(name, text);
        ListedDefinitions {
            tools: vec![definition("a", "x")],
            prompts: prompts.map(|prompts| prompts.iter().map(prompt).collect()),
            introduction: introduction.map(|text| definition("s", text).1),
        }
    };
    let mut changes = |prompts: Option<&[(&str, &str)]>, introduction: Option<&str>| {
        let listed = listed(prompts, introduction);
        let verdict = server.0.review_listing(&listed, PriorPins::Known, Quarantine, 2);
        verdict.changes.into_iter().map(|(item, _)| item.arguments()).collect::<Vec<_>>()
    };

    assert_eq!(changes(None, None), [""; 0]);
    assert_eq!(changes(Some(&[]), Some("Be kind.")), [""; 0]);
    assert_eq!(changes(None, Some("Be kind.")), [""; 0]);
    assert_eq!(
        changes(Some(&[("p", "new")]), Some("Be evil.")),
        ["--prompt 'p'", "--introduction"]
    );
    assert_eq!(changes(None, None), [""; 0], "it still waits");
    let items = [PinnedItem::Prompt("p".to_owned()), PinnedItem::Introduction];
    assert_eq!(server.0.accept(None, 3), items);
    assert_eq!(server.0.accept(None, 3), []);
}

#[test]
fn an_announced_change_is_told_once_and_shown_until_it_is_accepted() {
    let mut server = Server::seen(&[("a", "x")]);
    let told = server.list(&[("a", "evil")], Announce);
    assert_eq!(told, [r#"a: description: "x" → "evil""#]);
    assert_eq!(server.list(&[("a", "evil")], Announce), [""; 0]);
    let changed = server.0.tools.pins["a"].changed.clone().expect("shown");
    assert_eq!((changed.at_ms, changed.difference.len()), (2, 1));
    assert_eq!(server.0.tools.pins["a"].first_seen_ms, 1, "the name is as old as before");
    assert_eq!(server.accept(Some("b")), [""; 0]);
    assert_eq!(server.accept(None), ["a"]);
    assert_eq!(server.0.tools.pins["a"].changed, None);
}

#[test]
fn a_quarantined_change_is_held_back_until_it_is_accepted() {
    let mut server = Server::seen(&[("a", "x"), ("b", "y")]);
    assert_eq!(server.list(&[("a", "evil"), ("b", "y")], Quarantine).len(), 1);
    assert_eq!(server.held_back(), ["a"]);
    assert_eq!(server.list(&[("a", "evil"), ("b", "y")], Quarantine), [""; 0], "no news");
    assert_eq!(server.accept(Some("a")), ["a"]);
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
    assert_eq!(server.accept(None), ["a", "late"]);
    assert_eq!(server.list(&[("a", "x"), ("late", "y")], Quarantine), [""; 0]);
    assert_eq!(server.held_back(), [""; 0]);

    let mut server = Server(PinDocument::new("s"));
    assert_eq!(server.list_at(&[("a", "x")], PriorPins::Lost, Announce, 1), [""; 0]);
    assert_eq!(server.0.tools.pins.len(), 1);
}

#[test]
fn names_that_find_no_room_are_not_let_in_by_quarantine() {
    let mut server = Server(PinDocument::new("s"));
    let names: Vec<String> = (0..PINS_MAX).map(|number| format!("t{number}")).collect();
    let tools: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    server.list_at(&tools, PriorPins::First, Quarantine, 1);
    let listed = ListedDefinitions {
        tools: vec![definition("one-more", "")],
        ..ListedDefinitions::default()
    };
    let verdict = server.0.clone().review_listing(&listed, PriorPins::Known, Announce, 2);
    assert_eq!((verdict.unpinned, verdict.changes.len()), (1, 0));
    let verdict = server.0.review_listing(&listed, PriorPins::Known, Quarantine, 2);
    assert_eq!((verdict.unpinned, verdict.changes.len()), (1, 1));
    assert_eq!(server.held_back(), ["one-more"]);
    assert_eq!(server.0.tools.pins.len(), PINS_MAX);
}

#[test]
fn only_so_many_bytes_of_vanished_tools_are_kept() {
    let big = "x".repeat(CATALOGUE_BYTES_MAX * 2 / 3);
    let mut server = Server::seen(&[("a", &big)]);
    server.list(&[("b", &big)], Announce);
    assert_eq!(server.0.tools.pins["a"].kept.definition, "");
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
        let changes = server.0.tools.pins.values().filter_map(|pin| pin.changed.as_ref());
        changes.filter(|changed| !changed.difference.is_empty()).count()
    };
    assert_eq!(kept(&server), DIFFERENCES_MAX);
    assert_eq!(server.list(&with("z"), Announce).len(), 300);
    assert!(kept(&server) <= 300);
}

/// What is pinned of a message of a server that lists tools.
fn definitions_in(message: &[u8]) -> Option<ListedDefinitions> {
    let filter = ToolFilter::new(None::<Vec<String>>, Vec::<String>::new());
    let mut listing = Listing::new(&filter);
    listing.add_page(listed_tools(message)?);
    let tools = listing.finish().take_definitions();
    Some(ListedDefinitions { tools, ..ListedDefinitions::default() })
}

proptest! {
    #[test]
    fn whatever_is_listed_is_pinned_once_and_read_back(
        first in hostile_listings(),
        second in hostile_listings(),
        policy in prop_oneof![Just(Announce), Just(Quarantine)],
    ) {
        let mut pins = PinDocument::new("s");
        for (message, prior) in [(first, PriorPins::First), (second, PriorPins::Known)] {
            let Some(listed) = definitions_in(&message) else { continue };
            pins.review_listing(&listed, prior, policy, 1);
            let text = serde_json::to_string(&pins).expect("it is JSON");
            let read: PinDocument = serde_json::from_str(&text).expect("a document");
            prop_assert_eq!(&read, &pins);

            let again = pins.review_listing(&listed, PriorPins::Known, policy, 2);
            prop_assert_eq!((again.changes.len(), again.edited), (0, false));
            pins.accept(None, 3);
            let accepted = pins.review_listing(&listed, PriorPins::Known, policy, 4);
            prop_assert_eq!((accepted.changes.len(), pins.tools.withheld.len()), (0, 0));
        }
    }
}
