//! `deploy/compose/up`: what it makes of GRANTS, and what it says of ports that are taken. No engine
//! is asked.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use tempfile::TempDir;
use toolbus_tools::{GrantPublicKey, GrantSigningKey};

use crate::support::repository;

/// What stands in for `docker`: it prints what the compose file would be given.
const PRINTING: &str = "#!/bin/sh\necho \"GRANTS=$GRANTS\"\n";

/// What stands in for `docker` where the fleet does not come up: of its services `rabbitmq` alone
/// runs.
const FAILING: &str = "#!/bin/sh
case $* in
*' ps '*' rabbitmq') echo 1234 ;;
*' ps '* | 'compose version') ;;
*) exit 17 ;;
esac
";

/// The script on the secrets of this folder, with this program in place of `docker`.
fn command(folder: &TempDir, docker: &str) -> Command {
    let programs = folder.path().join("bin");
    fs::create_dir_all(&programs).unwrap();
    let path = programs.join("docker");
    fs::write(&path, docker).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();

    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(repository("deploy/compose/up"));
    command.env("PATH", path).env("TOOLBUS_SECRETS", folder.path().join("secrets"));
    command.env_remove("COMPOSE_PROFILES");
    command
}

/// Runs the script on the secrets of this folder, with this GRANTS.
fn up(folder: &TempDir, grants: Option<&str>) -> Output {
    let mut command = command(folder, PRINTING);
    match grants {
        Some(grants) => command.env("GRANTS", grants),
        None => command.env_remove("GRANTS"),
    };
    command.output().unwrap()
}

#[test]
fn grants_stay_as_they_were_chosen_until_they_are_chosen_again() {
    let folder = tempfile::tempdir().unwrap();
    let check = |grants: Option<&str>, expected: &str| {
        let output = up(&folder, grants);
        let told = String::from_utf8_lossy(&output.stdout);
        assert_eq!(told, format!("GRANTS={expected}\n"), "{grants:?}: {output:?}");
    };

    check(None, "");
    check(Some("required"), "required");
    check(None, "required");
    check(Some(""), "");
    check(None, "");
}

/// `up` keeps the agent's key and its public half.
#[test]
fn a_key_pair_is_drawn_once_where_grants_are_required() {
    let folder = tempfile::tempdir().unwrap();
    let read = |name: &str| fs::read_to_string(folder.path().join("secrets").join(name)).unwrap();
    let pair = || (read("grant-signing-key"), read("grant-public-keys"));

    // Compose mounts files that exist.
    assert!(up(&folder, None).status.success());
    assert_eq!(pair(), (String::new(), String::new()));

    let output = up(&folder, Some("required"));
    let (signing, public) = pair();
    let key = GrantSigningKey::parse(&signing).unwrap();
    assert_eq!(GrantPublicKey::parse_list(&public).unwrap(), [key.public_key().clone()]);
    for told in [output.stdout, output.stderr] {
        let told = String::from_utf8_lossy(&told).into_owned();
        assert!(signing.lines().all(|line| !told.contains(line)), "the key is shown");
    }
    assert!(up(&folder, None).status.success());
    assert_eq!(pair(), (signing.clone(), public.clone()));

    // `up` derives the public half again, and never replaces the signing key.
    fs::write(folder.path().join("secrets/grant-public-keys"), "").unwrap();
    assert!(up(&folder, None).status.success());
    assert_eq!(pair(), (signing, public));
}

#[test]
fn without_openssl_grants_are_not_required() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(&folder, PRINTING);
    let openssl = folder.path().join("bin/openssl");
    fs::write(&openssl, "#!/bin/sh\nexit 1\n").unwrap();
    fs::set_permissions(&openssl, fs::Permissions::from_mode(0o700)).unwrap();

    let output = command.env("GRANTS", "required").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("GRANTS=required needs a key pair"), "{told}");
    assert!(!folder.path().join("secrets/grants").exists(), "the choice is kept");
    assert!(command.env("GRANTS", "").output().unwrap().status.success());
}

#[test]
fn what_is_no_choice_is_refused_and_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for wrong in ["off", "false", "Required", "required "] {
        let output = up(&folder, Some(wrong));
        assert_eq!(output.status.code(), Some(2), "{wrong}: {output:?}");
        assert_eq!(output.stdout, b"", "{wrong}");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(told.contains("GRANTS can only be `required`, or empty"), "{told}");
        assert!(told.contains(wrong), "{told}");
    }
    assert!(!folder.path().join("secrets").exists());
}

/// MCP clients have a token, which stays as it is and is not shown.
#[test]
fn a_token_for_mcp_clients_is_drawn_once() {
    let folder = tempfile::tempdir().unwrap();
    let token = || {
        let output = up(&folder, None);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(told.contains("secrets/mcp-token, as Authorization: Bearer TOKEN"), "{told}");
        let token = fs::read_to_string(folder.path().join("secrets/mcp-token")).unwrap();
        assert!(!told.contains(&token), "it is shown");
        token
    };

    let drawn = token();
    assert!(drawn.len() >= 32, "the token is short");
    assert_eq!(token(), drawn);
}

#[test]
fn a_docker_without_compose_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let output = command(&folder, "#!/bin/sh\nexit 1\n").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.starts_with("up: this docker has no compose: install"), "{told}");
}

/// Only of a service that is to be there and is not, and with the code that compose ended with.
#[test]
fn ports_that_others_have_are_told_with_the_variable_that_moves_them() {
    let folder = tempfile::tempdir().unwrap();
    let others = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = others.local_addr().unwrap().port().to_string();
    let check = |variable: &str, profile: &[&str], expected: &str| {
        let mut command = command(&folder, FAILING);
        command.args(profile);
        for port in ["AGENT_HOST_MCP_PORT", "RABBITMQ_UI_PORT", "GRAFANA_PORT"] {
            command.env(port, if port == variable { &taken } else { "0" });
        }
        command.env("PROMETHEUS_PORT", "0").env("JAEGER_PORT", "0");

        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(17), "{variable}: {output:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), expected, "{variable}");
    };

    let told = |service: &str, variable: &str| {
        format!(
            "up: port {taken}, where {service} would be, is taken: {variable}=PORT names another\n"
        )
    };
    check("AGENT_HOST_MCP_PORT", &[], &told("agent-host", "AGENT_HOST_MCP_PORT"));
    check("RABBITMQ_UI_PORT", &[], "");
    check("GRAFANA_PORT", &[], "");
    check("GRAFANA_PORT", &["observe"], &told("grafana", "GRAFANA_PORT"));
}
