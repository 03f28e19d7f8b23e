//! Finding files and lines.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use crate::support::Bench;

fn bench() -> Bench {
    let bench = Bench::files();
    for (name, content) in [
        ("src/main.rs", "fn main() {\n    run();\n}\n"),
        ("src/sub/run.rs", "pub fn run() {}\n"),
        ("src/sub/notes.md", "run it\n"),
        (".github/ci.yml", "run: test\n"),
        (".git/config", "run\n"),
        ("target/out.rs", "fn run() {}\n"),
        ("src/gen/made.rs", "fn run() {}\n"),
        ("src/gen/kept.rs", "fn run() {}\n"),
        (".gitignore", "target/\n*.log\n[bad\n"),
        ("src/.gitignore", "gen/*\n!gen/kept.rs\n"),
        ("run.log", "run\n"),
        ("image.bin", "run\0run\n"),
    ] {
        bench.put(&format!("work/{name}"), content);
    }
    bench
}

#[tokio::test]
async fn files_are_found_by_their_names() {
    let bench = bench();
    let glob = async |arguments: Value| bench.say("glob", arguments).await;
    assert_eq!(
        glob(json!({"pattern": "*.rs"})).await,
        "src/gen/kept.rs\nsrc/main.rs\nsrc/sub/run.rs\n"
    );
    assert_eq!(glob(json!({"pattern": "src/*.rs"})).await, "src/main.rs\n");
    let both = glob(json!({"pattern": "**/sub/*.{rs,md}"})).await;
    assert_eq!(both, "src/sub/notes.md\nsrc/sub/run.rs\n");
    assert_eq!(glob(json!({"pattern": "*.rs", "path": "src/sub"})).await, "src/sub/run.rs\n");
    assert_eq!(glob(json!({"pattern": "*.yml"})).await, ".github/ci.yml\n");
    // What git leaves out is found where it is named.
    assert_eq!(glob(json!({"pattern": "config"})).await, "No files match 'config'");
    assert_eq!(glob(json!({"pattern": "*.rs", "path": "target"})).await, "target/out.rs\n");
    // Patterns of the folders above hold, too.
    assert_eq!(glob(json!({"pattern": "*.rs", "path": "src/gen"})).await, "src/gen/kept.rs\n");
}

#[tokio::test]
async fn lines_are_found_in_files() {
    let bench = bench();
    let grep = async |arguments: Value| bench.say("grep", arguments).await;
    let all = grep(json!({"pattern": "run\\b"})).await;
    insta::assert_snapshot!(all);
    let files = grep(json!({"pattern": "RUN", "ignore_case": true, "files_only": true})).await;
    insta::assert_snapshot!(files);

    assert_eq!(
        grep(json!({"pattern": "run()", "fixed": true, "glob": "main.*"})).await,
        "src/main.rs:2:    run();\n"
    );
    assert_eq!(
        grep(json!({"pattern": "run", "path": "src/sub/run.rs"})).await,
        "src/sub/run.rs:1:pub fn run() {}\n"
    );
    let around = grep(json!({"pattern": "run", "glob": "main.rs", "context": 1})).await;
    assert_eq!(around, "src/main.rs-1-fn main() {\nsrc/main.rs:2:    run();\nsrc/main.rs-3-}\n");
    assert_eq!(grep(json!({"pattern": "nothing"})).await, "No lines match 'nothing'");
}

#[tokio::test]
async fn what_does_not_fit_is_said() {
    let bench = Bench::files();
    for number in 0..1100 {
        bench.put(&format!("work/{number:04}.txt"), "line\n");
    }
    let first = bench.say("glob", json!({"pattern": "*.txt"})).await;
    let note = "[1000 files are shown; narrow the pattern, or skip 1000]";
    assert_eq!((first.lines().count(), first.lines().last()), (1001, Some(note)));
    let rest = bench.say("glob", json!({"pattern": "*.txt", "skip": 1000})).await;
    assert_eq!((rest.lines().next(), rest.lines().count()), (Some("1000.txt"), 100));

    let lines = bench.say("grep", json!({"pattern": "line", "max_matches": 2})).await;
    assert_eq!(
        lines,
        "0000.txt:1:line\n0001.txt:1:line\n[2 matching lines are shown; narrow the pattern, or skip 2]"
    );
    let more = bench.say("grep", json!({"pattern": "line", "max_matches": 1, "skip": 2})).await;
    assert!(more.starts_with("0002.txt:1:line\n"), "{more}");
}

#[tokio::test]
async fn links_are_not_followed() {
    let bench = Bench::files();
    bench.put("outside/secret.txt", "secret\n");
    bench.put("work/plain.txt", "plain\n");
    symlink(bench.path("outside"), bench.path("work/out")).expect("a link");
    symlink(bench.path("outside/secret.txt"), bench.path("work/link.txt")).expect("a link");
    symlink("..", bench.path("work/up")).expect("a link");
    symlink(".", bench.path("work/here")).expect("a link");
    assert_eq!(bench.say("glob", json!({"pattern": "**"})).await, "plain.txt\n");
    assert_eq!(bench.say("grep", json!({"pattern": "."})).await, "plain.txt:1:plain\n");
}
