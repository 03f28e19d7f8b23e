//! Files and paths that mean harm, and files that change while they are looked at.

use std::fs::{self, File};
use std::io::{Cursor, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, RenameFlags, mknodat, renameat_with};
use serde_json::json;
use toolbus_config::ByteSize;
use toolbus_testkit::memory::peak_bytes;

use crate::support::Bench;

/// How often a file is looked at while it changes.
const ROUNDS: usize = 300;

/// What every tool says of a path.
async fn refusals(bench: &Bench, path: &str) -> Vec<String> {
    let mut said = Vec::new();
    for (tool, arguments) in [
        ("read_file", json!({"path": path})),
        ("write_file", json!({"path": path, "content": "changed"})),
        ("append_file", json!({"path": path, "content": "changed"})),
        ("edit_file", json!({"path": path, "old_string": "a", "new_string": "b"})),
        ("grep", json!({"path": path, "pattern": "."})),
    ] {
        said.push(bench.fail(tool, arguments).await);
    }
    said
}

fn make_fifo(path: &Path) {
    mknodat(CWD, path, rustix::fs::FileType::Fifo, Mode::from_raw_mode(0o644), 0).expect("a pipe");
}

/// MX-F6 and rule 2 of 2c.
#[tokio::test]
async fn f6_no_path_leads_outside() {
    let bench = Bench::files();
    let secret = bench.put("outside/secret", "secret");
    bench.put("work-evil/x", "secret");
    symlink(&secret, bench.path("work/absolute")).expect("a link");
    symlink("../outside/secret", bench.path("work/relative")).expect("a link");
    symlink(bench.path("outside"), bench.path("work/folder")).expect("a link");
    symlink("/", bench.path("work/root")).expect("a link");
    symlink("/proc/self/fd", bench.path("work/descriptors")).expect("a link");

    for path in [
        "../outside/secret",
        "absolute",
        "relative",
        "folder/secret",
        "root/etc/passwd",
        "descriptors/0",
        "/etc/passwd",
        "/proc/self/environ",
        "/dev/zero",
        "../work-evil/x",
        &bench.text("work-evil/x"),
        &bench.text("WORK/x"),
        "./../outside/secret",
        "absent/../../outside/secret",
        "//etc//passwd",
    ] {
        for said in refusals(&bench, path).await {
            assert!(said.contains("outside working directory"), "{path}: {said}");
            assert!(!said.contains("secret\n"), "{said}");
        }
    }
    assert_eq!(bench.content("outside/secret"), "secret");
}

#[tokio::test]
async fn pipes_sockets_and_devices_are_not_opened() {
    let bench = Bench::files();
    make_fifo(&bench.path("work/pipe"));
    make_fifo(&bench.path("work/pipe.docx"));
    let _socket = UnixListener::bind(bench.path("work/socket")).expect("a socket");

    let start = Instant::now();
    for (path, kind) in [("pipe", "FIFO"), ("pipe.docx", "FIFO"), ("socket", "socket")] {
        for said in refusals(&bench, path).await {
            assert!(said.contains(kind), "{path}: {said}");
        }
    }
    // Nor do walks wait for them.
    bench.put("work/plain", "line\n");
    make_fifo(&bench.path("work/.gitignore"));
    assert_eq!(bench.say("grep", json!({"pattern": "line"})).await, "plain:1:line\n");
    assert_eq!(bench.say("glob", json!({"pattern": "*"})).await, "plain\n");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

/// Only root can make one.
#[tokio::test]
async fn devices_are_refused() {
    let bench = Bench::files();
    let made = mknodat(
        CWD,
        bench.path("work/zero"),
        rustix::fs::FileType::CharacterDevice,
        Mode::from_raw_mode(0o666),
        rustix::fs::makedev(1, 5),
    );
    if made.is_err() {
        return;
    }
    for said in refusals(&bench, "zero").await {
        assert!(said.contains("a device"), "{said}");
    }
}

#[tokio::test]
async fn ten_gigabytes_are_refused_before_they_are_read() {
    let bench = Bench::files();
    let sparse = File::create(bench.path("work/sparse")).expect("a file");
    sparse.set_len(10 << 30).expect("a length");
    bench.put("work/small", "zero\n");

    let start = Instant::now();
    let said = bench.fail("read_file", json!({"path": "sparse"})).await;
    assert!(said.contains("has 10737418240 bytes, and at most 16777216 are read"), "{said}");
    bench.fail("edit_file", json!({"path": "sparse", "old_string": "a", "new_string": "b"})).await;
    bench.fail("grep", json!({"path": "sparse", "pattern": "zero"})).await;
    let found = bench.say("grep", json!({"pattern": "zero"})).await;
    let note = "[1 files of more than 64 MiB were not searched]";
    assert_eq!(found, format!("small:1:zero\n{note}"));
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());

    // Adding to it reads nothing.
    bench.say("append_file", json!({"path": "sparse", "content": "end"})).await;
    let length = fs::metadata(bench.path("work/sparse")).expect("it is there").len();
    assert_eq!(length, (10 << 30) + 3);
}

