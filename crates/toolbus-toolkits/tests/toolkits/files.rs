//! Reading, writing and editing, as the contract has it.

use std::fs;
use std::io::{Cursor, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

use serde_json::{Value, json};
use toolbus_toolkits::files::Access;
use toolbus_tools::tool::Risk;
use toolbus_wire::ErrorCode;

use crate::support::Bench;

/// MX-R1, MX-F1 to MX-F6: what models are told of the tools.
#[test]
fn definitions_are_as_models_know_them() {
    let bench = Bench::files();
    let snapshot = bench.invoker.registry().snapshot();
    let tools: Vec<Value> = snapshot
        .tools()
        .iter()
        .map(|entry| {
            let tool = &entry.tool;
            json!({
                "name": tool.name, "description": tool.description, "parameters": tool.parameters,
                "risk": tool.risk, "read_only": tool.annotations.read_only
            })
        })
        .collect();
    insta::assert_snapshot!(serde_json::to_string_pretty(&tools).expect("JSON"));
}

#[test]
fn tools_that_write_are_offered_where_something_may_be_written() {
    let names = |bench: &Bench| {
        let snapshot = bench.invoker.registry().snapshot();
        let names: Vec<_> = snapshot.tools().iter().map(|entry| entry.tool.name.clone()).collect();
        names.join(" ")
    };
    let bench = Bench::files_with(|settings| settings.access = Access::ReadOnly);
    assert_eq!(names(&bench), "read_file glob grep");

    let bench = Bench::files();
    assert_eq!(names(&bench), "read_file write_file append_file edit_file glob grep");
    let snapshot = bench.invoker.registry().snapshot();
    let risky = snapshot.tools().iter().filter(|entry| entry.tool.risk == Some(Risk::High)).count();
    assert_eq!(risky, 3);
}

/// MX-F1.
#[tokio::test]
async fn f1_text_and_documents_are_read() {
    let bench = Bench::files();
    bench.put("work/a.txt", "one\r\ntwo äöü\n");
    assert_eq!(bench.say("read_file", json!({"path": "a.txt"})).await, "one\r\ntwo äöü\n");
    bench.put("work/empty", "");
    assert_eq!(bench.say("read_file", json!({"path": "empty"})).await, "");

    bench.put("work/Report.DOCX", document());
    let text = bench.say("read_file", json!({"path": "Report.DOCX"})).await;
    assert_eq!(text, "Title\ncell one\ncell two\nEnd");
    let part =
        bench.say("read_file", json!({"path": "Report.DOCX", "offset": 2, "limit": 1})).await;
    assert_eq!(part, "cell one\n[lines 2 to 2 of 4]");
}

fn document() -> Vec<u8> {
    let paragraph = |text: &str| format!("<w:p><w:r><w:t>{text}</w:t></w:r></w:p>");
    let row =
        format!("<w:tc>{}</w:tc><w:tc>{}</w:tc>", paragraph("cell one"), paragraph("cell two"));
    let xml = format!(
        "<w:document xmlns:w=\"urn:w\"><w:body>{}<w:tbl><w:tr>{row}</w:tr></w:tbl>{}</w:body></w:document>",
        paragraph("Title"),
        paragraph("End")
    );
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    writer.start_file("word/document.xml", options).expect("a part");
    writer.write_all(xml.as_bytes()).expect("room");
    writer.finish().expect("an archive").into_inner()
}

#[tokio::test]
async fn parts_are_read_by_lines() {
    let bench = Bench::files();
    bench.put("work/a", "1\n2\n3\n4\n");
    let read = async |arguments: Value| bench.say("read_file", arguments).await;
    assert_eq!(read(json!({"path": "a", "offset": 3})).await, "3\n4\n[lines 3 to 4 of 4]");
    // As models write it.
    let loose = json!({"path": "a", "offset": "2", "limit": 1.0, "more": null});
    assert_eq!(read(loose).await, "2\n[lines 2 to 2 of 4]");
    let wrong = bench.call("read_file", json!({"path": "a", "offset": -1})).await;
    assert_eq!(wrong.expect_err("it is refused").code, ErrorCode::InvalidArguments);
}

/// MX-F3 and MX-F4.
#[tokio::test]
async fn f4_writing_makes_folders_and_replaces() {
    let bench = Bench::files();
    let write = async |path: &str, content: &str| {
        bench.say("write_file", json!({"path": path, "content": content})).await
    };
    assert_eq!(write("new/deep/a", "long text").await, "Successfully wrote to …/work/new/deep/a");
    assert_eq!(bench.content("work/new/deep/a"), "long text");
    write("new/deep/a", "short").await;
    assert_eq!(bench.content("work/new/deep/a"), "short");
    write(&bench.text("work/b"), "").await;
    assert_eq!(bench.content("work/b"), "");
    // Nothing is left beside it.
    assert_eq!(fs::read_dir(bench.path("work")).expect("a folder").count(), 2);

    // Where tests are root's, files belong to who has the folder.
    let owner = |name: &str| fs::metadata(bench.path(name)).expect("it is there").uid();
    assert_eq!([owner("work/new/deep"), owner("work/b")], [owner("work"); 2]);
}

/// MX-F4.
#[tokio::test]
async fn f4_appending_needs_the_file() {
    let bench = Bench::files();
    let absent = bench.fail("append_file", json!({"path": "log", "content": "x"})).await;
    assert_eq!(
        absent,
        "Error: file does not exist: …/work/log. Use write_file to create it first."
    );
    assert!(!bench.path("work/log").exists());

    bench.put("work/log", "one\n");
    let said = bench.say("append_file", json!({"path": "log", "content": "two\n"})).await;
    assert_eq!(said, "Successfully appended to …/work/log");
    assert_eq!(bench.content("work/log"), "one\ntwo\n");
}

/// MX-F5: failures are texts that begin with `Error` and name the action, flagged as MX-A3 has it.
#[tokio::test]
async fn f5_failures_name_the_action() {
    let bench = Bench::files();
    fs::create_dir(bench.path("work/folder")).expect("a folder");
    bench.put("work/plain", "");
    let mut said = Vec::new();
    for (tool, arguments) in [
        ("read_file", json!({"path": "absent"})),
        ("read_file", json!({"path": "folder"})),
        ("read_file", json!({"path": "../secret"})),
        ("read_file", json!({"path": ""})),
        ("write_file", json!({"path": "folder", "content": ""})),
        ("write_file", json!({"path": "plain/below", "content": ""})),
        ("write_file", json!({"path": "/etc/x", "content": ""})),
        ("append_file", json!({"path": "folder", "content": ""})),
        ("append_file", json!({"path": "../x", "content": ""})),
        ("edit_file", json!({"path": "absent", "old_string": "a", "new_string": "b"})),
        ("edit_file", json!({"path": "plain", "old_string": "a", "new_string": "b"})),
        ("glob", json!({"pattern": "[", "path": "."})),
        ("glob", json!({"pattern": "*", "path": "/etc"})),
        ("grep", json!({"pattern": "(", "path": "."})),
        ("grep", json!({"pattern": "x", "path": "absent"})),
    ] {
        said.push(format!("{tool}: {}", bench.fail(tool, arguments).await));
    }
    insta::assert_snapshot!(said.join("\n"));
}

/// MX-A6.
#[tokio::test]
async fn a6_missing_arguments_are_named() {
    let bench = Bench::files();
    for (tool, arguments, name) in [
        ("read_file", json!({}), "path"),
        ("write_file", json!({"path": "a"}), "content"),
        ("append_file", json!({"content": "a"}), "path"),
        ("edit_file", json!({"path": "a", "old_string": "b"}), "new_string"),
        ("grep", json!({"path": "a"}), "pattern"),
    ] {
        let error = bench.call(tool, arguments).await.expect_err("it is refused");
        assert_eq!(error.code, ErrorCode::InvalidArguments);
        assert!(error.message.contains(name), "{error}");
    }
}

#[tokio::test]
async fn edits_replace_what_is_there_once() {
    let bench = Bench::files();
    bench.put("work/a", "\u{FEFF}one two two\r\n");
    let edit = |old: &str, new: &str| json!({"path": "a", "old_string": old, "new_string": new});
    let said = bench.say("edit_file", edit("one", "1")).await;
    assert_eq!(said, "Successfully edited …/work/a (1 occurrence replaced)");
    let refused = bench.fail("edit_file", edit("two", "2")).await;
    assert!(refused.contains("found 2 times"), "{refused}");

    let mut all = edit("two", "2");
    all["replace_all"] = json!("true");
    let said = bench.say("edit_file", all).await;
    assert_eq!(said, "Successfully edited …/work/a (2 occurrences replaced)");
    // The rest is as it was, marks and ends of lines too.
    assert_eq!(bench.content("work/a"), "\u{FEFF}1 2 2\r\n");
}

/// MX-A4: calls of a turn run at the same time, and none is lost.
#[tokio::test(flavor = "multi_thread")]
async fn a4_edits_at_the_same_time_are_all_made() {
    let bench = Bench::files();
    let lines: String = (0..30).map(|number| format!("line {number};\n")).collect();
    bench.put("work/a", &lines);
    let edits = (0..30).map(|number| {
        let (old, new) = (format!("line {number};"), format!("done {number};"));
        bench.say("edit_file", json!({"path": "a", "old_string": old, "new_string": new}))
    });
    futures_util::future::join_all(edits).await;
    assert_eq!(bench.content("work/a"), lines.replace("line", "done"));
}

#[tokio::test]
async fn a_file_keeps_its_mode_and_links_keep_their_target() {
    let bench = Bench::files();
    let script = bench.put("work/run.sh", "old");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o4750)).expect("set");
    symlink("run.sh", bench.path("work/link")).expect("a link");

    bench.say("write_file", json!({"path": "link", "content": "new"})).await;
    assert!(fs::symlink_metadata(bench.path("work/link")).expect("it is there").is_symlink());
    assert_eq!(bench.content("work/run.sh"), "new");
    // Rights of its owner are none of new content.
    assert_eq!(fs::metadata(&script).expect("it is there").mode() & 0o7777, 0o750);
}

#[tokio::test]
async fn further_folders_may_be_read_or_written() {
    let others = tempfile::tempdir().expect("a folder");
    let path = |name: &str| others.path().canonicalize().expect("a path").join(name);
    for name in ["books", "drafts"] {
        fs::create_dir(path(name)).expect("a folder");
    }
    let bench = Bench::files_with(|settings| {
        settings.readable_paths = vec![path("books")];
        settings.writable_paths = vec![path("drafts")];
    });

    let draft = path("drafts/a");
    bench.say("write_file", json!({"path": draft, "content": "text"})).await;
    assert_eq!(bench.say("read_file", json!({"path": draft})).await, "text");
    let book = path("books/b");
    fs::write(&book, "book").expect("written");
    assert_eq!(bench.say("read_file", json!({"path": book})).await, "book");
    let refused = bench.fail("write_file", json!({"path": book, "content": "x"})).await;
    assert!(refused.contains("may be read and not written"), "{refused}");
    // Files elsewhere are found by their whole paths, which can be read again.
    let found = bench.say("grep", json!({"pattern": "book", "path": path("books")})).await;
    assert_eq!(found, format!("{}:1:book\n", book.display()));
}
