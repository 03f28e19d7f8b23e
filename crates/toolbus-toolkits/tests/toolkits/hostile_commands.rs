//! Commands that mean harm. What is asserted are facts out here, not what they print.

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};

use toolbus_config::{ByteSize, TimeSpan};
use toolbus_testkit::memory::resident_bytes;
use toolbus_toolkits::shell::Isolation;

use crate::support::{Bench, processes_with, wait_until};

async fn gone(mark: &str) {
    wait_until("a process lives on", || processes_with(mark).is_empty()).await;
}

#[tokio::test]
async fn detached_processes_end_with_the_command() {
    for isolation in [Isolation::Sandbox, Isolation::None] {
        let bench = Bench::shell_with(|settings| settings.isolation = isolation).await;
        let Some(bench) = bench else { return };
        let start = Instant::now();
        let detached = "(setsid nohup sleep 98711 >/dev/null 2>&1 &) ; (setsid sleep 98711 &) ; \
                        sleep 98711 & disown; echo started";
        assert_eq!(bench.run_text(detached).await, "started");
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
        gone("98711").await;
    }
}

#[tokio::test]
async fn commands_that_ignore_signals_end_in_time() {
    for isolation in [Isolation::Sandbox, Isolation::None] {
        let bench = Bench::shell_with(|settings| {
            settings.isolation = isolation;
            settings.timeout = TimeSpan::seconds(1);
        });
        let Some(bench) = bench.await else { return };
        let deaf = "trap '' HUP INT QUIT TERM; (trap '' TERM; exec setsid sleep 98712) & \
                    while :; do sleep 0.1; : 98712; done";
        let output = bench.run(deaf).await;
        assert!(output.content.expect("a text").ends_with("[timed out after 1s]"));
        gone("98712").await;
    }
}

#[tokio::test]
async fn a_gigabyte_of_output_is_cut() {
    for isolation in [Isolation::Sandbox, Isolation::None] {
        let bench = Bench::shell_with(|settings| {
            settings.isolation = isolation;
            settings.timeout = TimeSpan::seconds(300);
        });
        let Some(bench) = bench.await else { return };
        bench.run_text("true").await;
        let before = resident_bytes();
        let output = bench.run("head -c 1000000000 /dev/zero | tr '\\0' x; echo done >&2").await;
        let text = output.content.expect("a text");
        assert!(text.ends_with("done\n\n[output truncated]"), "{}", &text[text.len() - 100..]);
        assert!(text.len() < (1 << 20) + 100, "{}", text.len());
        let more = resident_bytes().saturating_sub(before);
        assert!(more < 32 << 20, "{more} bytes more");
    }
}

#[tokio::test]
async fn an_endless_line_and_bytes_of_no_charset_are_text() {
    let Some(bench) = Bench::shell().await else { return };
    let output = bench.run("head -c 3000000 /dev/zero").await;
    assert!(output.content.expect("a text").len() < (1 << 20) + 100);
    assert_eq!(bench.run_text("printf 'a\\xff\\xfeb'").await, "a\u{FFFD}\u{FFFD}b");
}

#[tokio::test]
async fn silence_ends_at_the_time() {
    let bench = Bench::shell_with(|settings| settings.timeout = TimeSpan::seconds(1)).await;
    let Some(bench) = bench else { return };
    let output = bench.run("sleep 98713").await;
    assert_eq!(output.content.as_deref(), Some("\n[timed out after 1s]"));
    gone("98713").await;
}

#[tokio::test]
async fn a_fork_bomb_stays_inside() {
    let bench = Bench::shell_with(|settings| settings.timeout = TimeSpan::seconds(3)).await;
    let Some(bench) = bench else { return };
    let bomb = "f() { f98714 | f98714 & }; f98714() { f & f; }; f; wait; sleep 98714";
    let _ = bench.run(bomb).await;
    gone("98714").await;
    assert_eq!(bench.run_text("echo still there").await, "still there");
}

#[tokio::test]
async fn memory_is_bounded_over_all_processes() {
    let bench = Bench::shell_with(|settings| settings.memory = ByteSize::mebibytes(64)).await;
    let Some(bench) = bench else { return };
    let output = bench.run("tail /dev/zero & tail /dev/zero & wait").await;
    assert!(output.is_error, "{output:?}");
    assert!(output.content.expect("a text").ends_with("[out of memory]"));
}

