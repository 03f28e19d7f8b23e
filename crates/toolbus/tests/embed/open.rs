//! What can be opened, and what the calls of it come to.

use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use toolbus::tools::registry;
use toolbus::{
    Budget, CallError, CallEvent, CallEventKind, Decision, ErrorCode, Execution, Gate, GrantKey,
    Guide, Invocation, McpServers, MemoryBus, NoArguments, Observe, Offer, Output, Passage,
    PolicyRequest, Principal, Scripts, SessionId, Tool, ToolContext, Toolbus, ToolbusBuilder,
    Verdict, View, tool,
};
use zeroize::Zeroizing;

use crate::support::*;

/// What stands against opening this.
async fn error(builder: ToolbusBuilder) -> toolbus::Error {
    builder.open().await.unwrap_err()
}

#[tokio::test]
async fn an_agent_may_have_any_name_that_topics_may_carry() {
    let toolbus = Toolbus::builder().open().await.unwrap();
    assert_eq!(toolbus.name().as_str(), "RockBot");
    let toolbus = Toolbus::builder().name("my-agent").open().await.unwrap();
    assert_eq!(toolbus.name().as_str(), "my-agent");
    assert_eq!(toolbus.has_bridge(), Ok(false));

    for name in ["", "a.b", "refresh", &"x".repeat(65)] {
        let error = error(Toolbus::builder().name(name)).await;
        assert!(matches!(error, toolbus::Error::Name(_)), "{name}: {error:?}");
    }
}

#[tokio::test]
async fn a_tool_is_called_by_a_name_that_models_can_write() {
    for name in ["add", "Add-2_x", &"x".repeat(64)] {
        let toolbus = Toolbus::builder().tool(adding(name)).open().await.unwrap();
        assert_eq!(text(sum(&toolbus, name).await), "3");
    }
    for name in ["", "add two", "a/b", "zwölf", "add\n", &"x".repeat(65)] {
        let error = error(Toolbus::builder().tool(adding(name))).await;
        assert!(matches!(&error, toolbus::Error::ToolName(told) if told == name), "{error:?}");
    }
    let error = error(Toolbus::builder().tool(adding("a\n"))).await;
    assert_eq!(
        error.to_string(),
        "\"a\\n\" cannot be the name of a tool: it takes 1 to 64 of `A-Z`, `a-z`, `0-9`, `_`, `-`"
    );
}

#[tokio::test]
async fn a_name_that_is_taken_is_an_error() {
    let check = async |builder: ToolbusBuilder, expected: &str| {
        let error = error(builder).await;
        assert!(matches!(error, toolbus::Error::Tool(registry::Error::Duplicate { .. })));
        assert_eq!(error.source().unwrap().to_string(), expected);
    };
    let builder = Toolbus::builder().tool(adding("add").source("one")).tool(adding("add"));
    check(builder, "Tool 'add' is already registered. It is from 'one', the new one from 'local'")
        .await;
    // An alias of another one,
    let builder = Toolbus::builder().tool(adding("plus").alias("add")).tool(adding("add"));
    check(
        builder,
        "Tool 'add' is already registered. It is from 'local', the new one from 'local'",
    )
    .await;
    // and what the agent has by itself.
    let name = "execute_python_script";
    let builder = Toolbus::builder().scripts(Scripts::remote()).tool(adding(name));
    let expected = "Tool 'execute_python_script' is already registered. It is from 'script', the new one from 'local'";
    check(builder, expected).await;
}

#[tokio::test]
async fn a_schema_that_cannot_be_checked_is_an_error() {
    let check = async |builder: ToolbusBuilder, expected: &str| {
        let error = error(builder).await;
        let toolbus::Error::Tool(error @ registry::Error::Schema { .. }) = &error else {
            panic!("{error:?}");
        };
        assert_eq!(error.source().unwrap().to_string(), expected);
    };
    let number = tool("t", "", |number: i64, _| async move { Ok(number) });
    let expected = "not a usable JSON Schema: a schema of arguments describes an object";
    check(Toolbus::builder().tool(number), expected).await;
    let long = format!("\"{}\"", "x".repeat(64 << 10));
    let tool = Tool::new("t", "", "test").with_parameters(json!({"type": "object", "title": long}));
    let offer = Offer::new(tool, |_: Invocation| async { Ok(Output::default()) });
    let expected = "not a usable JSON Schema: 65568 bytes are over the limit of 65536";
    check(Toolbus::builder().tool(offer), expected).await;
}

#[tokio::test]
async fn a_tool_may_come_with_an_executor_of_its_own() {
    let tool = Tool::new("echo", "Repeats.", "test").with_parameters(json!({"type": "object"}));
    let offer = Offer::new(tool, |call: Invocation| async move {
        Ok(Output::text(serde_json::Value::Object(call.arguments).to_string()))
    });
    let toolbus = Toolbus::builder().tool(offer).open().await.unwrap();
    assert_eq!(text(call(&toolbus, "echo", json!({"x": 1})).await), "{\"x\":1}");
}

