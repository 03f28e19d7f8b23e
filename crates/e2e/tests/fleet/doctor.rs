//! `doctor`: what is the matter, and what mends it.

use std::fs::Permissions;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::{Value, json};
use toolbus_testkit::process::{Finished, Launch};
use toolbus_testkit::rabbit;
use toolbus_testkit::scripted_server::{Reply, Server};
use toolbus_testkit::tools;

use crate::agent;
use crate::support::*;

/// What a `doctor --json` found, and whether something is wrong.
struct Doctor {
    findings: Vec<Value>,
    run: Finished,
}

impl Doctor {
    async fn run(launch: Launch) -> Self {
        let run = launch.args(["doctor", "--json"]).run(LIMIT).await.unwrap();
        assert_eq!(run.stderr, "", "{run:?}");
        let findings = serde_json::from_str(&run.stdout).unwrap_or_else(|e| panic!("{e}: {run:?}"));
        let doctor = Self { findings, run };
        let wrong = doctor.findings.iter().any(|finding| finding["state"] == "wrong");
        assert_eq!(doctor.run.status.code(), Some(i32::from(wrong)), "{:?}", doctor.run);
        doctor
    }

    /// Asserts what was found under a name: its state, and texts that detail and mend have.
    #[track_caller]
    fn check(&self, name: &str, state: &str, detail: &str, mend: &str) {
        let of_name = |finding: &&Value| finding["name"] == name && finding["state"] == state;
        let mut found = self.findings.iter().filter(of_name);
        let has = |text: &Value, part: &str| text.as_str().unwrap_or_default().contains(part);
        let fits = |finding: &Value| has(&finding["detail"], detail) && has(&finding["mend"], mend);
        assert!(found.any(fits), "no {name} {state} {detail} {mend}: {}", self.run.stdout);
    }

    /// Asserts that nothing is wrong but what has these names.
    #[track_caller]
    fn check_wrong(&self, names: &[&str]) {
        let wrong = self.findings.iter().filter(|finding| finding["state"] == "wrong");
        let mut wrong: Vec<_> = wrong.map(|finding| finding["name"].as_str().unwrap()).collect();
        wrong.sort_unstable();
        assert_eq!(wrong, names, "{}", self.run.stdout);
    }
}

fn with_servers(servers: &Servers) -> Launch {
    Launch::new("agent-host").arg("--mcp-config").arg(servers.file())
}

#[tokio::test]
async fn where_all_is_well_nothing_is_wrong() {
    let servers = Servers::with(&[]);
    let doctor = Doctor::run(with_servers(&servers)).await;
    doctor.check_wrong(&[]);
    doctor.check("settings", "ok", "--mcp-config", "");
    doctor.check("broker", "ok", "embedded in this process", "");
    doctor.check("store", "ok", "is made when it is needed", "");
    doctor.check("sandbox", "ok", "/bwrap makes user namespaces", "");
    doctor.check("python", "ok", "cpython 3.", "");
    doctor.check("mcp.json", "ok", "lists 1 server", "");
    doctor.check("mcp marks", "ok", "tools, connected in ", "");
    doctor.check("models", "note", "none is set", "models.endpoints.NAME");
    doctor.check("default policy.preset", "note", "changed on 2", "policy.preset = \"open\"");
    doctor.check("default mcp.stdio_isolation", "note", "changed on 2", "\"sandbox\": \"off\"");

    // The same for people: a line for each, and below it what mends it.
    let run = with_servers(&servers).arg("doctor").run(LIMIT).await.unwrap();
    assert_eq!((run.status.code(), &*run.stderr), (Some(0), ""), "{run:?}");
    for finding in &doctor.findings {
        let (name, state) = (finding["name"].as_str().unwrap(), finding["state"].as_str().unwrap());
        let is_it = |line: &str| {
            let words = line.strip_prefix(name).unwrap_or_default();
            words.trim_start().starts_with(state)
        };
        assert!(run.stdout.lines().any(is_it), "no {name} {state}: {}", run.stdout);
    }
    let mended = run.stdout.lines().filter(|line| line.trim_start().starts_with("-> ")).count();
    assert_eq!(
        mended,
        doctor.findings.iter().filter(|finding| finding["mend"] != Value::Null).count()
    );
    assert!(run.stdout.contains("\nnothing is wrong, "), "{}", run.stdout);
}

#[tokio::test]
async fn settings_that_are_wrong_are_found() {
    let launch = Launch::new("agent-host").env("TOOLBUS_BUS__PREFETCH", "many");
    let doctor = Doctor::run(launch.env("TOOLBUS_STORE", "oracle:x")).await;
    doctor.check("settings", "wrong", "bus.prefetch: ", "docs/configuration.md");
    doctor.check("the rest", "note", "not looked at", "");
}

