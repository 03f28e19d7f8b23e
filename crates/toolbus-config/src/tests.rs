//! Layers, precedence, messages, masks and pages of a settings struct that has one of everything.

mod editing;
mod variants;

use std::collections::BTreeMap;

use insta::assert_snapshot;
use serde::Deserialize;

use super::*;
use crate::shared_settings::{BusSettings, LogSettings, SHARED_ALIASES, rabbitmq_url};

/// One of everything that settings can hold.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Demo {
    /// What this instance is called.
    name: String,
    /// Whether it is verbose | loud.
    verbose: bool,
    /// How long a call may take.
    timeout: TimeSpan,
    /// Largest body.
    body_max: ByteSize,
    /// Share of calls that are sampled.
    #[schemars(range(min = 0.0, max = 1.0))]
    ratio: f64,
    /// Agents to tell.
    agents: Vec<String>,
    /// Ports to try.
    ports: Vec<u16>,
    /// Key of the model.
    api_key: Option<Secret>,
    bus: BusSettings,
    log: LogSettings,
    /// Servers by name.
    servers: BTreeMap<String, Server>,
}

impl Default for Demo {
    fn default() -> Self {
        Self {
            name: "demo".to_owned(),
            verbose: false,
            timeout: TimeSpan::seconds(30),
            body_max: ByteSize::mebibytes(8),
            ratio: 1.0,
            agents: vec!["RockBot".to_owned()],
            ports: Vec::new(),
            api_key: None,
            bus: BusSettings::default(),
            log: LogSettings::default(),
            servers: BTreeMap::new(),
        }
    }
}

/// A server.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Server {
    /// Where it is.
    url: Option<HttpUrl>,
    /// How it is authorised.
    token: Secret,
}

impl Settings for Demo {
    fn check(&self, mistakes: &mut Mistakes<'_>) {
        if self.timeout.duration().is_zero() {
            mistakes.add("timeout", "must be more than nothing");
        }
        if self.agents.is_empty() {
            mistakes.add("agents", "must name one agent at least");
        }
    }
}

const ALIASES: &[Alias] = &[
    Alias::milliseconds("McpBridge__DefaultTimeoutMs", "timeout"),
    Alias::new("Elsewhere__Key", "section.of.another.service"),
];

/// What a person gives: file, environment, arguments.
#[derive(Default)]
struct Given<'a> {
    file: &'a str,
    environment: &'a [(&'a str, &'a str)],
    arguments: Vec<Setting>,
}

impl Given<'_> {
    fn load(self) -> Result<Loaded<Demo>, Errors> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("toolbus.toml");
        std::fs::write(&path, self.file).unwrap();
        let environment: Environment =
            self.environment.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        load(Sources {
            file: SettingsFile::IfPresent(path),
            aliases: &[SHARED_ALIASES, ALIASES].concat(),
            derived: rabbitmq_url(&environment).into_iter().collect(),
            environment: &environment,
            arguments: self.arguments,
        })
    }
}

/// The text without the folder of the test's file.
fn without_folder(text: &str) -> String {
    let folder = std::env::temp_dir().display().to_string();
    let cut = |line: &str| match (line.find(&folder), line.find("toolbus.toml")) {
        (Some(start), Some(end)) => format!("{}{}", &line[..start], &line[end..]),
        _ => line.to_owned(),
    };
    text.lines().map(cut).collect::<Vec<_>>().join("\n")
}

fn mistakes_of(given: Given<'_>) -> String {
    without_folder(&given.load().unwrap_err().to_string())
}

#[test]
fn nothing_given_means_the_defaults() {
    let loaded = Given::default().load().unwrap();
    assert_eq!(loaded.settings, Demo::default());
    assert_eq!(loaded.origin("bus.prefetch"), Origin::Default);
    assert!(loaded.warnings.is_empty());
}

