//! What paths mean, and which of them are denied.

use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;

/// `work`, with a few files, and `outside` and `work-evil` beside it.
struct TestFolders {
    folder: TempDir,
}

impl TestFolders {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let place = Self { folder };
        for name in ["work/sub/deep", "work-evil", "outside", "books"] {
            fs::create_dir_all(place.path(name)).expect("a folder");
        }
        for name in ["work/a", "work/sub/b", "work-evil/x", "outside/secret", "books/c"] {
            fs::write(place.path(name), name).expect("a file");
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().expect("a path").join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("text").to_owned()
    }

    fn settings(&self) -> FilesSettings {
        FilesSettings {
            working_directory: Some(self.path("work")),
            readable_paths: vec![self.path("books")],
            ..FilesSettings::default()
        }
    }

    fn workspace(&self) -> Workspace {
        Workspace::open(&self.settings(), Path::new("/")).expect("folders")
    }

    /// What a path is found as, by its name below the folder of the test.
    fn find(&self, workspace: &Workspace, written: &str) -> Result<String, String> {
        let found = workspace.find(written, Wanted::Any).map_err(|error| error.to_string())?;
        let below = found.path().strip_prefix(self.path("")).expect("below").to_path_buf();
        Ok(below.to_string_lossy().into_owned())
    }

    #[track_caller]
    fn check(&self, written: &str, expected: Option<&str>) {
        match (self.find(&self.workspace(), written), expected) {
            (Ok(found), Some(expected)) => assert_eq!(found, expected, "{written}"),
            (Err(error), None) => assert!(error.contains("outside working directory"), "{error}"),
            (found, _) => panic!("{written}: {found:?}"),
        }
    }
}

#[test]
fn paths_are_in_the_working_directory() {
    let place = TestFolders::new();
    place.check("a", Some("work/a"));
    place.check("./sub/../a", Some("work/a"));
    place.check("sub", Some("work/sub"));
    place.check(".", Some("work"));
    place.check(&place.text("work/sub/b"), Some("work/sub/b"));
    place.check(&place.text("books/c"), Some("books/c"));
}

/// MX-F6 and rule 2 of 2c: by whole components of the real path, and by its case.
#[test]
fn f6_what_is_outside_is_denied() {
    let place = TestFolders::new();
    for written in [
        "../outside/secret",
        "sub/../../outside/secret",
        "../work-evil/x",
        "..",
        "/",
        "/proc/self/environ",
    ] {
        place.check(written, None);
    }
    place.check(&place.text("work-evil/x"), None);
    place.check(&place.text("outside/secret"), None);
    place.check(&place.text("WORK/a"), None);
}

/// Nobody learns from a refusal whether there is something.
#[test]
fn what_is_outside_is_denied_whether_it_is_there_or_not() {
    let place = TestFolders::new();
    symlink(place.path("outside/secret"), place.path("work/there")).expect("a link");
    symlink(place.path("outside/absent"), place.path("work/not-there")).expect("a link");
    symlink("../outside/absent", place.path("work/relative")).expect("a link");
    for written in ["../outside/absent", "there", "not-there", "relative", "there/below"] {
        place.check(written, None);
    }
    place.check(&place.text("outside/absent"), None);
}

/// Rule 2 of 2c: links are resolved, and one that stays inside is as good as its target.
#[test]
fn links_count_by_where_they_lead() {
    let place = TestFolders::new();
    symlink("sub/b", place.path("work/relative")).expect("a link");
    symlink(place.path("work/sub"), place.path("work/absolute")).expect("a link");
    symlink(place.path("books"), place.path("work/books")).expect("a link");
    symlink(place.path("outside"), place.path("work/out")).expect("a link");
    symlink("loop", place.path("work/loop")).expect("a link");

    place.check("relative", Some("work/sub/b"));
    place.check("absolute/b", Some("work/sub/b"));
    place.check("books/c", Some("books/c"));
    place.check("out/secret", None);
    place.check("out", None);
    assert!(place.find(&place.workspace(), "loop").is_err());

    // The folder may be named by a link to it.
    symlink(place.path("work"), place.path("alias")).expect("a link");
    place.check(&place.text("alias/a"), Some("work/a"));
    let working_directory = Some(place.path("alias"));
    let settings = FilesSettings { working_directory, ..place.settings() };
    let workspace = Workspace::open(&settings, Path::new("/")).expect("folders");
    assert_eq!(place.find(&workspace, &place.text("alias/a")).as_deref(), Ok("work/a"));
    assert_eq!(place.find(&workspace, &place.text("work/a")).as_deref(), Ok("work/a"));
}

