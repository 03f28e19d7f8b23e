//! Questions about artifacts, asked by tools.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use toolbus_artifacts::{NewArtifact, tools};
use toolbus_query::{Engine, WORKER_MODE};
use toolbus_tools::call::Output;
use toolbus_tools::{ArtifactReach, ArtifactRef, ArtifactSet, Invoker, Scope};
use toolbus_wire::ErrorCode;

use crate::support::{Bench, call, config, scope};

const LINES: &str =
    "{\"n\": 1, \"kind\": \"a\"}\n{\"n\": 2, \"kind\": \"b\"}\n{\"n\": 3, \"kind\": \"a\"}\n";

/// An invoker with the tools, and an artifact of JSON lines.
async fn asked(bench: &Bench) -> (Invoker, ArtifactRef) {
    let (invoker, _) = bench.invoker(Output::default());
    let own = std::env::current_exe().unwrap();
    let programs = own.parent().and_then(std::path::Path::parent).unwrap();
    let engine = Engine::new(programs.join("toolbus-query-worker"), [WORKER_MODE]).unwrap();
    tools::register(invoker.registry(), &bench.artifacts, &engine).unwrap();
    let new = NewArtifact::of(&scope("session/a"), "application/x-ndjson", "tool", "call");
    (invoker, bench.artifacts.store(new, LINES).await.unwrap().reference)
}

async fn ask(invoker: &Invoker, scope: &Arc<Scope>, tool: &str, arguments: Value) -> Output {
    call(invoker, scope, tool, arguments).await.unwrap()
}

#[tokio::test]
async fn each_tool_answers_from_the_artifact() {
    let bench = Bench::sqlite(config());
    let (invoker, artifact) = asked(&bench).await;
    let scope = scope("session/a");
    let check = async |tool: &str, mut arguments: Value, expected: &str| {
        arguments["artifact"] = artifact.to_value();
        let output = ask(&invoker, &scope, tool, arguments).await;
        assert_eq!(output.content.unwrap().trim_end(), expected, "{tool}");
    };

    check("artifact_jq", json!({"filter": ".n * 2"}), "2\n4\n6").await;
    check("artifact_grep", json!({"pattern": "b", "count": true}), "1").await;
    let sql = json!({"statement": "SELECT kind, sum(n) AS n FROM data GROUP BY kind"});
    check("artifact_sql", sql, "[{\"kind\":\"a\",\"n\":4},\n{\"kind\":\"b\",\"n\":2}]").await;
    let lines = json!({"from_line": 2, "lines": 1});
    let output = ask(&invoker, &scope, "artifact_slice", {
        let mut lines = lines.clone();
        lines["artifact"] = json!(artifact.as_str());
        lines
    });
    assert!(output.await.content.unwrap().starts_with("{\"n\": 2"));
    let head = ask(&invoker, &scope, "artifact_head", json!({"artifact": artifact.as_str()})).await;
    assert!(head.content.unwrap().contains("\"n\": 3"));
}

/// The parts of an artifact, one after the other, are the artifact: whatever its bytes are, and
/// wherever it is cut.
#[test]
fn slices_are_put_together_again() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let bench = Bench::sqlite(config());
    let (invoker, _) = runtime.block_on(asked(&bench));
    let scope = scope("session/a");

    let text =
        proptest::collection::vec(proptest::sample::select(vec!["a", "é", "\n", "😀"]), 0..60)
            .prop_map(|parts| parts.concat().into_bytes());
    let bytes =
        proptest::prop_oneof![text, proptest::collection::vec(proptest::num::u8::ANY, 0..80)];
    let config = ProptestConfig::with_cases(24);
    TestRunner::new(config)
        .run(&(bytes, 1_u64..40), |(bytes, length)| {
            let whole = runtime.block_on(put_together(&bench, &invoker, &scope, &bytes, length));
            proptest::prop_assert_eq!(whole, bytes);
            Ok(())
        })
        .unwrap();
}

async fn put_together(
    bench: &Bench,
    invoker: &Invoker,
    scope: &Arc<Scope>,
    bytes: &[u8],
    length: u64,
) -> Vec<u8> {
    let new = NewArtifact::of(scope, "text/plain", "tool", "call");
    let stored = bench.artifacts.store(new, bytes.to_vec()).await.unwrap();
    let (mut whole, mut offset) = (Vec::new(), 0_u64);
    while offset < bytes.len() as u64 {
        let artifact = stored.reference.to_value();
        let arguments = json!({"artifact": artifact, "offset": offset, "length": length});
        let output = ask(invoker, scope, "artifact_slice", arguments).await;
        let value: Value = serde_json::from_str(output.structured.unwrap().text()).unwrap();
        let text = value["text"].as_str().unwrap();
        match value["encoding"].as_str() {
            Some("base64") => whole.extend(STANDARD.decode(text).unwrap()),
            _ => whole.extend(text.as_bytes()),
        }
        let end = value["range"]["end"].as_u64().unwrap();
        assert!(end > offset, "{value}");
        offset = end;
    }
    whole
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused() {
    let bench = Bench::sqlite(config());
    let (invoker, artifact) = asked(&bench).await;
    let refused = async |scope: &Arc<Scope>, tool: &str, arguments: Value| {
        call(&invoker, scope, tool, arguments).await.unwrap_err()
    };
    let own = scope("session/a");
    let name = artifact.as_str();

    let foreign = refused(&scope("session/b"), "artifact_head", json!({"artifact": name})).await;
    assert!(foreign.message.contains("there is no artifact"), "{}", foreign.message);
    let outside = ArtifactReach::Only(ArtifactSet::default());
    let chain = Arc::new(Scope { artifacts: outside, ..(*own).clone() });
    let unseen = refused(&chain, "artifact_head", json!({"artifact": name})).await;
    assert!(unseen.message.contains("there is no artifact"), "{}", unseen.message);

    let filter = json!({"artifact": name, "filter": ".["});
    assert_eq!(refused(&own, "artifact_jq", filter).await.code, ErrorCode::InvalidArguments);
    let unknown = json!({"artifact": name, "filter": ".", "other": 1});
    assert_eq!(refused(&own, "artifact_jq", unknown).await.code, ErrorCode::InvalidArguments);
    let write = json!({"artifact": name, "statement": "DROP TABLE data"});
    assert_eq!(refused(&own, "artifact_sql", write).await.code, ErrorCode::InvalidArguments);
}
