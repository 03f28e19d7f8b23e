//! What all programs have on the command line: completions, manual pages, settings, and errors.

use std::net::TcpListener;
use std::process::Command;

use toolbus_testkit::process::Launch;

use crate::support::*;

const PROGRAMS: [&str; 4] = ["agent-host", "mcp-bridge", "scripts-manager", "openrouter-mcp"];

/// Standard output of a program that does what it is asked for.
async fn printed(program: &str, arguments: &[&str]) -> String {
    let run = Launch::new(program).args(arguments).run(LIMIT).await.unwrap();
    assert!(run.status.success(), "{run:?}");
    assert_eq!(run.stderr, "");
    run.stdout
}

#[tokio::test]
async fn every_program_has_completions_and_manual_pages() {
    for program in PROGRAMS {
        for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
            let script = printed(program, &["completions", shell]).await;
            assert!(script.contains("print-config"), "{program} {shell}: {script}");
        }

        let folder = tempfile::tempdir().unwrap();
        printed(program, &["man", &folder.path().to_string_lossy()]).await;
        let page = std::fs::read_to_string(folder.path().join(format!("{program}.1"))).unwrap();
        assert!(page.contains(&format!("\n.TH {program} 1 ")), "{page}");
    }
}

#[tokio::test]
async fn bash_completes_the_commands_of_the_agent_host() {
    let script = printed("agent-host", &["completions", "bash"]).await;
    let ask = format!(
        "{script}\nCOMP_WORDS=(agent-host inv); COMP_CWORD=1\n\
         _agent__host agent-host inv agent-host; echo \"${{COMPREPLY[*]}}\""
    );
    // Longer than an argument may be.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ask.sh");
    std::fs::write(&file, ask).unwrap();
    let output = Command::new("bash").arg("--norc").arg(file).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "invoke", "{output:?}");
}

#[tokio::test]
async fn a_command_lists_the_options_that_mean_something_to_it() {
    let own = "--json";
    let check = async |program: &str, command: &str, absent: &[&str]| {
        let help = printed(program, &[command, "--help"]).await;
        for option in absent {
            assert!(!help.contains(option), "{program} {command}: {help}");
        }
        assert!(help.contains("\nGlobal options:\n"), "{help}");
        help
    };
    let help = check("agent-host", "tools", &["--health", "--probe"]).await;
    let (own, global) = (help.find(own).unwrap(), help.find("Global options").unwrap());
    assert!(own < global, "{help}");
    check("agent-host", "invoke", &["--health", "--probe"]).await;
    check("mcp-bridge", "accept", &["--health", "--probe", "--name", "--bus"]).await;
    let help = check("agent-host", "serve", &[]).await;
    assert!(help.contains("--health") && help.contains("--probe"), "{help}");
}

#[tokio::test]
async fn the_settings_are_printed_with_or_without_a_command() {
    for program in PROGRAMS {
        // Some are not right without these.
        let launch = Launch::new(program).arg("--print-config").env("OPENROUTER_API_KEY", "none");
        let launch = launch.env("TOOLBUS_BUS", "amqp://127.0.0.1:1");
        let settings = launch.run(LIMIT).await.unwrap().stdout;
        assert!(settings.contains("[log]\n"), "{program}: {settings}");
    }
    let settings =
        printed("agent-host", &["serve", "--mcp", "127.0.0.1:0", "--print-config"]).await;
    assert!(settings.contains("\"127.0.0.1:0\"  # --mcp\n"), "{settings}");
}

#[tokio::test]
async fn a_port_that_is_taken_is_told_at_once_and_in_one_way() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let check = async |program: &str, arguments: &[&str], what: &str| {
        let launch = Launch::new(program).args(arguments).arg(&address);
        let launch = launch.env("TOOLBUS_LOG__FORMAT", "json").env("TOOLBUS_LOG", "error");
        let launch = launch.env("OPENROUTER_API_KEY", "key");
        let launch = launch.env("TOOLBUS_HTTP__TOOL_API__ENABLED", "true");
        let launch = launch.env("TOOLBUS_DISCOVERY__ENABLED", "true");
        let run = launch.run(LIMIT).await.unwrap();
        assert_eq!(run.status.code(), Some(1), "{run:?}");
        let expected = format!("error: cannot serve {what} at {address}\n  because: Address");
        assert!(run.stderr.starts_with(&expected), "{run:?}");
        assert_eq!(run.stderr.lines().count(), 2, "{run:?}");
    };
    check("agent-host", &["serve", "--health"], "health").await;
    check("agent-host", &["serve", "--mcp"], "MCP").await;
    check("agent-host", &["serve", "--http"], "HTTP").await;
    check("openrouter-mcp", &["--listen"], "MCP").await;
}

/// It is looked for before anything is started, and is never the reference itself.
#[tokio::test]
async fn a_token_that_is_not_there_is_a_mistake_of_the_configuration() {
    let launch = Launch::new("agent-host").args(["serve", "--mcp", "127.0.0.1:0"]);
    let launch = launch.env("TOOLBUS_HTTP__TOKENS__alice", "${NO_TOKEN_OF_ALICE}");
    let launch = launch.env("TOOLBUS_HTTP__TOKEN_FILES__bob", "/nowhere/bob");
    let run = launch.run(LIMIT).await.unwrap();
    assert_eq!(run.status.code(), Some(2), "{run:?}");
    for told in [
        "error: the configuration has 2 mistakes",
        "http.tokens.alice: the variable NO_TOKEN_OF_ALICE is not set",
        "http.token_files.bob: it cannot be read from /nowhere/bob: No such file",
    ] {
        assert!(run.stderr.contains(told), "{told}: {run:?}");
    }

    // Commands that serve nobody share the settings, and need no token.
    let launch = Launch::new("agent-host").arg("tools");
    let run = launch.env("TOOLBUS_HTTP__TOKENS__alice", "${NO_TOKEN_OF_ALICE}").run(LIMIT).await;
    assert!(run.unwrap().status.success());
}

/// As charts and files set it, for the services.
#[tokio::test]
async fn a_one_shot_command_is_as_quiet_as_ever_beside_a_service() {
    let launch = Launch::new("agent-host").args(["invoke", "execute_python_script"]);
    let launch = launch.arg(r#"{"script": "print(42)"}"#).env("TOOLBUS_LOG__FILTER", "info");
    let run = launch.run(LIMIT).await.unwrap();
    assert_eq!((&*run.stdout, &*run.stderr), ("42\n", ""), "{run:?}");
}
