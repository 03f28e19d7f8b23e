//! When pods go that are done with, and what is known of those that may be another's, on a cluster that
//! is made up and in a time that the tests pass.

use futures_util::sink;
use kube::Client;
use toolbus_scripts::runner::CallKey;

use super::*;
use crate::fake_cluster::{Cluster, Hearing, NAMESPACE};
use crate::release::Whose;
use crate::settings::KubernetesSettings;

/// How long putting a pod away takes when nothing is waited for.
const AWAY: Duration = Duration::from_millis(2 * LULL.as_millis() as u64);

/// Longer than a pod may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Asks this cluster for the pod of a new call, which has so long to begin.
async fn make(cluster: &Cluster, limit: Duration) -> (Arc<Keeper>, Result<Made, Error>) {
    let pods = Api::namespaced(Client::new(cluster.clone(), NAMESPACE), NAMESPACE);
    let (owner, tasks) = (Owner::default(), TaskTracker::new());
    let keeper = Arc::new(Keeper::new(pods, Watch::default(), owner, tasks));
    let identity = Identity::of_call(keeper.manager(), CallKey::unique(), "call");
    let described = pod_spec::describe(&KubernetesSettings::default(), &identity, limit);
    let by = Instant::now() + limit;
    let made = keeper.make(&identity, described, &CancellationToken::new(), by).await;
    (keeper, made)
}

/// A pod whose script has ended, and what it has heard.
struct Ended {
    cluster: Cluster,
    keeper: Arc<Keeper>,
    pod: Kept,
    heard: Arc<Mutex<usize>>,
}

impl Ended {
    async fn new() -> Self {
        let cluster = Cluster::default();
        let (keeper, Ok(Made::New(mut pod))) = make(&cluster, LIMIT).await else {
            panic!("no pod")
        };
        let heard: Arc<Mutex<usize>> = Arc::default();
        pod.ear = Some(Input::to(sink::unfold(Arc::clone(&heard), |heard, _| async move {
            *heard.lock() += 1;
            Ok(heard)
        })));
        Self { cluster, keeper, pod, heard }
    }

    /// Whether it was told that its end was heard, and whether the cluster has it.
    fn is_told_and_there(cluster: &Cluster, heard: &Mutex<usize>) -> (bool, bool) {
        (*heard.lock() == 1, !cluster.names("pods").is_empty())
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_done_with_goes_at_once_when_no_script_waits_for_its_own() {
    let Ended { cluster, keeper, pod, heard } = Ended::new().await;
    drop(pod);
    assert!(keeper.makes_room());
    sleep(AWAY).await;
    assert_eq!(Ended::is_told_and_there(&cluster, &heard), (true, false));
    assert!(keeper.makes_room());
    sleep(ROOM).await;
    assert!(!keeper.makes_room());
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_done_with_stays_until_the_last_script_has_its_own() {
    let Ended { cluster, keeper, pod, heard } = Ended::new().await;
    let (first, last) = (keeper.birth(), keeper.birth());
    drop(pod);
    sleep(PUT_OFF / 2).await;
    drop(first);
    sleep(AWAY).await;
    assert_eq!(Ended::is_told_and_there(&cluster, &heard), (false, true));
    assert!(keeper.makes_room());
    drop(last);
    sleep(AWAY).await;
    assert_eq!(Ended::is_told_and_there(&cluster, &heard), (true, false));
}

#[tokio::test(start_paused = true)]
async fn no_pod_that_is_done_with_stays_for_long() {
    let Ended { cluster, keeper, pod, heard } = Ended::new().await;
    let _birth = keeper.birth();
    drop(pod);
    sleep(PUT_OFF + AWAY).await;
    assert_eq!(Ended::is_told_and_there(&cluster, &heard), (true, false));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_not_made_in_time_is_told_with_the_reason() {
    let cluster = Cluster::default();
    for hearing in [Hearing::Deaf, Hearing::Mute] {
        cluster.hears(hearing);
        let start = Instant::now();
        let (keeper, made) = make(&cluster, Duration::from_secs(9)).await;
        assert_eq!(start.elapsed(), Duration::from_secs(9), "{hearing:?}");
        let Err(Error::Unavailable(why)) = made else { panic!("{hearing:?}: made all the same") };
        assert!(why.contains("does not answer: ") && why.contains("within 9.0s"), "{why}");
        // What was made unheard is deleted, once the cluster answers.
        assert_eq!(cluster.names("pods").len(), usize::from(hearing == Hearing::Mute));
        cluster.hears(Hearing::Well);
        keeper.tasks.close();
        keeper.tasks.wait().await;
        assert_eq!(cluster.names("pods"), [""; 0], "{hearing:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_given_up_is_deleted_while_it_is_ours() {
    let cluster = Cluster::default();
    let (_, Ok(Made::New(mut own))) = make(&cluster, LIMIT).await else { panic!("no pod") };
    assert_eq!(own.give_up(Instant::now() + LIMIT).await, Whose::Own);
    assert_eq!(cluster.names("pods"), [""; 0]);

    let (_, Ok(Made::New(mut taken))) = make(&cluster, LIMIT).await else { panic!("no pod") };
    cluster.take_over(&taken.name, "another");
    assert_eq!(taken.give_up(Instant::now() + LIMIT).await, Whose::Another);
    drop(taken);
    sleep(LIMIT).await;
    assert_eq!(cluster.names("pods").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn whose_a_pod_is_that_the_cluster_does_not_tell_of_is_unknown() {
    let cluster = Cluster::default();
    for left in [LIMIT, Duration::from_secs(2)] {
        let (keeper, Ok(Made::New(mut pod))) = make(&cluster, LIMIT).await else {
            panic!("no pod")
        };
        let (name, start) = (pod.name.clone(), Instant::now());
        cluster.hears(Hearing::Deaf);
        assert_eq!(pod.give_up(start + left).await, Whose::Unknown);
        assert!(start.elapsed() <= left.min(Duration::from_secs(6)), "{:?}", start.elapsed());
        // Somebody takes it over meanwhile, and it is his as soon as there are answers again.
        cluster.take_over(&name, "another");
        cluster.hears(Hearing::Well);
        drop(pod);
        sleep(LIMIT).await;
        assert!(cluster.names("pods").contains(&name), "another's pod was deleted");
        assert!(keeper.held.lock().is_empty(), "it is nobody's stray");
    }
}
