//! What a program finds, and what its calls give: RV-C5 to RV-C11.

use serde_json::json;
use toolbus_chain::ChainPolicy;
use toolbus_policy::{LivePolicy, PolicySettings, RuleBook};

use super::support::Chains;

#[tokio::test]
async fn rv_c5_a_result_has_text_value_reference_files_and_status() {
    let Some(chains) = Chains::open().await else { return };
    let code = "
h = tools.echo(text='hello', n=1)
print(h.text, h.structured, h.ref, h.files, h.status)
try:
    tools.echo('hello')
except TypeError as error:
    print(error)
";
    let output = chains.output(code).await;
    let (first, second) = output.split_once('\n').unwrap();
    assert_eq!(first, "hello {'text': 'hello', 'n': 1} None [] ok");
    assert_eq!(second, "echo() takes its arguments by name: echo(argument=value)");
}

#[tokio::test]
async fn rv_c6_what_fails_is_raised_and_can_be_caught() {
    let settings: PolicySettings = serde_json::from_value(json!({"rules": [{
        "name": "no-writing", "doors": ["chain"], "tools": ["test/write"],
        "effect": "deny", "reason": "not today"
    }]}))
    .unwrap();
    let policy = LivePolicy::new(RuleBook::new(&settings).unwrap());
    let Some(chains) =
        Chains::with(ChainPolicy::default(), |builder| builder.rule_book(&policy)).await
    else {
        return;
    };
    let code = "
for name in 'fail', 'crash', 'write':
    try:
        tools[name](a=1)
    except PermissionError as error:
        print('denied', error)
    except RuntimeError as error:
        print('error', error)
";
    let ran = chains.run(code).await;
    let lines: Vec<_> = ran.text.lines().collect();
    assert_eq!(lines[0], "error fail: it did not work");
    assert!(lines[1].starts_with("error crash: ") && lines[1].contains("it broke"), "{}", lines[1]);
    assert!(
        lines[2].starts_with("denied write: ") && lines[2].contains("not today"),
        "{}",
        lines[2]
    );
    assert_eq!(ran.statuses(), ["error", "error", "denied"]);
    assert_eq!(chains.written.lock().len(), 0);
}

#[tokio::test]
async fn rv_c10_a_program_returns_and_awaits_at_its_top() {
    let Some(chains) = Chains::open().await else { return };
    assert_eq!(chains.output("return 6 * 7").await, "42");
    assert_eq!(chains.output("return tools.echo(text='a')").await, "a");
    let code = "
import asyncio
handles = await asyncio.gather(*(tools.echo(text=str(n)) for n in range(100)))
return [h.text for h in handles[:3]] + [len(handles)]
";
    let ran = chains.run(code).await;
    assert!(ran.text.starts_with("the budget") || ran.text.contains("budget"), "{}", ran.text);
    let code = code.replace("100", "40");
    assert_eq!(chains.output(&code).await, r#"["0", "1", "2", 40]"#);
}

#[tokio::test]
async fn rv_c11_an_unknown_tool_is_told_with_those_that_there_are() {
    let Some(chains) = Chains::open().await else { return };
    let ran = chains.run("tools.nothing()").await;
    assert!(ran.is_error);
    assert!(
        ran.text.contains("AttributeError: no tool 'nothing'; there are crash, "),
        "{}",
        ran.text
    );
    // 1c.25: chains do not list themselves.
    assert!(!ran.text.contains("tool_chain"));
    assert_eq!(
        chains.output("print(hasattr(tools, '_secret'), 'echo' in tools)").await,
        "False True"
    );

    let ran = chains.run("tools['tool_chain'](code='1')").await;
    assert!(ran.is_error);
    assert_eq!(ran.statuses(), ["error"]);
}

#[tokio::test]
async fn rule_1c_24_names_that_are_no_identifiers_are_called_by_item_or_name() {
    let Some(chains) = Chains::open().await else { return };
    let code = "print(tools['create-pull-request'](a=1), call('create-pull-request', b=2))";
    assert_eq!(chains.output(code).await, "created created");
}

#[tokio::test]
async fn rule_1c_21_the_text_of_a_program_is_not_touched() {
    let Some(chains) = Chains::open().await else { return };
    for empty in ["", "\n", "# nothing"] {
        let ran = chains.run(empty).await;
        assert_eq!((ran.text.as_str(), ran.is_error), ("", false));
    }
    let code = "text = '''a\n    b\nc'''\ndef f():\n    return text\nreturn f()";
    assert_eq!(chains.output(code).await, "a\n    b\nc");
    let ran = chains.run("x = 1\ny = (\n").await;
    assert!(ran.text.contains("SyntaxError") && ran.text.contains("line 2"), "{}", ran.text);
}

/// 1c.28: the budget is exact however the calls are made, and the trace has one record for each.
#[tokio::test]
async fn rule_1c_28_the_budget_of_parallel_calls_is_exact() {
    let policy = ChainPolicy { tool_calls_max: 37, ..ChainPolicy::default() };
    let Some(chains) = Chains::with(policy, |builder| builder).await else { return };
    let code = "
import threading
outcomes = []
def work():
    for _ in range(25):
        try:
            tools.write(a=1)
            outcomes.append('ok')
        except Exception as error:
            outcomes.append(type(error).__name__)
threads = [threading.Thread(target=work) for _ in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
print(outcomes.count('ok'), len(outcomes))
";
    let ran = chains.run(code).await;
    assert_eq!(ran.result["output_text"], "37 200\n");
    assert_eq!(chains.written.lock().len(), 37);
    let statuses = ran.statuses();
    assert_eq!(statuses.iter().filter(|status| **status == "ok").count(), 37);
    assert_eq!((statuses.len(), &ran.result["tool_calls"]), (200, &json!(200)));
}
