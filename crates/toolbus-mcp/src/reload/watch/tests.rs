use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use super::*;

/// Longer than the system takes to tell of a change, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Fails unless the watch tells of what is done.
async fn tells_of(watch: &FolderWatch, what: &str, act: impl FnOnce()) {
    act();
    let told = tokio::time::timeout(PATIENCE, watch.wait_changed()).await;
    assert!(told.is_ok(), "nothing was told: {what}");
}

#[tokio::test]
async fn every_way_to_change_a_file_is_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let file = path("mcp.json");
    let watch = FolderWatch::for_files([file.as_path()]);
    tells_of(&watch, "made", || fs::write(&file, "1").unwrap()).await;
    tells_of(&watch, "written", || fs::write(&file, "2").unwrap()).await;
    let new = path("new");
    tells_of(&watch, "beside it", || fs::write(&new, "3").unwrap()).await;
    tells_of(&watch, "replaced", || fs::rename(&new, &file).unwrap()).await;
    tells_of(&watch, "removed", || fs::remove_file(&file).unwrap()).await;

    // As Kubernetes does it: a link to a file behind a link that is replaced.
    for version in ["1", "2"] {
        fs::create_dir(path(version)).unwrap();
        fs::write(path(version).join("mcp.json"), version).unwrap();
    }
    symlink("1", path("data")).unwrap();
    symlink("data/mcp.json", &file).unwrap();
    symlink("2", path("next")).unwrap();
    // What was made until now is told once, and then no more.
    tells_of(&watch, "links", || ()).await;
    tells_of(&watch, "switched", || fs::rename(path("next"), path("data")).unwrap()).await;
    assert_eq!(fs::read_to_string(&file).unwrap(), "2");
}

#[tokio::test]
async fn a_folder_that_comes_later_is_watched_when_it_is_looked_for() {
    let above = tempfile::tempdir().unwrap();
    let folder = above.path().join("later");
    let file = folder.join("mcp.json");
    let watch = FolderWatch::for_files([file.as_path()]);
    fs::create_dir(&folder).unwrap();
    watch.watch_again();
    tells_of(&watch, "made", || fs::write(&file, "1").unwrap()).await;
}
