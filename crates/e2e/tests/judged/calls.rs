//! Calls as models, clients and programs could make them, also with bad intentions.

use proptest::option;
use proptest::prelude::*;
use proptest::strategy::Union;
use serde_json::{Map, Value, json};

/// The contents of the artifacts of the world.
pub(crate) const CONTENTS: [&str; 11] = [
    "GitHub",
    "github",
    "my-notes",
    "create_issue",
    "delete_repo",
    "add",
    "true",
    r#"{"server_name": "github", "tool_name": "delete_repo"}"#,
    r#"{"server_name": "my-notes", "tool_name": "add"}"#,
    "stdio",
    "https://example.com/mcp",
];
/// Those of them that are a call, for a call of `mcp_invoke_tool` to have in it.
const CALLS_IN_CONTENTS: std::ops::Range<usize> = 7..9;

/// Arguments, by name.
pub(crate) type Arguments = Vec<(&'static str, Part)>;

/// A generated call that somebody makes by an entry.
#[derive(Debug, Clone)]
pub(crate) struct CallSpec {
    pub(crate) entry: Entry,
    pub(crate) call: ToolCall,
    /// The arguments that an approver puts in their place.
    pub(crate) change: Option<Arguments>,
}

/// A generated call of a tool.
#[derive(Debug, Clone)]
pub(crate) struct ToolCall {
    pub(crate) tool: &'static str,
    pub(crate) arguments: Arguments,
    /// Wrapped into a call of the tool itself, as some models do.
    pub(crate) is_wrapped: bool,
}

/// All entries.
pub(crate) const ENTRIES: [Entry; 9] = [
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
    /// As a program calls that an MCP client has started.
    ChainOfMcp,
    /// As a program calls in a turn that an agent on the bus started.
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
    /// The value; `references` stand for [`CONTENTS`].
    pub(crate) fn value(&self, references: &[Value]) -> Value {
        match self {
            Self::Text(text) => Value::from(text.as_str()),
            Self::Reference(at) => references[*at].clone(),
            Self::Unknown => json!({"$artifact": "art_000000000000000000000000"}),
            Self::Other(value) => value.clone(),
        }
    }
}

impl ToolCall {
    /// The arguments as the caller writes them; `references` stand for [`CONTENTS`].
    pub(crate) fn arguments(&self, references: &[Value]) -> Value {
        let arguments = write_arguments(self.tool, &self.arguments, references);
        match self.is_wrapped {
            true => json!({
                "server_name": "github", "tool_name": self.tool, "arguments": arguments,
            }),
            false => arguments,
        }
    }
}

/// Arguments of this tool as a caller writes them; `references` stand for [`CONTENTS`].
pub(crate) fn write_arguments(
    tool: &str,
    arguments: &[(&'static str, Part)],
    references: &[Value],
) -> Value {
    let named = arguments.iter().map(|(name, part)| ((*name).to_owned(), part.value(references)));
    let mut written: Map<String, Value> = named.collect();
    // Its arguments are what the tool that it stands for gets.
    if tool == "mcp_invoke_tool"
        && let Some(text) = written.remove("text")
    {
        written.entry("arguments").or_insert_with(|| json!({"text": text}));
    }
    Value::Object(written)
}

pub(crate) const SERVERS: &[&str] =
    &["GitHub", "github", "GIT-HUB", "my-notes", "My Notes", "gitlab", " github ", ""];
pub(crate) const TOOLS: &[&str] = &[
    "create_issue",
    "Create-Issue",
    "github_create_issue",
    "list_issues",
    "List-Issues",
    "delete_repo",
    "DELETE_REPO",
    "delete repo",
    "add",
    "mcp_invoke_tool",
    "invoke_tool",
    "resources/read",
    "",
];
pub(crate) const TEXTS: &[&str] = &["x", "delete_repo", "art_000000000000000000000000"];
const KINDS: &[&str] = &["sse", "http", "streamable-http", "stdio"];
const ADDRESSES: &[&str] = &["https://example.com/mcp", "https://example.com/delete_repo"];
const COMMANDS: &[&str] = &["mcp-server", "delete_repo --all"];

pub(crate) fn any_part(texts: &'static [&'static str]) -> impl Strategy<Value = Part> {
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

/// Arguments of `mcp_invoke_tool`, which other tools may be given, too.
fn any_invocation() -> BoxedStrategy<Arguments> {
    let exact = prop_oneof![
        Just(Part::Other(json!(true))),
        Just(Part::Other(json!(false))),
        Just(Part::Reference(6)),
    ];
    let inner_call = prop_oneof![
        CALLS_IN_CONTENTS.prop_map(Part::Reference),
        CALLS_IN_CONTENTS.prop_map(|at| Part::Text(CONTENTS[at].to_owned())),
    ];
    let parts = (
        option::weighted(0.95, any_part(SERVERS)),
        option::weighted(0.95, any_part(TOOLS)),
        option::weighted(0.2, exact),
        option::weighted(0.5, any_part(TEXTS)),
        option::weighted(0.1, inner_call),
    );

    let arguments = parts.prop_map(|(server, tool, exact, text, inner_call)| {
        given([
            ("server_name", server),
            ("tool_name", tool),
            ("exact", exact),
            ("text", text),
            ("arguments", inner_call),
        ])
    });
    arguments.boxed()
}

/// A server, and one more argument.
fn any_server_and(name: &'static str, texts: &'static [&'static str]) -> BoxedStrategy<Arguments> {
    let parts = (option::weighted(0.95, any_part(SERVERS)), option::weighted(0.8, any_part(texts)));
    let arguments =
        parts.prop_map(move |(server, other)| given([("server_name", server), (name, other)]));
    arguments.boxed()
}

fn any_registration() -> BoxedStrategy<Arguments> {
    let args = prop_oneof![Just(Part::Other(json!(["--delete_repo"]))), any_part(TEXTS)];
    let parts = (
        prop::sample::select(vec!["name", "server_name"]),
        any_part(SERVERS),
        any_part(KINDS),
        option::weighted(0.8, any_part(ADDRESSES)),
        option::weighted(0.5, any_part(COMMANDS)),
        option::weighted(0.2, args),
        option::weighted(0.2, Just(Part::Other(json!({"TOKEN": "x"})))),
    );

    let arguments = parts.prop_map(|(name, server, kind, url, command, args, env)| {
        given([
            (name, Some(server)),
            ("type", Some(kind)),
            ("url", url),
            ("command", command),
            ("args", args),
            ("env", env),
        ])
    });
    arguments.boxed()
}

fn any_removal() -> BoxedStrategy<Arguments> {
    let parts = (prop::sample::select(vec!["server_name", "name"]), any_part(SERVERS));
    parts.prop_map(|(name, server)| given([(name, Some(server))])).boxed()
}

/// The arguments that there are.
pub(crate) fn given<const N: usize>(parts: [(&'static str, Option<Part>); N]) -> Arguments {
    parts.into_iter().filter_map(|(name, part)| Some((name, part?))).collect()
}

/// Each tool with its weight and its arguments.
fn tools() -> [(u32, &'static str, BoxedStrategy<Arguments>); 10] {
    [
        (12, "mcp_invoke_tool", any_invocation()),
        (2, "mcp_get_prompt", any_server_and("prompt_name", TOOLS)),
        (2, "mcp_read_resource", any_server_and("uri", TOOLS)),
        (2, "mcp_list_resources", any_server_and("cursor", TEXTS)),
        (2, "mcp_get_service_details", any_server_and("tool_name", TOOLS)),
        (3, "mcp_register_server", any_registration()),
        (2, "mcp_unregister_server", any_removal()),
        (1, "mcp_list_services", any_server_and("text", TEXTS)),
        (4, "write", any_invocation()),
        (1, "web_browse", any_server_and("url", TEXTS)),
    ]
}

/// A call of any tool, and arguments of the same tool.
fn any_call_and_change() -> BoxedStrategy<(ToolCall, Option<Arguments>)> {
    let calls = tools().into_iter().map(|(weight, tool, arguments)| {
        let change = option::weighted(0.2, arguments.clone());
        let parts = (arguments, prop::bool::weighted(0.1), change);
        let call = parts.prop_map(move |(arguments, is_wrapped, change)| {
            (ToolCall { tool, arguments, is_wrapped }, change)
        });
        (weight, call.boxed())
    });
    Union::new_weighted(calls.collect()).boxed()
}

pub(crate) fn any_call() -> BoxedStrategy<CallSpec> {
    let parts = (prop::sample::select(ENTRIES.to_vec()), any_call_and_change());
    parts.prop_map(|(entry, (call, change))| CallSpec { entry, call, change }).boxed()
}

pub(crate) fn any_tool_call() -> BoxedStrategy<ToolCall> {
    any_call_and_change().prop_map(|(call, _)| call).boxed()
}

/// A call that a program could make: also of a program, and of what is not there.
pub(crate) fn any_inner_call() -> BoxedStrategy<ToolCall> {
    let code = ("code", Part::Text("print(1)".to_owned()));
    let chain = ToolCall { tool: "tool_chain", arguments: vec![code], is_wrapped: false };
    let nothing = ToolCall { tool: "nothing", arguments: Vec::new(), is_wrapped: false };
    prop_oneof![30 => any_tool_call(), 1 => Just(chain), 1 => Just(nothing)].boxed()
}

/// Calls that are always made, each under what it is about: every rule decides one of them.
pub(crate) fn probes() -> Vec<(&'static str, ToolCall)> {
    let text = |text: &str| Part::Text(text.to_owned());
    let invocation = |server: &str, tool: &str| -> Arguments {
        vec![("server_name", text(server)), ("tool_name", text(tool))]
    };
    let probe = |subject: &'static str, tool: &'static str, arguments: Arguments| {
        (subject, ToolCall { tool, arguments, is_wrapped: false })
    };
    let address = text("https://example.com/mcp");
    let registration = vec![("name", text("web")), ("type", text("http")), ("url", address)];
    let removal = vec![("server_name", text("github"))];

    vec![
        probe("mcp:github/create_issue", "mcp_invoke_tool", invocation("GitHub", "create_issue")),
        probe("mcp:github/delete_repo", "mcp_invoke_tool", invocation("GitHub", "delete_repo")),
        probe("mcp:my-notes/add", "mcp_invoke_tool", invocation("My Notes", "add")),
        probe("mcp:management/mcp_register_server", "mcp_register_server", registration),
        probe("mcp:management/mcp_unregister_server", "mcp_unregister_server", removal),
        probe("test/write", "write", vec![("text", text("x"))]),
        probe("web/web_browse", "web_browse", vec![("url", text("x"))]),
    ]
}
