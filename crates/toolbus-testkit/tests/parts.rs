//! The real parts themselves: they start, answer, are kept apart and leave nothing behind.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use toolbus_testkit::mcp::StdioServer;
use toolbus_testkit::otlp::Collector;
use toolbus_testkit::process::{Launch, Process};
use toolbus_testkit::{eventually, mcp, rabbit};

const LIMIT: Duration = Duration::from_secs(120);

#[tokio::test]
async fn virtual_hosts_are_apart_and_go_away() {
    let (Some(one), Some(other)) = (rabbit::vhost().await, rabbit::vhost().await) else { return };
    one.declare_queue("q#1/a", json!({"durable": true, "arguments": {"x-max-length": 5}}))
        .await
        .unwrap();
    one.bind("amq.topic", "q#1/a", "tool.#").await.unwrap();
    let properties = json!({"message_id": "m1", "headers": {"rb-rb-x": 7}});
    let body = [0xff, 0x00, 0x41];
    assert!(one.publish("amq.topic", "tool.invoke", properties, &body).await.unwrap());
    assert!(!one.publish("amq.topic", "other", json!({}), b"").await.unwrap());

    let queue = eventually(LIMIT, async || {
        let queue = one.queue("q#1/a").await?.context("no queue")?;
        ensure!(queue.messages == 1, "{queue:?}");
        Ok(queue)
    })
    .await;
    assert_eq!(queue.arguments["x-max-length"], 5);
    assert!(queue.durable && queue.kind == "classic");
    assert_eq!(one.bindings().await.unwrap()[0].routing_key, "tool.#");
    assert_eq!(one.peek("q#1/a", 10).await.unwrap()[0].body, body);
    let taken = one.take("q#1/a", 10).await.unwrap();
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].properties["headers"]["rb-rb-x"], 7);
    assert!(taken[0].redelivered, "the look before had put it back");

    assert!(other.queues().await.unwrap().is_empty());
    assert!(other.queue("q#1/a").await.unwrap().is_none());
    let url = other.amqp_url();
    assert!(url.ends_with(&format!("/{}", other.name())), "{url}");
}

#[tokio::test]
async fn a_node_survives_crash_stop_and_pause() {
    let started = Instant::now();
    let Some(mut node) = rabbit::node().await else { return };
    println!("start {:?}", started.elapsed());
    let vhost = node.vhost().await.unwrap();
    let passing = node.vhost().await.unwrap();
    vhost.declare_queue("kept", json!({"durable": true})).await.unwrap();
    let persistent = json!({"delivery_mode": 2});
    assert!(vhost.publish("", "kept", persistent, b"1").await.unwrap());

    for _ in 0..2 {
        node.crash().await.unwrap();
        assert!(vhost.queues().await.is_err(), "the broker still answers");
        let started = Instant::now();
        node.start_again().await.unwrap();
        println!("start after a crash {:?}", started.elapsed());
        // A virtual host comes up a moment after the port.
        let kept = eventually(LIMIT, || vhost.peek("kept", 1)).await;
        assert_eq!(kept[0].body, b"1");
    }

    let started = Instant::now();
    node.stop().await.unwrap();
    println!("stop {:?}", started.elapsed());
    let started = Instant::now();
    node.start_again().await.unwrap();
    println!("start after a stop {:?}", started.elapsed());
    assert_eq!(eventually(LIMIT, || vhost.peek("kept", 1)).await.len(), 1);

    node.pause().unwrap();
    let answer = tokio::time::timeout(Duration::from_millis(500), vhost.queues()).await;
    assert!(!matches!(answer, Ok(Ok(_))), "a frozen broker answered: {answer:?}");
    node.resume().unwrap();
    assert_eq!(eventually(LIMIT, || vhost.queues()).await.len(), 1);

    let list = node.ctl(&["list_vhosts"]).await.unwrap();
    assert!(list.contains(vhost.name()) && list.contains(passing.name()), "{list}");
    let gone = passing.name().to_owned();
    drop(passing);
    let list = node.ctl(&["list_vhosts"]).await.unwrap();
    assert!(list.contains(vhost.name()) && !list.contains(&gone), "{list}");

    let started = Instant::now();
    node.block_publishers().await.unwrap();
    println!("rabbitmqctl {:?}", started.elapsed());
    let alarms = "rabbit_alarm:get_alarms().";
    assert!(node.ctl(&["eval", alarms]).await.unwrap().contains("memory"));
    node.unblock_publishers().await.unwrap();
    assert_eq!(node.ctl(&["eval", alarms]).await.unwrap().trim(), "[]");
}

