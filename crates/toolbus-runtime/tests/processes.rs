//! Whole programs as processes of their own: exit codes, signals, what they write, what they
//! export.
//!
//! The program is this test binary itself, started again with `TEST_WORK` naming what it does; it
//! then runs `a_program_prints_its_settings` and nothing else.

#![expect(clippy::unwrap_used, reason = "what a test cannot do is its failure")]

#[path = "processes/collector.rs"]
mod collector;
#[path = "processes/program.rs"]
mod program;

use std::time::{Duration, Instant};

use collector::Collector;
use program::Run;
use rustix::process::Signal;

/// How long anything may take that should take a moment.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_program_prints_its_settings() {
    if let Some(work) = program::work_of_this_process() {
        program::main(&work);
    }
    let done = Run::new("nothing")
        .arguments("--print-config --bus amqp://user:hunter2@host")
        .variable("TOOLBUS_NAME", "one")
        .variable("TOOLBUS_NAEM", "two")
        .done()
        .await;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.contains("url = \"amqp://user:***@host\"  # --bus\n"), "{done:?}");
    assert!(done.stdout.contains("name = \"one\"  # TOOLBUS_NAME\n"), "{done:?}");
    assert_eq!(
        done.stderr,
        "warning: TOOLBUS_NAEM is ignored: no setting has this name; did you mean TOOLBUS_NAME?\n"
    );
}

#[tokio::test]
async fn mistakes_are_told_at_once_and_exit_with_2() {
    let done = Run::new("nothing")
        .arguments("--bus http://host --health 8080")
        .variable("TOOLBUS_SHUTDOWN__GRACE", "soon")
        .variable("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317")
        .variable("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        .done()
        .await;
    assert_eq!(done.code, Some(2), "{done:?}");
    let places: Vec<&str> =
        done.stderr.lines().filter_map(|l| l.trim().split(": ").next()).collect();
    assert_eq!(
        places,
        ["error", "OTEL_EXPORTER_OTLP_PROTOCOL", "bus.url", "health.address", "shutdown.grace"],
        "{done:?}"
    );
}

/// What it says for people and in a log.
const FAILURE: &str = "error: cannot join the bus\n  because: connection refused\n";

#[tokio::test]
async fn a_failure_before_anything_is_served_is_text_in_any_format() {
    for format in ["human", "json"] {
        let failing = Run::new("fail")
            .variable("TOOLBUS_LOG__FORMAT", format)
            .variable("TOOLBUS_LOG", "error");
        let done = failing.done().await;
        assert_eq!(done.code, Some(1), "{done:?}");
        assert_eq!(done.stderr, FAILURE);
    }
}

#[tokio::test]
async fn a_failure_while_serving_is_a_line_of_the_log() {
    let failing = || Run::new("fail while serving").variable("TOOLBUS_LOG", "error");
    let done = failing().variable("TOOLBUS_LOG__FORMAT", "human").done().await;
    assert_eq!(done.code, Some(1), "{done:?}");
    assert_eq!(done.stderr, FAILURE);

    let done = failing().done().await;
    assert_eq!(done.code, Some(1), "{done:?}");
    let line: serde_json::Value = serde_json::from_str(&done.stderr).unwrap();
    assert_eq!(line["error"], "cannot join the bus: connection refused");
    assert_eq!(line["level"], "ERROR");
}

#[tokio::test]
async fn colour_is_where_it_is_forced_and_not_forbidden() {
    let failing = || Run::new("fail").variable("CLICOLOR_FORCE", "1");
    let done = failing().done().await;
    assert!(done.stderr.contains("\u{1b}[1m\u{1b}[31merror:\u{1b}[0m cannot join"), "{done:?}");
    let done = failing().variable("NO_COLOR", "1").done().await;
    assert!(!done.stderr.contains('\u{1b}'), "{done:?}");
}

#[tokio::test]
async fn a_service_says_last_that_it_has_stopped() {
    let done = Run::new("nothing").done().await;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(done.stderr.matches("service stopped").count(), 1, "{done:?}");
    assert!(done.stderr.lines().last().unwrap().contains("service stopped"), "{done:?}");

    let done = Run::new("fail").done().await;
    assert!(!done.stderr.contains("service stopped"), "{done:?}");
}

/// Charts and files set the filter of the services, in the environment that commands have too.
#[tokio::test]
async fn a_command_goes_by_no_filter_that_is_meant_for_services() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("toolbus.toml");
    std::fs::write(&file, "[log]\nfilter = \"info\"\n").unwrap();
    let of_file = format!("--config {}", file.display());

    let lines = async |run: Run| {
        let done = run.done().await;
        assert_eq!(done.code, Some(0), "{done:?}");
        (done.stderr.contains("a line"), done.stderr.contains("mind this"))
    };
    let warning_alone = (false, true);
    assert_eq!(lines(Run::new("warn")).await, warning_alone);
    let run = Run::new("warn").variable("TOOLBUS_LOG__FILTER", "info");
    assert_eq!(lines(run).await, warning_alone);
    assert_eq!(lines(Run::new("warn").arguments(&of_file)).await, warning_alone);

    let both = (true, true);
    assert_eq!(lines(Run::new("warn").variable("TOOLBUS_LOG", "info")).await, both);
    assert_eq!(lines(Run::new("warn").variable("RUST_LOG", "info")).await, both);
    assert_eq!(lines(Run::new("warn").arguments("--log info")).await, both);
}

