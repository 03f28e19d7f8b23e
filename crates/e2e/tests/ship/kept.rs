//! What a release keeps is there when the pods that wrote it are gone: on volumes what agents have
//! registered, what waits at the broker, and packages that were installed for scripts; and after
//! the release itself what was told to stay.

use anyhow::ensure;
use serde_json::{Value, json};

use crate::release::{Release, WAIT, parts};
use crate::support::{content, marking_server, until};
use crate::volumes::{INDEX_PORT, Volumes};

const EXPIRED: &str = "rockbot.scripts-manager.script-invoke.dlq";

/// A release whose claims find these volumes.
fn values(release: &Release, volumes: &Volumes) -> Value {
    let mut values = release.values();
    values["rabbitmq"]["persistence"] =
        json!({"enabled": true, "keep": false, "storageClass": volumes.class("broker")});
    values["mcpBridge"]["persistence"] =
        json!({"enabled": true, "storageClass": volumes.class("bridge")});
    values["mcpBridge"]["env"] =
        json!([{"name": "TOOLBUS_MCP__ALLOW_STDIO_REGISTRATION", "value": "true"}]);
    values["scripts"]["packages"] = json!({
        "enabled": true,
        "index": volumes.index(),
        "to": [volumes.peer()],
        "port": INDEX_PORT,
        "storageClass": volumes.class("packages"),
    });
    values["scripts"]["namespace"]["keep"] = json!(true);
    values["scripts"]["warm"] = json!({"size": 1});
    values["openrouterMcp"] = json!({"enabled": false});
    values
}

/// A pod waits for a script, and when it has got one another pod does.
fn check_warm(release: &Release) {
    let scripts = release.scripts();
    let waiting = || -> anyhow::Result<String> {
        let pods = ["get", "pods", "--namespace", &scripts, "--output=name"];
        let warm = ["--selector=toolbus.dev/warm", "--field-selector=status.phase=Running"];
        let pods = release.kubectl(&[&pods[..], &warm].concat())?;
        ensure!(pods.lines().count() == 1, "{pods}");
        Ok(pods)
    };
    let first = until(waiting);
    // The manager may come to know of it later than we.
    until(|| {
        release.invoke("execute_python_script", &json!({"script": "print(1)"}))?;
        let next = until(waiting);
        ensure!(next != first, "{first} waits on");
        Ok(())
    });
}

/// A script that uses a package.
fn check_package(release: &Release) {
    let script = "import toolbus_good\nprint(toolbus_good.value)";
    let script = json!({"script": script, "pip_packages": ["toolbus-good"]});
    let printed = release.invoke("execute_python_script", &script).unwrap();
    assert_eq!(content(&printed), "from a wheel");
}

/// How many messages wait in a queue of the release's broker.
fn waiting(release: &Release, queue: &str) -> anyhow::Result<Option<u64>> {
    let listed = release.rabbitmqctl("list_queues name messages")?;
    let mut rows = listed.lines().filter_map(|line| line.split_once('\t'));
    let found = rows.find(|(name, _)| *name == queue);
    Ok(found.map(|(_, count)| count.trim().parse()).transpose()?)
}

#[test]
fn what_is_kept_on_volumes_outlives_the_pods() {
    let Some(parts) = parts() else { return };
    let volumes = Volumes::new(parts.1.clone());
    let release = Release::new(parts, "kept");
    release.install(&values(&release, &volumes), &WAIT).unwrap();
    let claims = release.claims();
    assert_eq!(claims.len(), 3, "{claims:?}");
    assert!(claims.iter().all(|claim| claim.ends_with(" Bound")), "{claims:?}");

    check_warm(&release);
    check_package(&release);
    let asked = r#"{"toolbus_good-1.0-py3-none-any.whl": 1}"#;
    assert_eq!(volumes.asked().unwrap(), asked);
    let mut server = marking_server();
    server["name"] = json!("kept");
    content(&release.invoke("mcp_register_server", &server).unwrap());
    // Nobody takes this one, and its caller goes: it becomes a dead letter.
    let manager = format!("deployment/{}", release.deployment("scripts-manager"));
    release.look(&["scale", &manager, "--replicas=0"]).unwrap();
    until(|| {
        let component = "app.kubernetes.io/component=scripts-manager";
        let left = release.look(&["get", "pods", "--selector", component, "--output=name"])?;
        ensure!(left.is_empty(), "{left}");
        Ok(())
    });

    let script = json!({"script": "print(1)"});
    release.invoke_with("execute_python_script", &script, &["--timeout=2s"]).unwrap_err();
    until(|| {
        let count = waiting(&release, EXPIRED)?;
        ensure!(count == Some(1), "{count:?} dead letters");
        Ok(())
    });

    let label = "app.kubernetes.io/component in (rabbitmq, mcp-bridge)";
    // They are killed before they have put everything in order.
    release.look(&["delete", "pods", "--selector", label, "--grace-period=1"]).unwrap();
    let broker = format!("pod/{}-0", release.deployment("rabbitmq"));
    until(|| release.look(&["wait", "--for=condition=Ready", &broker, "--timeout=1m"]));
    assert_eq!(waiting(&release, EXPIRED).unwrap(), Some(1));
    release.look(&["scale", &manager, "--replicas=1"]).unwrap();

    for workload in ["mcp-bridge", "scripts-manager", "agent-host"] {
        let workload = format!("deployment/{}", release.deployment(workload));
        release.look(&["rollout", "status", &workload, "--timeout=5m"]).unwrap();
    }

    let mark = json!({"server_name": "kept", "tool_name": "mark"});
    assert_eq!(content(&release.invoke("mcp_invoke_tool", &mark).unwrap()), "mark: done");
    check_package(&release);
    assert_eq!(volumes.asked().unwrap(), asked, "it was installed again");
    check_uninstall(&release);
}

/// What was told to stay does, and nothing else: neither the pods of scripts nor those that wait
/// for one.
fn check_uninstall(release: &Release) {
    release.helm(&["uninstall", &release.name], None).unwrap();
    // A volume goes after the pods that have it, and the broker takes its time.
    let broker = "app.kubernetes.io/component=rabbitmq";
    let now = ["delete", "pods", "--selector", broker, "--grace-period=1", "--wait=false"];
    release.look(&now).unwrap();
    let (name, scripts) = (release.deployment(""), release.scripts());
    let kept = [
        format!("namespace/{scripts}"),
        "networkpolicy.networking.k8s.io/toolbus-deny-all".to_owned(),
        format!("persistentvolumeclaim/{name}mcp-bridge"),
        format!("persistentvolumeclaim/{name}packages"),
    ];

    until(|| {
        let left = release.left()?;
        let mut left: Vec<_> = left.lines().collect();
        left.sort_unstable();
        ensure!(left == kept, "{left:?}");
        let pods =
            release.kubectl(&["get", "pods,leases", "--namespace", &scripts, "-o", "name"])?;
        ensure!(pods.is_empty(), "{pods}");
        Ok(())
    });
}
