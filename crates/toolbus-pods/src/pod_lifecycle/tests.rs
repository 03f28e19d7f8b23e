//! When pods go that are done with, and what is known of those that may be another's, on a cluster
//! that is made up and in a time that the tests pass.

use futures_util::sink;
use kube::Client;
use toolbus_scripts::runner::CallKey;

use super::*;
use crate::fake_cluster::{FakeCluster, Hearing, NAMESPACE};
use crate::release::ReleaseOutcome;
use crate::settings::KubernetesSettings;

/// How long putting a pod away takes when nothing is waited for.
const AWAY: Duration = Duration::from_millis(2 * DELETE_GRACE.as_millis() as u64);

/// Longer than a pod may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Asks this cluster for the pod of a new call, which has so long to begin.
async fn make(
    cluster: &FakeCluster,
    limit: Duration,
) -> (Arc<PodKeeper>, Result<PodCreation, Error>) {
    let pods = Api::namespaced(Client::new(cluster.clone(), NAMESPACE), NAMESPACE);
    let (owner, tasks) = (OwnerLease::default(), TaskTracker::new());
    let keeper = Arc::new(PodKeeper::new(pods, PodWatch::default(), owner, tasks));
    let identity = PodIdentity::for_call(keeper.manager(), CallKey::unique(), "call");
    let described = pod_spec::describe_pod(&KubernetesSettings::default(), &identity, limit);
    let by = Instant::now() + limit;
    let signals = PodSignals::cancelled_by(&CancellationToken::new());
    let made = keeper.create_pod(&identity, described, &signals, by).await;
    (keeper, made)
}

/// A pod whose script has ended, and what it has heard.
struct FinishedPod {
    cluster: FakeCluster,
    keeper: Arc<PodKeeper>,
    pod: OwnedPod,
    heard: Arc<Mutex<usize>>,
}

impl FinishedPod {
    async fn new() -> Self {
        let cluster = FakeCluster::default();
        let (keeper, Ok(PodCreation::Created(mut pod))) = make(&cluster, LIMIT).await else {
            panic!("no pod")
        };
        let heard: Arc<Mutex<usize>> = Arc::default();
        pod.end_listener =
            Some(ContainerInput::to(sink::unfold(Arc::clone(&heard), |heard, _| async move {
                *heard.lock() += 1;
                Ok(heard)
            })));
        Self { cluster, keeper, pod, heard }
    }

