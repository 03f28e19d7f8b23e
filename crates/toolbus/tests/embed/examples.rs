//! The examples do what they say.

use std::process::{Command, Stdio};

use toolbus::sandbox::{Config, Sandbox};
use toolbus_testkit::process::binary;

use crate::support::without_sandbox;

/// What an example prints, which `cargo test` has built beside this program.
fn run(example: &str) -> String {
    let program = binary(&format!("examples/{example}"));
    let program =
        program.unwrap_or_else(|error| panic!("{error:#}; examples: cargo test -p toolbus"));
    let output = Command::new(program).stdin(Stdio::null()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{example}: {}: {errors}", output.status);
    assert_eq!(errors, "");
    String::from_utf8(output.stdout).unwrap()
}

/// The lines that tell of outcomes.
fn outcomes(printed: &str) -> Vec<&str> {
    printed.lines().filter_map(|line| line.strip_prefix("-> ")).collect()
}

#[test]
fn typed_tool() {
    let printed = run("typed_tool");
    assert!(printed.starts_with("add: Adds two numbers. {\"type\":\"object\""), "{printed}");
    let expected = [
        "3",
        "{\"total\":6,\"by_word\":{\"be\":2,\"not\":1,\"or\":1,\"to\":2}}",
        "invalid_arguments: /a: \"one\" is not of type \"integer\"",
        "execution_failed: invalid digit found in string",
        "42",
        "denied: the budget of calls is spent: 1 used of 1",
    ];
    assert_eq!(outcomes(&printed), expected);
}

#[tokio::test]
async fn embedded_fleet() {
    let printed = tokio::task::spawn_blocking(|| run("embedded_fleet")).await.unwrap();
    assert!(printed.contains("\nmcp_invoke_tool\n") && printed.contains("\nown__shout\n"));
    let outcomes = outcomes(&printed);
    assert_eq!(outcomes[..2], ["local", "HELLO"], "{printed}");
    assert_eq!(outcomes[3], "cancelled: the agent was closed before the call");

    match Sandbox::probe(Config::default()).await {
        Ok(_) => assert_eq!(outcomes[2], "42"),
        Err(why) => {
            assert!(outcomes[2].contains(&why.to_string()), "{printed}");
            without_sandbox(&why);
        }
    }
}
