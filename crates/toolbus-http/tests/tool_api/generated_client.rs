//! A client that a generator of others has made of the description drives every address, and is
//! answered with every code of the table.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output};

use serde::Deserialize;
use tokio::net::TcpListener;
use toolbus_http::tool_api::openapi_document;
use toolbus_testkit::openapi_client;
use toolbus_testkit::state::StatePlace;

use crate::bench::{ADMIN, Bench, CLIENT, LIMIT};

const DRIVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tool_api/drive_client.py");

/// What each code is provoked by: the operation that is answered with it, and what was wrong.
const CODES: [(&str, Provoked); 18] = [
    ("INVALID_REQUEST", by("execute_tool", "a name that two servers have")),
    ("INVALID_ARGUMENTS", by("execute_tool", "arguments that the schema refuses")),
    ("MISSING_REQUIRED_FIELD", by("execute_tool", "a body without tool_name")),
    ("INVALID_JSON", by("execute_tool", "a body that is cut")),
    ("TOOL_NOT_INSTALLED", by("execute_tool", "a server that nobody has")),
    ("UNAUTHORIZED", by("list_tools", "no key")),
    ("INVALID_TOKEN", by("list_tools", "a key that was revoked")),
    ("FORBIDDEN", by("execute_tool", "a reader's key, and a tool that the policy denies")),
    ("TOOL_NOT_FOUND", by("describe_tool", "a tool that nobody has")),
    ("JOB_NOT_FOUND", by("read_job", "a job that the caller does not have")),
    ("SERVER_NOT_FOUND", by("describe_server", "a server that nobody has")),
    ("PACK_NOT_FOUND", Provoked::Never("there are no packs: no address answers it")),
    ("RATE_LIMITED", by("execute_tool", "the second call of a tool within its hour")),
    ("QUOTA_EXCEEDED", by("execute_tool", "the second call of a tool within its month")),
    ("EXECUTION_ERROR", by("execute_tool", "a tool that fails")),
    ("INTERNAL_ERROR", by("list_tools", "a store whose file is no database any more")),
    ("SERVICE_UNAVAILABLE", by("execute_tool", "a tool that is away")),
    ("EXECUTION_TIMEOUT", by("execute_tool", "a tool that never ends")),
];

/// How a code is provoked.
#[derive(Debug, Clone, Copy)]
enum Provoked {
    By { operation: &'static str, how: &'static str },
    Never(&'static str),
}

const fn by(operation: &'static str, how: &'static str) -> Provoked {
    Provoked::By { operation, how }
}

/// What the driver has done.
#[derive(Debug, Deserialize)]
struct Driven {
    operations: BTreeSet<String>,
    /// The operations that were answered with each code.
    codes: BTreeMap<String, BTreeSet<String>>,
}

/// Checks that the table has every code of the description, and that the driver has met it as the
/// table says.
fn check_codes(driven: &Driven) {
    let document = serde_json::to_value(openapi_document()).unwrap();
    let described = &document["components"]["schemas"]["ApiErrorCode"]["enum"];
    let described: BTreeSet<&str> =
        described.as_array().unwrap().iter().map(|code| code.as_str().unwrap()).collect();
    assert_eq!(described, CODES.iter().map(|(code, _)| *code).collect());

    for (code, provoked) in CODES {
        let met = driven.codes.get(code);
        match provoked {
            Provoked::By { operation, how } => {
                assert!(met.is_some_and(|met| met.contains(operation)), "{code}: {how}: {met:?}");
            }
            Provoked::Never(why) => assert!(met.is_none(), "{code}: {why}: {met:?}"),
        }
    }
}

/// A store whose file was overwritten with something else.
fn damaged_place() -> StatePlace {
    let place = StatePlace::sqlite();
    let file = place.folder().unwrap().join("state.db");
    std::fs::write(file, vec![b'x'; 64 << 10]).unwrap();
    place
}

fn expect_success(output: &Output) {
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
}

fn generate(mut python: Command, folder: &Path) {
    let document = serde_json::to_string(&openapi_document()).unwrap();
    std::fs::write(folder.join("openapi.json"), document).unwrap();
    // Nothing is run on what is generated.
    std::fs::write(folder.join("config.yml"), "post_hooks: []\n").unwrap();
    let generated = python
        .args(["-m", "openapi_python_client", "generate", "--meta", "none"])
        .args(["--path", "openapi.json", "--config", "config.yml"])
        .args(["--output-path", "toolbus_client", "--fail-on-warning"])
        .current_dir(folder)
        .output()
        .unwrap();
    expect_success(&generated);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generated_client_drives_every_address() {
    let (Some(python), Some(mut driver)) = (openapi_client::python(), openapi_client::python())
    else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    generate(python, folder.path());

    let bench = Bench::new(&StatePlace::sqlite());
    let damaged_place = damaged_place();
    let damaged = Bench::new(&damaged_place);
    let (url, serving) = serve(&bench).await;
    let (damaged_url, serving_damaged) = serve(&damaged).await;

    let arguments = [&*url, &*damaged_url, ADMIN, CLIENT];
    driver.arg(DRIVER).args(arguments).env("PYTHONPATH", folder.path());
    let driving = tokio::task::spawn_blocking(move || driver.output().unwrap());
    let output = tokio::select! {
        () = serving => panic!("the server has ended"),
        () = serving_damaged => panic!("the server has ended"),
        output = tokio::time::timeout(LIMIT * 2, driving) => output.unwrap().unwrap(),
    };
    expect_success(&output);
    let driven: Driven = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(driven.operations.len(), 15, "{driven:?}");
    check_codes(&driven);
    bench.api.drain(LIMIT).await;
    damaged.api.drain(LIMIT).await;
}

/// Serves a bench: its address, and what does it.
async fn serve(bench: &Bench) -> (String, impl Future<Output = ()> + use<>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = bench.router.clone();
    (url, async { axum::serve(listener, router).await.unwrap() })
}