    /// Whether it was told that its end was heard, and whether the cluster has it.
    fn is_told_and_there(cluster: &FakeCluster, heard: &Mutex<usize>) -> (bool, bool) {
        (*heard.lock() == 1, !cluster.names("pods").is_empty())
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_done_with_goes_at_once_when_no_script_waits_for_its_own() {
    let FinishedPod { cluster, keeper, pod, heard } = FinishedPod::new().await;
    drop(pod);
    assert!(keeper.is_room_pending());
    sleep(AWAY).await;
    assert_eq!(FinishedPod::is_told_and_there(&cluster, &heard), (true, false));
    assert!(keeper.is_room_pending());
    sleep(ROOM_GRACE).await;
    assert!(!keeper.is_room_pending());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_done_with_stays_until_the_last_script_has_its_own() {
    let FinishedPod { cluster, keeper, pod, heard } = FinishedPod::new().await;
    let (first, last) = (keeper.begin_startup(), keeper.begin_startup());
    drop(pod);
    sleep(STARTUP_GRACE / 2).await;
    drop(first);
    sleep(AWAY).await;
    assert_eq!(FinishedPod::is_told_and_there(&cluster, &heard), (false, true));
    assert!(keeper.is_room_pending());
    drop(last);
    sleep(AWAY).await;
    assert_eq!(FinishedPod::is_told_and_there(&cluster, &heard), (true, false));
}

#[tokio::test(start_paused = true)]
async fn no_pod_that_is_done_with_stays_for_long() {
    let FinishedPod { cluster, keeper, pod, heard } = FinishedPod::new().await;
    let _birth = keeper.begin_startup();
    drop(pod);
    sleep(STARTUP_GRACE + AWAY).await;
    assert_eq!(FinishedPod::is_told_and_there(&cluster, &heard), (true, false));
}

#[tokio::test(start_paused = true)]
async fn a_detached_pod_is_left_and_is_no_orphan_of_its_manager() {
    let FinishedPod { cluster, keeper, pod, heard } = FinishedPod::new().await;
    let seen = keeper.list_pods().await.unwrap().remove(0);
    pod.detached.cancel();
    drop(pod);
    sleep(LIMIT).await;
    assert_eq!(FinishedPod::is_told_and_there(&cluster, &heard), (false, true));
    assert!(!keeper.is_orphaned(&seen));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_detached_while_it_is_made_is_left() {
    let cluster = FakeCluster::default();
    cluster.is_watching(Hearing::Mute);
    let pods = Api::namespaced(Client::new(cluster.clone(), NAMESPACE), NAMESPACE);
    let tasks = TaskTracker::new();
    let keeper = PodKeeper::new(pods, PodWatch::default(), OwnerLease::default(), tasks);
    let keeper = Arc::new(keeper);
    let identity = PodIdentity::for_call(keeper.manager(), CallKey::unique(), "call");
    let described = pod_spec::describe_pod(&KubernetesSettings::default(), &identity, LIMIT);
    let signals = PodSignals::cancelled_by(&CancellationToken::new());
    let by = Instant::now() + LIMIT;

    let creation = keeper.create_pod(&identity, described, &signals, by);
    assert!(timeout(Duration::from_secs(1), creation).await.is_err());
    signals.detached.cancel();
    cluster.is_watching(Hearing::Well);
    keeper.tasks.close();
    keeper.tasks.wait().await;
    assert_eq!(cluster.names("pods"), [identity.name]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_not_made_in_time_is_told_with_the_reason() {
    let cluster = FakeCluster::default();
    for hearing in [Hearing::Deaf, Hearing::Mute] {
        cluster.is_watching(hearing);
        let start = Instant::now();
        let (keeper, made) = make(&cluster, Duration::from_secs(9)).await;
        assert_eq!(start.elapsed(), Duration::from_secs(9), "{hearing:?}");
        let Err(Error::Unavailable(why)) = made else { panic!("{hearing:?}: made all the same") };
        assert!(why.contains("does not answer: ") && why.contains("within 9.0s"), "{why}");
        // What was made unheard is deleted, once the cluster answers.
        assert_eq!(cluster.names("pods").len(), usize::from(hearing == Hearing::Mute));
        cluster.is_watching(Hearing::Well);
        keeper.tasks.close();
        keeper.tasks.wait().await;
        assert_eq!(cluster.names("pods"), [""; 0], "{hearing:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_given_up_is_deleted_while_it_is_ours() {
    let cluster = FakeCluster::default();
    let (_, Ok(PodCreation::Created(mut own))) = make(&cluster, LIMIT).await else {
        panic!("no pod")
    };
    assert_eq!(own.release(Instant::now() + LIMIT).await, ReleaseOutcome::Released);
    assert_eq!(cluster.names("pods"), [""; 0]);

    let (_, Ok(PodCreation::Created(mut taken))) = make(&cluster, LIMIT).await else {
        panic!("no pod")
    };
    cluster.take_over(&taken.name, "another");
    assert_eq!(taken.release(Instant::now() + LIMIT).await, ReleaseOutcome::OwnedElsewhere);
    drop(taken);
    sleep(LIMIT).await;
    assert_eq!(cluster.names("pods").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn whose_a_pod_is_that_the_cluster_does_not_tell_of_is_unknown() {
    let cluster = FakeCluster::default();
    for left in [LIMIT, Duration::from_secs(2)] {
        let (keeper, Ok(PodCreation::Created(mut pod))) = make(&cluster, LIMIT).await else {
            panic!("no pod")
        };
        let (name, start) = (pod.name.clone(), Instant::now());
        cluster.is_watching(Hearing::Deaf);
        assert_eq!(pod.release(start + left).await, ReleaseOutcome::Unknown);
        assert!(start.elapsed() <= left.min(Duration::from_secs(45)), "{:?}", start.elapsed());
        // Somebody takes it over meanwhile, and it is his as soon as there are answers again.
        cluster.take_over(&name, "another");
        cluster.is_watching(Hearing::Well);
        drop(pod);
        sleep(LIMIT).await;
        assert!(cluster.names("pods").contains(&name), "another's pod was deleted");
        assert!(keeper.held.lock().is_empty(), "it is nobody's stray");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_another_manager_adopted_unseen_is_not_deleted() {
    let FinishedPod { cluster, keeper, pod, .. } = FinishedPod::new().await;
    // No watch tells of it.
    cluster.take_over(&pod.name, "another");
    drop(pod);
    sleep(LIMIT).await;
    assert_eq!(cluster.names("pods").len(), 1);
    assert!(keeper.held.lock().is_empty());
}
