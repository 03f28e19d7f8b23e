//! A manager that nobody calls, and what it holds open when it is called.

use std::time::Duration;

use e2e::bench::{Goal, Report, Rounds, Row, process};
use futures_util::future::try_join_all;
use tokio::time::sleep;
use toolbus_bus::Progress;

use crate::AT_ONCE;
use crate::cluster::Cluster;
use crate::manager::Manager;

const ROUNDS: usize = 5;
/// After start-up and the probe of the network policy: what is kept from here on is kept for good.
const SETTLE: Duration = Duration::from_secs(2);
/// When all of the scripts run, for long enough to look.
const LOOK: Duration = Duration::from_secs(5);
const WAIT: &str = "import time\ntime.sleep(8)";

pub(crate) async fn measure(
    report: &mut Report,
    cluster: &Cluster,
    broker: &str,
) -> anyhow::Result<()> {
    let (mut resident, mut watches) = (Rounds::new(), Rounds::new());
    for _ in 0..ROUNDS {
        let before = cluster.watches().await?;
        let mut manager = Manager::start(cluster, broker, 0).await?;
        sleep(SETTLE).await;
        resident.add(process::resident_mib(manager.service.process().id())?);
        let scripts = (0..AT_ONCE).map(|_| manager.run(WAIT, Progress::none()));
        let look = async {
            sleep(LOOK).await;
            cluster.watches().await
        };
        let (_, during) = tokio::try_join!(try_join_all(scripts), look)?;
        watches.add(during - before);
        manager.service.process().terminate(Duration::from_secs(30)).await?;
    }
    report.add(
        Row::new("scripts-manager, idle, resident", "MiB", resident).with_goal(Goal::AtMost(30.0)),
    );
    let what = format!("watches of pods, {AT_ONCE} scripts running");
    report.add(Row::new(what, "", watches).with_goal(Goal::AtMost(1.0)));
    report.note(format!(
        "scripts-manager: its resident memory {} s after it had probed the network policy, with \
         nothing to do; and how many watches of a namespace's pods the API server counts more while {AT_ONCE} scripts run \
         than before the manager started. {ROUNDS} starts.",
        SETTLE.as_secs()
    ));
    Ok(())
}