#[tokio::test]
async fn other_files_of_the_machine_are_not_shown() {
    let Some(bench) = Bench::shell().await else { return };
    let secret = bench.put("outside/secret", "secret");
    let text = secret.to_str().expect("text");
    for command in [
        format!("cat {text}"),
        format!("ln -s {text} link; cat link"),
        "ln -s ../outside out; cat out/secret".to_owned(),
        format!("ln {text} hard; cat hard"),
        "cat ../outside/secret; cd ../outside; cat secret".to_owned(),
        "cat /proc/1/root/etc/shadow /etc/shadow /root/.bashrc".to_owned(),
    ] {
        let said = bench.run_text(&command).await;
        assert!(!said.contains("secret\n") && !said.ends_with("secret"), "{command}: {said}");
        assert!(said.contains("No such file") || said.contains("denied"), "{command}: {said}");
    }
    // What is around the working directory is memory of the sandbox.
    assert_eq!(bench.run_text("touch ../new /new /usr/new; ls /").await.matches("new").count(), 2);
    assert!(!bench.path("new").exists());
}

/// A link that a command leaves is followed by none of the other tools.
#[tokio::test]
async fn links_of_commands_lead_no_other_tool_outside() {
    let Some(bench) = Bench::shell().await else { return };
    let secret = bench.put("outside/secret", "secret");
    bench
        .run_text(&format!("ln -s {} link; ln -s ../outside out; mkfifo pipe", secret.display()))
        .await;
    for path in ["link", "out/secret"] {
        let said = bench.fail("read_file", serde_json::json!({"path": path})).await;
        assert!(said.contains("outside working directory"), "{said}");
        let write = serde_json::json!({"path": path, "content": "changed"});
        bench.fail("write_file", write).await;
    }
    let said = bench.fail("read_file", serde_json::json!({"path": "pipe"})).await;
    assert!(said.contains("FIFO"), "{said}");
    assert_eq!(bench.content("outside/secret"), "secret");
}

#[tokio::test]
async fn keys_of_the_program_are_not_in_the_environment() {
    let known = [
        "PATH",
        "HOME",
        "PWD",
        "SHLVL",
        "_",
        "LANG",
        "LC_ALL",
        "LOGNAME",
        "TERM",
        "TMPDIR",
        "USER",
        "OLDPWD",
        "OPENBLAS_NUM_THREADS",
        "TOOLBUS_COMMAND",
    ];
    for isolation in [Isolation::Sandbox, Isolation::None] {
        let bench = Bench::shell_with(|settings| settings.isolation = isolation).await;
        let Some(bench) = bench else { return };
        let names = bench.run_text("env | cut -d= -f1").await;
        let foreign: Vec<_> = names.lines().filter(|name| !known.contains(name)).collect();
        assert_eq!(foreign, Vec::<&str>::new());
    }

    let Some(bench) = Bench::shell().await else { return };
    let all = bench.run_text("cat /proc/*/environ | tr '\\0' '\\n' | grep -c CARGO").await;
    assert!(all.starts_with('0'), "{all}");
}

#[tokio::test]
async fn neither_the_network_nor_local_services_are_reached() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("set");
    let port = listener.local_addr().expect("an address").port();
    let Some(bench) = Bench::shell().await else { return };
    let socket = UnixListener::bind(bench.path("outside.sock")).expect("a socket");
    socket.set_nonblocking(true).expect("set");
    let command = format!(
        "echo > /dev/tcp/127.0.0.1/{port}; echo > /dev/udp/127.0.0.1/{port}; \
         python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('{}')\"",
        bench.text("outside.sock")
    );
    bench.run_text(&command).await;
    assert!(listener.accept().is_err() && socket.accept().is_err());
}

#[tokio::test]
async fn the_sandbox_is_not_left() {
    let Some(bench) = Bench::shell().await else { return };
    let said = bench
        .run_text(
            "unshare -Ur true; mount -t tmpfs x /tmp; mknod dev c 1 1; chroot / true; \
             kill -9 1; kill -9 -1; echo alive",
        )
        .await;
    // Killing everything that it sees takes the shell along, and nothing else.
    assert!(said.contains("[exit code 137]") || said.contains("alive"), "{said}");
    assert!(!bench.path("work/dev").exists());
    assert_eq!(bench.run_text("echo next").await, "next");
}

#[tokio::test]
async fn a_large_file_and_a_full_folder_are_bounded() {
    let Some(bench) = Bench::shell().await else { return };
    let said = bench.run_text("head -c 2G /dev/zero > /tmp/big; ls -s /tmp/big | wc -l").await;
    assert!(said.contains("No space left") || said.contains("[out of memory]"), "{said}");
    // A file of the working directory may have a gigabyte, also one with holes.
    let said =
        bench.run_text("truncate -s 10G sparse; truncate -s 1G sparse; stat -c %s sparse").await;
    assert!(said.contains("1073741824"), "{said}");
    assert_eq!(fs::metadata(bench.path("work/sparse")).expect("it is there").len(), 1 << 30);
}
