//! What a release goes through while it works: it is made anew, goes back, and loses pods one by
//! one.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::ensure;
use serde_json::json;

use crate::release::{Release, WAIT};
use crate::support::{content, until};

/// Ends when it is told to, by a file that only the outside can make then.
const SCRIPT: &str = "\
import os, time
while not os.path.exists('/dev/shm/tmp/go'):
    time.sleep(0.05)
print('done')
";

/// As many as a manager runs at a time, and how long they run at least.
const CALLERS: [&str; 3] = ["caller-0", "caller-1", "caller-2"];
const RUNS_FOR: Duration = Duration::from_secs(60);

/// While scripts run for a minute, an upgrade of the release replaces their manager like every
/// other pod, a drained node evicts the next pod, and another pod starts and stops. Each caller
/// gets exactly one answer, and each script runs once.
pub(crate) fn stops_in_calls(release: &Release, change: impl FnOnce()) {
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
    let arguments = json!({"script": SCRIPT, "timeout_seconds": 300});
    for caller in CALLERS {
        release.begin_call(caller, "execute_python_script", &arguments);
    }
    let pods = until(|| {
        let calls = ["get", "pods", "--output=name", "--selector=toolbus.dev/call"];
        let pods = look(&[&calls[..], &["--field-selector=status.phase=Running"]].concat())?;
        let pods: Vec<_> = pods.lines().map(str::to_owned).collect();
        ensure!(pods.len() == CALLERS.len(), "{pods:?} run");
        Ok(pods)
    });
    let all_run = Instant::now();

    change();
    release.wait_for_rollout();
    wait_for_end(release, &managers[0]);
    lose_managers(release);
    // sleeps: the scripts are to run for longer than a manager may be away.
    std::thread::sleep(RUNS_FOR.saturating_sub(all_run.elapsed()));

    for pod in pods {
        look(&["exec", &pod, "--", "touch", "/dev/shm/tmp/go"]).unwrap();
    }
    for caller in CALLERS {
        until(|| {
            let phase = "--output=jsonpath={.status.phase}";
            let phase = release.look(&["get", "pod", caller, phase])?;
            ensure!(["Succeeded", "Failed"].contains(&&*phase), "{phase}");
            Ok(())
        });

        let said = release.look(&["logs", caller]).unwrap();
        let answers: Vec<_> = said.lines().filter(|line| line.contains("\"callId\"")).collect();
        assert_eq!(answers.len(), 1, "{said}");
        assert_eq!(content(answers[0]), "done");
        release.look(&["delete", "pod", caller]).unwrap();
    }
    let begun = begun();
    assert_eq!(begun.len(), before + CALLERS.len(), "{begun:?}");
    release.wait_for_rollout();
}

/// Evicts the manager, as a node does that is drained, and then has one more for a moment.
fn lose_managers(release: &Release) {
    let manager = release.pods("scripts-manager");
    let [manager] = &manager[..] else { panic!("{manager:?}") };
    let folder = tempfile::tempdir().unwrap();
    let eviction = evict(release, manager, folder.path()).wait_with_output().unwrap();
    assert!(eviction.status.success(), "{eviction:?}");
    release.wait_for_rollout();
    wait_for_end(release, manager);

    let deployment = format!("deployment/{}", release.deployment("scripts-manager"));
    for replicas in ["--replicas=2", "--replicas=1"] {
        release.look(&["scale", &deployment, replicas]).unwrap();
        release.wait_for_rollout();
    }
}

/// Waits until a pod is gone: it has given back what outlasts its grace.
fn wait_for_end(release: &Release, pod: &str) {
    until(|| {
        let found = release.look(&["get", "pod", pod, "--ignore-not-found", "--output=name"])?;
        ensure!(found.trim().is_empty(), "{pod} is still there");
        Ok(())
    });
}

/// Has the API server evict a pod; its description is in a file of this folder.
fn evict(release: &Release, pod: &str, folder: &Path) -> Child {
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": pod, "namespace": release.name},
    });
    let file = folder.join(pod);
    std::fs::write(&file, eviction.to_string()).unwrap();
    let path = format!("/api/v1/namespaces/{}/pods/{pod}/eviction", release.name);
    let mut kubectl = release.cluster.kubectl();
    kubectl.args(["create", "--raw", &path, "--filename"]).arg(file);
    kubectl.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
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
    let evictions: Vec<_> = pods.iter().map(|pod| evict(release, pod, folder.path())).collect();
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
