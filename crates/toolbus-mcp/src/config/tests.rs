//! Files that are right, files that are wrong, and what is said about them.

use std::time::Duration;

use serde_json::json;

use super::*;

fn environment(name: &str) -> Option<String> {
    match name {
        "TODO_TOKEN" => Some("s3cret-token".to_owned()),
        "EMPTY" => Some(String::new()),
        "FOLDER" => Some("/srv/data".to_owned()),
        _ => None,
    }
}

fn read(text: &str) -> Config {
    parse(text, Variables::From(&environment)).expect("JSON")
}

/// Reads one entry named `x` and compares everything that is wrong with it.
fn check(entry: Value, expected: &[&str]) -> Option<Entry> {
    check_warned(entry, expected, &[])
}

/// The same, and what of it is ignored.
fn check_warned(entry: Value, expected: &[&str], ignored: &[&str]) -> Option<Entry> {
    let config = read(&json!({"mcpServers": {"x": entry}}).to_string());
    let texts = |all: &[Mistake]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(texts(&config.mistakes), expected, "{entry}");
    assert_eq!(texts(&config.warnings), ignored, "{entry}");
    assert_eq!(config.servers.is_empty(), !expected.is_empty(), "{entry}");
    config.servers.into_iter().next()
}

fn launch(entry: Option<Entry>) -> Launch {
    match entry.expect("an entry").target {
        Target::Launch(launch) => launch,
        _ => panic!("not a command"),
    }
}

fn endpoint(entry: Option<Entry>) -> Endpoint {
    match entry.expect("an entry").target {
        Target::Endpoint(endpoint) => endpoint,
        _ => panic!("not an address"),
    }
}

#[test]
fn a_whole_file() {
    let config = read(
        r#"{"$schema": "x", "mcpServers": {
            "todo": {"type": "sse", "url": "http://todo-mcp/",
                "headers": {"Authorization": "Bearer ${TODO_TOKEN}"},
                "allowedTools": ["add_task"], "deniedTools": []},
            "Local": {"command": "uvx", "args": ["mcp-server-weather", ""], "env": {"API_KEY": "a${EMPTY}b"},
                "deniedTools": ["rm"], "timeoutMs": 5000, "toolTimeoutMs": {"slow": 300000}}}}"#,
    );
    assert_eq!(config.mistakes, []);
    let [todo, local] = &config.servers[..] else { panic!("{config:?}") };
    assert!(todo.filter.permits("add_task") && !todo.filter.permits("rm"));
    let endpoint = endpoint(Some(todo.clone()));
    assert_eq!((endpoint.url.as_str(), endpoint.protocol), ("http://todo-mcp/", Protocol::Sse));
    assert_eq!(endpoint.headers[0].1, "Bearer s3cret-token");
    assert_eq!(local.name.as_str(), "Local");
    assert_eq!(local.timeout_of("slow"), Some(Duration::from_secs(300)));
    assert_eq!(local.timeout_of("other"), Some(Duration::from_secs(5)));
    let launch = launch(Some(local.clone()));
    assert_eq!((launch.command.as_str(), launch.arguments.len()), ("uvx", 2));
    assert_eq!(launch.environment["API_KEY"].expose(), "ab");
}

/// MX-M2.
#[test]
fn types_and_their_spellings() {
    let cases = [
        (json!({"url": "http://a/"}), Protocol::Auto),
        (json!({"url": "http://a/", "type": "AUTO"}), Protocol::Auto),
        (json!({"url": "http://a/", "type": "SSE"}), Protocol::Sse),
        (json!({"url": "https://a/", "type": "http"}), Protocol::StreamableHttp),
        (json!({"url": "http://a/", "type": "streamable-http"}), Protocol::StreamableHttp),
        (json!({"url": "http://a/", "type": "streamableHttp"}), Protocol::StreamableHttp),
    ];
    for (entry, protocol) in cases {
        assert_eq!(endpoint(check(entry, &[])).protocol, protocol);
    }
    for entry in [
        json!({"command": "a"}),
        json!({"command": "a", "type": "stdio"}),
        json!({"command": "a", "type": null, "url": null}),
    ] {
        assert_eq!(launch(check(entry, &[])).command, "a");
    }
}

