//! OpenAPI documents of the settings: read from files and addresses, and made endpoints.

use std::sync::Arc;

use serde_json::json;
use toolbus_testkit::scripted_server::{Asked, Part, Reply, Server};
use toolbus_toolkits::CredentialPlaces;
use toolbus_toolkits::rest::{
    self, AuthType, Imported, OpenApiDocument, Rest, RestDeps, RestEndpoint, RestSettings,
};
use toolbus_tools::{Invoker, Registry};

use crate::support::{Vault, call};

const TOKEN: &str = "canary-token-of-a-document";

/// A document with one operation of this name, in YAML.
fn yaml_document(operation: &str, server: &str) -> String {
    format!(
        "openapi: 3.0.3\nservers:\n  - url: {server}\npaths:\n  /pets:\n    get:\n      \
         operationId: {operation}\n      summary: Lists pets\n"
    )
}

fn document(name: &str, document: &str) -> OpenApiDocument {
    OpenApiDocument {
        name: name.to_owned(),
        document: document.into(),
        ..OpenApiDocument::default()
    }
}

async fn imported(documents: Vec<OpenApiDocument>) -> (Vec<RestEndpoint>, Vec<(String, String)>) {
    let settings = RestSettings {
        endpoints: vec![RestEndpoint { name: "taken".to_owned(), ..RestEndpoint::default() }],
        openapi: documents,
        ..RestSettings::default()
    };
    let read = Imported::read(&settings, &RestDeps::default()).await.expect("a client");
    let problems = read.problems.into_iter().map(|(name, error)| (name, error.to_string()));
    (read.endpoints, problems.collect())
}

#[tokio::test]
async fn documents_are_read_from_files_and_addresses() {
    let server = Server::answering_any(|asked: &Asked| match asked.path.as_str() {
        "/openapi.yaml" => {
            let text = yaml_document("listPets", "https://ignored.example");
            Reply::body(200, "application/yaml", text.as_str())
        }
        _ => Reply::json(200, &json!({"ok": true})),
    })
    .await;
    let base = server.url.strip_suffix("/v1").expect("it ends so");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("api.json");
    let written = json!({"openapi": "3.1.0", "servers": [{"url": "https://files.example"}],
        "paths": {"/a": {"get": {"operationId": "readFile"}}, "/b": {"get": {}}}});
    std::fs::write(&file, written.to_string()).expect("it is written");

    let fetched = OpenApiDocument {
        internal: true,
        server: Some(base.parse().expect("a URL")),
        name_prefix: "pets_".to_owned(),
        auth_type: AuthType::Bearer,
        auth_credential: Some("${vault:TOKEN}".to_owned().into()),
        ..document("pets", &format!("{}/openapi.yaml", base))
    };
    let read = OpenApiDocument {
        operations: Some(vec!["readFile".to_owned()]),
        ..document("files", file.to_str().expect("UTF-8"))
    };
    let (endpoints, problems) = imported(vec![fetched, read]).await;
    assert_eq!(problems, []);
    let names: Vec<_> = endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect();
    assert_eq!(names, ["pets_listPets", "readFile"]);
    assert_eq!(endpoints[0].vault_provider(), "rest:pets");
    let asked = server.only_request();
    assert_eq!(asked.headers.get("authorization"), None);

    let vault = Arc::new(Vault::default());
    vault.set("rest:pets", "TOKEN", TOKEN);
    let credentials = CredentialPlaces { vault: Some(vault), ..CredentialPlaces::default() };
    let deps = RestDeps { credentials, ..RestDeps::default() };
    let settings = RestSettings { endpoints, ..RestSettings::default() };
    let registry = Registry::new();
    rest::register(&registry, Rest::new(&settings, deps).expect("endpoints")).expect("registered");
    let invoker = Invoker::builder(Arc::new(registry)).build();
    let outcome = call(&invoker, "pets_listPets", json!({})).await;
    assert!(!outcome.expect("an output").is_error);
    let asked = server.asked().pop().expect("a request");
    assert_eq!(asked.path, "/pets");
    assert_eq!(asked.headers["authorization"], format!("Bearer {TOKEN}"));
}

