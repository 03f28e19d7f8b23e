//! The chart on a real cluster: from `helm install` to a call of each kind, and all that goes wrong
//! on the way. Each release has two namespaces of its own, and leaves neither.
//!
//! The release's namespace admits restricted pods only, so that the cluster itself checks what the
//! chart asks for.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use toolbus_testkit::tools::{self, Cluster, Helm, output, tag};

use crate::support::{content, marking_server, repository, until};

/// A release in a namespace of its own. Both go when this is dropped.
struct Release {
    helm: Helm,
    cluster: Cluster,
    name: String,
}

/// The parts, or `None` where no cluster is named. The images come from the engine, so one is
/// needed too.
fn parts() -> Option<(Helm, Cluster)> {
    let cluster = tools::cluster()?;
    tools::docker()?;
    Some((tools::helm()?, cluster))
}

impl Release {
    fn new((helm, cluster): (Helm, Cluster), kind: &str) -> Self {
        let release = Self { helm, cluster, name: format!("ship-{kind}-{}", std::process::id()) };
        release.kubectl(&["create", "namespace", &release.name]).unwrap();
        let label = "pod-security.kubernetes.io/enforce=restricted";
        release.kubectl(&["label", "namespace", &release.name, label]).unwrap();
        release
    }

    fn scripts(&self) -> String {
        format!("{}-scripts", self.name)
    }

    /// What the tests' cluster needs: it has no registry, little room, and no volumes.
    fn values(&self) -> Value {
        let small =
            json!({"requests": {"cpu": "5m", "memory": "16Mi"}, "limits": {"memory": "256Mi"}});
        json!({
            "image": {"tag": tag(), "pullPolicy": "Never"},
            "rabbitmq": {
                "enabled": true,
                "persistence": {"enabled": false},
                "resources": {"requests": {"cpu": "20m", "memory": "128Mi"}, "limits": {"memory": "512Mi"}},
            },
            "agentHost": {"resources": small},
            "mcpBridge": {
                "image": "mcp-bridge-tools",
                "servers": {"marks": marking_server()},
                "resources": small,
            },
            "scriptsManager": {"resources": small},
            "scripts": {"namespace": {"name": self.scripts()}, "cpuRequest": "10m"},
            "openrouterMcp": {"enabled": true, "apiKey": "sk-or-test", "resources": small},
        })
    }

    fn helm(&self, verb: &[&str], values: Option<&Value>) -> anyhow::Result<String> {
        let mut command = self.helm.on(&self.cluster);
        command.args(verb).args(["--namespace", &self.name]);
        let file = tempfile::NamedTempFile::new()?;
        if let Some(values) = values {
            std::fs::write(file.path(), values.to_string())?;
            command.arg("--values").arg(file.path());
        }
        output(&mut command)
    }

    fn install(&self, values: &Value, more: &[&str]) -> anyhow::Result<String> {
        let chart = repository("helm/toolbus").display().to_string();
        let verb = ["upgrade", "--install", &self.name, &chart];
        self.helm(&[&verb[..], more].concat(), Some(values))
    }

    fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        output(self.cluster.kubectl().args(arguments))
    }

    /// `kubectl` in the release's namespace.
    fn look(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.kubectl(&[&["--namespace", &self.name], arguments].concat())
    }

    fn deployment(&self, component: &str) -> String {
        // The release's name does not say `toolbus`, so the chart adds it.
        format!("{}-toolbus-{component}", self.name)
    }

    /// `agent-host invoke`, in the pod that serves.
    fn invoke(&self, tool: &str, arguments: &Value) -> anyhow::Result<String> {
        let (host, arguments) = (self.deployment("agent-host"), arguments.to_string());
        let host = format!("deployment/{host}");
        self.look(&["exec", &host, "--", "agent-host", "invoke", tool, &arguments, "--json"])
    }

    /// A call of each kind: a script in a pod, a tool of a program, a tool of another service.
    #[track_caller]
    fn check_calls(&self) {
        let python = json!({"script": "print(6 * 7)"});
        assert_eq!(content(&self.invoke("execute_python_script", &python).unwrap()), "42");
        let mark = json!({"server_name": "marks", "tool_name": "mark"});
        assert_eq!(content(&self.invoke("mcp_invoke_tool", &mark).unwrap()), "mark: done");
        // Nothing in the cluster is OpenRouter; that the call came as far as its door is told.
        let credits = json!({"server_name": "openrouter", "tool_name": "get_credits"});
        let error = self.invoke("mcp_invoke_tool", &credits).unwrap_err().to_string();
        assert!(error.contains("OpenRouter"), "{error}");
    }

    /// What is left of the release, anywhere.
    fn left(&self) -> anyhow::Result<String> {
        let kinds = "all,configmaps,secrets,serviceaccounts,roles,rolebindings,networkpolicies,\
            poddisruptionbudgets,persistentvolumeclaims,resourcequotas,limitranges,namespaces,\
            clusterroles,clusterrolebindings";
        let label = format!("app.kubernetes.io/instance={}", self.name);
        self.kubectl(&[
            "get",
            kinds,
            "--all-namespaces",
            "--ignore-not-found",
            "-o",
            "name",
            "-l",
            &label,
        ])
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.look(&["get", "pods"]).unwrap_or_default());
            eprintln!("{}", self.look(&["get", "events"]).unwrap_or_default());
        }
        // What is not there need not go.
        let _ = self.helm(&["uninstall", &self.name], None);
        for namespace in [&self.scripts(), &self.name] {
            let _ = self.kubectl(&[
                "delete",
                "namespace",
                namespace,
                "--ignore-not-found",
                "--wait=false",
            ]);
        }
    }
}