#[test]
fn every_mistake_of_an_entry_is_told() {
    check_warned(
        json!({"comand": "uvx"}),
        &[r#"server "x": has neither url nor command"#],
        &[r#"server "x": comand: unknown member, ignored; did you mean "command"?"#],
    );
    check(
        json!({"url": "http://a/", "command": "a"}),
        &[r#"server "x": has both url and command; a server is reached by one of them"#],
    );
    check(
        json!({"type": "websocket", "url": "http://a/"}),
        &[r#"server "x": type: has to be stdio, http, streamable-http, sse or auto"#],
    );
    check(
        json!({"type": "stdio", "url": "http://a/"}),
        &[r#"server "x": type: stdio goes with command, not with url"#],
    );
    check(
        json!({"type": "http", "command": "a"}),
        &[r#"server "x": type: command goes with stdio only"#],
    );
    check(
        json!({"url": 7, "args": "x", "timeoutMs": 0, "toolTimeoutMs": {"t": -1}, "deniedTools": [1],
            "allowed_tools": []}),
        &[
            r#"server "x": url: has to be a text"#,
            r#"server "x": args: has to be a list of texts"#,
            r#"server "x": has neither url nor command"#,
            r#"server "x": deniedTools[0]: has to be a text"#,
            r#"server "x": timeoutMs: has to be a whole number from 1 to 3600000"#,
            r#"server "x": toolTimeoutMs.t: has to be a whole number from 1 to 3600000"#,
            r#"server "x": allowed_tools: unknown member, did you mean "allowedTools"?"#,
        ],
    );
    check(json!("http://a/"), &[r#"server "x": has to be an object"#]);
}

#[test]
fn members_of_other_clients_are_ignored_and_named() {
    check_warned(
        json!({"command": "a", "autoApprove": [], "oauth": {}, "Evn": {"A": "b"}}),
        &[],
        &[
            r#"server "x": autoApprove: unknown member, ignored"#,
            r#"server "x": oauth: unknown member, ignored; did you mean "auth"?"#,
            r#"server "x": Evn: unknown member, ignored; did you mean "env"?"#,
        ],
    );
}

#[test]
fn what_may_be_meant_to_limit_a_server_is_not_ignored() {
    for (member, meant) in [
        ("AllowedTools", "allowedTools"),
        ("allowTools", "allowedTools"),
        ("includeTools", "allowedTools"),
        ("enabled_tools", "allowedTools"),
        ("tools", "allowedTools"),
        ("denyTools", "deniedTools"),
        ("excludeTools", "deniedTools"),
        ("disabledTools", "deniedTools"),
        ("disable", "disabled"),
        ("enabled", "disabled"),
        ("tool_changes", "toolChanges"),
    ] {
        let expected = format!(r#"server "x": {member}: unknown member, did you mean "{meant}"?"#);
        check(json!({"command": "a", member: []}), &[&expected]);
    }
}

#[test]
fn disabled_servers() {
    let disabled = check(json!({"command": "a", "disabled": true}), &[]).expect("an entry");
    assert!(disabled.is_disabled() && disabled.name.as_str() == "x");
    // The rest of it need not hold.
    let broken = json!({"disabled": true, "url": "${MISSING}", "zzz": 1});
    assert!(check(broken, &[]).expect("an entry").is_disabled());

    let enabled = check(json!({"command": "a", "disabled": false}), &[]).expect("an entry");
    assert!(!enabled.is_disabled());
    let text = json!({"command": "a", "disabled": "true"});
    check(text, &[r#"server "x": disabled: has to be true or false"#]);
}

#[test]
fn timeouts_of_other_clients_are_milliseconds() {
    let timeout = |entry| check(entry, &[]).expect("an entry").timeout_of("a");
    assert_eq!(timeout(json!({"command": "a", "timeout": 1000})), Some(Duration::from_secs(1)));
    assert_eq!(timeout(json!({"command": "a"})), None);
    check(
        json!({"command": "a", "timeout": 2000, "timeoutMs": 2000}),
        &[r#"server "x": timeout: goes without timeoutMs"#],
    );
    let seconds = check_warned(
        json!({"command": "a", "timeout": 60}),
        &[],
        &["server \"x\": timeout: is in milliseconds; 60, less than a second, is ignored. For \
           seconds, write 60000"],
    );
    assert_eq!(seconds.expect("an entry").timeout_of("a"), None);
}

#[test]
fn what_may_be_downloaded_first_has_longer_to_start() {
    let limit = |entry| {
        let entry = check(entry, &[]).expect("an entry");
        [15, 300].map(|default| entry.startup_limit(Duration::from_secs(default)).as_secs())
    };
    for command in ["npx", "/usr/local/bin/uvx", "docker"] {
        assert_eq!(limit(json!({"command": command})), [180, 300], "{command}");
    }
    assert_eq!(limit(json!({"command": "/opt/npx/server"})), [15, 300]);
    assert_eq!(limit(json!({"url": "http://npx/npx"})), [15, 300]);

    assert_eq!(limit(json!({"command": "npx", "startupTimeoutMs": 5000})), [5, 5]);
    assert_eq!(limit(json!({"url": "http://a/", "startupTimeoutMs": 60_000})), [60, 60]);
}

#[test]
fn variables_in_every_value() {
    let program = launch(check(
        json!({"command": "${FOLDER}/run", "args": ["-d", "${FOLDER}", "${MISSING:-x y}"],
            "env": {"A": "${EMPTY:-e}", "B": "${EMPTY}", "C": "${MISSING:-}", "D": "${FOLDER:-no}"},
            "cwd": "${FOLDER}/x", "envFile": "${FOLDER}/.env"}),
        &[],
    ));
    assert_eq!(program.command, "/srv/data/run");
    assert_eq!(program.arguments, ["-d", "/srv/data", "x y"]);
    let environment: Vec<_> = program.environment.values().map(|value| value.expose()).collect();
    assert_eq!(environment, ["e", "", "", "/srv/data"]);
    assert_eq!(program.folder, Some("/srv/data/x".into()));
    assert_eq!(program.environment_file, Some("/srv/data/.env".into()));

    let address = endpoint(check(
        json!({"url": "${BASE:-https://a}/mcp", "headers": {"X": "${MISSING:-y}"}}),
        &[],
    ));
    assert_eq!(
        (address.url.as_str(), &address.headers[0].1),
        ("https://a/mcp", &"y".parse().unwrap())
    );

    check(
        json!({"command": "${MISSING}", "args": ["a", "${MISSING}"], "cwd": "${EMPTY}"}),
        &[
            r#"server "x": command: the environment variable MISSING is not set"#,
            r#"server "x": args[1]: the environment variable MISSING is not set"#,
            r#"server "x": cwd: is empty"#,
            r#"server "x": has neither url nor command"#,
        ],
    );
    check(
        json!({"url": "http://${A B}/", "cwd": "/", "envFile": "/a"}),
        &[
            r#"server "x": url: between "${" and "}" stands no variable's name"#,
            r#"server "x": has neither url nor command"#,
        ],
    );
    check(
        json!({"url": "http://a/", "cwd": "/", "envFile": "/a"}),
        &[
            r#"server "x": envFile: goes with command, not with url"#,
            r#"server "x": cwd: goes with command, not with url"#,
        ],
    );
}

#[test]
fn credentials_from_variables_are_erased_wherever_they_stand() {
    for entry in [
        json!({"command": "a", "args": ["use", "${TODO_TOKEN}"]}),
        json!({"command": "a", "env": {"MODE": "${TODO_TOKEN}"}}),
        json!({"url": "https://a/x/${TODO_TOKEN}"}),
    ] {
        let entry = check(entry, &[]).expect("an entry");
        let eraser = entry.eraser();
        assert_eq!(eraser.erase("it is s3cret-token"), "it is ***", "{entry:?}");
        let mut said = json!({"text": "s3cret-token"});
        eraser.finder().expect("credentials").erase(&mut said);
        assert_eq!(said, json!({"text": "***"}), "{entry:?}");
        assert!(!format!("{entry:?}").contains("s3cret"), "{entry:?}");
    }
}

#[test]
fn addresses() {
    check(
        json!({"url": "ftp://a/"}),
        &[r#"server "x": url: has to begin with http:// or https://"#],
    );
    check(
        json!({"url": "a/b"}),
        &[r#"server "x": url: is not a URL: relative URL without a base"#],
    );
    check(
        json!({"url": "http://me:pw@a/"}),
        &[r#"server "x": url: has a user or a password in it; put an Authorization into headers"#],
    );
    check(
        json!({"url": "http://a/", "args": ["x"], "env": {"A": "b"}}),
        &[
            r#"server "x": args: goes with command, not with url"#,
            r#"server "x": env: goes with command, not with url"#,
        ],
    );
}

#[test]
fn headers_and_variables() {
    check(
        json!({"url": "http://a/", "headers": {
            "Accept": "x", "a b": "x", "X-A": "line\nend", "X-B": "${MISSING}", "X-C": "${A",
            "X-D": "${a-b}", "X-E": 5, "X-F": "$5 {x}"}}),
        &[
            r#"server "x": headers.X-B: the environment variable MISSING is not set"#,
            r#"server "x": headers.X-C: there is a "${" without its "}""#,
            r#"server "x": headers.X-D: between "${" and "}" stands no variable's name"#,
            r#"server "x": headers.X-E: has to be a text"#,
            r#"server "x": headers.Accept: is set by the transport itself"#,
            r#"server "x": headers.X-A: has a character that no header may have"#,
            r#"server "x": headers.a b: is not the name of a header"#,
        ],
    );
    check(
        json!({"command": "a", "headers": {"X-A": "b"}}),
        &[r#"server "x": headers: goes with url, not with command"#],
    );
    check(
        json!({"command": "a", "env": {"A=B": "c", "": "x"}}),
        &[
            r#"server "x": env.: is no environment variable"#,
            r#"server "x": env.A=B: is no environment variable"#,
        ],
    );
}

/// What is wrong with this `auth`, of a server whose address is not safe for it.
fn wrong(auth: Value, expected: &[&str]) {
    let expected: Vec<_> = expected.iter().map(|e| format!("server \"x\": auth{e}")).collect();
    let expected: Vec<_> = expected.iter().map(String::as_str).collect();
    check(json!({"url": "http://a/", "auth": auth}), &expected);
}

const INSECURE: &str = ": needs an address that begins with https://, or is on this machine";
const NO_ISSUER: &str = ".issuer: is missing: the address of the only authorization server that may \
                         have clientSecret, as its metadata names it";

#[test]
fn a_secret_needs_its_issuer() {
    wrong(
        json!({"type": "client_credentials", "clientId": "id"}),
        &[".clientSecret: is missing", NO_ISSUER],
    );
    wrong(
        json!({"type": "authorization_code", "clientId": "id", "clientSecret": "x"}),
        &[NO_ISSUER, INSECURE],
    );

    let no_address = ".issuer: has to be an address that begins with https://, or is on this \
                      machine, without query and fragment";
    for issuer in ["login.a", "http://login.a", "https://login.a/?t=1", "https://x@login.a"] {
        let person = json!({"type": "authorization_code", "issuer": issuer});
        wrong(person, &[no_address, INSECURE]);
    }
}

#[test]
fn authorization() {
    let of = |entry| endpoint(check(entry, &[]));
    let bearer =
        of(json!({"url": "http://a/", "auth": {"type": "bearer", "token": "${TODO_TOKEN}"}}));
    assert_eq!(bearer.headers[0].1, "Bearer s3cret-token");
    assert!(bearer.headers[0].1.is_sensitive() && bearer.grant.is_none());

    let client = json!({"type": "client_credentials", "issuer": "https://login.a", "clientId": "id",
        "clientSecret": "${TODO_TOKEN}", "scopes": ["a"], "resource": "https://a"});
    let service = of(json!({"url": "https://a/mcp", "auth": client}));
    let Some(Grant::ClientCredentials(client)) = &service.grant else { panic!("{service:?}") };
    assert_eq!((&*client.client_id, &*client.scopes), ("id", &["a".to_owned()][..]));
    assert!(client.issuer.is_named_by("https://login.a"));
    assert!(!format!("{service:?}").contains("s3cret"), "{service:?}");

    let person = of(json!({"url": "http://127.0.0.1:1/", "auth": {"type": "authorization_code"}}));
    let nothing = AuthorizationCode::default();
    assert_eq!(person.grant, Some(Grant::AuthorizationCode(nothing)));

    wrong(json!("token"), &[": has to be an object"]);
    let kinds = ".type: has to be bearer, client_credentials or authorization_code";
    wrong(json!({}), &[kinds]);
    wrong(json!({"type": "basic"}), &[kinds]);
    wrong(json!({"type": "bearer", "token": "${EMPTY}"}), &[".token: is empty"]);
    wrong(
        json!({"type": "bearer", "tokn": "x"}),
        &[".token: is missing", ".tokn: unknown member, did you mean \"token\"?"],
    );
    wrong(
        json!({"type": "bearer", "token": "a\nb"}),
        &[".token: has a character that no header may have"],
    );
    wrong(json!({"type": "authorization_code"}), &[INSECURE]);
    wrong(
        json!({"type": "authorization_code", "clientSecret": "x", "redirectPort": 65_536,
            "clientMetadataUrl": "https://a"}),
        &[
            ".clientSecret: goes with clientId",
            NO_ISSUER,
            ".clientMetadataUrl: has to begin with https:// and to have a path",
            ".redirectPort: has to be a whole number from 1 to 65535",
            INSECURE,
        ],
    );
    check(
        json!({"url": "http://a/", "headers": {"authorization": "x"},
            "auth": {"type": "bearer", "token": "x"}}),
        &["server \"x\": auth: goes without an Authorization in headers"],
    );
    check(
        json!({"command": "a", "auth": {"type": "bearer", "token": "x"}}),
        &["server \"x\": auth: goes with url, not with command"],
    );
}

#[test]
fn a_stranger_may_not_read_the_environment() {
    let Value::Object(entry) = json!({"command": "a", "env": {"A": "${TODO_TOKEN}"}}) else {
        unreachable!()
    };
    let mistakes = Entry::parse("x", entry, Variables::Refused).expect_err("refused");
    assert_eq!(
        mistakes[0].to_string(),
        r#"server "x": env.A: environment variables may not be used here"#
    );
}

#[test]
fn names_are_checked_and_unique_in_any_case() {
    let config = read(
        r#"{"mcpServers": {"a": {"command": "1"}, "A": {"command": "2"}, "a": {"command": "3"},
            "b__c": {"command": "4"}, "d": {"command": "5"}}}"#,
    );
    let names: Vec<&str> = config.servers.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(names, ["a", "d"]);
    let mistakes: Vec<String> = config.mistakes.iter().map(ToString::to_string).collect();
    assert_eq!(
        mistakes,
        [
            r#"server "A": there is a server "a" already"#,
            r#"server "a": there is a server "a" already"#,
            "server \"b__c\": a server's name has no \"__\": that stands between a server and its tool",
        ]
    );
}

/// Its tools would have the ids of the agent's own.
#[test]
fn reserved_names_are_refused_in_any_spelling() {
    for name in ["management", "Management", "man-age.ment", "offers", "0FFERS"] {
        for entry in [json!({"command": "1"}), json!({"disabled": true})] {
            let servers = json!({"mcpServers": {name: entry, "d": {"command": "2"}}});
            let config = read(&servers.to_string());
            let names: Vec<&str> = config.servers.iter().map(|entry| entry.name.as_str()).collect();
            assert_eq!(names, ["d"]);
            let mistakes: Vec<String> = config.mistakes.iter().map(ToString::to_string).collect();
            let what = "a server's name is not management or offers, in any spelling: those are \
                        the agent's own";
            assert_eq!(mistakes, [format!("server {name:?}: {what}")]);
        }
    }
}

#[test]
fn the_outermost_object() {
    let mistakes = |text: &str| -> Vec<String> {
        let config = read(text);
        assert!(config.servers.is_empty());
        config.mistakes.iter().map(ToString::to_string).collect()
    };
    assert_eq!(mistakes("{}"), ["there is no mcpServers"]);
    assert_eq!(mistakes(r#"{"mcpServers": {}}"#), [""; 0]);
    for value in ["[]", "[{}]", "1", "-1", "1.5", "null", "true", "\"hunter2\""] {
        let text = format!(r#"{{"mcpServers": {value}}}"#);
        assert_eq!(mistakes(&text), ["mcpServers has to be an object"], "{value}");
    }
    let text = r#"{"mcpservers": {}, "inputs": []}"#;
    assert_eq!(mistakes(text), ["there is no mcpServers"]);
    let warnings: Vec<_> = read(text).warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            r#"mcpservers: unknown member, ignored; did you mean "mcpServers"?"#,
            "inputs: unknown member, ignored",
        ]
    );
}

#[test]
fn what_is_not_json_is_said_to_be_where() {
    let cases = [("", 1, 0), ("{\n  \"mcpServers\": {\n    oops\n", 3, 5), ("{} {}", 1, 4)];
    for (text, line_expected, column_expected) in cases {
        match parse(text, Variables::Refused) {
            Err(Error::NotJson { line, column, .. }) => {
                assert_eq!((line, column), (line_expected, column_expected), "{text:?}");
            }
            other => panic!("{text:?}: {other:?}"),
        }
    }
    for text in ["[]", "\"hunter2\"", "null"] {
        assert!(matches!(parse(text, Variables::Refused), Err(Error::NotAnObject)), "{text}");
    }
    let long = " ".repeat(TEXT_BYTES_MAX + 1);
    assert!(matches!(parse(&long, Variables::Refused), Err(Error::TooLong(_))));
    let deep = format!("{{\"mcpServers\":{}", "[".repeat(100_000));
    assert!(matches!(parse(&deep, Variables::Refused), Err(Error::NotJson { .. })));
}

#[test]
fn too_many_servers() {
    let servers: serde_json::Map<String, Value> = (0..SERVERS_MAX + 1)
        .map(|number| (format!("s{number}"), json!({"command": "x"})))
        .collect();
    let config = read(&json!({"mcpServers": servers}).to_string());
    assert_eq!(config.servers.len(), SERVERS_MAX);
    assert_eq!(config.mistakes[0].to_string(), "there are 513 servers, more than 512");
}

#[test]
fn secrets_do_not_show() {
    let config = read(
        r#"{"mcpServers": {
            "a": {"url": "http://host/s3cret-path?key=s3cret-query",
                "headers": {"Authorization": "Bearer ${TODO_TOKEN}"}},
            "b": {"command": "x", "args": ["--key=s3cret-argument"], "env": {"K": "s3cret-env"}},
            "c": {"url": "http://s3cret user@host/", "headers": {"X": "s3cret\u0001"}, "env": "s3cret"}}}"#,
    );
    assert_eq!(config.servers.len(), 2);
    let shown = format!("{config:?}");
    assert!(!shown.contains("s3cret") && shown.contains("http://host"), "{shown}");
}

#[test]
fn a_sandbox_has_what_its_entry_names() {
    let with = |sandbox: serde_json::Value| json!({"command": "a", "sandbox": sandbox});
    let read = |entry| launch(check(entry, &[])).sandbox;
    assert_eq!(read(json!({"command": "a"})), Isolation::AsSet);
    assert_eq!(read(with(json!(null))), Isolation::AsSet);
    assert_eq!(read(with(json!("shield"))), Isolation::Shield);
    for off in [json!("off"), json!(false)] {
        assert_eq!(read(with(off)), Isolation::Off);
    }
    assert_eq!(read(with(json!(true))), Isolation::Sandbox(SandboxPolicy::default()));
    // What is below a mount holds for itself, whichever list has it.
    let entry =
        with(json!({"mounts": ["${FOLDER}/x"], "writableMounts": ["/srv"], "network": true}));
    let mount = |path: &str, is_writable| Mount { path: path.into(), is_writable };
    let expected = SandboxPolicy {
        mounts: vec![mount("/srv", true), mount("/srv/data/x", false)],
        network: true,
    };
    assert_eq!(read(entry), Isolation::Sandbox(expected));
}

/// What is wrong with a sandbox is no reason to do without.
#[test]
fn a_sandbox_with_a_mistake_starts_nothing() {
    let mounts = json!({"mounts": ["a", "/", "/a/../b", "/proc/1"], "hosts": ["a"]});
    check(
        json!({"command": "a", "cwd": "/c", "sandbox": mounts}),
        &[
            r#"server "x": sandbox.mounts[0]: has to be an absolute path without .."#,
            r#"server "x": sandbox.mounts[1]: is everything that there is"#,
            r#"server "x": sandbox.mounts[2]: has to be an absolute path without .."#,
            r#"server "x": sandbox.mounts[3]: is the kernel's; a sandbox has its own"#,
            r#"server "x": sandbox.hosts: unknown member; there are mounts, writableMounts, network"#,
            r#"server "x": cwd: has to be one of sandbox.mounts, or below one"#,
        ],
    );
    for sandbox in [json!("yes"), json!("Off"), json!(""), json!(1), json!([])] {
        check(
            json!({"command": "a", "sandbox": sandbox}),
            &[r#"server "x": sandbox: has to be true, false, "shield", "off" or an object"#],
        );
    }
    for sandbox in [json!(true), json!("shield")] {
        check(
            json!({"url": "http://a/", "sandbox": sandbox}),
            &[r#"server "x": sandbox: goes with command, not with url"#],
        );
    }
    check(json!({"url": "http://a/", "sandbox": false}), &[]);
    check(
        json!({"command": "a", "sandbx": true}),
        &[r#"server "x": sandbx: unknown member, did you mean "sandbox"?"#],
    );
}

/// To compare takes time and memory for each character, and a file may have millions of them.
#[test]
fn what_is_too_long_to_be_meant_is_not_compared() {
    let nearest = |length: usize| {
        let known = "x".repeat(length + 1);
        members::nearest_member(&"x".repeat(length), &[known.as_str()]).is_some()
    };
    assert!(nearest(64));
    assert!(!nearest(65));
}
