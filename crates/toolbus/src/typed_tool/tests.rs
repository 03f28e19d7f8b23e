use std::collections::{BTreeMap, HashMap};
use std::future::{pending, ready};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use toolbus_bus::Progress;
use toolbus_tools::budget::BudgetLimits;
use toolbus_tools::call::{CallTime, Outcome};
use toolbus_tools::{Budget, Call, Principal};
use toolbus_wire::json::RawJson;
use toolbus_wire::{ErrorCode, Execution};

use super::*;
use crate::Toolbus;

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

/// A comment that is for readers of the code.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
struct Order {
    /// What is ordered.
    items: Vec<Item>,
    note: Option<String>,
    #[serde(default)]
    express: bool,
}

#[derive(Debug, Deserialize, Serialize, JsonSchema)]
struct Item {
    name: String,
    count: Count,
}

/// Its schema says nothing of what it takes.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
struct Count(u32);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u32::deserialize(deserializer)? {
            0 => Err(serde::de::Error::custom("nothing cannot be ordered")),
            count => Ok(Self(count)),
        }
    }
}

fn add() -> TypedTool {
    tool("add", "Adds.", |args: Add, _| async move { Ok(args.a + args.b) })
}

fn parameters<A: DeserializeOwned + JsonSchema + 'static>() -> Value {
    tool("x", "", |_: A, _| ready(Ok(()))).definition().parameters.clone()
}

fn output_schema<R: Serialize + JsonSchema + 'static>() -> Option<Value> {
    let never = |_: NoArguments, _| pending::<Result<R, ToolFailure>>();
    tool("x", "", never).definition().output_schema.clone()
}

/// What becomes of a call of this tool alone.
async fn call(tool: TypedTool, arguments: Value) -> Outcome {
    let name = tool.definition().name.clone();
    let toolbus = Toolbus::builder().tool(tool).open().await.unwrap();
    let outcome = toolbus.call(&toolbus.local_scope(), &name, arguments).await;
    toolbus.close().await;
    outcome
}

#[test]
fn the_schema_of_arguments_is_that_of_their_type() {
    let count = json!({
        "description": "Its schema says nothing of what it takes.",
        "type": "integer",
        "format": "uint32",
        "minimum": 0
    });
    let item = json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "count": count},
        "required": ["name", "count"]
    });
    let order = json!({
        "type": "object",
        "properties": {
            "items": {"description": "What is ordered.", "type": "array", "items": item},
            "note": {"type": "string"},
            "express": {"type": "boolean", "default": false}
        },
        "required": ["items"]
    });
    assert_eq!(parameters::<Order>(), order);
    assert_eq!(parameters::<NoArguments>(), json!({"type": "object", "properties": {}}));
}

#[test]
fn only_results_that_are_objects_have_a_schema() {
    assert_eq!(output_schema::<i64>(), None);
    assert_eq!(output_schema::<String>(), None);
    assert_eq!(output_schema::<Vec<Item>>(), None);
    assert_eq!(output_schema::<Option<Order>>(), None);
    assert_eq!(
        output_schema::<BTreeMap<String, bool>>(),
        Some(json!({"type": "object", "additionalProperties": {"type": "boolean"}}))
    );
    // What is always written is always there, be it optional to readers.
    let schema = output_schema::<Order>().unwrap();
    assert_eq!(schema["required"], json!(["items", "note", "express"]));
    let own = tool_with_output("x", "", |_: NoArguments, _| ready(Ok(Output::default())));
    assert_eq!(own.definition().output_schema, None);
}

#[test]
fn where_nothing_is_said_a_tool_is_taken_for_the_worst() {
    let tool = add();
    let Tool { annotations, risk, timeout, source, title, .. } = tool.definition();
    assert_eq!((*annotations, *risk), (Annotations::default(), None));
    assert_eq!((*timeout, &**source, title), (Duration::from_secs(60), "local", &None));
}

