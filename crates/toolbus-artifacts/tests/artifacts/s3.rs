//! Bytes in a bucket, on a server that others wrote.

use futures_util::TryStreamExt as _;
use toolbus_artifacts::{ArtifactOwner, Artifacts, Error, NewArtifact, Place};
use toolbus_store::LazyStore;
use toolbus_testkit::s3::S3;
use toolbus_testkit::state::StatePlace;

use crate::support::{config, scope};

#[tokio::test]
async fn artifacts_are_kept_in_a_bucket() {
    let Some(mut server) = S3::start().await else { return };
    let place = StatePlace::sqlite();
    let location = place.location.parse().unwrap();
    let store = LazyStore::new(location, &[toolbus_artifacts::MIGRATIONS]);
    let bucket = Place::open("s3://bucket/some/prefix", server.variables()).unwrap();
    assert_eq!(bucket.to_string(), "s3://bucket/some/prefix");
    let artifacts = Artifacts::new(store, bucket, config());
    let scope = scope("session/a");
    let owner = ArtifactOwner::of(&scope);
    let new = || NewArtifact::of(&scope, "text/plain", "tool", "call");

    // In one piece, and in parts.
    for length in [0, 5, 20 << 20] {
        let content = "ab".repeat(length / 2);
        let stored = artifacts.store(new(), content.clone()).await.unwrap();
        let again = artifacts.store(new(), content.clone()).await.unwrap();
        assert_eq!(stored, again);

        let found = artifacts.find(&owner, &stored.reference).await.unwrap();
        let pieces: Vec<_> = found.stream().await.unwrap().try_collect().await.unwrap();
        assert!(pieces.concat() == content.as_bytes(), "{length} bytes");
        assert_eq!(found.read(1..3).await.unwrap(), content.get(1..3).unwrap_or_default());
        assert_eq!(found.verified_file().await.unwrap(), None);
        artifacts.remove(&owner, &stored.reference).await.unwrap();
        assert!(matches!(found.read_all(u64::MAX).await, Err(Error::Damaged(_))), "it is deleted");
    }

    let kept = artifacts.store(new(), "kept").await.unwrap();
    let found = artifacts.find(&owner, &kept.reference).await.unwrap();
    server.kill();
    let error = found.read_all(10).await.unwrap_err();
    assert!(matches!(error, Error::Place(_)), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("secret-of-the-test"));
}