#[test]
fn each_layer_wins_over_those_before_it() {
    let file = "[bus]\nprefetch = 2";
    let alias = ("RabbitMq__PrefetchCount", "3");
    let ours = ("TOOLBUS_BUS__PREFETCH", "4");
    let flag = || vec![Setting::text("bus.prefetch", "5", "--prefetch")];
    let check = |given: Given<'_>, expected: u16, origin: &str| {
        let loaded = given.load().unwrap();
        assert_eq!(loaded.settings.bus.prefetch.get(), expected);
        assert!(loaded.origin("bus.prefetch").to_string().ends_with(origin), "{origin}");
        // What a layer does not name stays as the layers below it have it.
        assert_eq!(loaded.settings.bus.exchange, "rockbot");
    };
    check(Given::default(), 10, "default");
    check(Given { file, ..Given::default() }, 2, "toolbus.toml:2");
    check(Given { file, environment: &[alias], ..Given::default() }, 3, "RabbitMq__PrefetchCount");
    check(
        Given { file, environment: &[alias, ours], ..Given::default() },
        4,
        "TOOLBUS_BUS__PREFETCH",
    );
    check(Given { file, environment: &[alias, ours], arguments: flag() }, 5, "--prefetch");
}

#[test]
fn the_short_name_of_the_bus_lies_between_the_alias_and_the_long_name() {
    let alias = ("RabbitMq__HostName", "rabbit");
    let short = ("TOOLBUS_BUS", "amqp://short");
    let long = ("TOOLBUS_BUS__URL", "amqp://long");
    let check = |environment: &[(&str, &str)], expected: &str, origin: &str| {
        let loaded = Given { environment, ..Given::default() }.load().unwrap();
        assert_eq!(loaded.settings.bus.url.as_ref().unwrap().expose(), expected);
        assert_eq!(loaded.origin("bus.url").to_string(), origin);
    };
    check(&[alias], "amqp://guest:guest@rabbit:5672/%2F", "RabbitMq__HostName");
    check(&[alias, short], "amqp://short", "TOOLBUS_BUS");
    check(&[long, alias, short], "amqp://long", "TOOLBUS_BUS__URL");
}

#[test]
fn environment_texts_are_read_as_their_types() {
    let environment = &[
        ("TOOLBUS_NAME", "007"),
        ("TOOLBUS_VERBOSE", "True"),
        ("TOOLBUS_TIMEOUT", "1500ms"),
        ("TOOLBUS_BODY_MAX", "64KiB"),
        ("TOOLBUS_RATIO", "0.25"),
        ("TOOLBUS_AGENTS", "RockBot, Other"),
        ("TOOLBUS_PORTS", "[80, 443]"),
        ("TOOLBUS_API_KEY", "sk-1"),
        ("TOOLBUS_SERVERS__Todo__URL", "http://todo/"),
        ("TOOLBUS_BUS__QUEUE_PROFILE", "upstream-n"),
        ("TOOLBUS_BUS__EXCHANGE", ""),
    ];
    let settings = Given { environment, ..Given::default() }.load().unwrap().settings;
    let server = Server { url: Some("http://todo/".parse().unwrap()), ..Server::default() };
    let expected = Demo {
        name: "007".to_owned(),
        verbose: true,
        timeout: TimeSpan::milliseconds(1500),
        body_max: ByteSize::of_bytes(64 << 10),
        ratio: 0.25,
        agents: vec!["RockBot".to_owned(), "Other".to_owned()],
        ports: vec![80, 443],
        api_key: Some(Secret::from("sk-1".to_owned())),
        servers: BTreeMap::from([("Todo".to_owned(), server)]),
        bus: BusSettings {
            queue_profile: crate::shared_settings::QueueProfile::UpstreamN,
            ..BusSettings::default()
        },
        ..Demo::default()
    };
    assert_eq!(settings, expected);
}

#[test]
fn tables_merge_and_lists_replace() {
    let loaded = Given {
        file: "agents = ['a', 'b']\n[servers.one]\nurl = 'http://one'\ntoken = 't'",
        environment: &[("TOOLBUS_AGENTS", "c"), ("TOOLBUS_SERVERS__one__URL", "http://new")],
        ..Given::default()
    };
    let loaded = loaded.load().unwrap();
    assert_eq!(loaded.origin("agents[1]").to_string(), "TOOLBUS_AGENTS");
    let settings = loaded.settings;
    assert_eq!(settings.agents, ["c"]);
    assert_eq!(settings.servers["one"].url.as_ref().unwrap().expose(), "http://new/");
    assert_eq!(settings.servers["one"].token.expose(), "t");
}

