use serde_json::json;
use toolbus_wire::name::AgentName;

use super::*;
use crate::call::{Invocation, Output};
use crate::registry::{Offer, Registry};
use crate::scope::{Door, Principal};
use crate::tool::Tool;
use crate::tool_kind::ProviderSpecs;
use crate::tool_spec::{FunctionSpec, ProviderSpec};
use crate::view::View;

fn nothing(_: Invocation) -> std::future::Ready<Result<Output, crate::CallError>> {
    std::future::ready(Ok(Output::default()))
}

/// The entry of a tool, from a registry of its own.
fn entry(tool: Tool) -> Arc<ToolEntry> {
    let registry = Arc::new(Registry::new());
    let offer = match &tool.kind {
        ToolKind::ProviderHosted(_) => Offer::hosted(tool),
        _ => Offer::new(tool, nothing),
    };
    // Withdrawn with its provider; the entry stays whole.
    let provider = registry.provider("test");
    assert!(provider.publish(vec![offer]).is_empty());
    let entries = registry.snapshot();
    Arc::clone(&entries.tools()[0])
}

fn local(name: &str) -> Tool {
    let parameters = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    Tool::new(name, format!("Does {name}."), "test").with_parameters(parameters)
}

fn web_search() -> Tool {
    let specs = [
        ("anthropic", json!({"type": "web_search_20250305", "name": "web_search"})),
        ("openai", json!({"type": "web_search", "zeta": 1, "alpha": [2]})),
    ];
    local("web_search").hosted_by_provider(specs.into_iter().collect())
}

fn shell() -> Tool {
    let specs = [("openai", json!({"type": "local_shell"}))];
    local("shell").defined_by_provider(specs.into_iter().collect(), ["local_shell_call"])
}

fn hosted_nowhere() -> Tool {
    local("nowhere").hosted_by_provider(ProviderSpecs::default())
}

fn toolbox(tools: impl IntoIterator<Item = Tool>) -> Toolbox {
    tools.into_iter().map(entry).collect::<Vec<_>>().into()
}

fn names(entries: &[Arc<ToolEntry>]) -> Vec<&str> {
    entries.iter().map(|entry| entry.tool.name.as_str()).collect()
}

#[test]
fn rv_t1_a_second_tool_of_a_name_takes_the_place_of_the_first() {
    let tools = toolbox(["a", "b", "c"].map(local));
    tools.add(entry(Tool::new("b", "is another", "test")));
    tools.add(entry(local("d")));
    assert_eq!(tools.names(), ["a", "b", "c", "d"]);
    assert_eq!(tools.get("b").unwrap().tool.description, "is another");
    assert_eq!(tools.len(), 4);
}

#[test]
fn rv_t1_the_registry_keeps_its_own_rule() {
    let registry = Registry::new();
    registry.register(local("a"), nothing).unwrap();
    let error = registry.register(local("a"), nothing).unwrap_err();
    assert!(matches!(error, crate::registry::Error::Duplicate { .. }));
}

#[test]
fn rv_t2_a_tool_or_nothing() {
    let tools = toolbox([local("a").with_alias("other")]);
    assert!(tools.get("a").is_some());
    for absent in ["", "A", "other", "\u{0}"] {
        assert!(tools.get(absent).is_none(), "{absent}");
    }
}

#[test]
fn rv_t3_lists_are_the_callers_own() {
    let tools = toolbox(["c", "a", "b"].map(local));
    let (mut all, mut names_of) = (tools.all(), tools.names());
    assert_eq!(names(&all), ["c", "a", "b"]);
    all.clear();
    names_of.reverse();
    assert_eq!(
        (names(&tools.all()).len(), tools.names()),
        (3, vec!["c".into(), "a".into(), "b".into()])
    );
}

#[test]
fn rv_t4_counts_and_membership() {
    let tools = toolbox(["a", "1"].map(local));
    assert!((tools.len(), tools.is_empty()) == (2, false) && Toolbox::new().is_empty());
    assert!(tools.contains("a") && !tools.contains("b"));
    // What is no text is no name: it does not compile, and as JSON it is not in there.
    let has = |name: Value| name.as_str().is_some_and(|name| tools.contains(name));
    assert!(has(json!("1")) && !has(json!(1)) && !has(json!(null)) && !has(json!(["a"])));
}