#[test]
fn what_is_said_of_a_tool_is_what_callers_see() {
    let tool = add()
        .title("Addition")
        .alias("plus")
        .group("sums")
        .source("calculator")
        .timeout(Duration::from_secs(3))
        .risk(Risk::Medium)
        .idempotent();
    let seen = tool.definition();
    assert_eq!((&*seen.name, &*seen.description), ("add", "Adds."));
    assert_eq!(seen.title.as_deref(), Some("Addition"));
    assert_eq!((&*seen.aliases, seen.group.as_deref()), (&["plus".to_owned()][..], Some("sums")));
    assert_eq!((&*seen.source, seen.timeout), ("calculator", Duration::from_secs(3)));
    assert_eq!(seen.risk, Some(Risk::Medium));
    assert_eq!(seen.annotations, Annotations { idempotent: true, ..Annotations::default() });

    let seen = tool.read_only();
    let seen = seen.definition();
    let expected = Annotations { read_only: true, idempotent: true, destructive: false };
    assert_eq!(seen.annotations, expected);
    assert_eq!(seen.risk, Some(Risk::Low));
}

#[tokio::test]
async fn a_result_is_text_and_a_value() {
    let check = async |tool: TypedTool, text: Option<&str>, structured: Option<Value>| {
        let output = call(tool, json!({"a": 1, "b": 2})).await.unwrap();
        let structured = structured.map(|value| RawJson::of(&value));
        assert_eq!((output.content.as_deref(), output.structured), (text, structured));
        assert!(output.blocks.is_empty() && !output.is_error);
    };
    check(add(), Some("3"), Some(json!(3))).await;
    let text = tool("t", "", |args: Add, _| async move { Ok(format!("{}!", args.a)) });
    check(text, Some("1!"), None).await;
    let nothing = tool("t", "", |_: Add, _| ready(Ok(())));
    check(nothing, None, None).await;
    let list = tool("t", "", |args: Add, _| ready(Ok(vec![args.a, args.b])));
    check(list, Some("[1,2]"), Some(json!([1, 2]))).await;
    let object =
        tool("t", "", |args: Add, _| ready(Ok(BTreeMap::from([("sum", args.a + args.b)]))));
    check(object, Some("{\"sum\":3}"), Some(json!({"sum": 3}))).await;
    let own = tool_with_output("t", "", |_: Add, _| {
        ready(Ok(Output { structured: Some(RawJson::of(&1)), ..Output::text("one") }))
    });
    check(own, Some("one"), Some(json!(1))).await;
}

#[tokio::test]
async fn a_tool_may_say_itself_that_it_failed() {
    let own = tool_with_output("t", "", |_: NoArguments, _| ready(Ok(Output::error("no paper"))));
    let output = call(own, json!({})).await.unwrap();
    assert_eq!((output.is_error, output.content.as_deref()), (true, Some("no paper")));
}

#[tokio::test]
async fn null_is_an_optional_argument_that_is_not_given() {
    let order = tool("order", "", |order: Order, _| {
        ready(Ok(format!("{} {:?} {}", order.items.len(), order.note, order.express)))
    });
    let output = call(order, json!({"items": [], "note": null, "express": null})).await.unwrap();
    assert_eq!(output.content.as_deref(), Some("0 None false"));

    let order = tool("order", "", |order: Order, _| ready(Ok(order.items.len())));
    let error = call(order, json!({"items": null})).await.unwrap_err();
    assert_eq!(error.message, "/items: null is not of type \"array\"");
}

