//! What is said about `OTEL_` variables. Exporting is tested with whole processes.

use insta::assert_snapshot;

use super::*;
use toolbus_config::Errors;

fn mistakes_of(endpoint: Option<&str>, variables: &[(&str, &str)]) -> String {
    let export = TelemetrySettings {
        endpoint: endpoint.map(|url| url.parse().unwrap()),
        ..TelemetrySettings::default()
    };
    let environment: Environment =
        variables.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    let found = Errors::of(find_mistakes(&export, &environment));
    found.map_or_else(|errors| errors.to_string(), |()| String::new())
}

#[test]
fn what_is_not_supported_is_told() {
    let variables = &[
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL", "http/protobuf"),
        ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "collector:4318"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"),
        ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/etc/ca.pem"),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x-tenant=a,Authorization: Bearer hunter2"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
    ];

    let told = mistakes_of(Some("http://collector:4318"), variables);
    assert!(!told.contains("hunter2"));
    assert_snapshot!(told, @r#"
    the configuration has 6 mistakes
      OTEL_EXPORTER_OTLP_CERTIFICATE: not supported; SSL_CERT_FILE names a file of certificates to trust
      OTEL_EXPORTER_OTLP_COMPRESSION: `zstd` is not supported, only `gzip` and `none` are
      OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: not the URL of an HTTP endpoint: its scheme must be http or https
      OTEL_EXPORTER_OTLP_PROTOCOL: `grpc` is not supported, only `http/protobuf` is (usually at port 4318)
      OTEL_EXPORTER_OTLP_TIMEOUT: not a number of milliseconds
      OTEL_EXPORTER_OTLP_TRACES_HEADERS: entry 2 is not of the form name=value
    "#);
}

#[test]
fn what_is_not_used_is_not_checked() {
    let grpc = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
    assert_eq!(mistakes_of(None, &[grpc]), "");
    let none = ["OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", "OTEL_LOGS_EXPORTER"];
    let [traces, metrics, logs] = none.map(|name| (name, "none"));
    let endpoint = Some("http://collector:4318");
    assert_eq!(mistakes_of(endpoint, &[grpc, traces, metrics, logs]), "");
    assert_ne!(mistakes_of(endpoint, &[grpc, traces, metrics]), "");
}

#[test]
fn what_is_right_is_no_mistake() {
    let variables = &[
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20x, x-tenant=a,"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "500"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://user:pass@collector/traces"),
    ];
    assert_eq!(mistakes_of(Some("http://collector:4318"), variables), "");
}

#[test]
fn libraries_are_quiet_unless_they_are_asked_for() {
    let check = |directives: Option<&str>, expected: &str| {
        let identity =
            Identity { program: "p", version: "0", instance: "i".to_owned(), name: None };
        let log = LogSettings {
            filter: directives.map(|text| text.parse().unwrap()),
            ..LogSettings::default()
        };
        let options = Options {
            identity: &identity,
            log: &log,
            default_level: LevelFilter::INFO,
            default_format: LogFormat::Json,
            export: &TelemetrySettings::default(),
            environment: &std::iter::empty().collect(),
        };
        assert_eq!(log_filter(&options, LevelFilter::INFO).to_string(), expected);
    };

    let parts = "rmcp::transport::common::client_side_sse=error,\
        rmcp::transport::streamable_http_server=off,rmcp::transport::worker=off,rmcp::service=off";
    check(None, &format!("{parts},lapin=off,rmcp=warn,info"));
    check(Some("debug"), &format!("{parts},lapin=off,rmcp=warn,debug"));
    check(Some("warn,rmcp=trace"), &format!("{parts},lapin=off,rmcp=trace,warn"));
}