#[tokio::test]
async fn servers_that_do_not_work_are_found_with_what_mends_them() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("server");
    std::fs::write(&script, "#!/nowhere/python3\n").unwrap();
    std::fs::set_permissions(&script, Permissions::from_mode(0o700)).unwrap();
    let servers = Servers::with(&[
        ("moved", json!({"command": script})),
        ("typo", json!({"comand": "mcp-server-time"})),
        ("absent", json!({"command": "no-such-program"})),
        ("gone", json!({"type": "http", "url": "http://127.0.0.1:1/mcp"})),
        ("silent", json!({"command": "sleep", "args": ["600"], "startupTimeoutMs": 1000})),
        ("ends", json!({"command": "sh", "args": ["-c", "echo no licence >&2; exit 3"]})),
        ("off", json!({"command": "no-such-program", "disabled": true})),
    ]);
    let doctor = Doctor::run(with_servers(&servers)).await;
    doctor.check("mcp marks", "ok", "connected in", "");
    doctor.check("mcp typo", "wrong", "has neither", "docs/mcp-json.md");
    doctor.check("mcp absent", "wrong", "cannot be started", "install \"no-such-program\"");
    doctor.check("mcp moved", "wrong", "cannot be started", "its first line names");
    doctor.check("mcp gone", "wrong", "not connected", "correct `url`");
    doctor.check("mcp silent", "wrong", "did not finish connecting", "startupTimeoutMs");
    doctor.check("mcp ends", "wrong", "no licence", "by hand");
    doctor.check("mcp off", "ok", "disabled", "");
    doctor.check_wrong(&[
        "mcp absent",
        "mcp ends",
        "mcp gone",
        "mcp moved",
        "mcp silent",
        "mcp typo",
    ]);

    std::fs::write(servers.file(), "{").unwrap();
    let doctor = Doctor::run(with_servers(&servers)).await;
    doctor.check("mcp.json", "wrong", "not JSON", "--mcp-config");
}

#[tokio::test]
async fn a_program_that_servers_want_is_missed() {
    let servers = Servers::with(&[("notes", json!({"command": "npx", "args": ["-y", "notes"]}))]);
    let doctor = Doctor::run(with_servers(&servers).env("PATH", "/nowhere")).await;
    doctor.check("programs", "wrong", "npx is not in PATH", "Node.js");
    doctor.check("mcp notes", "wrong", "cannot be started", "Node.js");
}

#[tokio::test]
async fn a_broken_python_is_found() {
    let launch = Launch::new("agent-host").env("TOOLBUS_SCRIPTS__PYTHON", "/nowhere/python3");
    let doctor = Doctor::run(launch).await;
    doctor.check("python", "wrong", "/nowhere/python3 cannot be started", "scripts.python");
    doctor.check_wrong(&["python"]);
}

#[tokio::test]
async fn commands_without_a_sandbox_are_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    let launch = Launch::new("agent-host").env("TOOLBUS_BASH__ENABLED", "true");
    let launch = launch.env("TOOLBUS_FILES__WORKING_DIRECTORY", folder.path());
    let doctor = Doctor::run(launch.env("TOOLBUS_BASH__ISOLATION", "none")).await;
    doctor.check("toolkit bash", "note", "bash.isolation = \"none\"", "\"sandbox\"");
    doctor.check_wrong(&[]);
}

#[tokio::test]
async fn a_store_that_cannot_be_used_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state.db");
    std::fs::write(&file, "no database").unwrap();
    let launch =
        Launch::new("agent-host").env("TOOLBUS_STORE", format!("sqlite:{}", file.display()));
    let doctor = Doctor::run(launch).await;
    doctor.check("store", "wrong", "cannot be read", "TOOLBUS_STORE");

    let url = "postgres://toolbus:hunter2@127.0.0.1:1/state";
    let doctor = Doctor::run(Launch::new("agent-host").env("TOOLBUS_STORE", url)).await;
    doctor.check("store", "wrong", "postgres://127.0.0.1:1/state", "start PostgreSQL");
    assert!(!doctor.run.stdout.contains("hunter2"), "{}", doctor.run.stdout);
}

#[tokio::test]
async fn a_port_in_use_is_found_unless_a_service_of_ours_has_it() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    // It hangs up on whoever asks what it is.
    std::thread::spawn(move || drop(taken.accept()));
    let agent = Launch::new("agent-host").args(["serve", "--mcp", "127.0.0.1:0"]);
    let agent = start(agent).await;
    let face = mcp_url(&agent, "mcpFace").await;
    let face = face.trim_start_matches("http://").trim_end_matches("/mcp");

    let launch = Launch::new("agent-host").env("TOOLBUS_HTTP__ADDRESS", &address);
    let launch = launch.env("TOOLBUS_HTTP__TOOL_API__ENABLED", "true");
    let launch = launch.env("TOOLBUS_DISCOVERY__ENABLED", "true");
    let launch = launch.env("TOOLBUS_MCP_FACE__ADDRESS", face);
    let doctor = Doctor::run(launch.env("TOOLBUS_HEALTH", agent.health().to_string())).await;
    let name = format!("port {address}");
    doctor.check(&name, "wrong", "in use by another program", "http.address");
    doctor.check(&format!("port {face}"), "ok", "by a service of Toolbus", "");
    doctor.check(&format!("port {}", agent.health()), "ok", "by a service of Toolbus", "");
    doctor.check_wrong(&[&name]);
}