#[test]
fn rv_t5_tools_by_the_risk_that_they_declare() {
    let risky = |name: &str, risk| local(name).with_risk(risk);
    let tools = toolbox([
        local("undeclared"),
        risky("low", Risk::Low),
        risky("high", Risk::High),
        risky("critical", Risk::Critical),
        local("reads").read_only(),
        web_search(),
    ]);
    let check = |risk, expected: &[&str]| assert_eq!(names(&tools.by_risk(risk)), expected);
    check(Risk::Low, &["undeclared", "low", "reads", "web_search"]);
    check(Risk::Medium, &[]);
    check(Risk::High, &["high"]);
    check(Risk::Critical, &["critical"]);
    // A list is no leave: gates do not take silence for harmless.
    assert_eq!(tools.get("undeclared").unwrap().subject().risk, Risk::High);
}

#[test]
fn rv_t6_three_kinds_side_by_side() {
    let tools = toolbox([local("a"), web_search(), shell()]);
    let kinds: Vec<_> = tools.all().iter().map(|entry| entry.tool.kind.is_local()).collect();
    assert_eq!(kinds, [true, false, false]);

    let registry = Arc::new(Registry::new());
    let provider = registry.provider("test");
    let offers = vec![Offer::hosted(web_search()), Offer::new(shell(), nothing)];
    assert!(provider.publish(offers).is_empty());
    let snapshot = registry.snapshot();
    let answering =
        |call_type| snapshot.find_by_call_type(call_type).map(|entry| &*entry.tool.name);
    assert_eq!(answering("local_shell_call"), Some("shell"));
    assert_eq!(answering("web_search"), None);
}

#[test]
fn rv_t6_what_a_kind_says_is_bounded() {
    let check = |tool: Tool, expected: &str| {
        let registry = Registry::new();
        let error = registry.register(tool, nothing).unwrap_err();
        assert!(error.to_string().ends_with(expected), "{error}");
    };
    let long = json!({"type": "x".repeat(crate::tool_kind::PROVIDER_SPEC_BYTES_MAX)});
    let many = (0..17).map(|at| (format!("p{at}"), json!({})));
    check(local("a").hosted_by_provider([("p", long)].into_iter().collect()), "is too long");
    check(local("a").hosted_by_provider(many.collect()), "for too many providers");
    let defined =
        |types: Vec<String>| local("a").defined_by_provider(ProviderSpecs::default(), types);
    check(defined(Vec::new()), "or one without a name");
    check(defined(vec![String::new()]), "or one without a name");
    check(defined((0..65).map(|at| at.to_string()).collect()), "too many types of calls");
}

