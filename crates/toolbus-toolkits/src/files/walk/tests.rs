//! The bounds of a walk, and what is left out.

use std::fs;

use super::*;
use crate::files::settings::FilesSettings;
use crate::files::workspace::{Wanted, Workspace};

/// A walk over a folder with these files; the files that it comes to, and its notes.
fn walk(
    files: &[&str],
    change: impl FnOnce(&mut Walk),
) -> Result<(Vec<String>, Vec<String>), Error> {
    let folder = tempfile::tempdir().expect("a folder");
    for name in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, "*.no\n").expect("a file");
    }

    let working_directory = Some(folder.path().to_path_buf());
    let settings = FilesSettings { working_directory, ..FilesSettings::default() };
    let workspace = Workspace::open(&settings, Path::new("/")).expect("a folder");
    let place = workspace.find(".", Wanted::Any).expect("it is there");

    let mut walk = Walk::new(CancellationToken::new());
    change(&mut walk);
    let mut found = Vec::new();
    walk.visit_files(&place, &mut |file| {
        found.push(file.below.to_string_lossy().into_owned());
        Ok(if file.name() == "stop" { Flow::Stop } else { Flow::Continue })
    })?;
    Ok((found, walk.into_notes()))
}

#[test]
fn files_come_in_the_order_of_their_names() {
    let (found, notes) = walk(&["b", "a/z", "a/y", "c/x"], |_| {}).expect("a walk");
    assert_eq!(found, ["a/y", "a/z", "b", "c/x"]);
    assert!(notes.is_empty());
    let (found, _) = walk(&["a/1", "a/stop", "a/z", "b"], |_| {}).expect("a walk");
    assert_eq!(found, ["a/1", "a/stop"]);
}

#[test]
fn entries_are_bounded_and_those_that_were_read_are_visited() {
    let files = ["a/1", "a/2", "a/3", "b/1"];
    let (found, notes) = walk(&files, |walk| walk.entries_left = 4).expect("a walk");
    assert_eq!((found.len(), notes.len()), (2, 1), "{found:?} {notes:?}");
    let (found, notes) = walk(&files, |walk| walk.entries_left = 6).expect("a walk");
    assert_eq!((found.len(), notes.len()), (4, 0), "{found:?} {notes:?}");
}

#[test]
fn time_is_bounded() {
    let (found, notes) = walk(&["a"], |walk| walk.end = Instant::now()).expect("a walk");
    assert!(found.is_empty());
    assert_eq!(notes, ["stopped after 20 s: there is more"]);
    let cancelled = walk(&["a"], |walk| walk.cancelled.cancel());
    assert!(matches!(cancelled, Err(Error::Stopped(_))));
}

#[test]
fn patterns_hold_where_they_are() {
    let files = ["a/.ignore", "a/1.no", "a/b/2.no", "3.no", "a/4", ".git/5"];
    let (found, _) = walk(&files, |_| {}).expect("a walk");
    assert_eq!(found, ["3.no", "a/.ignore", "a/4"]);
}