#[test]
fn aliases_of_other_services_are_ignored_and_milliseconds_understood() {
    let environment = &[("mcpbridge__defaulttimeoutms", "60000"), ("Elsewhere__Key", "x")];
    let loaded = Given { environment, ..Given::default() }.load().unwrap();
    assert_eq!(loaded.settings.timeout, TimeSpan::seconds(60));
    assert_eq!(loaded.origin("timeout").to_string(), "McpBridge__DefaultTimeoutMs");
    assert!(loaded.warnings.is_empty());
}

#[test]
fn unknown_names_of_ours_are_warnings() {
    let environment = &[
        ("TOOLBUS_BUS__PREFECH", "1"),
        ("TOOLBUS_AGENT_HOST_SERVICE_HOST", "10.0.0.1"),
        ("TOOLBUS_CONFIG", "read elsewhere"),
        ("PATH", "/bin"),
    ];
    let loaded = Given { environment, ..Given::default() }.load().unwrap();
    assert_eq!(
        loaded.warnings,
        [
            "TOOLBUS_AGENT_HOST_SERVICE_HOST is ignored: no setting has this name",
            "TOOLBUS_BUS__PREFECH is ignored: no setting has this name; did you mean \
             TOOLBUS_BUS__PREFETCH?",
        ]
    );
}

