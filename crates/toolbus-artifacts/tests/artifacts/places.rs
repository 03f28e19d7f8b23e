//! Names of places, and a folder as a place.

use toolbus_artifacts::{Artifacts, Error, NewArtifact, Place, PlaceError};
use toolbus_store::LazyStore;
use toolbus_testkit::state::StatePlace;

use crate::support::{config, scope};

#[test]
fn a_place_that_is_none_is_refused() {
    let open = |name: &str| Place::open(name, Vec::new());
    for name in ["", "relative/path", "s3://", "s3:///prefix", "gs://bucket"] {
        assert!(matches!(open(name), Err(PlaceError::Malformed(_))), "{name}");
        assert!(!Place::is_well_formed(name), "{name}");
    }
}

/// A folder is made by the first artifact; where it cannot be, that one is not stored.
#[tokio::test]
async fn a_folder_is_made_when_it_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("below/it");
    let place = StatePlace::sqlite();
    let location: toolbus_store::Location = place.location.parse().unwrap();
    let store = LazyStore::new(location, &[toolbus_artifacts::MIGRATIONS]);
    let artifacts = Artifacts::new(store.clone(), Place::folder(&path), config());
    let new = || NewArtifact::of(&scope("session/a"), "text/plain", "tool", "call");
    assert!(!path.exists());
    artifacts.store(new(), "content").await.unwrap();
    assert!(path.is_dir());

    let file = tempfile::NamedTempFile::new().unwrap();
    let below = Place::folder(&file.path().join("below"));
    let artifacts = Artifacts::new(store, below, config());
    assert!(matches!(artifacts.store(new(), "content").await, Err(Error::Place(_))));
}