#[tokio::test]
async fn bounds_are_those_of_the_settings() {
    let bench = Bench::files_with(|settings| settings.file_max = ByteSize::of_bytes(1024));
    bench.put("work/fits", "x".repeat(1024));
    bench.put("work/more", "x".repeat(1025));
    assert_eq!(bench.say("read_file", json!({"path": "fits"})).await.len(), 1024);
    assert!(bench.fail("read_file", json!({"path": "more"})).await.contains("1025 bytes"));
    let growing =
        json!({"path": "fits", "old_string": "x", "new_string": "xx", "replace_all": true});
    assert!(bench.fail("edit_file", growing).await.contains("2048 bytes"));
    assert_eq!(bench.content("work/fits").len(), 1024);
}

#[tokio::test]
async fn an_edit_that_would_make_too_much_is_refused_before_it_is_made() {
    let bench = Bench::files();
    bench.put("work/x", "x".repeat(4_096));
    let long = "y".repeat(64 << 10);
    let edit = json!({"path": "x", "old_string": "x", "new_string": long, "replace_all": true});

    let before = peak_bytes();
    let said = bench.fail("edit_file", edit).await;
    assert!(said.contains("x has 268435456 bytes, and at most 16777216 are read"), "{said}");
    let grown = peak_bytes() - before;
    assert!(grown < 64 << 20, "{} MiB more", grown >> 20);
    assert_eq!(bench.content("work/x"), "x".repeat(4_096));
}

/// Rule 20 of 2c.
#[tokio::test]
async fn binary_files_are_refused_and_not_changed() {
    let bench = Bench::files();
    let image: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR";
    bench.put("work/image.png", image);
    bench.put("work/sjis.txt", b"\x93\xFA\x96\x7B\x8C\xEA\x82\xCC\x95\xB6");
    bench.put("work/latin.txt", b"mostly plain text, and one word of another charset: Jos\xE9");

    for path in ["image.png", "sjis.txt"] {
        let said = bench.fail("read_file", json!({"path": path})).await;
        assert!(said.contains("is binary, or text that is not UTF-8"), "{said}");
    }
    // What is not read exactly is not written back.
    for path in ["image.png", "sjis.txt", "latin.txt"] {
        let edit = json!({"path": path, "old_string": "t", "new_string": "T", "replace_all": true});
        bench.fail("edit_file", edit).await;
    }
    assert_eq!(fs::read(bench.path("work/image.png")).expect("it is there"), image);
    assert!(bench.say("read_file", json!({"path": "latin.txt"})).await.contains("Jos\u{FFFD}"));
}

/// Rule 19 of 2c.
#[tokio::test]
async fn documents_that_are_none_are_refused() {
    let bench = Bench::files();
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    writer.start_file("word/document.xml", options).expect("a part");
    for _ in 0..66 {
        writer.write_all(&vec![b' '; 1 << 20]).expect("room");
    }
    bench.put("work/bomb.docx", writer.finish().expect("an archive").into_inner());
    bench.put("work/text.docx", "renamed");
    bench.put("work/empty.docx", "");
    bench.put("work/old.docx", b"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1");

    for (path, reason) in [
        ("bomb.docx", "unpacks to more than"),
        ("text.docx", "no ZIP archive"),
        ("empty.docx", "no ZIP archive"),
        ("old.docx", "password"),
    ] {
        let said = bench.fail("read_file", json!({"path": path})).await;
        assert!(said.starts_with("Error reading file: ") && said.contains(reason), "{said}");
    }
}

