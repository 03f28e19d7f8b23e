use toolbus_wire::ErrorCode;
use toolbus_wire::name::AgentName;

use super::*;
use crate::call::{Call, Outcome};
use crate::registry::Offer;
use crate::scope::{Door, Principal};
use crate::view::View;
use crate::{Audience, Invoker, ProviderSpecs};

struct Stage(Invoker);

impl Stage {
    fn new(tools: impl IntoIterator<Item = Tool>) -> Self {
        Self::with_finder(tools, None)
    }

    fn with_finder(
        tools: impl IntoIterator<Item = Tool>,
        finder: Option<Arc<dyn FindTools>>,
    ) -> Self {
        let registry = Arc::new(Registry::new());
        register(&registry, finder).unwrap();
        for tool in tools {
            let nothing = |_: Invocation| std::future::ready(Ok(Output::default()));
            registry.register(tool, nothing).unwrap();
        }
        Self(Invoker::new(registry))
    }

    async fn call(&self, view: View, arguments: Value) -> Outcome {
        let scope = Scope::new(Door::Turn, Principal::local(), AgentName::standard());
        let call = Call::by_name(&Arc::new(scope.with_view(view)), NAME, arguments).unwrap();
        self.0.invoke(call).await
    }

    async fn text(&self, arguments: Value) -> String {
        let output = self.call(View::all(), arguments).await.unwrap();
        assert!(!output.is_error && output.blocks.is_empty());
        output.content.unwrap()
    }

    async fn json(&self, query: &str) -> Value {
        let text = self.text(json!({"query": query, "format": "schema"})).await;
        serde_json::from_str(&text).unwrap()
    }
}

fn create_issue() -> Tool {
    let parameters = json!({
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "labels": {"type": ["array", "null"]},
            "due": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
            "extra": true
        },
        "required": ["title"]
    });
    Tool::new("create_issue", "Creates an Issue\n in a repository.", "mcp:github")
        .with_parameters(parameters)
}

fn ping() -> Tool {
    Tool::new("PING", "Says whether GitHub answers.", "test").deferred()
}

#[tokio::test]
async fn rv_d1_a_part_of_a_name_or_description_in_any_case() {
    let stage = Stage::new([create_issue(), ping(), Tool::new("straße", "Ändert ΟΔΟΣ.", "test")]);
    let check = async |query: &str, expected: &[&str]| {
        let found = stage.json(query).await;
        let found = found["tools"].as_array().unwrap().iter();
        let names: Vec<_> = found.map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
        assert_eq!(names, expected, "{query}");
    };
    check("issue", &["create_issue"]).await;
    check("  IsSuE\n", &["create_issue"]).await;
    check("ping", &["PING"]).await;
    check("github", &["PING"]).await;
    check("e", &["create_issue", "PING", "straße"]).await;
    check("STRAßE", &["straße"]).await;
    check("ändert οδοσ", &["straße"]).await;
    // Name and description are two texts.
    check("create_issue creates", &[]).await;
    check("create issue", &[]).await;
    for all in ["", "   "] {
        check(all, &["create_issue", "PING", "straße"]).await;
    }
}

