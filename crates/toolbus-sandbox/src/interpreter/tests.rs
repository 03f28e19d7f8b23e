//! What an interpreter says of itself, understood.

use super::*;

fn parsed(lines: &[&str]) -> Option<Interpreter> {
    Interpreter::parse_answer((lines.join("\n") + "\n").as_bytes())
}

#[test]
fn an_interpreter_of_the_system_needs_nothing_more() {
    let found = parsed(&[
        "/usr/bin/python3.11",
        "/usr/bin/python3",
        "cpython 3.11.2",
        "cpython-311-x86_64-linux-gnu linux-x86_64",
        "/usr/lib/python3.11",
        "/usr",
        "/usr",
        "/usr",
        "/usr",
        "/usr/lib/python3.11",
        "/home/me/lib",
    ]);

    let found = found.expect("an interpreter");
    assert_eq!(found.trees, Vec::<PathBuf>::new());
    let command = found.bootstrap_command();
    assert_eq!(command[..5], ["/usr/bin/python3", "-I", "-S", "-B", "-c"]);
    assert_eq!(command[6..], ["/usr", "/usr", "/usr", "/usr", "/usr/lib/python3.11"]);

    assert_eq!(search_path(&found), "/usr/local/bin:/usr/bin:/bin");
}

#[test]
fn a_virtual_environment_brings_its_base() {
    let found = parsed(&[
        "/opt/py/bin/python3.12",
        "/srv/venv/bin/python3",
        "cpython 3.12.1",
        "abi",
        "/opt/py/lib/python3.12",
        "/srv/venv",
        "/srv/venv",
        "/opt/py",
        "/opt/py",
        "/opt/py/lib/python3.12",
        "/srv/venv/lib/site-packages",
    ]);

    let found = found.expect("an interpreter");
    assert_eq!(found.trees, [PathBuf::from("/opt/py"), PathBuf::from("/srv/venv")]);
    assert_eq!(search_path(&found), "/srv/venv/bin:/usr/local/bin:/usr/bin:/bin");
}

#[test]
fn half_an_answer_is_none() {
    assert_eq!(parsed(&["/usr/bin/python3"]), None);
    assert_eq!(
        parsed(&["a", "b", "c", "d", "e", "/usr", "/usr", "/usr", "/usr"]),
        None,
        "no module path"
    );

    assert_eq!(
        parsed(&["a", "b", "c", "d", "e", "/usr", "/usr", "/usr", "/usr", "relative"]),
        None
    );
}

#[test]
fn versions_are_compared_as_numbers() {
    for (version, expected) in [
        ("cpython 3.8.0", true),
        ("cpython 3.10.2", true),
        ("pypy 3.9.1", true),
        ("cpython 3.7.16", false),
        ("x", false),
    ] {
        let found =
            parsed(&["a", "b", version, "d", "e", "/usr", "/usr", "/usr", "/usr", "/usr/lib"]);
        assert_eq!(found.expect("an interpreter").is_recent(), expected, "{version}");
    }
}

/// A prefix like `/` or a home folder would show scripts what they must not see.
#[tokio::test]
async fn a_prefix_with_secrets_in_it_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let fake = folder.path().join("python3");
    let answer = "/bin/x\\n/bin/x\\nc 3.12.0\\nabi\\n/lib/python\\n/\\n/\\n/\\n/\\n/lib/python\\n";
    std::fs::write(&fake, format!("#!/bin/sh\nprintf '{answer}'\n")).expect("written");
    std::fs::set_permissions(&fake, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .expect("set");
    let refused = Interpreter::find(Some(&fake)).await.expect_err("the prefix is the root");
    assert!(refused.to_string().contains("must not see"), "{refused}");
}

/// What was compiled by one interpreter is not run by another.
#[tokio::test]
async fn a_program_runs_in_the_interpreter_that_compiled_it() {
    let here = Interpreter::find(None).await.expect("an interpreter");
    let program = here.compile("import sys\nprint(len(sys.argv), sys.path[-1])").await;
    let program = program.expect("a program");
    let run = |program: &[u8]| {
        let [python, arguments @ ..] = &here.bootstrap_command()[..] else { panic!("no command") };
        let mut child = std::process::Command::new(python)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), program).expect("sent");
        child.wait_with_output().expect("it ends")
    };

    let last = here.places.last().expect("a module path").display();
    let expected = format!("{} {last}\n", here.places.len() + 1);
    assert_eq!(String::from_utf8_lossy(&run(&program).stdout), expected);

    let mut foreign = program;
    foreign[4] ^= 1;
    let said = run(&foreign);
    assert_eq!(said.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&said.stderr).contains("another one"), "{said:?}");
}
