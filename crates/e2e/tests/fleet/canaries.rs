//! Secrets in the settings and in the list of MCP servers, which are in no output.

use serde_json::{Value, json};
use tempfile::TempDir;
use toolbus_testkit::process::Launch;

use crate::support::LIMIT;

const CANARY: &str = "c4nary-of-settings";
/// What is shown of an address.
const SHOWN: &str = "/x?key=***&***#***";

/// An address with a secret in each place that it has for one.
fn address(host: &str) -> String {
    format!("https://{CANARY}:{CANARY}@{host}/x?key={CANARY}&{CANARY}#{CANARY}")
}

/// Settings with a secret in every value that may hold one.
fn settings() -> String {
    let models = format!(
        "[models.endpoints.own]\nprovider = \"openai\"\nmodel = \"m\"\napi_key = \"{CANARY}\"\n"
    );
    let rest = format!(
        "[[rest.endpoints]]\nname = \"call\"\nauth_type = \"bearer\"\n\
         auth_credential = \"{CANARY}\"\n\
         url_template = \"https://rest.example/x?key={CANARY}&q={{q}}\"\n\
         [[rest.openapi]]\nname = \"pets\"\ndocument = \"{}\"\nserver = \"{}\"\n\
         auth_type = \"bearer\"\nauth_credential = \"{CANARY}\"\n",
        address("documents.example"),
        address("server.example")
    );
    let agents = format!(
        "[[a2a.agents]]\nname = \"Travel\"\ncard_url = \"{}\"\napi_key = \"{CANARY}\"\n",
        address("agents.example")
    );

    let toolkits = format!(
        "[web]\nsearch_url = \"{}\"\ngithub_api = \"{}\"\napi_key = \"{CANARY}\"\n\
         [linkedin]\nbase_url = \"{}\"\n\
         [anthropic_usage]\nbase_url = \"{}\"\napi_key = \"{CANARY}\"\n\
         [google]\ngmail_url = \"{}\"\ntoken_url = \"{}\"\n",
        address("search.example"),
        address("github.example"),
        address("jobs.example"),
        address("usage.example"),
        address("mail.example"),
        address("token.example")
    );
    let others = format!(
        "[discovery.embeddings]\nbase_url = \"{}\"\nmodel = \"m\"\ndimensions = 8\n\
         api_key = \"{CANARY}\"\n[telemetry]\nenabled = false\nendpoint = \"{}\"\n",
        address("vectors.example"),
        address("collector.example")
    );
    [models, rest, agents, toolkits, others].concat()
}

/// A list of servers with a secret in every value that may hold one.
fn servers() -> Value {
    json!({"mcpServers": {
        "program": {
            "command": "server",
            "args": [
                "--token", CANARY, "-e", format!("KEY={CANARY}"), address("arguments.example")
            ],
            "env": {"API_KEY": CANARY, "LEVEL": CANARY, "OTHER": "${OTHER}"}
        },
        "address": {
            "url": address("mcp.example"),
            "headers": {"X-Own": CANARY},
            "auth": {"type": "bearer", "token": CANARY},
            "httpUrl": address("unknown.example")
        }
    }})
}

/// Runs a command with these settings, and looks through all that it says.
async fn shown(folder: &TempDir, arguments: &[&str]) -> String {
    let path = |name: &str| folder.path().join(name);
    let launch = Launch::new("agent-host").arg("--config").arg(path("toolbus.toml"));
    let launch = launch
        .args(arguments)
        .env("TOOLBUS_STORE", format!("sqlite:{}", path("state.db").display()))
        .env("TOOLBUS_MCP__CONFIG", path("mcp.json"));
    let finished = launch.run(LIMIT).await.unwrap();
    assert!(finished.status.success(), "{arguments:?}: {finished:?}");
    for said in [&finished.stdout, &finished.stderr] {
        assert!(!said.contains(CANARY), "{arguments:?}: {said}");
    }
    finished.stdout
}

#[tokio::test]
async fn no_command_shows_a_secret_of_the_settings() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("toolbus.toml"), settings()).unwrap();
    std::fs::write(folder.path().join("mcp.json"), servers().to_string()).unwrap();

    for arguments in [&["tools", "--print-config"][..], &["config", "show"]] {
        let said = shown(&folder, arguments).await;
        assert!(said.contains("https://rest.example/x?key=***&q={q}"), "{said}");
        let hosts = [
            "documents",
            "server",
            "agents",
            "search",
            "github",
            "jobs",
            "usage",
            "mail",
            "token",
            "vectors",
            "collector",
        ];
        for host in hosts {
            assert!(said.contains(&format!("https://***@{host}.example{SHOWN}")), "{host}: {said}");
        }
    }
    for arguments in [&["agents"][..], &["agents", "--json"]] {
        let said = shown(&folder, arguments).await;
        assert!(said.contains(&format!("https://***@agents.example{SHOWN}")), "{said}");
    }

    let lists = [&["mcp", "list"][..], &["mcp", "list", "--json"], &["mcp", "show", "program"]];
    for arguments in lists {
        let said = shown(&folder, arguments).await;
        assert!(said.contains(&format!("https://***@arguments.example{SHOWN}")), "{said}");
    }
    let said = shown(&folder, &["mcp", "list", "--json"]).await;
    let listed: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(listed["address"]["url"], format!("https://***@mcp.example{SHOWN}"));
    let variables = json!({"API_KEY": "***", "LEVEL": "***", "OTHER": "${OTHER}"});
    assert_eq!(listed["program"]["env"], variables);
}