#[tokio::test]
async fn wrong_arguments_name_the_member_and_run_nothing() {
    let runs = Arc::new(AtomicUsize::new(0));
    let check = async |arguments: Value, expected: &str| {
        let runs_too = Arc::clone(&runs);
        let order = tool("order", "", move |_: Order, _| {
            runs_too.fetch_add(1, Ordering::Relaxed);
            ready(Ok(()))
        });
        let error = call(order, arguments).await.unwrap_err();
        assert_eq!(error.message, expected);
        assert_eq!(
            (error.code, error.execution),
            (ErrorCode::InvalidArguments, Execution::NotStarted)
        );
    };
    // By the schema,
    check(json!({}), "Missing required argument: items").await;
    let wrong = json!({"items": [{"name": 1, "count": 1}]});
    check(wrong, "/items/0/name: 1 is not of type \"string\"").await;
    check(json!([]), "arguments must be a JSON object, not an array").await;
    // and by the type, where it takes less than its schema says.
    let wrong = json!({"items": [{"name": "pen", "count": 1}, {"name": "cap", "count": 0}]});
    check(wrong, "items[1].count: nothing cannot be ordered").await;
    assert_eq!(runs.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn a_type_that_takes_no_object_at_all_says_so() {
    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(try_from = "BTreeMap<String, i64>")]
    #[schemars(with = "BTreeMap<String, i64>")]
    struct Even;

    impl TryFrom<BTreeMap<String, i64>> for Even {
        type Error = String;
        fn try_from(members: BTreeMap<String, i64>) -> Result<Self, String> {
            if members.len().is_multiple_of(2) {
                Ok(Self)
            } else {
                Err("an odd number of members".into())
            }
        }
    }

    let even = || tool("even", "", |_: Even, _| ready(Ok(())));
    assert!(call(even(), json!({"a": 1, "b": 2})).await.is_ok());
    let error = call(even(), json!({"a": 1})).await.unwrap_err();
    assert_eq!(error.message, "an odd number of members");
}

#[tokio::test]
async fn a_type_that_holds_itself_is_checked_to_its_depth() {
    #[derive(Deserialize, JsonSchema)]
    struct Tree {
        children: Vec<Tree>,
    }

    fn depth(tree: &Tree) -> usize {
        1 + tree.children.iter().map(depth).max().unwrap_or(0)
    }

    let measure = || tool("depth", "", |tree: Tree, _| async move { Ok(depth(&tree)) });
    let tree = json!({"children": [{"children": []}, {"children": [{"children": []}]}]});
    assert_eq!(call(measure(), tree).await.unwrap().structured, Some(RawJson::of(&3)));
    let error = call(measure(), json!({"children": [{"children": [{}]}]})).await.unwrap_err();
    assert_eq!(error.message, "/children/0/children/0 misses 'children'");
}

#[tokio::test]
async fn an_error_of_the_function_is_the_outcome() {
    let parse = |args: Item, _| async move { Ok(args.name.parse::<i64>()?) };
    let error = call(tool("parse", "", parse), json!({"name": "x", "count": 1})).await.unwrap_err();
    assert_eq!(error.message, "invalid digit found in string");
    assert_eq!((error.code, error.execution), (ErrorCode::ExecutionFailed, Execution::Started));

    let busy = |_: NoArguments, _| async move {
        Err::<(), _>(CallError::new(ErrorCode::Busy, "later").into())
    };
    let error = call(tool("busy", "", busy).read_only(), json!({})).await.unwrap_err();
    assert_eq!((error.code, error.is_retryable), (ErrorCode::Busy, true));

    // A key that is no string.
    let odd = |_: NoArguments, _| ready(Ok(HashMap::from([((1, 2), 3)])));
    let odd = tool::<_, Odd<HashMap<(i32, i32), i32>>, _, _>("odd", "", move |none, context| {
        let work = odd(none, context);
        async move { work.await.map(Odd) }
    });
    let error = call(odd, json!({})).await.unwrap_err();
    assert_eq!(error.message, "the result is not JSON: key must be a string");
    assert_eq!(error.code, ErrorCode::ExecutionFailed);
}

/// A result whose schema is not of interest.
#[derive(Serialize)]
struct Odd<T>(T);

impl<T> JsonSchema for Odd<T> {
    fn schema_name() -> Cow<'static, str> {
        "Odd".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::Schema::default()
    }
}

#[tokio::test]
async fn a_panic_ends_the_call_and_nothing_else() {
    let toolbus = Toolbus::builder()
        .tool(add())
        .tool(tool("at_once", "", |args: Add, _| {
            assert!(args.a < 2, "too many");
            ready(Ok(()))
        }))
        .tool(tool("later", "", |args: Add, _| async move {
            tokio::task::yield_now().await;
            assert!(args.a < 2, "too many");
            Ok(())
        }));
    let toolbus = toolbus.open().await.unwrap();
    let scope = toolbus.local_scope();

    for name in ["at_once", "later"] {
        let error = toolbus.call(&scope, name, json!({"a": 2, "b": 0})).await.unwrap_err();
        assert_eq!(error.message, format!("tool '{name}' failed: it panicked"));
        assert_eq!((error.code, error.execution), (ErrorCode::ExecutionFailed, Execution::Started));
    }
    assert!(toolbus.call(&scope, "later", json!({"a": 1, "b": 0})).await.is_ok());
    assert!(toolbus.call(&scope, "add", json!({"a": 2, "b": 0})).await.is_ok());
}