#[test]
fn rv_t7_schemas_are_marked_only_where_the_tool_asks_for_it() {
    let tools =
        toolbox([local("a"), local("b").deferred(), web_search(), hosted_nowhere(), shell()]);
    let parameters = json!({"type": "object", "properties": {"a": {"type": "string"}}});
    assert_eq!(
        tools.schemas(),
        [
            json!({"name": "a", "description": "Does a.", "parameters": parameters}),
            json!({
                "name": "b", "description": "Does b.", "parameters": parameters,
                "defer_loading": true
            }),
            json!({"type": "web_search_20250305", "name": "web_search"}),
            json!({"type": "local_shell"}),
        ]
    );
    // As it is, to the order of its members.
    let openai_first = web_search().kind.specs().unwrap().iter().collect::<Vec<_>>()[1].1.clone();
    let specs = [("openai", openai_first)].into_iter().collect();
    let schemas = toolbox([local("w").hosted_by_provider(specs)]).schemas();
    assert_eq!(schemas[0].to_string(), r#"{"type":"web_search","zeta":1,"alpha":[2]}"#);
}

#[test]
fn rv_t8_a_schema_by_name_is_full_and_has_no_mark() {
    let tools = toolbox([local("b").deferred(), web_search(), hosted_nowhere()]);
    let schema = tools.schema_for("b").unwrap();
    assert_eq!(schema["description"], "Does b.");
    assert!(schema.get("parameters").is_some() && schema.get("defer_loading").is_none());
    assert_eq!(tools.schema_for("web_search").unwrap()["type"], "web_search_20250305");
    assert_eq!(tools.schema_for("missing"), None);
    assert_eq!(tools.schema_for("nowhere"), None);
}

#[test]
fn rv_t9_deferred_schemas_mark_every_local_tool() {
    let tools = toolbox([local("a"), web_search(), local("b").deferred(), hosted_nowhere()]);
    let schemas = tools.deferred_schemas(SearchMark::Absent);
    let marks: Vec<_> = schemas.iter().map(|schema| schema.get("defer_loading").cloned()).collect();
    assert_eq!(marks, [Some(json!(true)), None, Some(json!(true))]);
    assert_eq!(schemas[1], json!({"type": "web_search_20250305", "name": "web_search"}));

    let marked = tools.deferred_schemas(SearchMark::Appended);
    assert_eq!(marked[..3], schemas);
    assert_eq!(marked[3..], [json!({"type": "tool_search"})]);
}

/// 1c.35: what a list of schemas and a spec say of deferring is one attribute.
#[test]
fn rv_1c35_deferring_is_one_attribute() {
    for tool in [local("a"), local("a").deferred()] {
        let Some(ToolSpec::Function(spec)) = spec_of(&tool, "any") else { panic!("no function") };
        let schema = toolbox([tool.clone()]).schemas().remove(0);
        assert_eq!(schema.get("defer_loading").is_some(), tool.defer);
        assert_eq!(spec.defer_loading, tool.defer);
    }
}

/// What an agent is made with.
fn agent_tools(tools: impl Into<Toolbox>) -> Toolbox {
    tools.into()
}

#[test]
fn rv_t10_a_list_becomes_a_toolbox_and_a_toolbox_stays_the_same_one() {
    let tools = toolbox([local("a")]);
    let given = agent_tools(tools.clone());
    assert!(given.is_same(&tools));
    tools.add(entry(local("b")));
    assert_eq!(given.names(), ["a", "b"]);

    let wrapped = agent_tools(tools.all());
    assert!(!wrapped.is_same(&tools));
    tools.add(entry(local("c")));
    assert_eq!(wrapped.names(), ["a", "b"]);
}

#[test]
fn rv_t11_a_provider_is_told_of_what_it_knows() {
    let spec = |tool: &Tool, provider| spec_of(tool, provider);
    let function = FunctionSpec {
        name: "a".into(),
        description: "Does a.".into(),
        parameters: local("a").parameters,
        defer_loading: false,
        strict: true,
    };
    for provider in ["openai", "anthropic", "nobody"] {
        assert_eq!(spec(&local("a"), provider), Some(ToolSpec::Function(function.clone())));
    }
    let shell_spec = ProviderSpec {
        name: "shell".into(),
        provider: "openai".into(),
        spec: json!({"type": "local_shell"}),
    };
    assert_eq!(spec(&shell(), "openai"), Some(ToolSpec::Provider(shell_spec)));
    assert_eq!(spec(&shell(), "anthropic"), None);
    assert_eq!(spec(&hosted_nowhere(), "openai"), None);

    let tools = toolbox([local("a"), web_search(), shell()]);
    assert_eq!(tools.specs_for("anthropic").len(), 2);
    assert_eq!(tools.specs_for("openai").len(), 3);
}

#[test]
fn rv_t11_what_is_left_out_is_told() {
    let logs = logs_of(|| {
        let _ = spec_of(&shell(), "anthropic");
    });
    assert!(
        logs.contains("WARN") && logs.contains("shell") && logs.contains("anthropic"),
        "{logs}"
    );
}

/// What is logged meanwhile on this thread.
fn logs_of(work: impl FnOnce()) -> String {
    #[derive(Clone, Default)]
    struct Written(Arc<parking_lot::Mutex<Vec<u8>>>);
    impl std::io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let written = Written::default();
    let writer = written.clone();
    let subscriber =
        tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    tracing::subscriber::with_default(subscriber, work);
    let bytes = written.0.lock().clone();
    String::from_utf8(bytes).unwrap()
}

/// 1c.25: what a chain cannot call is not among its names.
#[test]
fn rv_1c25_a_chain_is_offered_what_it_may_call() {
    let tools = toolbox([local("a"), web_search(), shell(), local(TOOL_CHAIN), local("b-c")]);
    assert_eq!(tools.chain_names(), ["a", "b-c"]);
}

#[test]
fn a_view_bounds_a_toolbox() {
    let registry = Registry::new();
    for name in ["b", "a"] {
        registry.register(local(name), nothing).unwrap();
    }
    let scope = Scope::new(Door::Turn, Principal::local(), AgentName::standard());
    assert_eq!(Toolbox::of(&registry.snapshot(), &scope).names(), ["b", "a"]);
    let scope = scope.with_view(View::all().only(["test/a"]));
    assert_eq!(Toolbox::of(&registry.snapshot(), &scope).names(), ["a"]);
}