const WAIT: [&str; 2] = ["--wait", "--timeout=5m"];

#[test]
fn a_release_answers_is_upgraded_and_leaves_nothing() {
    let Some(parts) = parts() else { return };
    let release = Release::new(parts, "whole");
    let mut values = release.values();
    release.install(&values, &WAIT).unwrap();
    release.check_calls();
    release.helm(&["test", &release.name], None).unwrap();
    check_scripts(&release);
    check_rights(&release);
    check_flows(&release);

    // A second one cannot take over the first one's namespace of scripts.
    let second = Release::new((release.helm.clone(), release.cluster.clone()), "second");
    let mut others = second.values();
    others["scripts"]["namespace"]["name"] = json!(release.scripts());
    let error = second.install(&others, &[]).unwrap_err().to_string();
    assert!(error.contains(&release.scripts()) && error.contains("cannot be imported"), "{error}");
    // With one of its own it lives beside it.
    others["scripts"]["namespace"]["name"] = json!(second.scripts());
    second.install(&others, &WAIT).unwrap();
    second.check_calls();

    // The password that was drawn stays, and the other release does not notice.
    let secret = release.deployment("broker");
    let password = release.look(&["get", "secret", &secret, "-o", "jsonpath={.data.password}"]);
    values["scriptsManager"]["maxConcurrent"] = json!(3);
    values["agent"] = json!({"name": "Rocky"});
    release.install(&values, &WAIT).unwrap();
    let now = release.look(&["get", "secret", &secret, "-o", "jsonpath={.data.password}"]);
    assert_eq!(now.unwrap(), password.unwrap());
    until(|| release.invoke("execute_python_script", &json!({"script": "print(1)"})));
    release.check_calls();
    second.check_calls();

    for gone in [&second, &release] {
        gone.helm(&["uninstall", &gone.name, "--wait"], None).unwrap();
        until(|| {
            let left = gone.left()?;
            ensure!(left.is_empty(), "left: {left}");
            gone.kubectl(&["get", "namespace", &gone.scripts()])
                .err()
                .context("the namespace of the scripts is still there")
        });
    }
}

/// The namespace of the scripts has all that the manager looks for when it starts, and the manager is
/// known there by its Lease.
fn check_scripts(release: &Release) {
    let scripts = release.scripts();
    let names = |kind: &str| {
        release.kubectl(&["get", kind, "--namespace", &scripts, "-o", "name"]).unwrap()
    };
    for kind in ["resourcequota", "limitrange", "networkpolicy", "lease"] {
        assert!(!names(kind).is_empty(), "no {kind} in {scripts}");
    }
    let component = "app.kubernetes.io/component=scripts-manager";
    let logs = release.look(&["logs", "--selector", component, "--tail=-1"]).unwrap();
    assert!(!logs.contains("\"missing\""), "{logs}");
}