/// Runs `change` over and over beside `work`, until that ends, or panics.
async fn beside(mut change: impl FnMut() + Send, work: impl Future<Output = ()>) {
    struct StopWhenDropped<'a>(&'a AtomicBool);
    impl Drop for StopWhenDropped<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            // With pauses of several lengths, some of which fall between any two steps.
            for pause in (0..20).map(|step| Duration::from_micros(step * step)).cycle() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                change();
                // sleeps: see above.
                thread::sleep(pause);
            }
        });
        let _stop = StopWhenDropped(&stop);
        let runtime = tokio::runtime::Handle::current();
        tokio::task::block_in_place(|| runtime.block_on(work));
    });
}

/// Exchanges two names at once, as `mv --exchange` does.
fn exchange(one: &Path, other: &Path) {
    renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).expect("exchanged");
}

/// A file that becomes a link to elsewhere, and a file again, between any two looks at it.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_becomes_a_link_is_not_followed() {
    let bench = Bench::files();
    let secret = bench.put("outside/secret", "secret\n");
    let (file, next) = (bench.put("work/file", "inside\n"), bench.path("next"));
    let change = || {
        symlink(&secret, &next).expect("a link");
        fs::rename(&next, &file).expect("renamed");
        fs::write(&next, "inside\n").expect("a file");
        // sleeps: a moment in which it is a link.
        thread::sleep(Duration::from_micros(50));
        fs::rename(&next, &file).expect("renamed");
    };

    let (mut read, mut refused) = (0, 0);
    let work = async {
        for _ in 0..ROUNDS {
            let output = bench.output("read_file", json!({"path": "file"})).await;
            let text = output.content.expect("a text");
            assert!(output.is_error || !text.contains("secret"), "{text}");
            *if output.is_error { &mut refused } else { &mut read } += 1;

            bench.output("append_file", json!({"path": "file", "content": "more\n"})).await;
            bench.output("write_file", json!({"path": "file", "content": "changed\n"})).await;
            let edit = json!({"path": "file", "old_string": "secret", "new_string": "changed"});
            assert!(bench.output("edit_file", edit).await.is_error);
            let found = bench.output("grep", json!({"pattern": "secret"})).await;
            assert!(!found.content.expect("a text").contains(":1:"), "a link was followed");
        }
    };
    beside(change, work).await;

    assert!(read > 0 && refused > 0, "{read} were read, {refused} refused");
    assert_eq!(bench.content("outside/secret"), "secret\n");
}

/// The same of a folder above the file.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_that_becomes_a_link_is_not_followed() {
    let bench = Bench::files();
    bench.put("outside/file", "secret\n");
    bench.put("work/folder/file", "inside\n");
    let (folder, link) = (bench.path("work/folder"), bench.path("work/link"));
    symlink(bench.path("outside"), &link).expect("a link");

    let (mut written, mut refused) = (0, 0);
    let work = async {
        for number in 0..ROUNDS {
            let output = bench.output("read_file", json!({"path": "folder/file"})).await;
            assert!(!output.content.expect("a text").contains("secret"), "a link was followed");
            let new = json!({"path": format!("folder/new/{number}"), "content": "x"});
            let output = bench.output("write_file", new).await;
            *if output.is_error { &mut refused } else { &mut written } += 1;

            bench.output("append_file", json!({"path": "folder/file", "content": "more\n"})).await;
            let edit = json!({"path": "folder/file", "old_string": "secret", "new_string": "x"});
            assert!(bench.output("edit_file", edit).await.is_error);
            let found = bench.output("grep", json!({"pattern": "secret"})).await;
            assert!(!found.content.expect("a text").contains(":1:"), "a link was followed");
        }
    };
    beside(|| exchange(&folder, &link), work).await;

    assert!(written > 0 && refused > 0, "{written} were written, {refused} refused");
    assert_eq!(bench.content("outside/file"), "secret\n");
    assert_eq!(fs::read_dir(bench.path("outside")).expect("a folder").count(), 1);
}

