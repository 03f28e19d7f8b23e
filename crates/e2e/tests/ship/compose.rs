//! The compose file: the fleet comes up with all that watches it, answers a call of each kind,
//! keeps its secrets, and goes without a trace.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolbus_testkit::tools::{self, Docker, output, tag};

use crate::observe;
use crate::support::{content, docker, marking_server, repository, until};

const SERVICES: [&str; 4] = ["agent-host", "mcp-bridge", "scripts-manager", "openrouter-mcp"];

const PORTS: [&str; 5] =
    ["RABBITMQ_UI_PORT", "AGENT_HOST_MCP_PORT", "PROMETHEUS_PORT", "JAEGER_PORT", "GRAFANA_PORT"];

/// A compose file with the images for it.
#[derive(Debug, Clone)]
pub(crate) struct Side {
    /// Folder of the file.
    pub(crate) folder: PathBuf,
    /// Tag of the images.
    pub(crate) tag: String,
}

impl Side {
    /// Returns the side of this commit.
    pub(crate) fn current() -> Self {
        Self { folder: repository("deploy/compose"), tag: tag() }
    }
}

/// A fleet under a project of its own. Ended, with all that it kept, when this is dropped.
pub(crate) struct Fleet {
    engine: Docker,
    project: String,
    pub(crate) folder: TempDir,
    side: Side,
    /// What is laid over the compose file.
    pub(crate) overlay: Option<PathBuf>,
}

impl Fleet {
    fn new(engine: Docker, kind: &str) -> Self {
        Self::with_server(engine, kind, &marking_server())
    }

    /// Adds this MCP server as `marks`.
    pub(crate) fn with_server(engine: Docker, kind: &str, server: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let project = format!("toolbus-test-{kind}-{}", std::process::id());
        let fleet = Self { engine, project, folder, side: Side::current(), overlay: None };
        let servers = fleet.folder.path().join("mcp");
        std::fs::create_dir(&servers).unwrap();
        let list = json!({"mcpServers": {
            "marks": server,
            "openrouter": {"type": "http", "url": "http://openrouter-mcp:8080/mcp"},
        }});
        std::fs::write(servers.join("mcp.json"), list.to_string()).unwrap();
        // Containers read them as users of their own.
        open_to_all(fleet.folder.path());
        fleet
    }

    fn command(&self, program: impl AsRef<Path>) -> Command {
        self.command_of(&self.side, program)
    }

    /// Returns a command of the fleet on this side.
    pub(crate) fn command_of(&self, side: &Side, program: impl AsRef<Path>) -> Command {
        let mut command = self.engine.command(program);
        command.current_dir(&side.folder);
        command
            .env("COMPOSE_PROJECT_NAME", &self.project)
            .env("TOOLBUS_TAG", &side.tag)
            .env("TOOLBUS_SECRETS", self.folder.path().join("secrets"))
            .env("MCP_CONFIG_FOLDER", self.folder.path().join("mcp"));
        if let Some(overlay) = &self.overlay {
            command.env("COMPOSE_FILE", format!("compose.yaml:{}", overlay.display()));
        }
        // Free ports, so that nothing of this machine is in the way.
        for port in PORTS {
            command.env(port, "0");
        }
        command
    }

    fn compose(&self, arguments: &[&str]) -> anyhow::Result<String> {
        output(self.command("docker").arg("compose").args(arguments))
    }

    /// `agent-host invoke`, in the container that serves.
    pub(crate) fn invoke(&self, tool: &str, arguments: &Value) -> anyhow::Result<String> {
        let arguments = arguments.to_string();
        let program = ["exec", "--no-TTY", "agent-host", "agent-host"];
        self.compose(&[&program[..], &["invoke", tool, &arguments, "--json"]].concat())
    }

    fn inspect(&self, service: &str) -> Value {
        let id = self.compose(&["ps", "--quiet", service]).unwrap();
        docker(&self.engine, &["inspect", id.trim()])[0].clone()
    }

    fn left(&self) -> String {
        let label = format!("label=com.docker.compose.project={}", self.project);
        ["ps", "volume", "network"].map(|kind| self.list(kind, &label)).concat()
    }

    fn list(&self, kind: &str, filter: &str) -> String {
        let mut command = self.engine.command("docker");
        match kind {
            "ps" => command.args(["ps", "--all"]),
            other => command.args([other, "ls"]),
        };
        output(command.args(["--quiet", "--filter", filter])).unwrap()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.compose(&["logs", "--no-color", "--tail=40"]).unwrap_or_default());
        }
        // What is left for want of an engine cannot be removed either.
        let _ = output(self.command("./down").arg("--volumes"));
    }
}

