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
use crate::fake_cluster::{Cluster, NAMESPACE};
use crate::leases::DEAD_AFTER;
use crate::owner_lease::Owner;
use crate::pod_lifecycle::{Kept, Made};
use crate::pod_spec::{self, Identity};
use crate::pod_watch::Watch;
use crate::settings::KubernetesSettings;

const HOUR: SignedDuration = SignedDuration::from_hours(1);
/// How long after its start a manager's wall clock jumps.
const JUMP_AFTER: Duration = Duration::from_secs(12);
/// A dead manager is noticed by then, and what it left is gone.
const NOTICED: Duration = Duration::from_secs(DEAD_AFTER.as_secs() + 3 * LOOK_EVERY.as_secs());

/// A manager with a pod.
struct Manager {
    reaper: Reaper,
    pod: Kept,
}

impl Manager {
    /// One that was never heard of. Its wall clock jumps by this after a while.
    async fn new(cluster: &Cluster, jump: SignedDuration) -> Self {
        let client = Client::new(cluster.clone(), NAMESPACE);
        let pods = Api::namespaced(client.clone(), NAMESPACE);
        let limit = Duration::from_secs(10);
        let (owner, tasks) = (Owner::default(), TaskTracker::new());
        let keeper = Arc::new(Keeper::new(pods, Watch::default(), owner.clone(), tasks));
        let mut presence = Presence::new(client, NAMESPACE, keeper.manager(), owner);
        let start = Instant::now();
        presence.wall = Arc::new(move || {
            let passed = start.elapsed();
            let jumped = if passed < JUMP_AFTER { SignedDuration::ZERO } else { jump };
            Timestamp::UNIX_EPOCH
                + HOUR * 500_000
                + jumped
                + SignedDuration::try_from(passed).expect("not long")
        });
        presence.renew().await.expect("a Lease");
        let identity = Identity::of_call(keeper.manager(), CallKey::unique(), "call");
        let described = pod_spec::describe(&KubernetesSettings::default(), &identity, limit);
        let (stop, by) = (CancellationToken::new(), Instant::now() + limit);
        let made = keeper.make(&identity, described, &stop, by).await;
        let Ok(Made::New(pod)) = made else { panic!("no pod") };
        let (presence, watchman) = (Arc::new(presence), Watchman::default());
        Self { reaper: Reaper { keeper, presence, watchman }, pod }
    }

    fn name(&self) -> String {
        self.reaper.keeper.manager().to_owned()
    }
}

async fn living_are_let_live_and_the_dead_are_found(jump: SignedDuration) {
    let cluster = Cluster::default();
    let steady = Manager::new(&cluster, SignedDuration::ZERO).await;
    let jumping = Manager::new(&cluster, jump).await;
    // Its last sign of life was given by a clock that was wrong already.
    let dead = Manager::new(&cluster, SignedDuration::ZERO).await;
    cluster.renewed_at(&dead.name(), &format!("{:.6}", (dead.reaper.presence.wall)() + jump));
    let waiting = CallKey::unique();
    cluster.note(&dead.name(), &pod_spec::call_label(waiting));

    let names = [&steady, &jumping, &dead].map(|manager| manager.pod.name.clone());
    let managers = [&steady, &jumping].map(Manager::name);
    let presences = [&steady, &jumping].map(|manager| Arc::clone(&manager.reaper.presence));
    let (stop, mut running) = (CancellationToken::new(), JoinSet::new());
    let mut held = vec![dead.pod];
    for manager in [steady, jumping] {
        running.spawn(manager.reaper.run(stop.clone()));
        held.push(manager.pod);
    }
    sleep(DEAD_AFTER - LOOK_EVERY).await;
    assert_eq!(cluster.names("pods").len(), 3, "{jump:?}: nobody is known to be dead yet");
    sleep(NOTICED).await;
    let mut left = names[..2].to_vec();
    left.sort();
    assert_eq!(cluster.names("pods"), left, "{jump:?}");
    let times = managers.map(|manager| cluster.renewal(&manager));
    let apart = times[1].duration_since(times[0]);
    assert!((apart - jump).abs() < SignedDuration::from_secs(30), "it has not jumped: {times:?}");

    // What waited at the dead one is known not to have begun, once.
    let mut unbegun = Vec::new();
    for presence in presences {
        unbegun.push(presence.is_unbegun(waiting).await);
    }
    assert_eq!(unbegun, [Ok(true), Ok(false)], "{jump:?}");
    // With nothing in it any more its Lease goes, too. Theirs stay, however long it takes.
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