#[tokio::test]
async fn rv_d2_text_is_a_line_for_each_tool() {
    let stage = Stage::new([create_issue(), ping(), Tool::new("bare", "", "test")]);
    insta::assert_snapshot!(stage.text(json!({})).await, @r"
    3 tools:
    - create_issue: Creates an Issue in a repository. | title (string, req), labels (array|null, opt), due (string|integer, opt), extra (any, opt)
    - PING: Says whether GitHub answers. | no parameters
    - bare | no parameters
    ");
    let text = stage.text(json!({"query": "Issue ", "format": "text"})).await;
    assert!(text.starts_with("1 tool for 'Issue':\n- create_issue: "), "{text}");
}

#[tokio::test]
async fn rv_d2_schema_is_json_with_the_parameters() {
    let stage = Stage::new([create_issue(), ping()]);
    let expected = json!({
        "tools": [{
            "name": "create_issue",
            "description": "Creates an Issue\n in a repository.",
            "parameters": create_issue().parameters
        }],
        "query": "issue"
    });
    assert_eq!(stage.json(" issue ").await, expected);
}

#[tokio::test]
async fn rv_d3_no_match_is_an_answer_that_names_the_query() {
    let stage = Stage::new([ping()]);
    assert_eq!(stage.text(json!({"query": " x'y "})).await, "no tools match 'x'y'");
    assert_eq!(stage.json("x\"y").await, json!({"tools": [], "query": "x\"y"}));
}

#[tokio::test]
async fn rv_d3_without_tools_it_says_so() {
    let stage = Stage::new([]);
    for query in ["", "x"] {
        assert_eq!(stage.text(json!({"query": query})).await, "no tools registered");
        let expected = json!({"tools": [], "query": query, "message": "no tools registered"});
        assert_eq!(stage.json(query).await, expected);
    }
}

#[tokio::test]
async fn rv_d4_it_changes_nothing() {
    let tool = definition();
    assert_eq!(tool.risk, Some(crate::tool::Risk::Low));
    assert!(tool.annotations.read_only && !tool.defer);
}

/// RV-T7, RV-T9: what is not listed at first is found.
#[tokio::test]
async fn a_deferred_tool_is_found() {
    let text = Stage::new([ping()]).text(json!({"query": "pin"})).await;
    assert!(text.contains("\n- PING: "), "{text}");
}

#[tokio::test]
async fn only_what_the_scope_sees_is_found_or_counted() {
    let stage = Stage::new([create_issue(), ping()]);
    let answer = async |view: View, query: &str| {
        stage.call(view, json!({"query": query})).await.unwrap().content.unwrap()
    };
    let only = || View::all().only(["test/*", "tools/*"]);
    let all = answer(only(), "").await;
    assert!(all.starts_with("1 tool:\n- PING"), "{all}");
    assert_eq!(answer(only(), "issue").await, "no tools match 'issue'");
    let nothing = View::all().only(["tools/*"]);
    assert_eq!(answer(nothing, "issue").await, "no tools registered");
}

#[tokio::test]
async fn what_is_there_for_others_is_not_found_or_counted() {
    let local_alone = Audience::only(|principal| *principal == Principal::local());
    let stage = Stage::new([ping().for_audience(local_alone)]);
    assert!(stage.text(json!({"query": "ping"})).await.starts_with("1 tool for 'ping':"));
    let scope = Scope::new(Door::Bus, Principal::claimed("local"), AgentName::standard());
    let call = Call::by_name(&Arc::new(scope), NAME, json!({"query": "ping"})).unwrap();
    let output = stage.0.invoke(call).await.unwrap();
    assert_eq!(output.content.as_deref(), Some("no tools registered"));
}

#[tokio::test]
async fn what_cannot_be_called_by_name_is_not_found() {
    let stage = Stage::new([ping()]);
    let hosted = Tool::new("web_search", "", "test").hosted_by_provider(ProviderSpecs::default());
    let provider = stage.0.registry().provider("hosted");
    assert!(provider.publish(vec![Offer::hosted(hosted)]).is_empty());
    let text = stage.text(json!({})).await;
    assert!(text.starts_with("1 tool:\n- PING"), "{text}");
}

#[tokio::test]
async fn an_answer_is_bounded_and_says_how_many_more() {
    let tools = |description: &str| {
        let tool = |at| Tool::new(format!("tool_{at:04}"), description, "test");
        (0..2_000).map(tool).collect::<Vec<_>>()
    };
    for description in ["short", &"é".repeat(40_000)] {
        let stage = Stage::new(tools(description));
        let text = stage.text(json!({"query": "tool_"})).await;
        assert!(text.len() <= ANSWER_BYTES_MAX, "{}", text.len());
        let shown = text.lines().filter(|line| line.starts_with("- ")).count();
        let last = format!("… and {} more: search for less", 2_000 - shown);
        assert_eq!(text.lines().last(), Some(&*last));
        assert!(text.starts_with("2000 tools for 'tool_':\n- tool_0000: "));

        let json = stage.json("tool_").await;
        assert!(json.to_string().len() <= ANSWER_BYTES_MAX);
        let shown = json["tools"].as_array().unwrap().len();
        assert_eq!(json["more"], 2_000 - shown);
    }
}

#[tokio::test]
async fn a_tool_that_is_too_long_for_any_answer_hides_no_other() {
    let long = Tool::new("long", "x".repeat(ANSWER_BYTES_MAX), "test");
    let stage = Stage::new([long, ping()]);
    let json = stage.json("").await;
    assert_eq!((&json["tools"][0]["name"], &json["more"]), (&json!("PING"), &json!(1)));
    assert!(stage.text(json!({})).await.contains("- long: xxx"));
}

#[tokio::test]
async fn a_query_is_bounded() {
    let stage = Stage::new([ping()]);
    let longest = "\u{1F980}".repeat(QUERY_CHARS_MAX);
    assert!(stage.text(json!({"query": longest})).await.contains(&longest));
    let error = stage.call(View::all(), json!({"query": format!("{longest}x")})).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidArguments);
    let error = stage.call(View::all(), json!({"format": "xml"})).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::InvalidArguments);
}

/// Finds every tool of the registry, the last one first, and remembers what it was asked.
struct FindsAll {
    tools: Vec<Arc<ToolEntry>>,
    asked: parking_lot::Mutex<Vec<String>>,
}

impl FindTools for FindsAll {
    fn find<'a>(&'a self, _: &'a Scope, task: &'a str) -> BoxFuture<'a, Vec<Arc<ToolEntry>>> {
        self.asked.lock().push(task.to_owned());
        Box::pin(std::future::ready(self.tools.iter().rev().cloned().collect()))
    }
}

#[tokio::test]
async fn tools_are_found_by_what_they_are_for_where_nothing_has_the_text() {
    let registry = Stage::new([create_issue(), ping()]).0.registry().snapshot();
    let finder = FindsAll { tools: registry.tools().to_vec(), asked: Default::default() };
    let finder = Arc::new(finder);
    let stage = Stage::with_finder([create_issue(), ping()], Some(finder.clone()));

    let found = stage.text(json!({"query": " report a bug "})).await;
    let lines: Vec<_> = found.lines().collect();
    assert_eq!(lines[0], "2 tools for 'report a bug':");
    assert!(
        lines[1].starts_with("- PING: ") && lines[2].starts_with("- create_issue: "),
        "{found}"
    );
    let json = stage.json("report a bug").await;
    assert_eq!(json["tools"].as_array().map(Vec::len), Some(2));
    assert_eq!(*finder.asked.lock(), ["report a bug", "report a bug"]);

    // What has the text is found without it, and what is hidden is not found by it.
    assert!(stage.text(json!({"query": "issue"})).await.starts_with("1 tool for 'issue':"));
    assert!(stage.text(json!({})).await.starts_with("2 tools:"));
    let view = View::all().without(["mcp:github/*", "test/*"]);
    let output = stage.call(view, json!({"query": "report a bug"})).await.unwrap();
    assert_eq!(output.content.as_deref(), Some("no tools registered"));
    assert_eq!(finder.asked.lock().len(), 3);
}