#[tokio::test]
async fn a_quiet_program_warns_of_nothing() {
    let quiet = |arguments: &str| {
        Run::new("warn")
            .arguments(arguments)
            .variable("TOOLBUS_LOG", "info")
            .variable("TOOLBUS_NAEM", "two")
    };
    let done = quiet("--quiet").done().await;
    assert_eq!((done.code, &*done.stderr), (Some(0), ""), "{done:?}");
    let done = quiet("-q --print-config").done().await;
    assert_eq!((done.code, &*done.stderr), (Some(0), ""), "{done:?}");
    assert!(done.stdout.contains("filter = \"error\"  # --quiet\n"), "{done:?}");
}

/// A text of somebody else is not taken for lines of the program's own.
#[tokio::test]
async fn a_log_line_for_people_is_one_line() {
    let quoting =
        Run::new("quote").variable("TOOLBUS_LOG__FORMAT", "human").variable("TOOLBUS_LOG", "warn");
    let done = quoting.done().await;
    assert_eq!(done.code, Some(0), "{done:?}");
    let lines: Vec<&str> = done.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "{done:?}");
    assert!(lines[0].ends_with(r"quoting\nsomebody text=up\r\nWARN all is down"), "{done:?}");
}

#[tokio::test]
async fn a_service_is_ready_until_it_is_told_to_stop() {
    let process = Run::new("serve").arguments("--health 127.0.0.1:0").start();
    let health = process.health().await;
    health.waits_for("/readyz", 200).await;
    process.signal(Signal::TERM);
    health.waits_for("/readyz", 503).await;
    let done = process.done().await;
    assert_eq!(done.code, Some(0), "{done:?}");
}

#[tokio::test]
async fn a_port_in_use_is_a_failure_that_names_it() {
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap();
    let done = Run::new("serve").arguments(&format!("--health {address}")).done().await;
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.starts_with(&format!("error: cannot serve health at {address}\n")));
}

#[tokio::test]
async fn a_second_signal_ends_even_work_that_blocks() {
    let process = Run::new("block").start();
    process.waits_for_line("blocking every thread").await;
    process.signal(Signal::INT);
    process.waits_for_line("stopping").await;
    let second = Instant::now();
    process.signal(Signal::TERM);
    let done = process.done().await;
    assert_eq!(done.code, Some(143), "{done:?}");
    assert!(second.elapsed() < PATIENCE);
}

