//! The chart on a real cluster: from `helm install` to a call of each kind, and all that goes wrong
//! on the way.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::release::{Release, WAIT, apply, parts};
use crate::support::{repository, until};

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
    let control = |arguments: &str| release.rabbitmqctl(arguments).unwrap();
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