/// MX-F2: the current folder, those above it to the first with `.git`, then the working directory.
#[test]
fn f2_relative_paths_are_looked_for_upwards() {
    let place = TestFolders::new();
    fs::create_dir(place.path("work/sub/.git")).expect("a folder");
    fs::write(place.path("work/sub/deep/near"), "").expect("a file");
    fs::write(place.path("work/near"), "").expect("a file");
    fs::create_dir(place.path("work/sub/deep/a")).expect("a folder");
    let current = place.path("work/sub/deep");
    let workspace = Workspace::open(&place.settings(), &current).expect("folders");

    let find = |written| place.find(&workspace, written);
    assert_eq!(find("near").as_deref(), Ok("work/sub/deep/near"));
    assert_eq!(find("b").as_deref(), Ok("work/sub/b"));
    assert_eq!(find("sub/b").as_deref(), Ok("work/sub/b"));
    assert_eq!(find("absent").unwrap_err(), "file does not exist: absent");
    // A folder of that name is no file.
    let file = workspace.find("a", Wanted::File).expect("a file");
    assert_eq!(file.path(), place.path("work/a"));
    // What is shown is found again.
    assert_eq!(workspace.show(&file), place.text("work/a"));

    // Folders above the working directory are not reached.
    fs::write(place.path("above"), "").expect("a file");
    let above = Workspace::open(&place.settings(), &place.path("work")).expect("folders");
    assert_eq!(place.find(&above, "above").unwrap_err(), "file does not exist: above");
}

/// MX-F3: what is written is in the working directory, wherever the process is.
#[test]
fn f3_relative_paths_are_written_in_the_working_directory() {
    let place = TestFolders::new();
    let current = place.path("work/sub/deep");
    let workspace = Workspace::open(&place.settings(), &current).expect("folders");
    let find = |written: &str| {
        let found = workspace.find_for_writing(written).map(|found| found.path());
        found.map_err(|error| error.to_string())
    };

    assert_eq!(find("b"), Ok(place.path("work/b")));
    assert_eq!(find("new/folder/file"), Ok(place.path("work/new/folder/file")));
    assert_eq!(find(&place.text("work/sub/x")), Ok(place.path("work/sub/x")));
    for written in ["../x", "../outside/new", "/etc/x", "/absent/x"] {
        assert!(find(written).unwrap_err().contains("outside"), "{written}");
    }
    assert!(find(&place.text("books/new")).unwrap_err().contains("may be read and not written"));

    // Unset, it is the process's own.
    let settings = FilesSettings::default();
    let workspace = Workspace::open(&settings, &current).expect("folders");
    let found = workspace.find_for_writing("new").expect("a place");
    assert_eq!(found.path(), current.join("new"));
}

#[test]
fn what_is_written_goes_where_links_lead() {
    let place = TestFolders::new();
    symlink(place.path("work/sub"), place.path("work/inside")).expect("a link");
    symlink(place.path("outside"), place.path("work/out")).expect("a link");
    symlink("a", place.path("work/to-a")).expect("a link");
    symlink(place.path("outside/absent"), place.path("work/dangling")).expect("a link");
    let workspace = place.workspace();
    let find = |written: &str| workspace.find_for_writing(written).map(|found| found.path());

    assert_eq!(find("inside/new").expect("inside"), place.path("work/sub/new"));
    assert_eq!(find("inside/a/b").expect("inside"), place.path("work/sub/a/b"));
    assert_eq!(find("to-a").expect("inside"), place.path("work/a"));
    for written in ["out/new", "out/secret", "out/deep/new", "dangling", "dangling/new"] {
        assert!(matches!(find(written), Err(Error::Outside(_))), "{written}");
    }
}

#[test]
fn paths_have_bounds() {
    let place = TestFolders::new();
    let workspace = place.workspace();
    for written in ["", "a\0b", &"a/".repeat(2049)] {
        let refused = workspace.find(written, Wanted::Any);
        assert!(matches!(refused, Err(Error::Path(_))), "{refused:?}");
        assert!(matches!(workspace.find_for_writing(written), Err(Error::Path(_))));
    }
    let long = workspace.find(&"a".repeat(300), Wanted::Any);
    assert!(matches!(long, Err(Error::Io { .. })), "{long:?}");
}

#[test]
fn folders_have_to_be_there_and_to_be_folders() {
    let place = TestFolders::new();
    for path in [place.path("absent"), place.path("work/a"), "/".into(), "/proc/self".into()] {
        let settings = FilesSettings { working_directory: Some(path), ..place.settings() };
        assert!(Workspace::open(&settings, Path::new("/")).is_err(), "{settings:?}");
    }
}
