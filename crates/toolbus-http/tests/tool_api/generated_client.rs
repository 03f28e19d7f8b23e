//! A client that a generator of others has made of the description drives every address.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::json;
use tokio::net::TcpListener;
use toolbus_http::tool_api::openapi_document;
use toolbus_testkit::openapi_client;
use toolbus_testkit::state::StatePlace;

use crate::bench::{ADMIN, Bench, CLIENT, LIMIT};

const DRIVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tool_api/drive_client.py");

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
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = bench.router.clone();
    let serving = async { axum::serve(listener, router).await };

    driver.arg(DRIVER).args([&url, ADMIN, CLIENT]).env("PYTHONPATH", folder.path());
    let driving = tokio::task::spawn_blocking(move || driver.output().unwrap());
    let output = tokio::select! {
        served = serving => panic!("the server has ended: {served:?}"),
        output = tokio::time::timeout(LIMIT * 2, driving) => output.unwrap().unwrap(),
    };
    expect_success(&output);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said.trim(), json!({"operations": 15}).to_string(), "{said}");
    bench.api.drain(LIMIT).await;
}