#[tokio::test]
async fn calls_of_what_is_not_there_are_told_so() {
    let toolbus = Toolbus::builder().open().await.unwrap();
    let check = async |tool: &str, code: ErrorCode| {
        let error = call(&toolbus, tool, json!({})).await.unwrap_err();
        assert_eq!((error.code, error.execution), (code, Execution::NotStarted));
    };
    check("nothing", ErrorCode::ToolNotFound).await;
    check("", ErrorCode::ToolNotFound).await;
    check(&"x".repeat(257), ErrorCode::InvalidArguments).await;
}

#[tokio::test]
async fn a_policy_decides_about_the_tool_that_is_meant() {
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let tool = tool("delete", "Deletes.", move |_: Add, _| {
        counted.fetch_add(1, Ordering::Relaxed);
        async { Ok("gone") }
    });
    let policy = |request: &PolicyRequest<'_>| match request.subject.id.as_str() {
        "files/delete" if *request.scope.principal.name == *"alice" => Decision::Allow,
        "files/delete" => Decision::Deny("alice alone deletes".into()),
        _ => Decision::Allow,
    };
    let toolbus = Toolbus::builder()
        .policy(policy)
        .tool(tool.source("files").alias("rm"))
        .tool(adding("add"));
    let toolbus = toolbus.open().await.unwrap();
    let scope = |name| Arc::new(toolbus.scope(Principal::claimed(name)));

    let arguments = json!({"a": 1, "b": 2});
    for name in ["delete", "rm"] {
        let error = toolbus.call(&scope("bob"), name, arguments.clone()).await.unwrap_err();
        assert_eq!((error.code, error.execution), (ErrorCode::Denied, Execution::NotStarted));
        assert_eq!(error.message, "'files/delete' is not allowed: alice alone deletes");
    }
    assert_eq!(runs.load(Ordering::Relaxed), 0);
    assert_eq!(text(toolbus.call(&scope("alice"), "rm", arguments).await), "gone");
    assert_eq!(text(sum(&toolbus, "add").await), "3");
}

#[tokio::test]
async fn a_scope_bounds_its_calls() {
    let toolbus = Toolbus::builder().tool(adding("add")).tool(adding("plus")).open().await.unwrap();
    let scope = toolbus
        .scope(Principal::local())
        .with_session(Some(SessionId::parse("session/abc").unwrap()))
        .with_budget(Budget::calls(2))
        .with_view(View::all().without(["local/plus"]));
    let scope = Arc::new(scope);
    let code = async |tool: &str| {
        let outcome = toolbus.call(&scope, tool, json!({"a": 1, "b": 2})).await;
        outcome.err().map(|error| error.code)
    };
    assert_eq!(code("add").await, None);
    assert_eq!(code("plus").await, Some(ErrorCode::ToolNotFound));
    assert_eq!(code("add").await, Some(ErrorCode::Denied));
}

/// Writes down what happens to calls.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Observe for Notes {
    fn on_event(&self, event: &CallEvent<'_>) {
        self.0.lock().push(match &event.kind {
            CallEventKind::Began(call) => format!("{} by {:?}", call.tool, call.scope.door),
            CallEventKind::Ended(record) => format!("{:?}", record.error),
            _ => return,
        });
    }
}

#[tokio::test]
async fn an_observer_hears_of_every_call() {
    let notes = Arc::new(Notes::default());
    let toolbus = Toolbus::builder().observe(notes.clone()).tool(adding("add"));
    let toolbus = toolbus.open().await.unwrap();
    sum(&toolbus, "add").await.unwrap();
    call(&toolbus, "add", json!({})).await.unwrap_err();
    let expected = ["add by Embedded", "None", "add by Embedded", "Some(InvalidArguments)"];
    assert_eq!(*notes.0.lock(), expected);
}

#[tokio::test]
async fn the_tools_for_guides_are_there_where_somebody_may_bring_one() {
    const GUIDES: [&str; 2] = ["list_tool_guides", "get_tool_guide"];
    let check = async |builder: ToolbusBuilder, expected: &[&str]| {
        assert_eq!(names(&builder.open().await.unwrap()), expected);
    };
    let [list, get] = GUIDES;
    check(Toolbus::builder().tool(adding("add")), &["add"]).await;
    let bridged = Toolbus::builder().bus(Arc::new(MemoryBus::new()));
    check(bridged, &[list, get, "tool_search"]).await;
    let scripts = Toolbus::builder().scripts(Scripts::remote());
    check(scripts, &[list, get, "execute_python_script"]).await;

    let guide = Guide {
        name: "sums".to_owned(),
        summary: "How to add".to_owned(),
        document: "Add two numbers.".to_owned(),
    };
    let toolbus = Toolbus::builder().tool(adding("add").group("sums")).guide(guide);
    let toolbus = toolbus.open().await.unwrap();
    assert_eq!(names(&toolbus), [list, get, "add"]);
    let page = call(&toolbus, "get_tool_guide", json!({"name": "sums"})).await;
    assert_eq!(text(page), "Add two numbers.");
}

