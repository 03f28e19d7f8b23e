//! Calls as models, clients and programs could make them, also with bad intentions.

use proptest::option;
use proptest::prelude::*;
use serde_json::{Value, json};

/// The contents of the artifacts of the world.
pub(crate) const CONTENTS: [&str; 8] = [
    "GitHub",
    "github",
    "my-notes",
    "create_issue",
    "delete_repo",
    "add",
    "true",
    r#"{"server_name": "github", "tool_name": "delete_repo"}"#,
];

/// A generated call.
#[derive(Debug, Clone)]
pub(crate) struct CallSpec {
    pub(crate) entry: Entry,
    pub(crate) tool: &'static str,
    pub(crate) arguments: Vec<(&'static str, Part)>,
    /// Wrapped into a call of the tool itself, as some models do.
    pub(crate) is_wrapped: bool,
    /// The arguments that an approver puts in their place.
    pub(crate) change: Option<Vec<(&'static str, Part)>>,
}

/// The entry that a call comes in by.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Entry {
    CommandLine,
    Bus,
    Mcp,
    Http,
    Turn,
    Schedule,
    Embedded,
    /// A program that an MCP client has started.
    ChainOfMcp,
    /// A program in a turn that an agent on the bus started.
    ChainOfBus,
}

/// The value of an argument.
#[derive(Debug, Clone)]
pub(crate) enum Part {
    Text(String),
    /// A reference to the artifact of this number, in [`CONTENTS`].
    Reference(usize),
    /// One that nobody has.
    Unknown,
    Other(Value),
}

impl Part {
    pub(crate) fn is_reference(&self) -> bool {
        matches!(self, Self::Reference(_) | Self::Unknown)
    }
}

fn any_part(texts: &'static [&'static str]) -> impl Strategy<Value = Part> {
    let text = prop::sample::select(texts);
    prop_oneof![
        6 => text.prop_map(|text| Part::Text(text.to_owned())),
        3 => (0..CONTENTS.len()).prop_map(Part::Reference),
        1 => Just(Part::Unknown),
        1 => prop_oneof![
            Just(json!(null)),
            Just(json!(7)),
            Just(json!(true)),
            Just(json!(["delete_repo"])),
            Just(json!({"$artifact": 1})),
            Just(json!({"$artifact": "art_x", "other": 1})),
        ]
        .prop_map(Part::Other),
    ]
}

const SERVERS: &[&str] =
    &["GitHub", "github", "GIT-HUB", "my-notes", "My Notes", "gitlab", " github ", ""];
const TOOLS: &[&str] = &[
    "create_issue",
    "Create-Issue",
    "github_create_issue",
    "delete_repo",
    "DELETE_REPO",
    "delete repo",
    "add",
    "mcp_invoke_tool",
    "invoke_tool",
    "",
];
const TEXTS: &[&str] = &["x", "delete_repo", "art_000000000000000000000000"];

fn any_arguments() -> impl Strategy<Value = Vec<(&'static str, Part)>> {
    let exact = prop_oneof![
        Just(Part::Other(json!(true))),
        Just(Part::Other(json!(false))),
        Just(Part::Reference(6)),
    ];
    let parts = (
        option::weighted(0.95, any_part(SERVERS)),
        option::weighted(0.95, any_part(TOOLS)),
        option::weighted(0.2, exact),
        option::weighted(0.5, any_part(TEXTS)),
    );
    parts.prop_map(|(server, tool, exact, text)| {
        let named = [("server_name", server), ("tool_name", tool), ("exact", exact)];
        let named = named.into_iter().chain([("text", text)]);
        named.filter_map(|(name, part)| Some((name, part?))).collect()
    })
}

pub(crate) fn any_call() -> impl Strategy<Value = CallSpec> {
    let entries = [
        Entry::CommandLine,
        Entry::Bus,
        Entry::Mcp,
        Entry::Http,
        Entry::Turn,
        Entry::Schedule,
        Entry::Embedded,
        Entry::ChainOfMcp,
        Entry::ChainOfBus,
    ];
    let tools = prop_oneof![
        6 => Just("mcp_invoke_tool"),
        1 => Just("mcp_get_prompt"),
        1 => Just("mcp_read_resource"),
        2 => Just("write"),
    ];
    let change = option::weighted(0.2, any_arguments());
    (
        prop::sample::select(entries.to_vec()),
        tools,
        any_arguments(),
        prop::bool::weighted(0.1),
        change,
    )
        .prop_map(|(entry, tool, arguments, is_wrapped, change)| CallSpec {
            entry,
            tool,
            arguments,
            is_wrapped,
            change,
        })
}