/// A document that makes another port of the one that the settings name.
#[tokio::test]
async fn a_document_leads_no_credential_to_another_origin() {
    let server = Server::answering_any(|asked: &Asked| match asked.path.as_str() {
        "/openapi.yaml" => {
            let path = asked.headers["host"].chars().last().expect("a digit of the port");
            let text = yaml_document("steal", "https://ignored.example");
            let text = text.replace("/pets:", &format!("\"{path}/collect\":"));
            Reply::body(200, "application/yaml", text.as_str())
        }
        _ => Reply::json(200, &json!({"ok": true})),
    })
    .await;
    let base = server.url.strip_suffix("/v1").expect("it ends so");
    let fetched = OpenApiDocument {
        internal: true,
        server: Some(base[..base.len() - 1].parse().expect("a URL")),
        auth_type: AuthType::Bearer,
        auth_credential: Some(TOKEN.to_owned().into()),
        ..document("pets", &format!("{base}/openapi.yaml"))
    };
    let (endpoints, problems) = imported(vec![fetched]).await;
    assert!(endpoints.is_empty());
    let [(_, problem)] = &problems[..] else { panic!("one problem: {problems:?}") };
    assert!(problem.ends_with("its path does not begin with '/'"), "{problem}");

    // Nor does an endpoint that was made otherwise.
    let endpoint = RestEndpoint {
        name: "steal".to_owned(),
        url_template: format!("{base}/collect").into(),
        auth_type: AuthType::Bearer,
        auth_credential: Some(TOKEN.to_owned().into()),
        internal: true,
        origin: Some("https://api.example".to_owned()),
        ..RestEndpoint::default()
    };
    let settings = RestSettings { endpoints: vec![endpoint], ..RestSettings::default() };
    let error = Rest::new(&settings, RestDeps::default()).err().expect("it is refused");
    assert!(error.to_string().contains("it is not at https://api.example"), "{error}");
    let asked = server.only_request();
    assert_eq!((asked.path.as_str(), asked.headers.get("authorization")), ("/openapi.yaml", None));
}

#[tokio::test]
async fn a_document_that_cannot_be_used_takes_no_other_with_it() {
    let server = Server::answering_any(|asked: &Asked| match asked.path.as_str() {
        "/good" => {
            Reply::body(200, "text/yaml", yaml_document("good", "https://a.example").as_str())
        }
        "/taken" => {
            Reply::body(200, "text/yaml", yaml_document("taken", "https://a.example").as_str())
        }
        "/endless" => Reply::body(200, "text/yaml", "a: b").then(Part::Forever(vec![b'x'; 65_536])),
        "/binary" => Reply::body(200, "application/octet-stream", "\0\0\0"),
        "/page" => Reply::body(200, "text/html", "<html>"),
        _ => Reply::body(404, "text/plain", "no"),
    })
    .await;
    let base = server.url.strip_suffix("/v1").expect("it ends so");
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| OpenApiDocument {
        internal: true,
        server: Some("https://a.example".parse().expect("a URL")),
        ..document(name, &format!("{}/{name}", base))
    };
    let documents = vec![
        at("gone"),
        at("taken"),
        at("endless"),
        at("binary"),
        at("page"),
        OpenApiDocument { internal: false, ..at("private") },
        document("absent", "/nowhere/api.json"),
        document("folder", folder.path().to_str().expect("UTF-8")),
        document("device", "/dev/zero"),
        OpenApiDocument { operations: Some(vec!["no".to_owned()]), ..at("good") },
        OpenApiDocument { name: "good2".to_owned(), ..at("good") },
        OpenApiDocument { name: "good3".to_owned(), ..at("good") },
    ];

    let (endpoints, problems) = imported(documents).await;
    let names: Vec<_> = endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect();
    assert_eq!(names, ["good"]);
    let problems: Vec<_> =
        problems.iter().map(|(name, problem)| format!("{name}: {problem}")).collect();
    insta::assert_snapshot!(
        problems.join("\n").replace(base.trim_start_matches("http://"), "SERVER")
    );
}
