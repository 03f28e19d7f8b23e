//! Commands, as the contract has them.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio_util::sync::CancellationToken;
use toolbus_config::TimeSpan;
use toolbus_sandbox::Unavailable;
use toolbus_sandbox::settings::ScriptsSettings;
use toolbus_toolkits::files::Access;
use toolbus_toolkits::shell::{BashSettings, Isolation, Shell};
use toolbus_tools::call::Call;
use toolbus_tools::tool::Risk;
use toolbus_wire::ErrorCode;

use crate::support::{Bench, processes_with, scope, wait_until};

/// In the sandbox, and without it.
async fn both() -> Option<[Bench; 2]> {
    let bare = Bench::shell_with(|settings| settings.isolation = Isolation::None).await?;
    Some([Bench::shell().await?, bare])
}

#[tokio::test]
async fn the_definition_is_as_models_know_it() {
    let Some([bench, _]) = both().await else { return };
    let snapshot = bench.invoker.registry().snapshot();
    let found = snapshot.tools().iter().find(|entry| entry.tool.name == "bash").expect("a tool");
    let tool = &found.tool;
    assert_eq!((tool.risk, tool.annotations.may_repeat()), (Some(Risk::Critical), false));
    let told = json!({
        "name": tool.name, "description": tool.description, "parameters": tool.parameters
    });
    insta::assert_snapshot!(serde_json::to_string_pretty(&told).expect("JSON"));
}

/// MX-B1, and rule 1 of 2c: the whole command runs, not its first word.
#[tokio::test]
async fn b1_output_is_stdout_then_stderr() {
    let Some(benches) = both().await else { return };
    for bench in &benches {
        assert_eq!(bench.run_text("echo hello").await, "hello");
        assert_eq!(bench.run_text("echo err >&2; printf 'out\\n\\n'").await, "out\n\nerr");
        assert_eq!(bench.run_text("echo \"a  b\" 'c\\d' $((1 + 2))").await, "a  b c\\d 3");
        assert_eq!(bench.run_text("echo out; exit 3").await, "out\n\n[exit code 3]");
        assert_eq!(bench.run_text("kill -SEGV $$").await, "\n[exit code 139]");
        assert_eq!(bench.run_text("true").await, "");
        assert!(!bench.run("false").await.is_error);
        // Signals are those that programs count on.
        assert_eq!(bench.run_text("yes | head -1").await, "y");
        assert_eq!(bench.run_text("cat").await, "");
    }
}

/// MX-B2.
#[tokio::test]
async fn b2_a_command_ends_at_its_time() {
    for isolation in [Isolation::Sandbox, Isolation::None] {
        let bench = Bench::shell_with(|settings| {
            settings.isolation = isolation;
            settings.timeout = TimeSpan::seconds(1);
        });
        let Some(bench) = bench.await else { return };
        let start = Instant::now();
        let output = bench.run("echo begun; echo still >&2; sleep 98701 & sleep 98701").await;
        assert_eq!(output.content.as_deref(), Some("begun\nstill\n\n[timed out after 1s]"));
        assert!(output.is_error);
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        wait_until("a process lives on", || processes_with("98701").is_empty()).await;
    }
}

/// MX-B3.
#[tokio::test]
async fn b3_commands_run_in_the_working_directory() {
    let Some(benches) = both().await else { return };
    for bench in &benches {
        assert_eq!(bench.run_text("pwd").await, bench.text("work"));
        bench.run_text("echo text > made && mkdir sub && cp made sub/copied").await;
        assert_eq!(bench.content("work/sub/copied"), "text\n");
        assert_eq!(bench.say("read_file", json!({"path": "sub/copied"})).await, "text\n");
        // What the other tools write, commands may change.
        bench.say("write_file", json!({"path": "new/file", "content": "one\n"})).await;
        assert_eq!(bench.run_text("echo two >> new/file && cat new/file").await, "one\ntwo");
    }
}

/// MX-B3.
#[tokio::test]
async fn b3_a_missing_directory_is_told() {
    let Some(benches) = both().await else { return };
    for bench in &benches {
        fs::remove_dir_all(bench.path("work")).expect("removed");
        let said = bench.fail("bash", json!({"command": "pwd"})).await;
        assert_eq!(said, "Error executing command: the working directory …/work is not there");
        fs::create_dir(bench.path("other")).expect("a folder");
        fs::rename(bench.path("other"), bench.path("work")).expect("renamed");
        // The kernel may give the number of the old one to the new one.
        let output = bench.run("true").await;
        assert!(!output.is_error || output.content.expect("a text").contains("was replaced"));
    }

    for isolation in [Isolation::Sandbox, Isolation::None] {
        let settings = BashSettings { isolation, ..BashSettings::default() };
        let absent = benches[0].path("absent");
        let started = Shell::start(&settings, &ScriptsSettings::default(), &absent).await;
        assert!(matches!(started, Err(Unavailable::Setting { .. })));
    }
}

/// MX-B4: who holds the output open after the end, and is not found, keeps nobody waiting for long.
#[tokio::test]
async fn b4_waiting_for_output_is_bounded() {
    let bare = Bench::shell_with(|settings| settings.isolation = Isolation::None).await;
    let Some(bench) = bare else { return };
    let start = Instant::now();
    // Without its mark, and in a session of its own.
    let hold = "env -i setsid sh -c ': > held; exec sleep 8' 2>/dev/null &";
    let command = format!("{hold} until [ -e held ]; do :; done; echo begun; echo err >&2");
    let said = bench.run_text(&command).await;
    assert_eq!(said, "begun\n[stdout read timed out]err");
    let waited = start.elapsed();
    assert!((Duration::from_secs(5)..Duration::from_secs(8)).contains(&waited), "{waited:?}");
}