/// The manager may do in the namespace of its scripts what it does there, and nothing anywhere else;
/// nobody else has so much as a token.
fn check_rights(release: &Release) {
    let (namespace, scripts) = (&release.name, release.scripts());
    let manager =
        format!("system:serviceaccount:{namespace}:{}", release.deployment("scripts-manager"));
    let may = |verb: &str, what: &str, place: &str| {
        let mut command = release.cluster.kubectl();
        // What stands behind a slash there would be a name.
        let (kind, part) = what.split_once('/').unwrap_or((what, ""));
        command.args(["auth", "can-i", verb, kind, "--subresource", part]);
        command.args(["--namespace", place, "--as", &manager]);
        command.output().unwrap().status.success()
    };
    for (verb, what) in [("create", "pods"), ("delete", "pods"), ("create", "pods/attach")] {
        assert!(may(verb, what, &scripts), "{verb} {what}");
        assert!(!may(verb, what, namespace), "{verb} {what} in the release's namespace");
        assert!(!may(verb, what, "default"), "{verb} {what} in default");
    }
    for (verb, what) in [
        ("get", "secrets"),
        ("create", "pods/exec"),
        ("get", "configmaps"),
        ("create", "serviceaccounts/token"),
        ("create", "rolebindings"),
        ("delete", "networkpolicies"),
    ] {
        assert!(!may(verb, what, &scripts), "{verb} {what}");
    }
    let pods = release.look(&["get", "pods", "-o", "json"]).unwrap();
    let pods: Value = serde_json::from_str(&pods).unwrap();
    for pod in pods["items"].as_array().unwrap() {
        let is_manager =
            pod["metadata"]["labels"]["app.kubernetes.io/component"] == "scripts-manager";
        let has_token = pod["spec"]["volumes"].to_string().contains("serviceAccountToken");
        assert_eq!(has_token, is_manager, "{}", pod["metadata"]["name"]);
    }
}

/// Who is not named reaches nothing: not the broker, not the agent, not the other services.
fn check_flows(release: &Release) {
    let broker = format!("{}.{}", release.deployment("rabbitmq"), release.name);
    let router = format!("{}.{}", release.deployment("openrouter-mcp"), release.name);
    let script = format!(
        "import socket, time\n\
         time.sleep(3)\n\
         print(bool(socket.gethostbyname('{broker}')))\n\
         for host, port in [('{broker}', 5672), ('{broker}', 15672), ('{router}', 8080)]:\n    \
             try: socket.create_connection((host, port), 3); print('reached', host, port)\n    \
             except OSError: print('kept out')\n"
    );
    // A pod of the same namespace that is none of the release's.
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "stranger", "namespace": release.name},
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [{
                "name": "stranger", "image": "python:3.12-slim", "imagePullPolicy": "Never",
                "command": ["python3", "-c", script],
                "resources": {"requests": {"cpu": "5m", "memory": "16Mi"}},
                "securityContext": {
                    "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
                },
            }],
        },
    });
    apply(release.cluster.kubectl(), &pod);
    let said = until(|| {
        let phase = release.look(&["get", "pod", "stranger", "-o", "jsonpath={.status.phase}"])?;
        ensure!(phase == "Succeeded", "{phase}");
        release.look(&["logs", "stranger"])
    });
    release.look(&["delete", "pod", "stranger", "--wait=false"]).unwrap();
    let expected = ["True", "kept out", "kept out", "kept out"];
    assert_eq!(said.lines().collect::<Vec<_>>(), expected);
}

fn apply(mut kubectl: Command, object: &Value) {
    let mut child = kubectl.args(["apply", "--filename=-"]).stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(object.to_string().as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{object}");
}

/// A secret that is missing is named by the cluster; a password that is wrong is named by the
/// services. Each is mended without an upgrade.
#[test]
fn secrets_that_are_missing_or_wrong_are_told_and_mended() {
    let Some(parts) = parts() else { return };
    let release = Release::new(parts, "secret");
    let mut values = release.values();
    values["broker"] = json!({"existingSecret": "broker-login"});
    // There is no collector: the services run all the same, and tell of it once.
    values["telemetry"] = json!({"endpoint": "http://127.0.0.1:4318"});
    let component = json!({"matchLabels": {"app.kubernetes.io/component": "broker-policies"}});
    values["networkPolicy"] = json!({"rabbitmqFrom": [{"podSelector": component}]});
    for part in ["agentHost", "openrouterMcp"] {
        values[part]["enabled"] = json!(false);
    }
    release.install(&values, &[]).unwrap();
    until(|| {
        let events = release.look(&["get", "events", "-o", "jsonpath={.items[*].message}"])?;
        ensure!(events.contains("secret \"broker-login\" not found"), "{events}");
        Ok(())
    });

    let secret = |password: &str| {
        json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "broker-login", "namespace": release.name},
            "stringData": {"password": password},
        })
    };
    apply(release.cluster.kubectl(), &secret("right"));
    let bridge = format!("deployment/{}", release.deployment("mcp-bridge"));
    release.look(&["rollout", "status", &bridge, "--timeout=5m"]).unwrap();

    check_policies(&release);

    // The broker keeps what it was started with, and a bridge that starts has another one.
    apply(release.cluster.kubectl(), &secret("hunter2"));
    release.look(&["rollout", "restart", &bridge]).unwrap();
    until(|| {
        let component = "app.kubernetes.io/component=mcp-bridge";
        let logs = release.look(&["logs", "--selector", component, "--tail=-1"])?;
        ensure!(logs.contains("refused the user toolbus or the password"), "{logs}");
        ensure!(!logs.contains("hunter2"), "the log tells the password: {logs}");
        Ok(())
    });
    // The one that works is kept until the new one does, and that takes up what is mended by itself.
    apply(release.cluster.kubectl(), &secret("right"));
    release.look(&["rollout", "status", &bridge, "--timeout=5m"]).unwrap();
    let manager = format!("deployment/{}", release.deployment("scripts-manager"));
    let logs = release.look(&["logs", &manager]).unwrap();
    let told = logs.matches("telemetry is not exported").count();
    // Once for each of the three signals.
    assert!((1..=3).contains(&told), "{logs}");
}