/// A node that is cut off from the others pauses and comes back once it sees them again.
#[tokio::test]
async fn a_cluster_is_cut_and_healed() {
    let Some(mut cluster) = rabbit::cluster().await else { return };
    let vhost = cluster.vhost().await.unwrap();
    vhost.declare_queue("q", json!({"durable": true})).await.unwrap();
    assert_eq!(vhost.queue("q").await.unwrap().unwrap().kind, "quorum");
    let address = |cluster: &rabbit::Cluster, number: usize| {
        let url = cluster.nodes()[number].broker().amqp().to_owned();
        url.split_once('@').unwrap().1.trim_end_matches('/').to_owned()
    };

    for number in [1, 0] {
        let started = Instant::now();
        cluster.cut_off(number).await.unwrap();
        let address = address(&cluster, number);
        eventually(LIMIT, async || {
            ensure!(TcpStream::connect(&address).is_err(), "the node takes connections");
            Ok(())
        })
        .await;
        println!("paused after {:?}", started.elapsed());
        publish_to_majority(&vhost).await;

        let started = Instant::now();
        cluster.heal(number).await.unwrap();
        cluster.wait_until_whole().await.unwrap();
        println!("healed after {:?}", started.elapsed());
    }

    let started = Instant::now();
    cluster.node(2).crash().await.unwrap();
    publish_to_majority(&vhost).await;
    cluster.node(2).start_again().await.unwrap();
    cluster.wait_until_whole().await.unwrap();
    println!("crashed and started again in {:?}", started.elapsed());
    // One that was refused may have been taken all the same.
    assert!(vhost.take("q", 100).await.unwrap().len() >= 3);
}

/// Publishes until the queue has a leader that takes it.
async fn publish_to_majority(vhost: &rabbit::Vhost) {
    eventually(LIMIT, async || {
        let is_routed = vhost.publish("", "q", json!({}), b"to the majority").await?;
        ensure!(is_routed, "there is no queue");
        Ok(())
    })
    .await;
}

#[tokio::test]
async fn the_shared_broker_ends_with_the_run() {
    if !rabbit::Node::is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_real-parts"));
    command.arg("rabbitmq").stdin(Stdio::null());
    let mut parts = Process::spawn("parts", &mut command, folder.path()).unwrap();
    let status = parts.wait(Duration::from_secs(120)).await.unwrap();
    assert!(status.success(), "{}", parts.stderr());
    let said = parts.stdout();
    assert!(said.ends_with("ready\n"), "{said}");
    let address = said.split_once('@').unwrap().1.split_once('/').unwrap().0;
    assert!(TcpStream::connect(address).is_err(), "the broker still listens");
}

#[tokio::test]
async fn nothing_is_left_after_a_kill() {
    if !rabbit::Node::is_installed() {
        return;
    }

    let mut parts = Command::new(env!("CARGO_BIN_EXE_real-parts"))
        .arg("rabbitmq")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut address = String::new();

    for line in BufReader::new(parts.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if let Some(url) = line.strip_prefix("TOOLBUS_TEST_AMQP=amqp://guest:guest@") {
            address = url.trim_end_matches('/').to_owned();
        }
        if line == "ready" {
            break;
        }
    }

    TcpStream::connect(&address).unwrap();
    let folder = folder_of_node(&address);
    assert!(folder.join("rabbitmq.conf").exists());

    parts.kill().unwrap();
    parts.wait().unwrap();
    eventually(LIMIT, async || {
        ensure!(TcpStream::connect(&address).is_err(), "the broker still listens");
        ensure!(!folder.exists(), "{} is still there", folder.display());
        Ok(())
    })
    .await;
}

/// The folder of the node that listens at `address`, found by the port in its settings.
fn folder_of_node(address: &str) -> PathBuf {
    std::fs::read_dir(std::env::temp_dir())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| {
            std::fs::read_to_string(path.join("rabbitmq.conf"))
                .is_ok_and(|text| text.contains(&format!("listeners.tcp.1 = {address}\n")))
        })
        .unwrap()
}

#[test]
fn a_dropped_process_takes_its_children_along() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "sleep 1000 & echo $!; wait"]);
    let process = Process::spawn("parent", &mut command, folder.path()).unwrap();
    let end = Instant::now() + LIMIT;
    while !process.stdout().ends_with('\n') {
        assert!(Instant::now() < end);
        std::thread::yield_now();
    }
    let child = process.stdout().trim().to_owned();
    assert!(is_alive(&child));
    drop(process);
    while is_alive(&child) {
        assert!(Instant::now() < end, "{child} outlived its parent");
        std::thread::yield_now();
    }
}

/// Whether a process of this id runs; one that has ended and was not yet reaped does not.
fn is_alive(id: &str) -> bool {
    let status = std::fs::read_to_string(Path::new("/proc").join(id).join("status"));
    status.is_ok_and(|status| !status.contains("State:\tZ"))
}