#[tokio::test]
async fn work_over_its_grace_is_cut_off() {
    let process = Run::new("ignore").variable("TOOLBUS_SHUTDOWN__GRACE", "50ms").start();
    process.waits_for_line("started").await;
    process.signal(Signal::TERM);
    let done = process.done().await;
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stderr.contains("shutdown grace is over"), "{done:?}");
}

#[tokio::test]
async fn a_closed_standard_error_is_no_reason_to_panic() {
    let done = Run::new("nothing").without_stderr().variable("TOOLBUS_LOG", "trace").done().await;
    assert_eq!(done.code, Some(0), "{done:?}");
}

#[tokio::test]
async fn a_short_command_exports_all_it_recorded() {
    let collector = Collector::start(200).await;
    let done = Run::new("record")
        .arguments("--name one")
        .variable("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url())
        .variable("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20hunter2")
        .variable("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
        .variable("TOOLBUS_LOG", "trace")
        .variable("TOOLBUS_LOG__FORMAT", "json")
        .done()
        .await;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(!done.stderr.contains("hunter2"), "{done:?}");

    let received = collector.received();
    assert!(received.authorizations.iter().all(|value| value == "Bearer hunter2"));
    let spans: Vec<_> = received.spans.iter().map(|span| span.name.as_str()).collect();
    assert_eq!(spans, ["inner", "outer"], "a library's span is not ours to export");
    let [inner, outer] = &received.spans[..] else { unreachable!() };
    assert_eq!(inner.trace_id, outer.trace_id);
    assert_eq!(inner.parent_span_id, outer.span_id);

    let said = received.logs.iter().find(|log| log.body == "said within the span").unwrap();
    assert_eq!(said.trace_id, inner.trace_id);
    let mut lines = done.stderr.lines().filter(|line| line.contains("said within the span"));
    let line: serde_json::Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(line["trace_id"], hexadecimal(&inner.trace_id));
    assert_eq!(line["span_id"], hexadecimal(&inner.span_id));

    assert_eq!(received.metrics["test.calls"], 3);
    assert_eq!(received.metrics["toolbus.telemetry.export.failures"], 0);
    for (key, value) in [
        ("service.name", "test-program"),
        ("service.version", "1.2.3"),
        ("toolbus.name", "one"),
        ("deployment.environment.name", "test"),
    ] {
        assert_eq!(received.resource.get(key).map(String::as_str), Some(value), "{key}");
    }
    assert!(received.resource.contains_key("service.instance.id"));
}

fn hexadecimal(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn each_signal_goes_where_its_own_variable_says() {
    let (all, traces) = (Collector::start(200).await, Collector::start(200).await);
    let done = Run::new("record")
        .variable("OTEL_EXPORTER_OTLP_ENDPOINT", &all.url())
        .variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &format!("{}/v1/traces", traces.url()))
        .variable("OTEL_METRICS_EXPORTER", "none")
        .variable("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
        .variable("OTEL_SERVICE_NAME", "renamed")
        .done()
        .await;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(traces.received().spans.len(), 2);
    assert!(traces.received().compressed);
    assert_eq!(traces.received().resource["service.name"], "renamed");
    let all = all.received();
    assert!(all.spans.is_empty());
    assert!(all.metrics.is_empty());
    assert!(!all.logs.is_empty());
}

#[tokio::test]
async fn disabled_telemetry_exports_nothing() {
    let collector = Collector::start(200).await;
    let done = Run::new("record")
        .variable("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url())
        .variable("OTEL_SDK_DISABLED", "true")
        .done()
        .await;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_eq!(collector.requests(), 0);
}

#[tokio::test]
async fn a_service_exports_while_it_runs_and_never_its_own_exporting() {
    let collector = Collector::start(200).await;
    let process = Run::new("serve")
        .variable("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url())
        .variable("OTEL_BLRP_SCHEDULE_DELAY", "50")
        .variable("TOOLBUS_LOG", "trace")
        .start();
    let started = Instant::now();
    while collector.received().logs.is_empty() {
        assert!(started.elapsed() < PATIENCE, "nothing was exported");
        // sleeps: looks again, within a limit.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    process.signal(Signal::TERM);
    assert_eq!(process.done().await.code, Some(0));
    // What the first request made the HTTP stack say would have come with the later ones.
    let logs = collector.received().logs;
    assert!(logs.iter().any(|log| log.body == "stopping the service"));
    let noisy = ["hyper", "h2", "reqwest", "opentelemetry"];
    let is_noise = |log: &&collector::Log| noisy.iter().any(|name| log.target.starts_with(name));
    let noise: Vec<_> = logs.iter().filter(is_noise).map(|log| &log.target).collect();
    assert!(noise.is_empty(), "{noise:?}");
}

#[tokio::test]
async fn a_collector_that_is_gone_costs_a_warning_and_no_time() {
    let gone = free_address().await;
    let started = Instant::now();
    let done = Run::new("record")
        .variable("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("http://me:hunter2@{gone}"))
        .variable("OTEL_BSP_SCHEDULE_DELAY", "10")
        .variable("OTEL_BLRP_SCHEDULE_DELAY", "10")
        .done()
        .await;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(started.elapsed() < PATIENCE);
    assert!(!done.stderr.contains("hunter2"), "{done:?}");
    assert_eq!(done.stderr.matches("telemetry is not exported").count(), 1, "{done:?}");
    assert!(done.stderr.contains("Connection refused"), "{done:?}");
}

#[tokio::test]
async fn a_collector_that_comes_back_is_told_and_gets_what_comes_then() {
    let address = free_address().await;
    let process = Run::new("chat")
        .variable("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("http://{address}"))
        .variable("OTEL_BSP_SCHEDULE_DELAY", "20")
        .variable("OTEL_BLRP_SCHEDULE_DELAY", "20")
        .variable("OTEL_METRIC_EXPORT_INTERVAL", "50")
        .start();
    process.waits_for_line("telemetry is not exported").await;
    let collector = Collector::start_at(&address.to_string(), 200).await;
    process.waits_for_line("telemetry is exported again").await;
    let started = Instant::now();
    while collector.received().spans.is_empty() {
        assert!(started.elapsed() < PATIENCE, "nothing was exported");
        // sleeps: looks again, within a limit.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    process.signal(Signal::TERM);
    let done = process.done().await;
    assert_eq!(done.code, Some(0), "{done:?}");
    for said in ["telemetry is not exported", "telemetry is exported again"] {
        assert_eq!(done.stderr.matches(said).count(), 1, "{done:?}");
    }
}

#[tokio::test]
async fn what_no_collector_takes_does_not_fill_the_memory() {
    // It listens and never answers, so that every request holds what it carries.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let done = Run::new("flood")
        .variable(
            "OTEL_EXPORTER_OTLP_ENDPOINT",
            &format!("http://{}", silent.local_addr().unwrap()),
        )
        .variable("OTEL_BSP_SCHEDULE_DELAY", "10")
        .variable("TOOLBUS_LOG", "error")
        .done()
        .await;
    assert_eq!(done.code, Some(0), "{done:?}");
    // 100,000 spans of 1 KiB were made; 2048 of them wait, and some are on their way.
    let peak: u64 = done.stdout.trim().parse().unwrap();
    assert!(peak < 80 << 10, "{peak} KiB");
}

/// An address where nobody listens.
async fn free_address() -> std::net::SocketAddr {
    tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap()
}

#[tokio::test]
async fn a_collector_that_never_answers_does_not_hold_the_exit() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    let started = Instant::now();
    let done = Run::new("record").variable("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint).done().await;
    assert_eq!(done.code, Some(0), "{done:?}");
    // The flush is bounded to two seconds; one request alone would take ten.
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    assert!(done.stderr.contains("was not exported in time"), "{done:?}");
}

#[tokio::test]
async fn a_collector_that_refuses_is_named_with_its_status() {
    let collector = Collector::start(401).await;
    let endpoint = collector.url();
    let done = Run::new("record").variable("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint).done().await;
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stderr.contains("HTTP status 401"), "{done:?}");
}
