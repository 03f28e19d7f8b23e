//! Sets on disk: whole or not at all, kept while used, evicted by age.

use std::time::Duration;

use super::*;

const KIBIBYTES: u64 = 1 << 10;

fn cache(bytes_max: u64) -> (tempfile::TempDir, PackageCache) {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = PackageCache::open(&folder.path().join("sets"), 0o700, bytes_max).expect("a cache");
    (folder, cache)
}

/// Installs a set of about this size that was last used some minutes ago.
fn install(cache: &PackageCache, key: &str, kibibytes: u64, minutes: u64) {
    let claim = cache.try_claim(key).expect("no error").expect("nobody else has it");
    let staging = cache.create_staging().expect("a folder");
    let tree = staging.path.join("tree");
    fs::create_dir(&tree).expect("made");
    fs::write(tree.join("content"), vec![1; (kibibytes * KIBIBYTES) as usize]).expect("written");
    cache.publish(key, &tree).expect("published");
    let used = SystemTime::now() - Duration::from_secs(60 * minutes);
    claim.set_modified(used).expect("set");
}

#[test]
fn a_set_is_there_once_it_is_published() {
    let (_folder, cache) = cache(u64::MAX);
    assert!(cache.try_hold("one").expect("no error").is_none());
    install(&cache, "one", 1, 0);
    let held = cache.try_hold("one").expect("no error").expect("it is there");
    assert!(cache.directory().join("one/content").is_file());
    assert!(cache.try_claim("one").expect("no error").is_none(), "it is in use");
    assert!(cache.try_hold("one").expect("no error").is_some(), "by several");
    drop(held);

    let claim = cache.try_claim("one").expect("no error");
    assert!(
        claim.is_some() && cache.try_hold("one").expect("no error").is_none(),
        "it is being changed"
    );
}

#[test]
fn the_longest_unused_go_first_and_those_in_use_stay() {
    let (_folder, cache) = cache(250 * KIBIBYTES);

    for (key, minutes) in [("old", 30), ("used", 40), ("new", 1), ("older", 35)] {
        install(&cache, key, 100, minutes);
    }
    let lock = cache.open_lock_file("used").expect("a file");

    lock.try_lock_shared().expect("free");
    cache.evict_unused().expect("evicted");
    let left: Vec<bool> =
        ["old", "used", "new", "older"].map(|key| cache.directory().join(key).exists()).to_vec();
    assert_eq!(left, [false, true, true, false]);
    assert!(!cache.lock_path("old").exists(), "its lock file is gone, too");
    install(&cache, "old", 1, 0);

    assert!(cache.try_hold("old").expect("no error").is_some(), "and it can come back");
}

/// Duplicates share a lock, and a child that is being forked has them all.
#[test]
fn what_is_given_up_is_free_though_a_child_has_its_file() {
    let (_folder, cache) = cache(u64::MAX);
    install(&cache, "one", 1, 0);
    let claim = cache.try_claim("one").expect("no error").expect("it is free");
    let childs = claim.try_clone().expect("a duplicate");
    drop(claim);
    let held = cache.try_hold("one").expect("no error").expect("it is free");
    let childs_too = held._lock.try_clone().expect("a duplicate");
    drop(held);
    assert!(cache.try_claim("one").expect("no error").is_some(), "it is in use");
    drop((childs, childs_too));
}

#[test]
fn a_lock_on_a_removed_file_is_worth_nothing() {
    let (_folder, cache) = cache(0);
    install(&cache, "one", 1, 0);
    let stale = cache.open_lock_file("one").expect("a file");
    cache.evict_unused().expect("evicted");
    stale.try_lock().expect("nobody holds it");
    assert!(!cache.is_current("one", &stale));
}

#[test]
fn what_a_dead_process_left_is_removed() {
    let (folder, cache) = cache(0);
    let staging = cache.create_staging().expect("a folder");
    let abandoned = cache.directory().join(".staging-1-0");
    fs::create_dir_all(abandoned.join("tree")).expect("made");
    install(&cache, "kept", 1, 0);
    let again = PackageCache::open(&folder.path().join("sets"), 0o700, 0).expect("a cache");
    assert!(staging.path.exists(), "somebody is at work there");
    assert!(!abandoned.exists() && again.directory().join("kept").exists());
}

#[test]
fn there_is_no_room_while_sets_in_use_take_it_up() {
    let (_folder, cache) = cache(150 * KIBIBYTES);
    install(&cache, "one", 100, 30);
    assert!(cache.make_room().expect("no error"));
    install(&cache, "two", 100, 20);
    let used = ["one", "two"].map(|key| cache.try_hold(key).expect("no error").expect("a set"));

    assert!(!cache.make_room().expect("no error"));
    assert!(
        ["one", "two"].iter().all(|key| cache.directory().join(key).is_dir()),
        "sets in use stay"
    );
    drop(used);
    assert!(cache.make_room().expect("no error"));
}

/// An installer that was taken over can leave anything in its folder.
#[test]
fn links_that_an_installer_left_are_neither_published_nor_followed() {
    let (folder, cache) = cache(u64::MAX);
    let outside = folder.path().join("outside");
    fs::create_dir(&outside).expect("made");
    fs::write(outside.join("file"), "kept").expect("written");

    let staging = cache.create_staging().expect("a folder");
    let tree = staging.path.join("tree");
    std::os::unix::fs::symlink(&outside, &tree).expect("a link");
    assert!(cache.publish("linked", &tree).is_err());
    assert!(cache.try_hold("linked").expect("no error").is_none());

    fs::remove_file(&tree).expect("removed");
    fs::create_dir(&tree).expect("made");
    std::os::unix::fs::symlink(outside.join("file"), tree.join(SIZE)).expect("a link");
    assert!(cache.publish("written", &tree).is_err());
    assert_eq!(fs::read_to_string(outside.join("file")).expect("a file"), "kept");
    assert_eq!(fs::read_dir(&outside).expect("a folder").count(), 1);

    // As somebody would have it who has got that far.
    std::os::unix::fs::symlink(&outside, cache.directory().join("planted")).expect("a link");
    assert!(cache.try_hold("planted").expect("no error").is_none());
}