#[tokio::test]
async fn a_process_is_waited_for_and_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let spawn = |script: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Process::spawn("shell", &mut command, folder.path()).unwrap()
    };

    let mut quick = spawn("echo out; echo err >&2; exit 3");
    assert_eq!(quick.wait(LIMIT).await.unwrap().code(), Some(3));
    assert_eq!((quick.stdout().as_str(), quick.stderr().as_str()), ("out\n", "err\n"));
    assert!(quick.pause().is_err(), "signalled after its end");

    let mut polite = spawn("trap 'exit 5' TERM; echo up; while :; do sleep 0.01; done");
    eventually(LIMIT, async || polite.stdout().ends_with("up\n").then_some(()).ok_or("not up"))
        .await;
    assert_eq!(polite.terminate(LIMIT).await.unwrap().code(), Some(5));

    let mut deaf = spawn("trap '' TERM; echo deaf; while :; do sleep 0.01; done");
    eventually(LIMIT, async || deaf.stdout().ends_with("deaf\n").then_some(()).ok_or("not up"))
        .await;
    assert!(deaf.terminate(Duration::from_millis(100)).await.is_err());
    assert!(deaf.exit_status().is_some(), "killed over the limit");
}

#[tokio::test]
async fn a_program_that_was_not_built_is_an_error() {
    let error = Launch::new("no-such-program").run(LIMIT).await.unwrap_err();
    assert!(error.to_string().contains("has not been built"), "{error:?}");
}

#[tokio::test]
async fn servers_over_stdio_answer_initialize() {
    for server in [mcp::everything_stdio(), mcp::time()].into_iter().flatten() {
        let answer = initialize(&server);
        assert!(answer["result"]["serverInfo"]["name"].is_string(), "{answer}");
    }
}

fn initialize(server: &StdioServer) -> Value {
    let mut child = server.command().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{}", initialize_request()).unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    drop(stdin);
    child.kill().unwrap();
    child.wait().unwrap();
    serde_json::from_str(&line).unwrap()
}

fn initialize_request() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "toolbus-testkit", "version": "0"}
    }})
}

#[tokio::test]
async fn a_server_over_http_answers_initialize_and_comes_back() {
    let Some(mut server) = mcp::everything_http().await else { return };
    let client = http_client();
    let ask = async || {
        let request = client
            .post(server.url())
            .header("accept", "application/json, text/event-stream")
            .json(&initialize_request());
        request.send().await?.error_for_status()?.text().await
    };
    assert!(ask().await.unwrap().contains("serverInfo"));
    server.crash();
    assert!(client.get(server.url()).send().await.is_err());
    server.start_again().await.unwrap();
    let answer = client.get(server.url()).send().await.unwrap();
    assert_eq!(answer.status(), 400, "a GET without a session");
}

#[tokio::test]
async fn a_collector_tells_what_it_received() {
    let Some(collector) = Collector::start().await else { return };
    assert!(collector.spans().unwrap().is_empty());
    let request = json!({"resourceSpans": [{
        "resource": {"attributes": [
            {"key": "service.name", "value": {"stringValue": "agent-host"}}
        ]},
        "scopeSpans": [{"spans": [{
            "traceId": "0af7651916cd43dd8448eb211c80319c", "spanId": "b7ad6b7169203331",
            "parentSpanId": "00f067aa0ba902b7", "name": "one\n\"name\"", "kind": 3,
            "startTimeUnixNano": "1", "endTimeUnixNano": "2",
            "attributes": [{"key": "n", "value": {"intValue": "7"}}]
        }]}]
    }]});
    let url = format!("{}/v1/traces", collector.endpoint());
    let answer = http_client().post(url).json(&request).send().await.unwrap();
    assert_eq!(answer.status(), 200);

    let spans = eventually(LIMIT, async || {
        let spans = collector.spans()?;
        ensure!(!spans.is_empty(), "no span yet");
        Ok(spans)
    })
    .await;
    assert_eq!(spans.len(), 1);
    assert_eq!(spans[0].trace_id, "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(spans[0].span_id, "b7ad6b7169203331");
    assert_eq!(spans[0].parent_id.as_deref(), Some("00f067aa0ba902b7"));
    assert_eq!(spans[0].name, "one\n\"name\"");
    assert_eq!(spans[0].service, "agent-host");
    assert_eq!(spans[0].attributes["n"], "7");
}

#[tokio::test(start_paused = true)]
async fn eventually_returns_the_first_success() {
    let mut looks = 0;
    let found = eventually(Duration::from_secs(1), async || {
        looks += 1;
        if looks < 5 { Err("not yet") } else { Ok(looks) }
    })
    .await;
    assert_eq!(found, 5);
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "not within 1s: \"never\"")]
async fn eventually_fails_with_the_last_error() {
    eventually(Duration::from_secs(1), async || Err::<(), _>("never")).await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "the first look never ended")]
async fn eventually_gives_up_a_look_that_hangs() {
    eventually(Duration::from_secs(1), async || {
        std::future::pending::<()>().await;
        Ok::<(), &str>(())
    })
    .await;
}

fn http_client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    toolbus_testkit::http_client_builder().timeout(LIMIT).build().unwrap()
}