/// A file that becomes a pipe must keep nobody waiting.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_becomes_a_pipe_is_let_go() {
    let bench = Bench::files();
    let file = bench.put("work/file", "inside");
    let pipe = bench.path("work/pipe");
    make_fifo(&pipe);

    let start = Instant::now();
    let work = async {
        for _ in 0..ROUNDS {
            bench.output("read_file", json!({"path": "file"})).await;
            bench.output("append_file", json!({"path": "file", "content": "x"})).await;
        }
    };
    beside(|| exchange(&file, &pipe), work).await;
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

/// Another name of a file elsewhere is not changed with it.
#[tokio::test]
async fn hard_links_are_not_written_through() {
    let bench = Bench::files();
    let outside = bench.put("outside/file", "text\n");
    fs::hard_link(&outside, bench.path("work/file")).expect("a link");

    let said = bench.fail("append_file", json!({"path": "file", "content": "more"})).await;
    assert!(said.contains("hard link"), "{said}");
    bench
        .say("edit_file", json!({"path": "file", "old_string": "text", "new_string": "new"}))
        .await;
    bench.say("write_file", json!({"path": "file", "content": "new"})).await;
    assert_eq!(
        (bench.content("work/file").as_str(), bench.content("outside/file").as_str()),
        ("new", "text\n")
    );
}

#[tokio::test]
async fn names_may_be_anything_that_names_are() {
    let bench = Bench::files();
    for name in ["a b", "-rf", "*", "ünï", "new\nline", "[x]", "\u{1b}[31m", "...", "~", "$(id)"]
    {
        bench.say("write_file", json!({"path": name, "content": "text\n"})).await;
        assert_eq!(bench.say("read_file", json!({"path": name})).await, "text\n");
    }
    let found = bench.say("glob", json!({"pattern": "*"})).await;
    assert!(found.contains("ünï\n") && found.contains("-rf\n"), "{found}");
    for path in ["", "a\0b", &"x/".repeat(3000)] {
        let said = bench.fail("read_file", json!({"path": path})).await;
        assert!(said.starts_with("Error reading file: the path"), "{said}");
    }
}

#[tokio::test]
async fn deep_and_wide_folders_are_bounded() {
    let bench = Bench::files();
    let deep = "d/".repeat(100);
    bench.say("write_file", json!({"path": format!("{deep}bottom.txt"), "content": "line"})).await;
    bench.put("work/top.txt", "line\n");
    let found = bench.say("glob", json!({"pattern": "*.txt"})).await;
    assert_eq!(found, "top.txt\n[folders deeper than 64 were left out]");
    let found = bench.say("grep", json!({"pattern": "line"})).await;
    assert_eq!(found, "top.txt:1:line\n[folders deeper than 64 were left out]");
}

/// Patterns are a model's, and files of patterns are a stranger's.
#[tokio::test]
async fn patterns_do_not_take_for_ever() {
    let bench = Bench::files();
    bench.put("work/a.txt", format!("{}\n", "a".repeat(50_000)));
    let start = Instant::now();
    assert!(bench.say("grep", json!({"pattern": "(a*)*b"})).await.starts_with("No lines match"));
    for pattern in ["(a{1000}){1000}{1000}", "[", "(?P<n", "\\", "a\nb"] {
        bench.fail("grep", json!({"pattern": pattern})).await;
    }
    let stars = "*a".repeat(400);
    bench.output("glob", json!({"pattern": stars})).await;
    for pattern in ["", "[", "{a,", &"x".repeat(2000), &"{a,".repeat(300)] {
        bench.fail("glob", json!({"pattern": pattern})).await;
    }

    let hostile: String = (0..9000).map(|number| format!("*a*{number}*{{b,c}}\n")).collect();
    bench.put("work/.gitignore", hostile);
    let found = bench.say("glob", json!({"pattern": "a.txt"})).await;
    assert_eq!(found, "a.txt\n");
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}

/// Rights that the program does not have are not had by its tools.
#[tokio::test]
async fn closed_files_stay_closed() {
    if rustix::process::geteuid().is_root() {
        return;
    }
    let bench = Bench::files();
    let file = bench.put("work/file", "text");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).expect("set");
    for said in refusals(&bench, "file").await {
        assert!(said.contains("ermission denied"), "{said}");
    }
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).expect("set");
    bench.fail("write_file", json!({"path": "file", "content": "x"})).await;
}
