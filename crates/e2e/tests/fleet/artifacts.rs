//! Large results at the command line: kept apart, asked about, saved and removed.

use std::path::Path;

use serde_json::{Value, json};
use toolbus_testkit::process::{Finished, Launch};

use crate::support::LIMIT;

const LINES: &str =
    "import json\nfor n in range(5000): print(json.dumps({'n': n, 'kind': 'ab'[n % 2]}))";

/// Runs a command whose state is in this folder, and whose large results are kept apart.
async fn run(folder: &Path, arguments: &[&str]) -> Finished {
    let launch = Launch::new("agent-host").args(arguments.iter().copied());
    let launch = launch.env("XDG_STATE_HOME", folder);
    launch.env("TOOLBUS_ARTIFACTS__DOORS", r#"["command-line"]"#).run(LIMIT).await.unwrap()
}

async fn output(folder: &Path, arguments: &[&str]) -> String {
    let run = run(folder, arguments).await;
    assert!(run.status.success(), "{run:?}");
    run.stdout
}

#[tokio::test]
async fn a_large_result_is_kept_apart_and_asked_about() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert_eq!(output(folder, &["artifacts", "list"]).await, "");
    output(folder, &["tools"]).await;
    assert!(std::fs::read_dir(folder).unwrap().next().is_none(), "a look keeps nothing");

    let script = json!({"script": LINES}).to_string();
    let shown = output(folder, &["invoke", "execute_python_script", &script]).await;
    assert_eq!(shown.lines().count(), 2, "{shown}");
    let listed = output(folder, &["artifacts", "list", "--json"]).await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let name = listed[0]["artifact"].as_str().unwrap();
    assert!(shown.contains(name), "{shown}");

    let ask = async |tool: &str, mut question: Value| {
        question["artifact"] = json!({"$artifact": name});
        output(folder, &["invoke", tool, &question.to_string()]).await
    };
    let counted = ask("artifact_sql", json!({"statement": "SELECT count(*) AS n FROM data"})).await;
    assert_eq!(counted, "[{\"n\":5000}]\n");
    assert_eq!(ask("artifact_jq", json!({"filter": "select(.n == 4999).kind"})).await, "\"b\"\n");
    let found = ask("artifact_grep", json!({"pattern": "\"n\": 4999"})).await;
    assert!(found.starts_with("5000:{"), "{found}");

    // As an argument it is the whole.
    let count = "import os; print(len(os.environ['ROCKBOT_INPUT'].splitlines()))";
    let whole = json!({"script": count, "input_data": {"$artifact": name}}).to_string();
    assert_eq!(output(folder, &["invoke", "execute_python_script", &whole]).await, "5000\n");

    let file = folder.join("saved");
    let file = file.to_str().unwrap();
    output(folder, &["artifacts", "save", name, file]).await;
    assert_eq!(std::fs::read_to_string(file).unwrap().lines().count(), 5000);
    let again = run(folder, &["artifacts", "save", name, file]).await;
    assert_eq!(again.status.code(), Some(1), "a file that is there stays: {again:?}");
    output(folder, &["artifacts", "remove", name]).await;
    let gone = run(folder, &["artifacts", "save", name, "-"]).await;
    assert_eq!(gone.status.code(), Some(1), "{gone:?}");
    assert!(gone.stderr.contains("there is no artifact"), "{gone:?}");
}

/// Bytes that are changed where they are kept are never given out.
#[tokio::test]
async fn a_result_that_was_changed_is_told_as_that() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let script = json!({"script": LINES}).to_string();
    output(folder, &["invoke", "execute_python_script", &script]).await;
    let listed = output(folder, &["artifacts", "list", "--json"]).await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let name = listed[0]["artifact"].as_str().unwrap();

    let kept = folder.join("toolbus/artifacts");
    let objects = std::fs::read_dir(kept).unwrap().next().unwrap().unwrap();
    let object = std::fs::read_dir(objects.path()).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(&object).unwrap();
    std::fs::write(&object, text.replace("4999", "4998")).unwrap();
    let question = json!({"artifact": name, "filter": "."}).to_string();
    for arguments in [&["invoke", "artifact_jq", &question][..], &["artifacts", "save", name, "-"]]
    {
        let run = run(folder, arguments).await;
        let code = if run.stderr.contains("invalid_arguments: ") { 2 } else { 1 };
        assert_eq!(run.status.code(), Some(code), "{run:?}");
        assert!(run.stderr.contains("were changed or removed"), "{run:?}");
    }
}