#[tokio::test]
async fn a_function_knows_its_call_and_reports_to_its_caller() {
    let tool = tool("who", "", |_: NoArguments, context: ToolContext| async move {
        context.report("looking");
        context.report_progress(1.0, Some(2.0));
        let name = context.scope().principal.name.to_string();
        Ok((name, context.time_left().as_secs(), context.call_id().to_string()))
    });
    let toolbus = Toolbus::builder().tool(tool).open().await.unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let hears = Arc::clone(&heard);

    let scope = Arc::new(toolbus.scope(Principal::claimed("alice")));
    let call = Call::by_name(&scope, "who", json!({})).unwrap();
    let id = call.id.to_string();
    let call = call.with_time(CallTime::within(Duration::from_secs(9)));
    let call = call.with_progress(Progress::to(move |progress| hears.lock().push(progress)));

    let output = toolbus.invoke(call).await.unwrap();
    let (name, seconds, told): (String, u64, String) =
        serde_json::from_str(output.structured.unwrap().text()).unwrap();
    assert_eq!((&*name, told), ("alice", id));
    assert!((7..=9).contains(&seconds), "{seconds}");
    let heard = heard.lock();
    assert_eq!(heard[0].message.as_deref(), Some("looking"));
    assert_eq!((heard[1].progress, heard[1].total), (Some(1.0), Some(2.0)));
}

#[tokio::test]
async fn a_function_calls_other_tools_in_the_name_of_its_caller() {
    let twice = tool("twice", "", |args: Add, context: ToolContext| async move {
        let once = context.call("add", json!({"a": args.a, "b": args.b})).await?;
        let once = once
            .structured
            .and_then(|sum| sum.text().parse::<i64>().ok())
            .ok_or_else(|| ToolFailure::new("no sum"))?;
        let sum = context.call("add", json!({"a": once, "b": once})).await?;
        Ok(sum.content.unwrap_or_default())
    });
    let toolbus = Toolbus::builder().tool(add()).tool(twice).open().await.unwrap();
    let within = |calls| {
        let limits = BudgetLimits { calls: Some(calls), ..BudgetLimits::default() };
        let budget = Budget::limited(limits);
        (Arc::new(toolbus.scope(Principal::local()).with_budget(budget.clone())), budget)
    };

    let (scope, budget) = within(3);
    let output = toolbus.call(&scope, "twice", json!({"a": 1, "b": 2})).await.unwrap();
    assert_eq!((output.content.as_deref(), budget.usage().calls), (Some("6"), 3));
    let (scope, _) = within(2);
    let error = toolbus.call(&scope, "twice", json!({"a": 1, "b": 2})).await.unwrap_err();
    assert_eq!(
        (error.code, &*error.message),
        (ErrorCode::Denied, "the budget of calls is spent: 2 used of 2")
    );
    let error = call(
        tool("lost", "", |_: NoArguments, context: ToolContext| async move {
            Ok(context.call(&"x".repeat(300), json!({})).await?.content)
        }),
        json!({}),
    );
    assert_eq!(error.await.unwrap_err().code, ErrorCode::InvalidArguments);
}

#[tokio::test]
async fn the_error_of_an_inner_call_does_not_hide_that_another_was_started() {
    let debit = tool("debit", "", |_: NoArguments, _| ready(Ok("debited")));
    let credit = tool("credit", "", |_: NoArguments, _| {
        ready(Err::<(), _>(CallError::new(ErrorCode::Busy, "later").into()))
    });
    let transfer = tool("transfer", "", |_: NoArguments, context: ToolContext| async move {
        context.call("debit", json!({})).await?;
        context.call("credit", json!({})).await?;
        Ok(())
    });
    let toolbus = Toolbus::builder().tool(debit).tool(credit).tool(transfer);
    let toolbus = toolbus.open().await.unwrap();

    let outcome = toolbus.call(&toolbus.local_scope(), "transfer", json!({})).await;
    let error = outcome.unwrap_err();
    assert_eq!((error.code, error.execution), (ErrorCode::Busy, Execution::Started));
    assert!(!error.is_retryable, "a retry debits twice");
}

#[tokio::test(start_paused = true)]
async fn a_function_is_dropped_when_its_time_is_over() {
    let held = Arc::new(());
    let holds = Arc::clone(&held);
    let tool = tool("wait", "", move |_: NoArguments, _| {
        let held = Arc::clone(&holds);
        async move {
            pending::<()>().await;
            drop(held);
            Ok(())
        }
    });
    let error = call(tool.timeout(Duration::from_secs(5)), json!({})).await.unwrap_err();
    assert_eq!(error.message, "tool 'wait' did not end within 5000 ms");
    assert_eq!((error.code, error.execution), (ErrorCode::Timeout, Execution::Started));
    // It had a moment to hear that it was cancelled.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(Arc::strong_count(&held), 1, "the function is gone too");
}
