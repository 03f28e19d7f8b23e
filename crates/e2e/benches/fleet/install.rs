//! From `helm install` of everything, a broker included, to the first call that a pod answers.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::ensure;
use e2e::bench::{Report, Rounds, Row, at_end};
use toolbus_testkit::tools::{self, Cluster, Helm, output};

const ROUNDS: usize = 3;
const LIMIT: Duration = Duration::from_secs(300);
const NAME: &str = "toolbus-bench";
/// Not that of the benchmark of scripts, which may run at the same time.
const SCRIPTS: &str = "toolbus-bench-fleet-scripts";

pub(crate) fn measure(report: &mut Report, cluster: &Cluster, helm: &Helm) -> anyhow::Result<()> {
    let tag = tools::tag();
    let (place, by) = (cluster.clone(), helm.clone());
    at_end(move || uninstall(&place, &by));
    let mut rounds = Rounds::new();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let installed = install(helm.on(cluster), &tag);
        let answered = installed.and_then(|()| first_answer(cluster, begun));
        let took = begun.elapsed();
        uninstall(cluster, helm)?;
        answered?;
        rounds.add(took.as_secs_f64());
    }

    report.add(Row::new("helm install to the first answered call", "s", rounds));
    report.note(format!(
        "Install: RabbitMQ and the four services into an empty namespace of the one-node cluster of \
         `dev/kube`, whose images are there already, until `agent-host invoke` in the pod of \
         `agent-host` has run a script in a pod. Most of it is the broker's start. {ROUNDS} times."
    ));

    Ok(())
}

/// Removes the release, if it is there, and its namespaces.
fn uninstall(cluster: &Cluster, helm: &Helm) -> anyhow::Result<()> {
    let release = ["uninstall", NAME, "--ignore-not-found", "--namespace", NAME, "--wait"];
    output(helm.on(cluster).args(release))?;
    let namespaces = ["delete", "namespace", "--ignore-not-found", NAME, SCRIPTS];
    output(cluster.kubectl().args(namespaces)).map(drop)
}

fn install(mut helm: Command, tag: &str) -> anyhow::Result<()> {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../helm/toolbus");
    let tag = format!("image.tag={tag}");
    let scripts = format!("scripts.namespace.name={SCRIPTS}");
    let values = [
        "rabbitmq.enabled=true",
        "rabbitmq.persistence.enabled=false",
        &scripts,
        "openrouterMcp.enabled=true",
        "openrouterMcp.apiKey=none",
        "rabbitmq.resources.requests.cpu=50m",
        &tag,
    ];
    helm.args(["install", NAME]).arg(chart).args(["--namespace", NAME, "--create-namespace"]);
    output(helm.args(["--set", &values.join(",")])).map(drop)
}

fn first_answer(cluster: &Cluster, begun: Instant) -> anyhow::Result<()> {
    let call = ["agent-host", "invoke", "execute_python_script", r#"{"script": "print(6 * 7)"}"#];
    loop {
        let mut command = kubectl(
            cluster,
            &["exec", "--namespace", NAME, "deployment/toolbus-bench-agent-host", "--"],
        );
        match output(command.args(call)) {
            Ok(printed) if printed.trim() == "42" => return Ok(()),
            Ok(printed) => anyhow::bail!("the script printed {printed}"),
            Err(error) => ensure!(begun.elapsed() < LIMIT, "not in time: {error}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn kubectl(cluster: &Cluster, arguments: &[&str]) -> Command {
    let mut command = cluster.kubectl();
    command.args(arguments);
    command
}
