//! What a release goes through while it works: it is made anew, goes back, and loses pods one by
//! one.

use std::process::Stdio;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};

use crate::release::{Release, WAIT};
use crate::support::{content, until};

/// Ends when it is told to, by a file that only the outside can make then.
const SCRIPT: &str = "\
import os, time
while not os.path.exists('/dev/shm/tmp/go'):
    time.sleep(0.05)
print('done')
";

/// An upgrade to these values while a script runs, whose manager is replaced like every other pod:
/// the caller is answered, once, and the script ran once.
pub(crate) fn upgrade_in_a_call(release: &Release, values: &Value) {
    let scripts = release.scripts();
    let look =
        |arguments: &[&str]| release.kubectl(&[&["--namespace", &scripts], arguments].concat());
    // One for each pod, and a call has a pod of its own. A manager that starts has one for its
    // probe.
    let begun = || {
        let events = look(&["get", "events", "--field-selector=reason=Started", "--output=name"]);
        let is_scripts = |event: &&str| event.contains("/rockbot-script-");
        events.unwrap().lines().filter(is_scripts).map(str::to_owned).collect::<Vec<_>>()
    };

    let before = begun().len();
    let managers = release.pods("scripts-manager");
    let arguments = json!({"script": SCRIPT, "timeout_seconds": 120});
    release.begin_call("execute_python_script", &arguments);
    let pod = until(|| {
        let calls = ["get", "pods", "--output=name", "--selector=toolbus.dev/call"];
        let pod = look(&[&calls[..], &["--field-selector=status.phase=Running"]].concat())?;
        pod.lines().next().map(str::to_owned).context("no script runs")
    });

    release.install(values, &[]).unwrap();
    until(|| {
        let ends = "--output=jsonpath={.metadata.deletionTimestamp}";
        let ends = release.look(&["get", "pod", &managers[0], ends])?;
        ensure!(!ends.is_empty(), "{} is not told to end", managers[0]);
        Ok(())
    });

    look(&["exec", &pod, "--", "touch", "/dev/shm/tmp/go"]).unwrap();
    until(|| {
        let phase = release.look(&["get", "pod", "caller", "--output=jsonpath={.status.phase}"])?;
        ensure!(["Succeeded", "Failed"].contains(&&*phase), "{phase}");
        Ok(())
    });

    let said = release.look(&["logs", "caller"]).unwrap();
    let answers: Vec<_> = said.lines().filter(|line| line.contains("\"callId\"")).collect();
    assert_eq!(answers.len(), 1, "{said}");
    assert_eq!(content(answers[0]), "done");
    let begun = begun();
    assert_eq!(begun.len(), before + 1, "{begun:?}");
    release.look(&["delete", "pod", "caller"]).unwrap();
    release.wait_for_rollout();
}

/// Back to what was there before the upgrade.
pub(crate) fn roll_back(release: &Release) {
    let back = ["rollback", &release.name];
    release.helm(&[&back[..], &WAIT].concat(), None).unwrap();
}

/// What the release's agent is called.
pub(crate) fn agent_name(release: &Release) -> String {
    let host = format!("deployment/{}", release.deployment("agent-host"));
    let container = "{.spec.template.spec.containers[0]";
    let name = format!("--output=jsonpath={container}.env[?(@.name==\"TOOLBUS_NAME\")].value}}");
    release.look(&["get", &host, &name]).unwrap()
}

/// Of two evictions at once one is refused, so that the service goes on with the other pod.
pub(crate) fn check_evictions(release: &Release, component: &str) {
    let budget = release.deployment(component);
    until(|| {
        let allowed = "--output=jsonpath={.status.disruptionsAllowed}";
        let allowed = release.look(&["get", "poddisruptionbudget", &budget, allowed])?;
        ensure!(allowed == "1", "{allowed} may go");
        Ok(())
    });

    let pods = release.pods(component);
    assert_eq!(pods.len(), 2, "{pods:?}");
    let folder = tempfile::tempdir().unwrap();
    let evictions: Vec<_> = pods
        .iter()
        .map(|pod| {
            let eviction = json!({
                "apiVersion": "policy/v1", "kind": "Eviction",
                "metadata": {"name": pod, "namespace": release.name},
            });
            let file = folder.path().join(pod);
            std::fs::write(&file, eviction.to_string()).unwrap();
            let path = format!("/api/v1/namespaces/{}/pods/{pod}/eviction", release.name);
            let mut kubectl = release.cluster.kubectl();
            kubectl.args(["create", "--raw", &path, "--filename"]).arg(file);
            kubectl.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut refusals = Vec::new();

    for eviction in evictions {
        let ended = eviction.wait_with_output().unwrap();
        if !ended.status.success() {
            refusals.push(String::from_utf8_lossy(&ended.stderr).into_owned());
        }
    }

    let [refusal] = &refusals[..] else { panic!("{refusals:?}") };
    assert!(refusal.contains("TooManyRequests"), "{refusal}");
    assert!(refusal.contains("disruption budget"), "{refusal}");
    let deployment = format!("deployment/{budget}");
    release.look(&["rollout", "status", &deployment, "--timeout=5m"]).unwrap();
}
