//! Journals and dry runs: 1c.32.

use std::sync::Arc;

use serde_json::json;
use toolbus_tools::scope::DoorSet;
use toolbus_tools::{Door, Scope, View};
use toolbus_wire::ErrorCode;

use super::support::Chains;

#[tokio::test]
async fn rule_1c_32_a_program_with_its_journal_repeats_no_write() {
    let Some(chains) = Chains::open().await else { return };
    let code = "
for n in range(3):
    print(tools.write(n=n % 2).text)
if tools.echo(text='x').text:
    raise ValueError('later')
";
    let failed = chains.run(code).await;
    assert_eq!(chains.written.lock().len(), 3, "the same call twice is two writes");
    let journal = failed.result["journal"].as_str().unwrap();
    assert!(failed.text.contains(journal), "{}", failed.text);

    let mended = code.replace("raise ValueError('later')", "print(tools.write(n=7).text)");
    let again = chains.run_with(json!({"code": mended, "journal": journal})).await;
    assert!(!again.is_error, "{}", again.text);
    assert_eq!(again.result["output_text"], "written 1\nwritten 2\nwritten 3\nwritten 4\n");
    assert_eq!(chains.written.lock().len(), 4);

    // Without the journal it is another run.
    chains.run(code).await;
    assert_eq!(chains.written.lock().len(), 7);
}

#[tokio::test]
async fn a_journal_is_its_sessions() {
    let Some(chains) = Chains::open().await else { return };
    let ran = chains.run("tools.write(n=1)").await;
    let journal = ran.result["journal"].as_str().unwrap();
    let arguments = json!({"code": "tools.write(n=1)", "journal": journal});
    let other = chains.toolbus.call(&chains.scope("session/b"), "tool_chain", arguments).await;
    assert!(other.unwrap_err().message.contains("there is no journal"));
    assert_eq!(chains.written.lock().len(), 1);
    // A program that writes nothing has none.
    assert_eq!(chains.run("tools.echo(text='a')").await.result.get("journal"), None);
}

/// Rules may refuse the write of a program that came through another door: it does not read the
/// result either.
#[tokio::test]
async fn a_journal_is_its_lineages() {
    let Some(chains) = Chains::open().await else { return };
    let ran = chains.run("tools.write(n=1)").await;
    let journal = ran.result["journal"].as_str().unwrap();
    let arguments = json!({"code": "print(tools.write(n=1).text)", "journal": journal});

    let scope = Scope::clone(&chains.scope("session/a"));
    let others = [
        scope.clone().through(DoorSet::of(&[Door::Http])),
        scope.with_view(View::all().without(["test/another"])),
    ];
    for other in others {
        let called = chains.toolbus.call(&Arc::new(other), "tool_chain", arguments.clone()).await;
        let error = called.unwrap_err();
        assert_eq!(error.code, ErrorCode::Denied, "{error:?}");
        assert!(error.message.contains("through other doors"), "{error:?}");
    }

    let again = chains.run_with(arguments).await;
    assert_eq!(again.result["output_text"], "written 1\n");
    assert_eq!(chains.written.lock().len(), 1);
}

#[tokio::test]
async fn a_dry_run_reads_and_lists_what_it_would_write() {
    let Some(chains) = Chains::open().await else { return };
    let code = "print(tools.echo(text='read'))\nprint(tools.write(n=1), tools.write(n=2).status)";
    let ran = chains.run_with(json!({"code": code, "dry_run": true})).await;
    assert_eq!(ran.result["output_text"], "read\n[dry run: write was not run] ok\n");
    assert_eq!(chains.written.lock().len(), 0);
    let expected =
        json!([{"tool": "write", "arguments": {"n": 1}}, {"tool": "write", "arguments": {"n": 2}}]);
    assert_eq!(ran.result["skipped_writes"], expected);
    assert!(ran.text.contains("[would run"), "{}", ran.text);
}
