use std::error::Error as _;

use serde_json::json;
use toolbus_wire::name::AgentName;

use super::*;
use crate::audience::Audience;
use crate::call::{Invocation, Output};
use crate::scope::{Door, Principal};
use crate::view::View;

fn nothing(_: Invocation) -> std::future::Ready<Result<Output, crate::CallError>> {
    std::future::ready(Ok(Output::default()))
}

fn tool(name: &str, source: &'static str) -> Tool {
    Tool::new(name, "does nothing", source)
}

fn scope(principal: Principal, view: View) -> Scope {
    Scope::new(Door::Turn, principal, AgentName::standard()).with_view(view)
}

fn names(registry: &Registry) -> Vec<String> {
    registry.snapshot().tools().iter().map(|entry| entry.tool.name.clone()).collect()
}

#[test]
fn a_name_that_is_taken_is_an_error_that_names_both_sources() {
    let registry = Registry::new();
    registry.register(tool("echo", "builtin"), nothing).unwrap();
    let error = registry.register(tool("echo", "mcp:everything"), nothing).unwrap_err();
    insta::assert_snapshot!(
        error,
        @"Tool 'echo' is already registered. It is from 'builtin', the new one from 'mcp:everything'"
    );
    assert_eq!(registry.find("echo").unwrap().tool.source, "builtin");
    assert_eq!(names(&registry), ["echo"]);
}

#[test]
fn an_alias_is_a_name() {
    let registry = Registry::new();
    registry.register(tool("list", "a").with_alias("List").with_alias("ls"), nothing).unwrap();
    for name in ["list", "List", "ls"] {
        assert_eq!(registry.find(name).unwrap().tool.name, "list");
    }
    assert_eq!(names(&registry), ["list"]);
    for taken in [
        tool("ls", "b"),
        tool("other", "b").with_alias("List"),
        tool("other", "b").with_alias("free").with_alias("list"),
    ] {
        let error = registry.register(taken, nothing).unwrap_err();
        assert!(matches!(error, Error::Duplicate { .. }), "{error}");
    }
    // What was refused has left nothing behind.
    assert!(registry.find("other").is_none() && registry.find("free").is_none());
}

#[test]
fn names_differ_by_case_and_by_nothing_else() {
    let registry = Registry::new();
    registry.register(tool("Echo", "a"), nothing).unwrap();
    for other in ["echo", "ECHO", " Echo", "Echo ", ""] {
        assert!(registry.find(other).is_none(), "{other}");
    }
    registry.register(tool("echo", "b"), nothing).unwrap();
    registry.register(tool("any text: \u{1F980}", "c"), nothing).unwrap();
    assert_eq!(registry.find("Echo").unwrap().tool.source, "a");
    assert_eq!(registry.find("any text: \u{1F980}").unwrap().tool.source, "c");
}

fn offers(names: &[&str]) -> Vec<Offer> {
    names.iter().map(|name| Offer::new(tool(name, "test"), nothing)).collect()
}

#[test]
fn what_a_provider_publishes_takes_the_place_of_what_it_had() {
    let registry = Arc::new(Registry::new());
    let provider = registry.provider("test");
    assert!(provider.publish(offers(&["c", "a", "d"])).is_empty());
    registry.register(tool("other", "other"), nothing).unwrap();
    let held = registry.find("a").unwrap();

    assert!(provider.publish(offers(&["d", "c", "b"])).is_empty());
    assert_eq!(names(&registry), ["c", "d", "other", "b"], "what stays keeps its place");
    assert!(registry.find("a").is_none());
    assert_eq!(held.tool.source, "test", "whoever holds a tool goes on");

    drop(provider);
    assert_eq!(names(&registry), ["other"]);
}

#[test]
fn a_tool_that_changes_keeps_its_place_and_frees_its_old_names() {
    let registry = Arc::new(Registry::new());
    let provider = registry.provider("test");
    let first = Offer::new(tool("a", "test").with_alias("A"), nothing);
    assert!(provider.publish(vec![first, offers(&["b"]).remove(0)]).is_empty());
    let before = registry.find("a").unwrap().definition.clone();

    let mut changed = tool("a", "test").with_alias("aa");
    changed.description = "does something".to_owned();
    assert!(
        provider.publish(vec![Offer::new(changed, nothing), offers(&["b"]).remove(0)]).is_empty()
    );
    assert_eq!(names(&registry), ["a", "b"]);
    assert!(registry.find("A").is_none() && registry.find("aa").is_some());
    assert_ne!(registry.find("a").unwrap().definition, before);
}