fn open_to_all(folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_fleet_answers_calls_of_each_kind_is_seen_and_goes_without_a_trace() {
    let Some(engine) = tools::docker() else { return };
    let mut fleet = Fleet::new(engine, "whole");
    fleet.overlay = Some(observe::overlay(fleet.folder.path()));
    output(fleet.command("./up").arg("observe")).unwrap();

    let python = json!({"script": "print(6 * 7)"});
    let printed = fleet.invoke("execute_python_script", &python).unwrap();
    assert_eq!(content(&printed), "42");
    let mark = json!({"server_name": "marks", "tool_name": "mark"});
    assert_eq!(content(&fleet.invoke("mcp_invoke_tool", &mark).unwrap()), "mark: done");
    // Without a key it says so, which only the process that would hold one can know.
    let credits = json!({"server_name": "openrouter", "tool_name": "get_credits"});
    let error = fleet.invoke("mcp_invoke_tool", &credits).unwrap_err().to_string();
    assert!(error.contains("no OpenRouter API key is set"), "{error}");

    check_sandbox(&fleet);
    check_rights(&fleet);
    check_memory(&fleet);
    check_secrets(&fleet);
    check_mcp_token(&fleet);
    check_policies(&fleet);
    check_networks(&fleet);
    observe::check_metrics(fleet.compose(&["port", "prometheus", "9090"]).unwrap().trim());
    observe::check_traces(fleet.folder.path());

    output(fleet.command("./down").arg("--volumes")).unwrap();
    assert_eq!(fleet.left(), "");
}

/// A script sees neither the container's secrets nor its network.
fn check_sandbox(fleet: &Fleet) {
    let script = "import os, socket\n\
        print(os.path.exists('/run/secrets/broker-password'))\n\
        try: socket.create_connection(('rabbitmq', 5672), 2); print('reached')\n\
        except OSError: print('no network')\n";
    let printed = fleet.invoke("execute_python_script", &json!({"script": script})).unwrap();
    assert_eq!(content(&printed), "False\nno network");
}

/// Our containers have no rights, and only the one with the sandbox is without Docker's filter.
fn check_rights(fleet: &Fleet) {
    for service in SERVICES {
        let container = fleet.inspect(service);
        let host = &container["HostConfig"];
        assert_eq!(host["ReadonlyRootfs"], true, "{service}");
        assert_eq!(host["CapDrop"], json!(["ALL"]), "{service}");
        assert_eq!(host["Privileged"], false, "{service}");
        assert_eq!(container["Config"]["User"], "65532:65532", "{service}");
        assert_eq!(container["State"]["Health"]["Status"], "healthy", "{service}");
        let options = host["SecurityOpt"].to_string();
        assert!(options.contains("no-new-privileges"), "{service}: {options}");
        let unfiltered = options.contains("seccomp=unconfined");
        assert_eq!(unfiltered, service == "scripts-manager", "{service}: {options}");
    }
}

/// What the agent keeps outlives its container, and its doctor finds nothing wrong there.
fn check_memory(fleet: &Fleet) {
    let fact = json!({"content": "The spare key is under the blue pot."});
    fleet.invoke("save_memory", &fact).unwrap();
    let again = ["up", "--detach", "--wait", "--no-deps", "--force-recreate", "agent-host"];
    fleet.compose(&again).unwrap();
    let found = fleet.invoke("search_memory", &json!({"query": "spare key"})).unwrap();
    assert!(content(&found).contains("blue pot"), "{found}");

    let doctor = ["exec", "--no-TTY", "agent-host", "agent-host", "doctor", "--json"];
    let findings: Value = serde_json::from_str(&fleet.compose(&doctor).unwrap()).unwrap();
    let store = findings.as_array().unwrap().iter().find(|finding| finding["name"] == "store");
    assert_eq!(store.unwrap()["state"], "ok", "{findings}");
}

/// No password is among what `docker inspect` shows of a container, and only its owner has one.
fn check_secrets(fleet: &Fleet) {
    let file = fleet.folder.path().join("secrets/broker-password");
    let password = std::fs::read_to_string(file).unwrap();
    assert!(password.len() >= 32, "the password is short");
    for service in SERVICES {
        let container = fleet.inspect(service);
        assert!(!container.to_string().contains(&password), "{service} shows the password");
        let mounts = container["Mounts"].to_string();
        let check = |secret: &str, is_expected: bool| {
            let has_it = mounts.contains(&format!("/run/secrets/{secret}"));
            assert_eq!(has_it, is_expected, "{service}, {secret}: {mounts}");
        };
        check("broker-password", service != "openrouter-mcp");
        check("mcp-token", service == "agent-host");
        check("grant-signing-key", service == "agent-host");
        check("grant-public-keys", ["mcp-bridge", "scripts-manager"].contains(&service));
    }
}

/// At the published port MCP clients need their token, whatever they call this machine.
fn check_mcp_token(fleet: &Fleet) {
    let address = fleet.compose(&["port", "agent-host", "8800"]).unwrap();
    let token = std::fs::read_to_string(fleet.folder.path().join("secrets/mcp-token")).unwrap();
    let page = |host: &str, token: &str| {
        let mut client = TcpStream::connect(address.trim()).unwrap();
        let head = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
        write!(client, "{head}Authorization: Bearer {token}\r\n\r\n").unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    };

    let listed = "MCP clients connect to these paths";
    for host in [address.trim(), "localhost"] {
        let answer = page(host, &token);
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains(listed), "{answer}");
        let answer = page(host, "a-token-of-nobody");
        assert!(answer.starts_with("HTTP/1.1 401 ") && !answer.contains(listed), "{answer}");
    }
    let elsewhere = page("evil.example", &token);
    assert!(elsewhere.starts_with("HTTP/1.1 403 "), "{elsewhere}");
}

