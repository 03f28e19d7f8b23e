//! The chart on a real cluster: from `helm install` to a call of each kind, and all that goes wrong
//! on the way.

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::external::{borrow_broker, check_borrowed};
use crate::outside::Outside;
use crate::release::{API_KEY, Release, WAIT, apply, parts};
use crate::support::until;
use crate::upgrade::{agent_name, check_evictions, roll_back, stops_in_calls};

#[test]
fn a_release_answers_is_upgraded_and_leaves_nothing() {
    let Some(parts) = parts() else { return };
    let release = Release::new(parts, "whole");
    let outside = Outside::new(&release, API_KEY);
    let mut values = release.values();
    values["agentHost"]["mcp"] = json!({"enabled": true});
    outside.is_openrouter_of(&mut values);
    release.install(&values, &WAIT).unwrap();
    release.check_calls();
    release.helm(&["test", &release.name], None).unwrap();
    check_scripts(&release);
    check_rights(&release);
    check_flows(&release, &outside);

    // A second one cannot take over the first one's namespace of scripts.
    let second = Release::new((release.helm.clone(), release.cluster.clone()), "second");
    let mut others = second.values();
    others["scripts"]["namespace"]["name"] = json!(release.scripts());
    let error = second.install(&others, &[]).unwrap_err().to_string();
    assert!(error.contains(&release.scripts()) && error.contains("cannot be imported"), "{error}");
    // With one of its own it lives beside it, and may use its broker.
    others["scripts"]["namespace"]["name"] = json!(second.scripts());
    others["agentHost"]["replicas"] = json!(2);
    outside.is_openrouter_of(&mut others);
    borrow_broker(&second, &mut others, &release);
    second.install(&others, &[&WAIT[..], &["--wait-for-jobs"]].concat()).unwrap();
    second.check_calls();
    check_borrowed(&release);
    check_evictions(&second, "agent-host");

    // The password that was drawn stays, and the other release does not notice.
    let secret = release.deployment("broker");
    let password = || release.look(&["get", "secret", &secret, "-o", "jsonpath={.data.password}"]);
    let drawn = password().unwrap();
    values["scriptsManager"]["maxConcurrent"] = json!(3);
    values["agent"] = json!({"name": "Rocky"});
    let check = |name: &str| {
        assert_eq!(agent_name(&release), name);
        assert_eq!(password().unwrap(), drawn);
        until(|| release.invoke("execute_python_script", &json!({"script": "print(1)"})));
        release.check_calls();
        second.check_calls();
    };

    stops_in_calls(&release, || drop(release.install(&values, &[]).unwrap()));
    check("Rocky");
    roll_back(&release);
    check("RockBot");

    for gone in [&second, &release] {
        check_uninstall(gone);
    }
}

/// Nothing of it stays.
fn check_uninstall(release: &Release) {
    release.helm(&["uninstall", &release.name, "--wait"], None).unwrap();
    until(|| {
        let left = release.left()?;
        ensure!(left.is_empty(), "left: {left}");
        release
            .kubectl(&["get", "namespace", &release.scripts()])
            .err()
            .context("the namespace of the scripts is still there")
    });
}

/// The namespace of the scripts has all that the manager looks for when it starts, and the manager
/// is known there by its Lease.
fn check_scripts(release: &Release) {
    let scripts = release.scripts();
    let names = |kind: &str| {
        release.kubectl(&["get", kind, "--namespace", &scripts, "-o", "name"]).unwrap()
    };
    for kind in ["resourcequota", "limitrange", "networkpolicy"] {
        assert!(!names(kind).is_empty(), "no {kind} in {scripts}");
    }
    // One came with the release.
    assert_eq!(names("lease").lines().count(), 2, "{}", names("lease"));
    let component = "app.kubernetes.io/component=scripts-manager";
    let logs = release.look(&["logs", "--selector", component, "--tail=-1"]).unwrap();
    assert!(!logs.contains("\"missing\""), "{logs}");
}

/// The manager may do in the namespace of its scripts what it does there, and nothing anywhere
/// else; nobody else has so much as a token.
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

/// Who is not named reaches nothing: not the broker, not the agent, not the other services. What
/// the bridge is not named for it does not reach either.
fn check_flows(release: &Release, outside: &Outside) {
    let service = |component: &str| format!("{}.{}", release.deployment(component), release.name);
    // Health has no service.
    let pod = format!("pod/{}", release.pods("openrouter-mcp")[0]);
    let router = release.look(&["get", &pod, "--output=jsonpath={.status.podIP}"]).unwrap();
    let doors = [
        (service("rabbitmq"), 5672),
        (service("openrouter-mcp"), 8080),
        (service("rabbitmq"), 15672),
        (service("agent-host"), 8800),
        (router, 8081),
    ];
    outside.check_doors(release, &doors, 2);
}

/// The namespace of the scripts is there already, as `--prepare-namespace` makes it: it is refused,
/// and installed into when the operator hands it over.
fn hand_over_scripts(release: &Release, values: &Value) {
    let scripts = release.scripts();
    release.kubectl(&["create", "namespace", &scripts]).unwrap();
    let policy = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
        "metadata": {"name": "toolbus-deny-all", "namespace": scripts},
        "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]},
    });
    apply(release.cluster.kubectl(), &policy);

    let error = release.install(values, &[]).unwrap_err().to_string();
    assert!(error.contains("exists and cannot be imported"), "{error}");
    release.install(values, &["--take-ownership"]).unwrap();
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
    let soon = json!([{"name": "OTEL_METRIC_EXPORT_INTERVAL", "value": "500"}]);

    for part in ["mcpBridge", "scriptsManager"] {
        values[part]["env"] = soon.clone();
    }

    for part in ["agentHost", "openrouterMcp"] {
        values[part]["enabled"] = json!(false);
    }

    hand_over_scripts(&release, &values);
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
    let [bridge, manager] = ["mcp-bridge", "scripts-manager"]
        .map(|component| format!("deployment/{}", release.deployment(component)));

    for service in [&bridge, &manager] {
        release.look(&["rollout", "status", service, "--timeout=5m"]).unwrap();
    }

    release.helm(&["test", &release.name], None).unwrap();

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

    // A call that fails leaves no pod, and why it failed is told all the same.
    let error = release.helm(&["test", &release.name], None).unwrap_err().to_string();
    assert!(error.contains("refused the user toolbus or the password"), "{error}");
    assert!(!error.contains("hunter2"), "helm tells the password: {error}");
    assert_eq!(release.pods("test-call"), [""; 0]);
    // The one that works is kept until the new one does, and that takes up what is mended by
    // itself.
    apply(release.cluster.kubectl(), &secret("right"));
    release.look(&["rollout", "status", &bridge, "--timeout=5m"]).unwrap();

    for component in ["mcp-bridge", "scripts-manager"] {
        let logs = until(|| {
            let pods = release.pods(component);
            ensure!(pods.len() == 1, "{pods:?}");
            release.look(&["logs", &pods[0]])
        });
        // Each signal was tried by now, most of them often.
        assert_eq!(logs.matches("telemetry is not exported").count(), 1, "{logs}");
    }
}