#[tokio::test]
async fn a_port_of_turns_is_known_too() {
    let server = api().await;
    let folder = agent::settings(&server);
    let serving = with_model(folder.path()).args(["serve", "--http", "127.0.0.1:0"]);
    let agent = start(serving.env("TOOLBUS_HTTP__TOKENS__alice", "a token of alice")).await;
    let (_, status) = agent.look("/status").await.unwrap();
    let status: Value = serde_json::from_str(&status).unwrap();
    let address = status["details"]["http"].as_str().unwrap();

    let doctor = Doctor::run(with_model(folder.path()).env("TOOLBUS_HTTP__ADDRESS", address)).await;
    doctor.check(&format!("port {address}"), "ok", "by a service of Toolbus", "");
}

#[tokio::test]
async fn a_token_that_is_not_there_is_found() {
    let launch = |token: &str| {
        let launch = Launch::new("agent-host").env("TOOLBUS_HTTP__TOKENS__alice", token);
        launch.env("TOKEN_OF_ALICE", "a token of alice")
    };
    let doctor = Doctor::run(launch("${TOKEN_OF_BOB}")).await;
    doctor.check("http tokens", "wrong", "the variable TOKEN_OF_BOB is not set", "http.tokens");
    let doctor = Doctor::run(launch("${TOKEN_OF_ALICE}")).await;
    doctor.check("http tokens", "ok", "every client has one", "");
    assert!(!doctor.run.stdout.contains("a token of alice"), "{}", doctor.run.stdout);
}

#[tokio::test]
async fn a_folder_that_is_not_trusted_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mcp.json"), r#"{"mcpServers": {}}"#).unwrap();
    let run = |arguments: &'static [&str]| {
        let program = toolbus_testkit::process::binary("agent-host").unwrap();
        let mut command = std::process::Command::new(program);
        command.args(arguments).args(["doctor", "--json"]).current_dir(folder.path());
        command.env("XDG_STATE_HOME", folder.path()).env_remove("TOOLBUS_TRUST_FOLDER");
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let untrusted = run(&[]);
    assert!(untrusted.contains("this folder is not trusted"), "{untrusted}");
    let trusted = run(&["--trust-folder"]);
    assert!(trusted.contains("mcp.json lists 0 servers"), "{trusted}");
}

/// A scripted API with a list of models, for whoever has the right key.
async fn api() -> Server {
    Server::answering_any(|asked| {
        let date = "Thu, 01 Jan 2015 00:00:00 GMT";
        let reply = match asked.headers.get("authorization").map(String::as_str) {
            Some("Bearer sk-hunter2") => {
                Reply::json(200, &json!({"data": [{"id": "model-1"}, {"id": "other"}]}))
            }
            key => {
                let message = format!("no such key: {key:?}");
                Reply::error(401, &json!({"error": {"message": message}}))
            }
        };
        reply.header("date", date)
    })
    .await
}

