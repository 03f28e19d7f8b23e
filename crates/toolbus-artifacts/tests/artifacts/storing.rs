//! Storing, finding, pinning, and the sweep.

use std::time::Duration;

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use toolbus_artifacts::{ArtifactConfig, ArtifactOwner, Error, NewArtifact};
use toolbus_tools::ArtifactRef;

use toolbus_testkit::eventually;

use crate::support::{Bench, config, scope};

/// How long something may take that has to come.
const PATIENCE: Duration = Duration::from_secs(120);

fn new(session: &str) -> NewArtifact {
    NewArtifact::of(&scope(session), "text/plain", "tool", "call")
}

fn owner(session: &str) -> ArtifactOwner {
    ArtifactOwner::of(&scope(session))
}

#[tokio::test]
async fn what_is_stored_is_read_back() {
    for bench in Bench::all(config()).await {
        let (artifacts, a) = (&bench.artifacts, owner("session/a"));
        for content in ["", "short", &"long ".repeat(5_000_000)] {
            let stored = artifacts.store(new("session/a"), content.to_owned()).await.unwrap();
            assert_eq!(stored.bytes, content.len() as u64);

            let found = artifacts.find(&a, &stored.reference).await.unwrap();
            assert_eq!(found.info, stored);
            assert_eq!(found.read_all(u64::MAX).await.unwrap(), content);
            let pieces: Vec<Bytes> = found.stream().await.unwrap().try_collect().await.unwrap();
            assert_eq!(pieces.concat(), content.as_bytes());
            let end = stored.bytes;
            let parts = [0..3, 3..end, end..end + 10].map(|range| found.read(range));
            let parts: Vec<_> = futures_util::future::try_join_all(parts).await.unwrap();
            assert_eq!(parts.concat(), content.as_bytes());
        }
    }
}

#[tokio::test]
async fn the_same_content_is_kept_once_and_has_one_name_for_each_owner() {
    for bench in Bench::all(config()).await {
        let artifacts = &bench.artifacts;
        let first = artifacts.store(new("session/a"), "same").await.unwrap();
        let again = artifacts.store(new("session/a"), "same").await.unwrap();
        let other = artifacts.store(new("session/b"), "same").await.unwrap();
        assert_eq!(first, again);
        assert_ne!(first.reference, other.reference);
        assert_eq!(bench.files().len(), 1);

        let foreign = artifacts.find(&owner("session/b"), &first.reference).await;
        assert!(matches!(foreign, Err(Error::Unknown(_))));
    }
}

/// 1c.34: a name that nobody has is an error.
#[tokio::test]
async fn rule_1c_34_an_unknown_name_is_an_error() {
    let bench = Bench::sqlite(config());
    let nobody = ArtifactRef::parse("art_0").unwrap();
    let found = bench.artifacts.find(&owner("session/a"), &nobody).await;
    assert!(matches!(found, Err(Error::Unknown(name)) if name == "art_0"));
}

/// 1c.33: pins are on the stored record; the sweep takes what nobody pins, and its bytes.
#[tokio::test]
async fn rule_1c_33_a_pin_outlives_the_time_of_an_artifact() {
    let config = ArtifactConfig { ttl: Duration::from_millis(300), ..config() };
    for bench in Bench::all(config).await {
        let (artifacts, a) = (&bench.artifacts, owner("session/a"));
        let hour = Duration::from_secs(3600);
        let pinned = artifacts.store(new("session/a"), "pinned").await.unwrap().reference;
        let loose = artifacts.store(new("session/a"), "loose").await.unwrap().reference;
        let born = new("session/a").pinned_by("run", hour);
        let born = artifacts.store(born, "pinned from the start").await.unwrap().reference;
        artifacts.pin(&a, &pinned, "run", hour).await.unwrap();
        let is_over = async |artifact: &ArtifactRef| match artifacts.find(&a, artifact).await {
            Err(Error::Unknown(_)) => Ok(()),
            found => Err(found.map(drop)),
        };
        eventually(PATIENCE, async || is_over(&loose).await).await;

        assert_eq!(artifacts.sweep().await.unwrap(), 1);
        assert!(matches!(artifacts.find(&a, &loose).await, Err(Error::Unknown(_))));
        assert_eq!(
            artifacts.find(&a, &pinned).await.unwrap().read_all(10).await.unwrap(),
            "pinned"
        );
        assert_eq!(
            (artifacts.list(Some(&a), 10).await.unwrap().len(), bench.files().len()),
            (2, 2)
        );

        // RV-S4: it stays for the time that an artifact has.
        artifacts.unpin_all("run").await.unwrap();
        assert!(artifacts.find(&a, &born).await.is_ok());
        eventually(PATIENCE, async || {
            is_over(&born).await?;
            is_over(&pinned).await
        })
        .await;
        assert_eq!(artifacts.sweep().await.unwrap(), 2);
        assert_eq!(bench.files(), Vec::<std::path::PathBuf>::new());
    }
}

#[tokio::test]
async fn what_one_session_keeps_is_bounded() {
    let config = ArtifactConfig { session_bytes_max: 10, session_artifacts_max: 3, ..config() };
    for bench in Bench::all(config).await {
        let artifacts = &bench.artifacts;
        artifacts.store(new("session/a"), "123456").await.unwrap();
        let over = artifacts.store(new("session/a"), "12345").await;
        assert!(matches!(over, Err(Error::Quota { .. })), "{over:?}");
        artifacts.store(new("session/a"), "123456").await.expect("it is kept already");
        artifacts.store(new("session/a"), "1").await.unwrap();
        let last = artifacts.store(new("session/a"), "2").await.unwrap();
        assert!(artifacts.store(new("session/a"), "").await.is_err(), "there are three");
        artifacts.store(new("session/b"), "12345").await.expect("another session has its own");

        artifacts.remove(&owner("session/a"), &last.reference).await.unwrap();
        artifacts.store(new("session/a"), "").await.expect("there is room again");
        assert_eq!(bench.files().len(), 4, "what was refused is not kept");
    }
}

#[tokio::test]
async fn an_artifact_has_a_largest_size() {
    let config = ArtifactConfig { artifact_bytes_max: 1 << 20, ..config() };
    let bench = Bench::sqlite(config);
    let mut writer = bench.artifacts.create(new("session/a")).unwrap();
    writer.write(vec![0; 1 << 20].into()).await.unwrap();
    let over = writer.write(vec![0].into()).await;
    assert!(matches!(over, Err(Error::TooLarge { max: 1_048_576 })));
    drop(writer);
    assert_eq!(bench.files(), Vec::<std::path::PathBuf>::new());
}

#[tokio::test]
async fn many_are_stored_at_once() {
    let bench = Bench::sqlite(config());
    let stores = (0..200).map(|at| bench.artifacts.store(new("session/a"), (at / 2).to_string()));
    let stored = futures_util::future::try_join_all(stores).await.unwrap();
    let names: std::collections::BTreeSet<_> = stored.iter().map(|one| &one.reference).collect();
    assert_eq!((names.len(), bench.files().len()), (100, 100));
    assert_eq!(bench.artifacts.list(None, 1000).await.unwrap().len(), 100);
}