/// From where the bridge is the broker is reached, and from where `openrouter-mcp` is nothing of
/// it.
fn check_networks(fleet: &Fleet) {
    let networks = |service: &str| {
        let container = fleet.inspect(service);
        container["NetworkSettings"]["Networks"].as_object().expect("networks").clone()
    };

    let broker: Vec<_> = networks("rabbitmq")
        .into_values()
        .map(|network| network["IPAddress"].as_str().expect("an address").to_owned())
        .collect();
    let script = "import socket, sys\n\
        for address in sys.argv[1:]:\n    \
            for port in (5672, 15672):\n        \
                try: socket.create_connection((address, port), 2); print('reached')\n        \
                except OSError: pass\n";
    let image = format!("toolbus/scripts-manager-local:{}", tag());
    let reached = |service: &str| {
        let networks = networks(service);
        networks.into_iter().any(|(network, _)| {
            let mut command = fleet.engine.command("docker");
            command.args(["run", "--rm", "--network", &network, "--entrypoint", "python3"]);
            let said = output(command.args([&image, "-c", script]).args(&broker)).unwrap();
            said.contains("reached")
        })
    };

    assert!(reached("mcp-bridge"), "nothing reaches {broker:?}");
    assert!(!reached("openrouter-mcp"), "openrouter-mcp reaches the broker");
}

/// Every queue of the fleet is bounded by one of the policies.
fn check_policies(fleet: &Fleet) {
    let list = ["exec", "--no-TTY", "rabbitmq", "rabbitmqctl", "--quiet", "--formatter=json"];
    let queues = until(|| {
        let columns = ["list_queues", "name", "policy"];
        fleet.compose(&[&list[..], &columns].concat())
    });
    let queues: Vec<Value> = serde_json::from_str(&queues).unwrap();
    assert!(queues.len() > 4, "{queues:?}");
    for queue in &queues {
        let name = queue["name"].as_str().unwrap();
        let expected =
            if name.ends_with(".dlq") { "toolbus-dead-letters" } else { "toolbus-queues" };
        assert_eq!(queue["policy"], expected, "{name}");
    }
}

/// The whole of it, as Docker reads it: a name that is not there, or a wrong type, fails.
#[test]
fn every_profile_is_read_without_a_complaint() {
    let Some(engine) = tools::docker() else { return };
    let fleet = Fleet::new(engine, "read");
    for profile in ["", "observe"] {
        let mut command = fleet.command("docker");
        command.env("COMPOSE_PROFILES", profile).env("TOOLBUS_SECRETS", "/nowhere");
        command.args(["compose", "config", "--format=json"]);
        let configuration: Value = serde_json::from_str(&output(&mut command).unwrap()).unwrap();
        let services = configuration["services"].as_object().unwrap();
        let is_observed = profile == "observe";
        assert_eq!(services.contains_key("grafana"), is_observed);
        if is_observed {
            observe::check_grafana(&configuration);
        }
        let endpoint = &services["mcp-bridge"]["environment"]["TOOLBUS_TELEMETRY__ENDPOINT"];
        let expected = if is_observed { "http://collector:4318" } else { "" };
        assert_eq!(endpoint, expected);
        for (name, service) in services {
            for port in service["ports"].as_array().into_iter().flatten() {
                assert_eq!(port["host_ip"], "127.0.0.1", "{name} is open to the world");
            }
        }
    }
}