/// Where this program is root, commands are not.
#[tokio::test]
async fn a_directory_of_roots_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let settings = BashSettings::default();
    let started = Shell::start(&settings, &ScriptsSettings::default(), folder.path()).await;
    let Err(Unavailable::Setting { name, reason }) = started else { panic!("it is refused") };
    assert!(name == "working_directory" && reason.contains("belongs to root"), "{name}: {reason}");
}

/// A directory that its owner may not write.
#[tokio::test]
async fn a_directory_that_commands_cannot_use_is_refused() {
    let Some(bench) = Bench::shell().await else { return };
    let work = bench.path("work");
    let start = async |mode, access| {
        fs::set_permissions(&work, fs::Permissions::from_mode(mode)).expect("set");
        let settings = BashSettings { access, ..BashSettings::default() };
        Shell::start(&settings, &ScriptsSettings::default(), &work).await
    };

    for (mode, access) in [(0o555, Access::ReadWrite), (0o000, Access::ReadOnly)] {
        let Err(Unavailable::Setting { reason, .. }) = start(mode, access).await else {
            panic!("it is refused")
        };
        assert!(reason.starts_with("commands cannot use it"), "{reason}");
    }
    assert!(start(0o555, Access::ReadOnly).await.is_ok());
    assert!(start(0o755, Access::ReadWrite).await.is_ok());
}

#[tokio::test]
async fn what_cannot_be_run_is_told() {
    let Some(benches) = both().await else { return };
    for bench in &benches {
        let long = format!(": {}", "x".repeat(64 << 10));
        let said = bench.fail("bash", json!({"command": long})).await;
        assert!(said.starts_with("Error executing command: it is longer than"), "{said}");
        let said = bench.fail("bash", json!({"command": "echo \0"})).await;
        assert_eq!(said, "Error executing command: it has a zero byte in it");
        let missing = bench.call("bash", json!({})).await.expect_err("it is refused");
        assert_eq!(missing.code, ErrorCode::InvalidArguments);
        // Nearly as long as it may be.
        let long = format!("echo {} | wc -c", "x".repeat(60 << 10));
        assert_eq!(bench.run_text(&long).await.trim(), ((60 << 10) + 1).to_string());
    }
}

#[tokio::test]
async fn a_cancelled_command_is_killed() {
    for isolation in [Isolation::Sandbox, Isolation::None] {
        let bench = Bench::shell_with(|settings| settings.isolation = isolation).await;
        let Some(bench) = bench else { return };
        let cancelled = CancellationToken::new();
        let command = json!({"command": "touch begun; trap '' TERM INT; sleep 98702; sleep 98702"});
        let call = Call::by_name(&scope(), "bash", command).expect("a name");
        let calling = bench.invoker.invoke(call.with_cancelled(cancelled.clone()));
        let cancelling = async {
            wait_until("it does not begin", || bench.path("work/begun").exists()).await;
            cancelled.cancel();
        };
        let (outcome, ()) = tokio::join!(calling, cancelling);
        assert_eq!(outcome.expect_err("it has no outcome").code, ErrorCode::Cancelled);
        wait_until("a process lives on", || processes_with("98702").is_empty()).await;
    }
}

#[tokio::test]
async fn a_dropped_command_is_killed() {
    for isolation in [Isolation::Sandbox, Isolation::None] {
        let bench = Bench::shell_with(|settings| settings.isolation = isolation).await;
        let Some(bench) = bench else { return };
        let begun = wait_until("it does not begin", || bench.path("work/begun").exists());
        tokio::select! {
            output = bench.run("touch begun; setsid sleep 98703; sleep 98703") => panic!("{output:?}"),
            () = begun => {}
        }
        wait_until("a process lives on", || processes_with("98703").is_empty()).await;
    }
}

#[tokio::test]
async fn a_directory_may_be_read_only() {
    let Some(bench) = Bench::shell_with(|settings| settings.access = Access::ReadOnly).await else {
        return;
    };
    bench.put("work/a", "text");
    assert_eq!(bench.run_text("cat a").await, "text");
    let refused = bench.run_text("echo x > a; echo y > b; rm a").await;
    assert!(refused.contains("Read-only file system"), "{refused}");
    assert_eq!(bench.content("work/a"), "text");
    assert!(!bench.path("work/b").exists());
}

#[tokio::test]
async fn the_network_is_there_when_it_is_allowed() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let connect = format!("echo > /dev/tcp/127.0.0.1/{port} && echo connected");
    for (network, expected) in [(false, false), (true, true)] {
        let Some(bench) = Bench::shell_with(|settings| settings.network = network).await else {
            return;
        };
        let said = bench.run_text(&connect).await;
        assert_eq!(said == "connected", expected, "{said}");
    }
}

#[tokio::test]
async fn commands_at_the_same_time_do_not_meet() {
    let Some(bench) = Bench::shell().await else { return };
    let command = |number| format!("echo {number} > /tmp/x{number}; sleep 0.2; cat /tmp/x*");
    let commands = (0..6).map(command);
    let commands: Vec<_> = commands.collect();
    let said = commands.iter().map(|command| bench.run_text(command));
    let said = futures_util::future::join_all(said).await;
    let expected: Vec<_> = (0..6).map(|number| number.to_string()).collect();
    assert_eq!(said, expected);
}