#[tokio::test]
async fn the_search_for_tools_is_there_where_a_tool_is_found_by_it_only() {
    let toolbus = Toolbus::builder().tool(adding("add").deferred()).open().await.unwrap();
    assert_eq!(names(&toolbus), ["tool_search", "add"]);
    let found = text(call(&toolbus, "tool_search", json!({"query": "ADD"})).await);
    assert!(found.starts_with("1 tool for 'ADD':\n- add: "), "{found}");
}

/// A vault that has one credential, and counts who asks for it.
struct OneCredential(Arc<AtomicUsize>);

impl Gate for OneCredential {
    fn name(&self) -> &'static str {
        "credentials"
    }

    fn check<'a>(&'a self, passage: &'a mut Passage) -> Verdict<'a> {
        self.0.fetch_add(1, Ordering::Relaxed);
        passage.credentials.insert("TOKEN", Zeroizing::new("s3cret-token".to_owned()));
        Verdict::Now(Ok(()))
    }
}

/// Refuses what has credentials: no gate sees any.
struct BeforeCredentials;

impl Gate for BeforeCredentials {
    fn name(&self) -> &'static str {
        "before"
    }

    fn check<'a>(&'a self, passage: &'a mut Passage) -> Verdict<'a> {
        let is_wanted =
            passage.credentials.is_empty() && passage.subject.id.as_str() == "local/ask";
        let denied = || CallError::new(ErrorCode::Denied, "not this one");
        Verdict::Now(is_wanted.then_some(()).ok_or_else(denied))
    }
}

#[tokio::test]
async fn credentials_come_behind_every_gate_and_reach_the_function() {
    let asked = Arc::new(AtomicUsize::new(0));
    let ask = tool("ask", "", |_: NoArguments, context: ToolContext| async move {
        assert!(!format!("{context:?}").contains("s3cret"), "{context:?}");
        assert_eq!(context.credential("OTHER"), None);
        Ok(format!("with {}", context.credential("TOKEN").unwrap_or("none")))
    });
    // The order of the builder's calls does not count.
    let builder = Toolbus::builder().credentials(OneCredential(Arc::clone(&asked)));
    let builder = builder.gate(BeforeCredentials).tool(ask).tool(adding("add"));
    let toolbus = builder.open().await.unwrap();

    assert_eq!(sum(&toolbus, "add").await.unwrap_err().code, ErrorCode::Denied);
    assert_eq!(asked.load(Ordering::Relaxed), 0, "it was refused before");
    assert_eq!(text(call(&toolbus, "ask", json!({})).await), "with ***");
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn what_is_printed_for_debugging_names_things_and_holds_no_secret() {
    let scripts = Scripts::remote();
    let builder = Toolbus::builder().name("my-agent").tool(adding("add")).scripts(scripts);
    let builder = builder.grants(GrantKey::new("hunter2 ".repeat(8)).unwrap());
    let builder = builder.mcp(McpServers::json("{\"mcpServers\": {}} // hunter2"));
    let text = format!("{builder:?}");
    assert!(text.contains("my-agent") && text.contains("[\"add\"]"), "{text}");
    assert!(!text.contains("hunter2"), "{text}");
    assert!(format!("{:?}", adding("add")).contains("\"add\""));

    let toolbus = Toolbus::builder().name("my-agent").open().await.unwrap();
    let expected = "Toolbus { name: AgentName(my-agent), is_closing: false, .. }";
    assert_eq!(format!("{toolbus:?}"), expected);
    assert_eq!(format!("{:?}", toolbus.agent()), "Agent { name: AgentName(my-agent), .. }");
    toolbus.close().await;
    assert!(format!("{toolbus:?}").contains("is_closing: true"));
}

#[tokio::test]
async fn types_are_re_exported_for_derives() {
    #[derive(Deserialize, JsonSchema)]
    #[schemars(crate = "toolbus::schemars")]
    struct Name {
        name: String,
    }

    let greet = tool("greet", "Greets.", |args: Name, _| async move {
        Ok(toolbus::serde_json::json!({"greeting": format!("Hello {}", args.name)}))
    });
    let toolbus = Toolbus::builder().tool(greet).open().await.unwrap();
    let output = call(&toolbus, "greet", json!({"name": "Bob"})).await.unwrap();
    assert_eq!(output.structured.unwrap().text(), r#"{"greeting":"Hello Bob"}"#);
}