/// Another text in the settings of a folder.
fn rewrite(folder: &Path, from: &str, to: &str) {
    let file = folder.join("toolbus.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.contains(from), "{text}");
    std::fs::write(file, text.replace(from, to)).unwrap();
}

fn with_model(folder: &Path) -> Launch {
    Launch::new("agent-host").arg("--config").arg(folder.join("toolbus.toml"))
}

#[tokio::test]
async fn each_model_is_asked_what_it_has() {
    let server = api().await;
    let folder = agent::settings(&server);
    let doctor = Doctor::run(with_model(folder.path())).await;
    doctor.check("model main", "ok", "takes the key and has model-1", "");
    // Of an API whose clock is far off.
    doctor.check("clock", "wrong", " s ahead of that of the API of model main", "NTP");
    let asked = server.only_request();
    assert_eq!((&*asked.method, &*asked.path), ("GET", "/v1/models"));

    rewrite(folder.path(), "model-1", "model-2");
    let doctor = Doctor::run(with_model(folder.path())).await;
    doctor.check("model main", "note", "has no model model-2", "model-1");
}

#[tokio::test]
async fn a_key_that_is_refused_is_found_and_not_shown() {
    let server = api().await;
    let folder = agent::settings(&server);
    rewrite(folder.path(), "sk-hunter2", "sk-wrong-swordfish");
    let doctor = Doctor::run(with_model(folder.path())).await;
    doctor.check("model main", "wrong", "refused the key (401)", "models.endpoints.main.api_key");
    assert!(!doctor.run.stdout.contains("swordfish"), "{}", doctor.run.stdout);
    drop(server);

    let doctor = Doctor::run(with_model(folder.path())).await;
    doctor.check("model main", "wrong", "cannot be reached", "models.endpoints.main.base_url");
}

#[tokio::test]
async fn a_broker_that_is_away_is_found_and_no_password_is_shown() {
    let bus = "amqp://toolbus:hunter2@127.0.0.1:1/agents";
    for program in ["agent-host", "mcp-bridge", "scripts-manager"] {
        let doctor = Doctor::run(launch(program, bus)).await;
        doctor.check("broker", "wrong", "127.0.0.1:1 cannot be reached", "TOOLBUS_BUS");
        assert!(!doctor.run.stdout.contains("hunter2"), "{}", doctor.run.stdout);
    }
    for program in ["mcp-bridge", "scripts-manager"] {
        let doctor = Doctor::run(Launch::new(program)).await;
        doctor.check("settings", "wrong", "needs a broker", "");
    }
}

#[tokio::test]
async fn a_broker_says_who_is_on_it() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let bus = vhost.amqp_url();
    let doctor = Doctor::run(launch("agent-host", &bus)).await;
    doctor.check("broker", "ok", "RabbitMQ ", "");
    doctor.check("broker", "ok", &format!("/{}", vhost.name()), "");
    doctor.check("scripts-manager", "note", "none is on the broker", "start a scripts-manager");
    doctor.check("mcp-bridge", "note", "none is on the broker", "start a mcp-bridge");
    doctor.check("clock", "note", "not compared", "");
    doctor.check_wrong(&[]);

    let servers = Servers::with(&[("absent", json!({"command": "no-such-program"}))]);
    let (_bridge, _manager) = tokio::join!(bridge(&bus, &servers), scripts(&bus));
    let doctor = Doctor::run(launch("agent-host", &bus)).await;
    doctor.check("scripts-manager", "ok", "one is on the broker", "");
    doctor.check("mcp-bridge", "ok", "one is on the broker", "");
    doctor.check("mcp marks", "ok", "at a bridge", "");
    doctor.check("mcp absent", "wrong", "cannot be started", "mcp-bridge doctor");
    doctor.check_wrong(&["mcp absent"]);

    let doctor = Doctor::run(launch("scripts-manager", &bus)).await;
    doctor.check("sandbox", "ok", "user namespaces", "");
    doctor.check_wrong(&[]);
    let bridge = launch("mcp-bridge", &bus).arg("--mcp-config").arg(servers.file());
    let doctor = Doctor::run(bridge).await;
    doctor.check("mcp marks", "ok", "connected in", "");
    doctor.check_wrong(&["mcp absent"]);
}

#[tokio::test]
async fn a_broker_that_refuses_says_what_mends_it() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let url = vhost.amqp_url();
    let (user, rest) = url.split_once("://").unwrap().1.split_once('@').unwrap();
    let user = user.split(':').next().unwrap();
    let wrong = format!("amqp://{user}:swordfish@{rest}");
    let doctor = Doctor::run(launch("agent-host", &wrong)).await;
    doctor.check("broker", "wrong", "refused the user", "rabbitmqctl change_password");
    assert!(!doctor.run.stdout.contains("swordfish"), "{}", doctor.run.stdout);

    let elsewhere = url.replace(vhost.name(), "nowhere");
    let doctor = Doctor::run(launch("agent-host", &elsewhere)).await;
    doctor.check("broker", "wrong", "virtual host nowhere", "rabbitmqctl add_vhost nowhere");
}

#[tokio::test]
async fn a_cluster_says_what_a_manager_may_do_there() {
    let nobody = "amqp://127.0.0.1:1";
    let kubernetes = || launch("scripts-manager", nobody).args(["--runner", "kubernetes"]);
    let away = kubernetes().env("KUBECONFIG", "/nowhere/config");
    Doctor::run(away).await.check("cluster", "wrong", "", "KUBECONFIG");

    let Some(cluster) = tools::cluster() else { return };
    let launch = kubernetes().env("KUBECONFIG", cluster.kubeconfig());
    let doctor = Doctor::run(launch.env("TOOLBUS_KUBERNETES__NAMESPACE", "no-such")).await;
    doctor.check("cluster", "ok", "Kubernetes v1.", "");
    doctor.check("rights", "ok", "all that a manager needs", "");
    doctor.check("namespace", "wrong", "there is no namespace no-such", "--prepare-namespace");
}
