//! Managers around a cluster that is made up, in a time that the tests pass: what their wall clocks
//! say, and how these jump, changes nothing.

use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::{Api, Client};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;
use toolbus_scripts::runner::CallKey;

use super::*;
use crate::fake_cluster::{FakeCluster, NAMESPACE};
use crate::leases::LEASE_TIMEOUT;
use crate::owner_lease::OwnerLease;
use crate::pod_lifecycle::{OwnedPod, PodCreation, PodSignals};
use crate::pod_spec::{self, PodIdentity};
use crate::pod_watch::PodWatch;
use crate::settings::KubernetesSettings;

const HOUR: SignedDuration = SignedDuration::from_hours(1);
/// How long after its start a manager's wall clock jumps.
const JUMP_AFTER: Duration = Duration::from_secs(12);
/// A dead manager is noticed by then, and what it left is gone.
const NOTICED: Duration =
    Duration::from_secs(LEASE_TIMEOUT.as_secs() + 3 * RENEW_INTERVAL.as_secs());

/// A manager with a pod.
struct Manager {
    reaper: Reaper,
    pod: OwnedPod,
}

impl Manager {
    /// One that was never heard of. Its wall clock jumps by this after a while.
    async fn new(cluster: &FakeCluster, jump: SignedDuration) -> Self {
        let client = Client::new(cluster.clone(), NAMESPACE);
        let pods = Api::namespaced(client.clone(), NAMESPACE);
        let limit = Duration::from_secs(10);
        let (owner, tasks) = (OwnerLease::default(), TaskTracker::new());
        let keeper = Arc::new(PodKeeper::new(pods, PodWatch::default(), owner.clone(), tasks));
        let mut leases = ManagerLeases::new(client, NAMESPACE, keeper.manager(), owner);
        let start = Instant::now();
        leases.wall = Arc::new(move || {
            let passed = start.elapsed();
            let jumped = if passed < JUMP_AFTER { SignedDuration::ZERO } else { jump };
            Timestamp::UNIX_EPOCH
                + HOUR * 500_000
                + jumped
                + SignedDuration::try_from(passed).expect("not long")
        });
        leases.renew().await.expect("a Lease");
        let identity = PodIdentity::for_call(keeper.manager(), CallKey::unique(), "call");
        let described = pod_spec::describe_pod(&KubernetesSettings::default(), &identity, limit);
        let signals = PodSignals::cancelled_by(&CancellationToken::new());
        let by = Instant::now() + limit;
        let made = keeper.create_pod(&identity, described, &signals, by).await;
        let Ok(PodCreation::Created(pod)) = made else { panic!("no pod") };
        let (leases, liveness) = (Arc::new(leases), LivenessTracker::default());
        let cluster = watch::Sender::default();
        Self { reaper: Reaper { keeper, leases, liveness, cluster }, pod }
    }

    fn name(&self) -> String {
        self.reaper.keeper.manager().to_owned()
    }
}

async fn living_are_let_live_and_the_dead_are_found(jump: SignedDuration) {
    let cluster = FakeCluster::default();
    let steady = Manager::new(&cluster, SignedDuration::ZERO).await;
    let jumping = Manager::new(&cluster, jump).await;
    // Its last sign of life was given by a clock that was wrong already.
    let dead = Manager::new(&cluster, SignedDuration::ZERO).await;
    cluster.renewed_at(&dead.name(), &format!("{:.6}", (dead.reaper.leases.wall)() + jump));

    let names = [&steady, &jumping, &dead].map(|manager| manager.pod.name.clone());
    let managers = [&steady, &jumping].map(Manager::name);
    let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
    let mut held = vec![dead.pod];
    for manager in [steady, jumping] {
        running.spawn(manager.reaper.run(stop.clone()));
        held.push(manager.pod);
    }
    sleep(LEASE_TIMEOUT - RENEW_INTERVAL).await;
    assert_eq!(cluster.names("pods").len(), 3, "{jump:?}: nobody is known to be dead yet");
    sleep(NOTICED).await;
    let mut left = names[..2].to_vec();
    left.sort();
    assert_eq!(cluster.names("pods"), left, "{jump:?}");
    let times = managers.map(|manager| cluster.renewal(&manager));
    let apart = times[1].duration_since(times[0]);
    assert!((apart - jump).abs() < SignedDuration::from_secs(30), "it has not jumped: {times:?}");

    // The Lease of the dead one goes, too. Theirs stay, however long it takes.
    sleep(Duration::from_secs(300)).await;
    assert_eq!((cluster.names("leases").len(), cluster.names("pods")), (2, left), "{jump:?}");
    stop.cancel();
    while running.join_next().await.is_some() {}
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_ahead_kills_nobody_and_hides_nobody() {
    living_are_let_live_and_the_dead_are_found(HOUR).await;
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_back_kills_nobody_and_hides_nobody() {
    living_are_let_live_and_the_dead_are_found(-HOUR).await;
}
