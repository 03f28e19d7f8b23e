//! Names that come from elsewhere: how their values become ours.

use super::*;
use crate::{Loaded, Settings, SettingsFile, Sources, load};

#[derive(Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct All {
    bus: BusSettings,
    health: HealthSettings,
    log: LogSettings,
    telemetry: TelemetrySettings,
    shutdown: ShutdownSettings,
}

impl Settings for All {}

fn loaded(environment: &[(&str, &str)]) -> Result<Loaded<All>, String> {
    let environment: Environment =
        environment.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    load(Sources {
        file: SettingsFile::None,
        aliases: SHARED_ALIASES,
        derived: rabbitmq_url(&environment).into_iter().collect(),
        environment: &environment,
        arguments: Vec::new(),
    })
    .map_err(|errors| errors.to_string())
}

#[test]
fn a_broker_url_is_put_together_from_its_parts() {
    let check = |environment: &[(&str, &str)], expected: Result<&str, &str>| {
        let url = loaded(environment).map(|loaded| loaded.settings.bus.url);
        match (url, expected) {
            (Ok(Some(url)), Ok(expected)) => assert_eq!(url.expose(), expected),
            (Ok(None), Ok("")) => {}
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (url, expected) => panic!("{url:?} and not {expected:?}"),
        }
    };
    const HOST: (&str, &str) = ("RabbitMq__HostName", "rabbit");
    check(&[], Ok(""));
    check(&[("RabbitMq__Password", "alone")], Ok(""));
    check(&[HOST], Ok("amqp://guest:guest@rabbit:5672/%2F"));
    check(
        &[
            HOST,
            ("RabbitMq__Port", "5673"),
            ("RabbitMq__UserName", "a@b"),
            ("RabbitMq__Password", "p/:%41 @?#"),
            ("RabbitMq__VirtualHost", "team/one"),
        ],
        Ok("amqp://a%40b:p%2F%3A%2541%20%40%3F%23@rabbit:5673/team%2Fone"),
    );
    check(&[("RABBITMQ__HOSTNAME", "::1")], Ok("amqp://guest:guest@[::1]:5672/%2F"));
    check(&[HOST, ("RabbitMq__Port", "99999")], Err("not a port from 0 to 65535 (RabbitMq__Port)"));
    check(&[("RabbitMq__HostName", "not a host")], Err("bus.url: the value is not the URL"));
}

#[test]
fn a_wrong_part_of_a_broker_url_never_shows_the_password() {
    let environment = &[("RabbitMq__HostName", "ho st"), ("RabbitMq__Password", "hunter2")];
    let error = loaded(environment).unwrap_err();
    assert!(!error.contains("hunter2"), "{error}");
}

#[test]
fn telemetry_is_read_from_the_names_of_others() {
    let check = |environment: &[(&str, &str)], enabled: bool, endpoint: Option<&str>| {
        let telemetry = loaded(environment).unwrap().settings.telemetry;
        assert_eq!(telemetry.enabled, enabled, "{environment:?}");
        assert_eq!(telemetry.endpoint.as_ref().map(HttpUrl::expose), endpoint, "{environment:?}");
    };
    check(&[], true, None);
    check(&[("OTEL_SDK_DISABLED", "true")], false, None);
    check(&[("OTEL_SDK_DISABLED", "no")], true, None);
    check(&[("Telemetry__Enabled", "False")], false, None);
    check(&[("Telemetry__Enabled", "false"), ("TOOLBUS_TELEMETRY__ENABLED", "1")], true, None);
    check(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318")], true, Some("http://c:4318/"));
    // RockBot names its collector's gRPC port; OpenTelemetry's own variable is taken at its word.
    check(&[("Telemetry__OtlpEndpoint", "http://c:4317/")], true, Some("http://c:4318/"));
    check(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317")], true, Some("http://c:4317/"));
}

#[test]
fn short_names_set_what_they_stand_for() {
    let environment = &[
        ("TOOLBUS_BUS", "amqp://h"),
        ("TOOLBUS_HEALTH", ":8080"),
        ("TOOLBUS_LOG", "debug"),
        ("RUST_LOG", "trace"),
    ];
    let loaded = loaded(environment).unwrap();
    assert_eq!(loaded.origin("bus.url").to_string(), "TOOLBUS_BUS");
    assert_eq!(loaded.settings.health.address.unwrap().to_string(), ":8080");
    assert_eq!(loaded.settings.log.filter.unwrap().as_str(), "debug");
    assert!(loaded.warnings.is_empty());
}
