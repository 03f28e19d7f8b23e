//! What an engine does with its workers.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use toolbus_query::question::{Head, Jq};
use toolbus_query::{Engine, Error, Limits, Question, Value, WORKER_MODE};

use super::support::{engine, file, limits, runtime};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolbus-query-worker");
const WAIT_TIMEOUT: Duration = Duration::from_secs(20);

fn jq(filter: &str) -> Question {
    Question::Jq(Jq { filter: filter.to_owned(), null_input: true, ..Jq::default() })
}

/// The workers that have this argument.
fn workers(mark: &str) -> Vec<u32> {
    let has_mark = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|argument| argument == mark.as_bytes())
    };
    let entries = fs::read_dir("/proc").expect("it is mounted");
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(has_mark).collect()
}

/// Waits until there are so many.
fn wait_for_workers(mark: &str, count: usize) -> Vec<u32> {
    let started = Instant::now();
    loop {
        let workers = workers(mark);
        if workers.len() == count {
            return workers;
        }
        assert!(started.elapsed() < WAIT_TIMEOUT, "{} workers, not {count}", workers.len());
        // sleeps: looks again, within a limit.
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn wait_for_text(path: &str, text: &str) -> String {
    let started = Instant::now();
    loop {
        let content = fs::read_to_string(path).unwrap_or_default();
        if content.contains(text) {
            return content;
        }
        assert!(started.elapsed() < WAIT_TIMEOUT, "{path} has no {text}: {content}");
        // sleeps: looks again, within a limit.
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Asks a question without end, does something meanwhile, and drops it.
fn while_asking(mark: &str, act: impl FnOnce(u32) + Send + 'static) {
    let engine = Engine::new(PROGRAM, [WORKER_MODE, mark]).expect("a thread");
    runtime().block_on(async {
        let (question, limits) = (jq("def f: f; f"), limits());
        let asking = engine.ask(&question, Value::file(file(b"")), &limits);
        let own = mark.to_owned();
        let acting = tokio::task::spawn_blocking(move || act(wait_for_workers(&own, 1)[0]));
        tokio::select! {
            answer = asking => panic!("{answer:?}"),
            acted = acting => acted.expect("it does not panic"),
        }
    });
    wait_for_workers(mark, 0);
}

#[test]
fn a_worker_is_limited_before_it_looks() {
    while_asking("mark-limits", |worker| {
        let status = wait_for_text(&format!("/proc/{worker}/status"), "Seccomp:\t2");
        assert!(status.contains("NoNewPrivs:\t1"), "{status}");
        let limits = fs::read_to_string(format!("/proc/{worker}/limits")).expect("it is there");
        for (name, value) in [
            ("Max file size", "0"),
            ("Max core file size", "0"),
            ("Max processes", "0"),
            ("Max cpu time", "61"),
        ] {
            let line = limits.lines().find(|line| line.starts_with(name)).expect("it is listed");
            let words: Vec<_> = line[name.len()..].split_whitespace().collect();
            assert_eq!(words[0], value, "{line}");
        }
        let line = limits.lines().find(|line| line.starts_with("Max address space"));
        assert!(!line.expect("it is listed").contains("unlimited"), "{limits}");
    });
}

#[test]
fn a_worker_has_no_environment_and_shows_no_question() {
    while_asking("mark-shows", |worker| {
        assert_eq!(fs::read(format!("/proc/{worker}/environ")).expect("it is there"), b"");
        let line = fs::read(format!("/proc/{worker}/cmdline")).expect("it is there");
        let expected = [b"toolbus-query-worker", WORKER_MODE.as_bytes(), b"mark-shows", b""];
        assert_eq!(line, expected.join(&0));
    });
}

#[test]
fn a_worker_dies_with_whoever_started_it() {
    const MARK: &str = "mark-orphan";
    let (mut ours, theirs) = UnixStream::pair().expect("sockets");
    let request = format!(
        r#"{{"question":{{"kind":"jq","filter":"def f: f; f","null_input":true}},"answer_bytes":1000,
            "memory_bytes":1000000000,"cpu_seconds":3,"caller":{}}}"#,
        std::process::id()
    );
    let starting = std::thread::spawn(move || {
        let child = Command::new(PROGRAM)
            .args([WORKER_MODE, MARK])
            .stdin(file(b""))
            .stdout(Stdio::null())
            .stderr(Stdio::from(OwnedFd::from(theirs)))
            .spawn()
            .expect("it is there");
        ours.write_all(&u32::try_from(request.len()).expect("short").to_le_bytes()).expect("room");
        ours.write_all(request.as_bytes()).expect("room");
        let status = format!("/proc/{}/status", child.id());
        wait_for_text(&status, "Seccomp:\t2");
        child
    });
    // The thread that started it is gone, which is all that the kernel looks at.
    let mut child = starting.join().expect("it does not panic");
    let status = child.wait().expect("a child");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(9));
}

#[test]
fn a_worker_alone_refuses_to_answer() {
    let (mut ours, theirs) = UnixStream::pair().expect("sockets");
    let request = br#"{"question":{"kind":"head"},"answer_bytes":1000,"memory_bytes":1,"cpu_seconds":1,"caller":1}"#;
    ours.write_all(&u32::try_from(request.len()).expect("short").to_le_bytes()).expect("room");
    ours.write_all(request).expect("room");
    let mut child = Command::new(PROGRAM)
        .arg(WORKER_MODE)
        .stdin(file(b"secret"))
        .stdout(Stdio::piped())
        .stderr(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .expect("it is there");
    let mut reply = String::new();
    child.stdout.take().expect("a pipe").read_to_string(&mut reply).expect("text");
    assert_eq!(reply, r#"{"failed":"limiting itself: its caller is gone"}"#);
    child.wait().expect("a child");
}

#[test]
fn workers_are_bounded_in_number() {
    let engine = Engine::with_workers(PROGRAM, [WORKER_MODE, "mark-busy"], 1).expect("a thread");
    runtime().block_on(async {
        let (endless, short) = (jq("def f: f; f"), jq("1"));
        let (long, brief) =
            (limits(), Limits { timeout: Duration::from_millis(300), ..Limits::default() });
        let first = engine.ask(&endless, Value::file(file(b"")), &long);
        let second = async {
            wait_for_workers("mark-busy", 1);
            engine.ask(&short, Value::file(file(b"")), &brief).await
        };
        tokio::select! {
            // The first must have its worker when the second waits for that and blocks.
            biased;
            answer = first => panic!("{answer:?}"),
            answer = second => assert!(matches!(answer, Err(Error::Busy)), "{answer:?}"),
        }
        let answer = engine.ask(&short, Value::file(file(b"")), &long).await.expect("a place");
        assert_eq!(answer.text, "1\n");
    });
}

#[test]
fn a_stream_is_read_no_further_than_needed() {
    let (engine, limits) = (engine(), limits());
    let question = Question::Head(Head { lines: Some(1), bytes: None });
    let endless = tokio::io::repeat(b'\n');
    let answer = runtime().block_on(engine.ask(&question, Value::stream(endless), &limits));
    assert_eq!(answer.expect("its first line").text, "\n");
}

#[test]
fn a_stream_that_fails_is_no_end() {
    let stream = tokio_stream_that_fails();
    let answer =
        runtime().block_on(engine().ask(&jq("[inputs]"), Value::stream(stream), &limits()));
    assert!(matches!(answer, Err(Error::Failed { source: Some(_), .. })), "{answer:?}");
}

/// Bytes, and then an error.
fn tokio_stream_that_fails() -> impl tokio::io::AsyncRead + Send + 'static {
    struct Fails;
    impl tokio::io::AsyncRead for Fails {
        fn poll_read(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
            _: &mut tokio::io::ReadBuf<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            std::task::Poll::Ready(Err(std::io::ErrorKind::ConnectionReset.into()))
        }
    }
    tokio::io::AsyncReadExt::chain(std::io::Cursor::new(b"1 2".to_vec()), Fails)
}

#[test]
fn a_stream_that_says_nothing_is_late() {
    let limits = Limits { timeout: Duration::from_millis(500), ..Limits::default() };
    let (_open, silent) = tokio::io::duplex(16);
    let question = Question::Head(Head::default());
    let answer = runtime().block_on(engine().ask(&question, Value::stream(silent), &limits));
    assert!(matches!(answer, Err(Error::Timeout { .. })), "{answer:?}");
}

#[test]
fn a_program_that_is_not_there_is_told() {
    let engine = Engine::new("/nowhere/toolbus", [WORKER_MODE]).expect("a thread");
    let answer = runtime().block_on(engine.ask(&jq("1"), Value::file(file(b"")), &limits()));
    let Err(Error::Failed { source: Some(source), .. }) = answer else { panic!("{answer:?}") };
    assert_eq!(source.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn the_place_of_an_open_file_stays() {
    let shared = file(b"one\ntwo\n");
    let question = Question::Head(Head::default());
    for _ in 0..2 {
        let value = Value::file(shared.try_clone().expect("a descriptor"));
        let answer = runtime().block_on(engine().ask(&question, value, &limits()));
        assert_eq!(answer.expect("a head").text, "one\ntwo\n");
    }
}
