//! The peer: the cluster's client library alone, with the same pods.
//!
//! Their only other difference is their program, which runs each line that it reads. No limits for
//! the script, no frames, no time-outs, nobody watching: what is left is what it takes the cluster
//! to start a pod and to carry a few bytes there and back.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{AttachParams, AttachedProcess, DeleteParams, LogParams, PostParams};
use kube::runtime::wait::await_condition;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{sleep, timeout};
use toolbus_bus::Progress;
use toolbus_wire::envelope::new_id;

use crate::cluster::Cluster;
use crate::manager::Manager;
use crate::{PRINTS, SCRIPT};

/// Runs what it reads, line by line.
const PROGRAM: &str = "import sys\nfor line in sys.stdin: exec(line); sys.stdout.flush()";
const END: &str = "import os; os._exit(0)";
/// Between two attempts to attach.
const PAUSE: Duration = Duration::from_millis(10);
/// After this without an answer the line is sent again: what is attached to a container that is
/// being born may deliver in one direction before the other.
const AGAIN: Duration = Duration::from_millis(250);
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes pods like the manager's.
pub(crate) struct Bare<'a> {
    cluster: &'a Cluster,
    template: Pod,
}

impl<'a> Bare<'a> {
    /// Takes the description from a pod that the manager makes.
    pub(crate) async fn like(cluster: &'a Cluster, manager: &Manager) -> anyhow::Result<Self> {
        let script = manager.run("import time\ntime.sleep(1)", Progress::none());
        let look = async {
            loop {
                if let Some(pod) = cluster.of_manager().await?.pop() {
                    return anyhow::Ok(pod);
                }
                sleep(PAUSE).await;
            }
        };
        let (_, made) = tokio::try_join!(script, look)?;
        let mut spec = made.spec.context("a pod without a description")?;
        spec.node_name = None;
        let mut template = Pod { spec: Some(spec), ..Pod::default() };
        template.metadata.labels = Some([("app".to_owned(), "bench".to_owned())].into());
        Ok(Self { cluster, template })
    }

    /// Makes a pod, attaches to it while it is being born and reads the answer.
    pub(crate) async fn answer(&self) -> anyhow::Result<Booted<'_>> {
        let pod = self.create(PROGRAM, Stdin::Open).await?;
        let attached = timeout(PATIENCE, pod.attach()).await.context("the pod does not answer")?;
        Ok(Booted { pod, attached: Some(attached) })
    }

    /// Makes a pod that runs the script by itself, waits for its phase and reads its log.
    pub(crate) async fn by_phase(&self) -> anyhow::Result<()> {
        let made = self.create(SCRIPT, Stdin::None).await?;
        let pods = &self.cluster.pods;
        let succeeded = |pod: Option<&Pod>| {
            pod.and_then(|pod| pod.status.as_ref()?.phase.as_deref()) == Some("Succeeded")
        };
        let end = await_condition(pods.clone(), &made.name, succeeded);
        timeout(PATIENCE, Box::pin(end)).await.context("the pod does not end")??;
        let log = pods.logs(&made.name, &LogParams::default()).await?;
        ensure!(log == PRINTS, "not what it prints: {log:?}");
        made.delete().await
    }

    async fn create(&self, program: &str, stdin: Stdin) -> anyhow::Result<Made<'_>> {
        let mut pod = self.template.clone();
        let name = format!("bench-{}", new_id());
        pod.metadata.name = Some(name.clone());
        let spec = pod.spec.as_mut().context("a description")?;
        let container = spec.containers.first_mut().context("a container")?;
        let command = ["python3", "-I", "-B", "-c", program];
        container.command = Some(command.map(str::to_owned).to_vec());
        container.stdin = Some(stdin == Stdin::Open);
        self.cluster.pods.create(&PostParams::default(), &pod).await?;
        Ok(Made { cluster: self.cluster, name })
    }
}

#[derive(PartialEq)]
enum Stdin {
    Open,
    None,
}

/// A pod that was made.
struct Made<'a> {
    cluster: &'a Cluster,
    name: String,
}

impl Made<'_> {
    /// Attaches until the script's answer comes.
    async fn attach(&self) -> AttachedProcess {
        let parameters = AttachParams::default().stdin(true).stderr(false);
        loop {
            if let Ok(mut attached) = self.cluster.pods.attach(&self.name, &parameters).await
                && heard(&mut attached).await.unwrap_or(false)
            {
                return attached;
            }
            sleep(PAUSE).await;
        }
    }

    async fn delete(&self) -> anyhow::Result<()> {
        let at_once = DeleteParams::default().grace_period(0);
        self.cluster.pods.delete(&self.name, &at_once).await?;
        Ok(())
    }
}

/// Sends the script until its answer comes; `false` when the connection ends first.
async fn heard(attached: &mut AttachedProcess) -> anyhow::Result<bool> {
    let mut stdin = attached.stdin().context("no standard input")?;
    let mut stdout = attached.stdout().context("no standard output")?;
    let mut answer = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        stdin.write_all(format!("{SCRIPT}\n").as_bytes()).await?;
        stdin.flush().await?;
        while let Ok(read) = timeout(AGAIN, stdout.read(&mut buffer)).await {
            match read? {
                0 => return Ok(false),
                count => answer.extend_from_slice(&buffer[..count]),
            }
            if answer.ends_with(PRINTS.as_bytes()) {
                return Ok(true);
            }
        }
    }
}

/// A pod that answers.
pub(crate) struct Booted<'a> {
    pod: Made<'a>,
    attached: Option<AttachedProcess>,
}

impl Booted<'_> {
    /// Attaches to it anew and reads the answer.
    pub(crate) async fn again(&mut self) -> anyhow::Result<()> {
        let attached = self.pod.attach();
        let attached = timeout(PATIENCE, attached).await.context("the pod does not answer")?;
        self.attached = Some(attached);
        Ok(())
    }

    /// Lets go of the connection.
    pub(crate) fn release(&mut self) {
        self.attached = None;
    }

    /// Ends it as the manager ends its own: the process first, so that nothing of it lingers.
    pub(crate) async fn end(mut self) -> anyhow::Result<()> {
        drop(self.attached.take());
        let parameters = AttachParams::default().stdin(true).stderr(false);
        let mut attached = self.pod.cluster.pods.attach(&self.pod.name, &parameters).await?;
        let mut stdin = attached.stdin().context("no standard input")?;
        stdin.write_all(format!("{END}\n").as_bytes()).await?;
        stdin.flush().await?;
        // Until it is gone: its end closes the connection.
        let _ = timeout(AGAIN, attached.join()).await;
        self.pod.delete().await
    }
}