#[test]
fn what_cannot_be_registered_is_told_and_the_rest_is_there() {
    let registry = Arc::new(Registry::new());
    registry.register(tool("taken", "other"), nothing).unwrap();
    let provider = registry.provider("test");
    let mut all = offers(&["a", "taken", "", "b"]);
    all.push(Offer::new(tool("bad", "test").with_parameters(json!({"type": "objekt"})), nothing));
    let errors: Vec<_> = provider.publish(all).into_iter().map(|(name, _)| name).collect();
    assert_eq!(errors, ["", "bad", "taken"]);
    assert_eq!(names(&registry), ["taken", "a", "b"]);
    assert_eq!(registry.find("taken").unwrap().tool.source, "other");
}

#[test]
fn only_what_can_be_seen_is_a_change() {
    let registry = Arc::new(Registry::new());
    let changes = registry.changes();
    let provider = registry.provider("test");
    assert!(provider.publish(offers(&["a"])).is_empty());
    assert_eq!(*changes.borrow(), 1);
    assert!(provider.publish(offers(&["a"])).is_empty());
    assert_eq!(*changes.borrow(), 1, "nothing was different");

    provider.set_state(ToolState::Away);
    provider.set_state(ToolState::Away);
    assert_eq!((*changes.borrow(), registry.snapshot().revision()), (2, 2));
    assert_eq!(registry.find("a").unwrap().state, ToolState::Away);
    assert!(provider.publish(offers(&["a"])).is_empty());
    assert_eq!(registry.find("a").unwrap().state, ToolState::Available);
    assert_eq!(*changes.borrow(), 3);
}

#[test]
fn a_snapshot_never_changes() {
    let registry = Arc::new(Registry::new());
    let provider = registry.provider("test");
    assert!(provider.publish(offers(&["a"])).is_empty());
    let snapshot = registry.snapshot();
    assert!(provider.publish(offers(&["b"])).is_empty());
    assert!(snapshot.find("a").is_some() && snapshot.find("b").is_none());
    assert!(snapshot.revision() < registry.snapshot().revision());
}

#[tokio::test]
async fn a_tool_is_waited_for_until_it_is_there() {
    let registry = Arc::new(Registry::new());
    let provider = registry.provider("test");
    let waiting = registry.wait_until(|tools| tools.find("a").is_some());
    let publishing = async { provider.publish(offers(&["a"])) };
    let ((), errors) = tokio::join!(waiting, publishing);
    assert!(errors.is_empty());
}

#[test]
fn a_view_hides_tools_from_the_list() {
    let registry = Registry::new();
    registry.register(tool("a", "mcp:x"), nothing).unwrap();
    registry.register(tool("b", "mcp:y"), nothing).unwrap();
    let snapshot = registry.snapshot();
    let scope = scope(Principal::local(), View::all().only(["mcp:y/*"]));
    let seen: Vec<_> = snapshot.seen_by(&scope).map(|entry| entry.tool.name.as_str()).collect();
    assert_eq!(seen, ["b"]);
}

#[test]
fn a_tool_is_seen_by_its_audience_alone() {
    let registry = Registry::new();
    let local_alone = Audience::only(|principal| *principal == Principal::local());
    registry.register(tool("mail", "google").for_audience(local_alone), nothing).unwrap();
    registry.register(tool("web", "web"), nothing).unwrap();

    let snapshot = registry.snapshot();
    let check = |principal: Principal, expected: &[&str], nearest: Option<&str>| {
        let scope = scope(principal, View::all());
        let seen: Vec<_> = snapshot.seen_by(&scope).map(|entry| &*entry.tool.name).collect();
        assert_eq!(seen, expected, "{scope:?}");
        assert_eq!(snapshot.nearest("mial", &scope), nearest, "{scope:?}");
        let subject = snapshot.find("mail").unwrap().subject();
        assert_eq!(scope.sees(&subject), nearest.is_some(), "{scope:?}");
    };
    check(Principal::local(), &["mail", "web"], Some("mail"));
    check(Principal::claimed("local"), &["web"], None);
}