#[test]
fn every_mistake_is_reported_at_once() {
    let given = Given {
        file: r#"
            name = 5
            verbos = true
            ports = [80, "http", 70000]
            ratio = 1.5

            [bus]
            url = "http://user:hunter2@host"
            exchange = ""
            colour = "blue"

            [servers.todo]
            url = "ftp://me:hunter2@host/"
            token = 12345
        "#,
        environment: &[
            ("TOOLBUS_BUS__PREFETCH", "ten"),
            ("TOOLBUS_TIMEOUT", "30"),
            ("TOOLBUS_BODY_MAX", "8 parsecs"),
            ("TOOLBUS_LOG", "toolbus=loud"),
            ("TOOLBUS_VERBOSE", "perhaps"),
            ("TOOLBUS_SERVERS__other", "x"),
            ("RabbitMq__HostName", "rabbit"),
            ("RabbitMq__Port", "many"),
        ],
        arguments: vec![Setting::text("bus.queue_profile", "upstream-x", "--queue-profile")],
    };
    assert_snapshot!(mistakes_of(given), @r#"
    the configuration has 18 mistakes
      body_max: "8 parsecs" is not a size: its unit is none of GiB, MiB, KiB, B, GB, MB, kB; for example 64KiB, 8MiB, 1GiB (TOOLBUS_BODY_MAX)
      bus.colour: unknown key, known here: url, password_file, exchange, dead_letter_exchange, prefetch, queue_profile (toolbus.toml:10)
      bus.exchange: must not be empty (toolbus.toml:9)
      bus.prefetch: "ten" is not a whole number (TOOLBUS_BUS__PREFETCH)
      bus.queue_profile: "upstream-x" is not one of "upstream-m", "upstream-n" (--queue-profile)
      bus.url: not a port from 0 to 65535 (RabbitMq__Port)
      bus.url: the value is not the URL of a broker: its scheme must be amqp or amqps; for example amqp://user:password@host:5672/vhost (toolbus.toml:8)
      log.filter: "toolbus=loud" is not a log filter: error parsing level filter: expected one of "off", "error", "warn", "info", "debug", "trace", or a number 0-5; for example debug, info,toolbus_bus=debug (TOOLBUS_LOG)
      name: 5 is not a text (toolbus.toml:2)
      ports[1]: "http" is not a whole number (toolbus.toml:4)
      ports[2]: 70000 is more than 65535 (toolbus.toml:4)
      ratio: 1.5 is more than 1.0 (toolbus.toml:5)
      servers.other: the value is not a table of url, token (TOOLBUS_SERVERS__other)
      servers.todo.token: the value is not a text (toolbus.toml:14)
      servers.todo.url: the value is not the URL of an HTTP endpoint: its scheme must be http or https; for example http://collector:4318 (toolbus.toml:13)
      timeout: "30" is not a duration: it has no unit (d, h, m, s, ms); for example 250ms, 30s, 5m (TOOLBUS_TIMEOUT)
      verbos: unknown key, did you mean `verbose`? (toolbus.toml:3)
      verbose: "perhaps" is not true or false (TOOLBUS_VERBOSE)
    "#);
}

/// A struct whose author forgot what it should say of itself.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
struct Careless {
    #[serde(default)]
    inner: Vec<CarelessItem>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
struct CarelessItem {
    key: String,
    /// Documented variants have a schema each.
    level: Option<CarelessLevel>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum CarelessLevel {
    /// Not much.
    Low,
    High,
}

impl Settings for Careless {}

#[test]
fn what_a_struct_forgets_to_say_is_checked_all_the_same() {
    let environment = [("TOOLBUS_INNER", r#"[{"kee": "a", "level": "middle"}, {"key": "b"}]"#)];
    let environment: Environment =
        environment.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
    let errors = load::<Careless>(Sources {
        file: SettingsFile::None,
        aliases: &[],
        derived: Vec::new(),
        environment: &environment,
        arguments: Vec::new(),
    });
    assert_snapshot!(errors.unwrap_err().to_string(), @r#"
    the configuration has 3 mistakes
      inner[0]: "key" is missing (TOOLBUS_INNER)
      inner[0].kee: unknown key, did you mean `key`? (TOOLBUS_INNER)
      inner[0].level: "middle" is not one of "high", "low" (TOOLBUS_INNER)
    "#);
}

#[test]
fn rules_between_fields_are_reported_with_their_origin() {
    let given = Given {
        file: "agents = []",
        environment: &[("TOOLBUS_TIMEOUT", "0s")],
        ..Given::default()
    };
    assert_snapshot!(mistakes_of(given), @r#"
    the configuration has 2 mistakes
      agents: must name one agent at least (toolbus.toml:1)
      timeout: must be more than nothing (TOOLBUS_TIMEOUT)
    "#);
}

#[test]
fn syntax_errors_have_line_and_column_and_hide_no_mistake_elsewhere() {
    let given = Given {
        file: "name = \"fine\"\nverbose = maybe\n[bus\nprefetch = 3\n",
        environment: &[("TOOLBUS_RATIO", "2")],
        ..Given::default()
    };
    assert_snapshot!(mistakes_of(given), @r#"
    the configuration has 3 mistakes
      toolbus.toml:2:11: string values must be quoted, expected literal string
      toolbus.toml:3:5: unclosed table, expected `]`
      ratio: 2.0 is more than 1.0 (TOOLBUS_RATIO)
    "#);
}

#[test]
fn a_file_that_was_named_must_be_there() {
    let environment = Environment::default();
    let path = std::path::PathBuf::from("/nonexistent/toolbus.toml");
    let check = |file: SettingsFile| {
        load::<Demo>(Sources {
            file,
            aliases: &[],
            derived: Vec::new(),
            environment: &environment,
            arguments: Vec::new(),
        })
    };
    let error = check(SettingsFile::Required { path: path.clone(), named_by: "--config" });
    assert_snapshot!(error.unwrap_err().to_string(), @r#"
    the configuration has a mistake
      /nonexistent/toolbus.toml: cannot be read: No such file or directory (os error 2) (--config)
    "#);
    assert!(check(SettingsFile::IfPresent(path)).is_ok());
    assert!(check(SettingsFile::None).is_ok());
}

#[test]
fn a_file_that_is_too_large_is_not_read() {
    let file = "#".repeat((1 << 20) + 1);
    let error = mistakes_of(Given { file: &file, ..Given::default() });
    assert!(error.contains("more than 1048576 bytes"), "{error}");
}

#[test]
fn a_file_that_has_too_much_is_refused() {
    let check = |file: &str, expected: &str| {
        let mistakes = mistakes_of(Given { file, ..Given::default() });
        let expected = format!("the configuration has a mistake\n  toolbus.toml: {expected}");
        assert_eq!(mistakes, expected);
    };
    let deep = "is nested more than 64 deep";
    let path = ["a"; 60].join(".");
    check(&format!("{path} = {{ {path} = 1 }}"), deep);
    let tables = format!("{{ {path} = ").repeat(70);
    check(&format!("x = [{tables}1{}]", "}".repeat(70)), deep);
    let zeros = "0, ".repeat(16 << 10);
    check(&format!("ports = [{zeros}]"), "has more than 16384 values");
    let marks = "has more than 131072 lines, dots, commas, brackets and equals signs";
    check(&format!("ports = [{}]", "0,".repeat(160 << 10)), marks);
    check(&"[a]\n".repeat(50 << 10), marks);
}

#[test]
fn of_many_mistakes_in_the_syntax_the_first_are_told() {
    let file: String = (0..300).map(|at| format!("a{at} = maybe\n")).collect();
    let mistakes = mistakes_of(Given { file: &file, ..Given::default() });
    assert_eq!(mistakes.lines().count(), 1 + 100 + 1, "{mistakes}");
    assert!(mistakes.contains("toolbus.toml: has 200 more mistakes in its syntax"), "{mistakes}");
}

#[test]
fn secrets_are_shown_nowhere() {
    let loaded = Given {
        file: "api_key = 'hunter2'\n[servers.one]\ntoken = 'hunter2'",
        environment: &[("TOOLBUS_BUS", "amqp://user:hunter2@host/vhost, amqp://user:hunter2@i")],
        ..Given::default()
    };
    let loaded = loaded.load().unwrap();
    let shown = format!("{:?}{}", loaded.settings, loaded.print());
    assert!(!shown.contains("hunter2"), "{shown}");
    assert!(shown.contains("amqp://user:***@host/vhost,amqp://user:***@i\""), "{shown}");
    assert_eq!(loaded.settings.api_key.unwrap().expose(), "hunter2");

    // A secret where something else belongs, and mistakes around one.
    let check = |file: &str, environment: &[(&str, &str)]| {
        let mistakes = mistakes_of(Given { file, environment, ..Given::default() });
        assert!(!mistakes.contains("hunter2"), "{mistakes}");
    };
    check("", &[("TOOLBUS_BUS__PREFETCH", "amqp://user:hunter2@host")]);
    check("", &[("TOOLBUS_BUS__PREFETCH", "https://host/?key=hunter2")]);
    check("[bus]\nprefetch = ['https://host/?key=hunter2']", &[]);
    check("", &[("TOOLBUS_BUS", "amqp://user:hunter2@")]);
    check("", &[("TOOLBUS_BUS", "amqp://a:hunter2@h,amqp://b:hunter2@")]);
    check("", &[("TOOLBUS_SERVERS", r#"{"one": {"token": "hunter2""#)]);
    check("", &[("TOOLBUS_SERVERS__one", "hunter2")]);
    check("bus = 'amqp://user:hunter2'", &[]);
    check("api_keey = 'hunter2'", &[]);
    check("[servers.two]\ntoken = ['hunter2']", &[]);
    check("[bus]\nurl = 'amqp://hunter2' 'hunter2'", &[]);
}

#[test]
fn printed_settings_tell_origins_and_read_back() {
    let loaded = Given {
        file: "agents = ['a', 'b']\nname = 'quo\"te'\n[servers.\"a b\"]\nurl = 'http://one'",
        environment: &[("TOOLBUS_TIMEOUT", "90s"), ("RUST_LOG", "debug")],
        arguments: vec![Setting::text("bus.url", "amqp://u:p@h", "--bus")],
    };
    let printed = without_folder(&loaded.load().unwrap().print());
    assert_snapshot!(printed, @r#"
    name = 'quo"te'  # toolbus.toml:2
    verbose = false  # default
    timeout = "90s"  # TOOLBUS_TIMEOUT
    body_max = "8MiB"  # default
    ratio = 1.0  # default
    agents = ["a", "b"]  # toolbus.toml:1
    ports = []  # default
    # api_key is not set

    [bus]
    url = "amqp://u:***@h"  # --bus
    # password_file is not set
    exchange = "rockbot"  # default
    dead_letter_exchange = "rockbot.dlx"  # default
    prefetch = 10  # default
    queue_profile = "upstream-m"  # default

    [log]
    filter = "debug"  # RUST_LOG
    format = "auto"  # default

    [servers."a b"]
    url = "http://one/"  # toolbus.toml:4
    token = "***"  # default
    "#);

    let again = Given { file: &printed, ..Given::default() }.load().unwrap().settings;
    assert_eq!(again.timeout, TimeSpan::seconds(90));
    assert_eq!(again.name, "quo\"te");
    assert_eq!(again.agents, ["a", "b"]);
}

#[test]
fn the_reference_page_names_every_key() {
    let aliases = [SHARED_ALIASES, ALIASES].concat();
    assert_snapshot!(reference::<Demo>("Settings of the demo", &aliases), @r#"
    # Settings of the demo

    Later wins: defaults, the file `toolbus.toml`, the environment, the command line.

    | key | environment | type | default | meaning |
    |---|---|---|---|---|
    | `name` | `TOOLBUS_NAME` | text | `"demo"` | What this instance is called. |
    | `verbose` | `TOOLBUS_VERBOSE` | true or false | `false` | Whether it is verbose \| loud. |
    | `timeout` | `TOOLBUS_TIMEOUT` | a duration, such as `250ms` | `"30s"` | How long a call may take. |
    | `body_max` | `TOOLBUS_BODY_MAX` | a size, such as `64KiB` | `"8MiB"` | Largest body. |
    | `ratio` | `TOOLBUS_RATIO` | number, 0.0 to 1.0 | `1.0` | Share of calls that are sampled. |
    | `agents` | `TOOLBUS_AGENTS` | list of text | `["RockBot"]` | Agents to tell. |
    | `ports` | `TOOLBUS_PORTS` | list of whole number, 0 to 65535 | `[]` | Ports to try. |
    | `api_key` | `TOOLBUS_API_KEY` | secret text | not set | Key of the model. |
    | `bus.url` | `TOOLBUS_BUS__URL` | the URL of a broker, such as `amqp://user:password@host:5672/vhost` | not set | The broker to join, such as `amqp://user:password@host:5672/vhost`; for a cluster, the URLs of its nodes with commas between. One connection is kept, to a node that is picked at random; when it is lost, the next node is tried. A program that can run embedded does so when this is not set. Below everything else it is put together from `RabbitMq__HostName`, `__Port`, `__UserName`, `__Password` and `__VirtualHost`. |
    | `bus.password_file` | `TOOLBUS_BUS__PASSWORD_FILE` | text | not set | The file that the user's password is in, instead of one in the URL. It is read for each connection, so a password that is rotated holds from the next one on. |
    | `bus.exchange` | `TOOLBUS_BUS__EXCHANGE` | text | `"rockbot"` | The topic exchange that every message goes through. |
    | `bus.dead_letter_exchange` | `TOOLBUS_BUS__DEAD_LETTER_EXCHANGE` | text | `"rockbot.dlx"` | The topic exchange that rejected messages go to. |
    | `bus.prefetch` | `TOOLBUS_BUS__PREFETCH` | whole number, 1 to 1000 | `10` | How many deliveries each subscription works on at a time. It is the prefetch and the number of permits at once, so that nothing waits unseen in a worker. |
    | `bus.queue_profile` | `TOOLBUS_BUS__QUEUE_PROFILE` | `upstream-m` or `upstream-n` | `"upstream-m"` | Which version's arguments the queues are declared with that another system declares too. |
    | `log.filter` | `TOOLBUS_LOG__FILTER` | a log filter, such as `debug` | not set | A level (`error`, `warn`, `info`, `debug`, `trace`, `off`) or directives such as `info,toolbus_bus=debug`. When not set: `info` for services. One-shot commands log from `warn` up and go by no filter but that of `--log`, `TOOLBUS_LOG` or `RUST_LOG`. |
    | `log.format` | `TOOLBUS_LOG__FORMAT` | `auto` or `human` or `json` | `"auto"` | How lines are written to standard error. |
    | `servers.<name>.url` | `TOOLBUS_SERVERS__<name>__URL` | the URL of an HTTP endpoint, such as `http://collector:4318` |  | Where it is. |
    | `servers.<name>.token` | `TOOLBUS_SERVERS__<name>__TOKEN` | secret text |  | How it is authorised. |

    Read below the names above, a later line winning over an earlier one:

    | environment | key |
    |---|---|
    | `RabbitMq__ExchangeName` | `bus.exchange` |
    | `RabbitMq__DeadLetterExchangeName` | `bus.dead_letter_exchange` |
    | `RabbitMq__PrefetchCount` | `bus.prefetch` |
    | `RUST_LOG` | `log.filter` |
    | `TOOLBUS_LOG` | `log.filter` |
    | `TOOLBUS_BUS` | `bus.url` |
    | `McpBridge__DefaultTimeoutMs` | `timeout` |
    "#);
}