/// A second release takes the broker for one of somebody else, and its job sets the policies there.
fn check_policies(release: &Release) {
    let broker = release.deployment("rabbitmq");
    let pod = format!("{broker}-0");
    let control = |arguments: &str| {
        // Debian's wrapper of the program wants another user than the one of the usual image.
        let line = format!("PATH=/usr/lib/rabbitmq/bin:$PATH rabbitmqctl --quiet {arguments}");
        release.look(&["exec", &pod, "--container=rabbitmq", "--", "sh", "-c", &line]).unwrap()
    };
    let policies = ["toolbus-dead-letters", "toolbus-queues"];
    for policy in policies {
        control(&format!("clear_policy {policy}"));
    }
    assert_eq!(control("list_policies").trim(), "");
    let none = json!({"enabled": false});
    let values = json!({
        "image": {"pullPolicy": "Never"},
        "broker": {
            "host": broker,
            "existingSecret": "broker-login",
            "policies": {"enabled": true, "managementUrl": format!("http://{broker}:15672")},
        },
        "agentHost": none, "mcpBridge": none, "scriptsManager": none,
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), values.to_string()).unwrap();
    let (chart, file) = (repository("helm/toolbus"), file.path().display().to_string());
    let chart = chart.display().to_string();
    let install = ["install", "policies", &chart, "--values", &file, "--wait", "--wait-for-jobs"];
    release.helm(&[&install[..], &["--timeout=5m"]].concat(), None).unwrap();
    let set = control("list_policies");
    assert!(policies.iter().all(|policy| set.contains(policy)), "{set}");
    release.helm(&["uninstall", "policies", "--wait"], None).unwrap();
}

/// Every object of every part that can be had is one that the cluster's API takes, member by member.
/// Only what KEDA adds to an API is not known here.
#[test]
fn every_part_is_what_the_cluster_takes() {
    let Some(parts) = parts() else { return };
    let release = Release::new(parts, "parts");
    release.kubectl(&["create", "namespace", &release.scripts()]).unwrap();
    let mut values = release.values();
    for part in ["rabbitmq", "mcpBridge"] {
        values[part]["persistence"] =
            json!({"enabled": true, "keep": false, "storageClass": "fast"});
    }
    values["agentHost"]["mcp"] = json!({"enabled": true, "allowedHosts": ["tools.example.com"]});
    values["scripts"]["namespace"]["create"] = json!(false);
    values["scripts"]["runtimeClass"] = json!("gvisor");
    values["scripts"]["packages"] = json!({
        "enabled": true,
        "index": "https://index.example/simple",
        "to": [{"ipBlock": {"cidr": "10.1.2.0/24"}}],
        "storageClass": "shared",
    });
    values["networkPolicy"] = json!({"agentHostFrom": [{"podSelector": {}}]});
    values["telemetry"] = json!({"endpoint": "http://collector.observe:4318"});
    let mut external = values.clone();
    external["rabbitmq"]["enabled"] = json!(false);
    external["broker"] = json!({
        "host": "rabbit.example",
        "password": "secret",
        "policies": {"enabled": true, "managementUrl": "https://rabbit.example:15671"},
    });
    let chart = repository("helm/toolbus").display().to_string();
    for values in [values, external] {
        let template = ["template", "parts", &chart, "--kube-version", "1.30"];
        let rendered = release.helm(&template, Some(&values)).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), rendered).unwrap();
        let file = file.path().display().to_string();
        let taken = release.kubectl(&[
            "apply",
            "--dry-run=server",
            "--validate=strict",
            "--filename",
            &file,
        ]);
        let taken = taken.unwrap();
        assert!(taken.lines().count() > 20, "{taken}");
    }
}