/// A tool that is called otherwise here than where it is from is seen as what it is there.
#[test]
fn a_view_goes_by_what_a_tool_is_and_not_by_what_it_is_called() {
    let registry = Arc::new(Registry::new());
    let provider = registry.provider("mcp:github");
    let offer = |tool_name: &str, digest: &str| {
        let id = ToolId::of("mcp:github", tool_name);
        let tool = tool(&format!("github__{tool_name}"), "mcp:github");
        Offer::new(tool, nothing).with_identity(id, Some(DefinitionDigest::from_text(digest)))
    };
    let offers = |digest| vec![offer("delete_repo", digest), offer("create_issue", digest)];
    let seen = |view: View| -> Vec<String> {
        let snapshot = registry.snapshot();
        let scope = scope(Principal::local(), view);
        snapshot.seen_by(&scope).map(|entry| entry.tool.name.clone()).collect()
    };

    // The second time the tools are the same, and one digest is another.
    for digest in ["old", "new"] {
        assert!(provider.publish(offers(digest)).is_empty());
        let entry = registry.find("github__delete_repo").unwrap();
        let subject = entry.subject();
        assert_eq!(subject.id.as_str(), "mcp:github/delete_repo");
        assert_eq!(subject.definition.unwrap().to_string(), digest);
        let all = View::all();
        assert_eq!(seen(all.without(["mcp:github/delete_repo"])), ["github__create_issue"]);
        assert_eq!(seen(all.only(["mcp:github/create_issue"])), ["github__create_issue"]);
    }
    assert_eq!(registry.snapshot().revision(), 1, "nobody could see a difference");

    let renamed = Offer::new(tool("github__delete_repo", "mcp:github"), nothing);
    assert!(provider.publish(vec![renamed]).is_empty());
    let entry = registry.find("github__delete_repo").unwrap();
    assert_eq!(entry.id.as_str(), "mcp:github/github__delete_repo");
    assert_eq!(registry.snapshot().revision(), 2);
}

#[test]
fn a_schema_that_cannot_be_used_may_be_left_out() {
    let registry = Arc::new(Registry::new());
    let provider = registry.provider("test");
    let bad = || tool("bad", "test").with_parameters(json!({"type": "objekt"}));
    let offers = || vec![Offer::new(bad(), nothing).or_any_object()];
    for _ in 0..2 {
        assert!(provider.publish(offers()).is_empty());
        assert_eq!(registry.find("bad").unwrap().tool.parameters, json!({"type": "object"}));
        assert_eq!(registry.snapshot().revision(), 1);
    }
}

#[test]
fn a_large_offer_that_is_published_again_keeps_its_place_among_others() {
    const EACH: usize = 1_000;
    let registry = Arc::new(Registry::new());
    let (first, middle, last) =
        (registry.provider("first"), registry.provider("middle"), registry.provider("last"));
    let offers = |of: &'static str, description: &'static str, numbers: std::ops::Range<usize>| {
        let offer = move |number| {
            let tool = Tool::new(format!("{of}{number}"), description, of);
            Offer::new(tool.with_alias(format!("{of}-{number}")), nothing)
        };
        numbers.map(offer).collect::<Vec<_>>()
    };
    for provider in [&first, &middle, &last] {
        let of = ["first", "middle", "last"].into_iter().find(|of| **of == *provider.name);
        assert!(provider.publish(offers(of.unwrap(), "old", 0..EACH)).is_empty());
    }
    let before = names(&registry);

    assert!(middle.publish(offers("middle", "new", 0..EACH)).is_empty());
    assert_eq!(names(&registry), before);
    assert!(first.publish(offers("first", "old", EACH / 2..EACH)).is_empty());
    assert_eq!(names(&registry), before[EACH / 2..]);
    for entry in registry.snapshot().tools() {
        for name in [&entry.tool.name, &entry.tool.aliases[0]] {
            assert!(Arc::ptr_eq(&registry.find(name).unwrap(), entry), "{name}");
        }
        let is_new = entry.tool.source == "middle";
        assert_eq!(entry.tool.description, if is_new { "new" } else { "old" });
    }
    assert!(registry.find("first-0").is_none());
}

#[test]
fn a_tool_that_cannot_be_called_is_refused() {
    let registry = Registry::new();
    let error = registry.register(tool("", "mcp:odd"), nothing).unwrap_err();
    insta::assert_snapshot!(error, @"a tool from 'mcp:odd' has no name");
    let bad = tool("bad", "mcp:odd").with_parameters(json!({"type": "objekt"}));
    let error = registry.register(bad, nothing).unwrap_err();
    insta::assert_snapshot!(error, @"the schema of tool 'bad' cannot be used");
    assert!(error.source().is_some());
    assert!(registry.snapshot().tools().is_empty());
}

#[test]
fn a_registry_is_bounded() {
    let registry = Arc::new(Registry::new());
    let provider = registry.provider("test");
    let all: Vec<_> = (0..TOOLS_MAX).map(|number| number.to_string()).collect();
    let all: Vec<_> = all.iter().map(String::as_str).collect();
    assert!(provider.publish(offers(&all)).is_empty());
    let error = registry.register(tool("one more", "test"), nothing).unwrap_err();
    assert!(matches!(error, Error::Full), "{error}");
    assert!(provider.publish(offers(&all[1..])).is_empty());
    registry.register(tool("one more", "test"), nothing).unwrap();
}
