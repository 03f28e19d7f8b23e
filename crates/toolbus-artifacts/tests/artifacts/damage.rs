//! What becomes of artifacts whose bytes or rows are tampered with or gone.

use toolbus_artifacts::{ArtifactOwner, Error, NewArtifact};
use toolbus_tools::call::Output;

use crate::support::{Bench, call, config, scope};

async fn stored(bench: &Bench) -> toolbus_artifacts::Artifact {
    let scope = scope("session/a");
    let new = NewArtifact::of(&scope, "text/plain", "tool", "call");
    let stored = bench.artifacts.store(new, "what was stored").await.unwrap();
    let owner = ArtifactOwner::of(&scope);
    bench.artifacts.find(&owner, &stored.reference).await.unwrap()
}

#[tokio::test]
async fn changed_bytes_are_never_given_out_as_a_whole() {
    let bench = Bench::sqlite(config());
    let artifact = stored(&bench).await;
    artifact.verified_file().await.unwrap().expect("it is in a folder");

    std::fs::write(&bench.files()[0], "what was changed").unwrap();
    assert!(matches!(artifact.read_all(100).await, Err(Error::Damaged(_))));
    assert!(matches!(artifact.verified_file().await, Err(Error::Damaged(_))));
    std::fs::write(&bench.files()[0], "short").unwrap();
    assert!(artifact.read(0..10).await.is_err());

    std::fs::remove_file(&bench.files()[0]).unwrap();
    assert!(matches!(artifact.read(0..3).await, Err(Error::Damaged(_))));
    assert!(matches!(artifact.verified_file().await, Err(Error::Damaged(_))));
}

/// The same value stored again is whole again.
#[tokio::test]
async fn bytes_that_are_gone_are_stored_anew() {
    let bench = Bench::sqlite(config());
    let artifact = stored(&bench).await;
    std::fs::remove_file(&bench.files()[0]).unwrap();
    let again = stored(&bench).await;
    assert_eq!(again.info, artifact.info);
    assert_eq!(again.read_all(100).await.unwrap(), "what was stored");
}

/// A store that goes away in the middle takes no call along.
#[tokio::test]
async fn an_output_that_cannot_be_stored_stays_whole() {
    let bench = Bench::sqlite(config());
    let text = "x".repeat(1000);
    let (invoker, _) = bench.invoker(Output::text(&text));
    let scope = scope("session/a");
    let stored = call(&invoker, &scope, "give", serde_json::json!({})).await.unwrap();
    assert!(stored.artifact.is_some());

    bench.store.close().await;
    let whole = call(&invoker, &scope, "give", serde_json::json!({})).await.unwrap();
    assert_eq!((whole.content.as_deref(), whole.artifact), (Some(&*text), None));
}
