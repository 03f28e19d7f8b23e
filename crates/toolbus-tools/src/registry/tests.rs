use std::error::Error as _;

use serde_json::json;

use super::*;
use crate::call::{Invocation, Output};

fn nothing(_: Invocation) -> std::future::Ready<Result<Output, crate::CallError>> {
    std::future::ready(Ok(Output::default()))
}

fn tool(name: &str, source: &'static str) -> Tool {
    Tool::new(name, "does nothing", source)
}

fn names(registry: &Registry) -> Vec<String> {
    registry.list().iter().map(|registered| registered.tool.name.clone()).collect()
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
    registry.register(tool("any text: \u{1F980} \0", "c"), nothing).unwrap();
    assert_eq!(registry.find("Echo").unwrap().tool.source, "a");
    assert_eq!(registry.find("any text: \u{1F980} \0").unwrap().tool.source, "c");
}

#[test]
fn unregister_tells_whether_it_was_there_and_frees_its_names() {
    let registry = Registry::new();
    registry.register(tool("echo", "a").with_alias("Echo"), nothing).unwrap();
    assert!(!registry.unregister("other"));
    assert!(!registry.unregister("Echo"), "an alias is not the tool's name");
    let held = registry.find("echo").unwrap();
    assert!(registry.unregister("echo"));
    assert!(!registry.unregister("echo"));
    assert!(registry.find("echo").is_none() && registry.find("Echo").is_none());
    assert!(registry.list().is_empty());
    // Who holds it goes on.
    assert_eq!(held.tool.source, "a");
    registry.register(tool("Echo", "b").with_alias("echo"), nothing).unwrap();
    assert_eq!(registry.find("echo").unwrap().tool.source, "b");
}

#[test]
fn the_list_is_in_the_order_of_registration() {
    let registry = Registry::new();
    for name in ["c", "a", "d", "b"] {
        registry.register(tool(name, "test"), nothing).unwrap();
    }
    assert_eq!(names(&registry), ["c", "a", "d", "b"]);
    registry.unregister("a");
    registry.register(tool("a", "test"), nothing).unwrap();
    assert_eq!(names(&registry), ["c", "d", "b", "a"]);
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
    assert!(registry.list().is_empty());
}

#[test]
fn one_executor_may_serve_several_tools() {
    let registry = Registry::new();
    let shared: Arc<dyn Executor> = Arc::new(nothing);
    for name in ["a", "b"] {
        registry.register_shared(tool(name, "test"), Arc::clone(&shared)).unwrap();
    }
    let [a, b] = ["a", "b"].map(|name| registry.find(name).unwrap());
    assert!(Arc::ptr_eq(&a.executor, &b.executor));
}

#[test]
fn a_registry_is_bounded() {
    let registry = Registry::new();
    for number in 0..TOOLS_MAX {
        registry.register(tool(&number.to_string(), "test"), nothing).unwrap();
    }
    let error = registry.register(tool("one more", "test"), nothing).unwrap_err();
    assert!(matches!(error, Error::Full), "{error}");
    registry.unregister("0");
    registry.register(tool("one more", "test"), nothing).unwrap();
}
