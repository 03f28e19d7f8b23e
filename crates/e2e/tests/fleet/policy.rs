//! The policy of the settings: what the commands say of it, and that it is replaced while its agent
//! serves.

use std::path::{Path, PathBuf};

use anyhow::ensure;
use serde_json::{Value, json};
use toolbus_testkit::eventually;
use toolbus_testkit::process::{Finished, Launch};
use toolbus_testkit::rabbit;

use crate::support::*;

const BOOK: &str = r#"
[policy]
default = "ask"
[[policy.rules]]
name = "no-scripts"
effect = "deny"
reason = "scripts are not for others"
tools = ["script/*", "mcp:gone/*"]
doors = ["bus", "mcp"]
[[policy.rules]]
name = "own"
effect = "allow"
principals = ["local:*"]
"#;

fn settings_file(folder: &Path, text: &str) -> PathBuf {
    let file = folder.join("toolbus.toml");
    std::fs::write(&file, text).unwrap();
    file
}

async fn policy(file: &Path, arguments: &[&str]) -> Finished {
    let launch = Launch::new("agent-host").arg("--config").arg(file).arg("policy").args(arguments);
    launch.run(LIMIT).await.unwrap()
}

#[tokio::test]
async fn the_commands_say_what_is_decided() {
    let folder = tempfile::tempdir().unwrap();
    let file = settings_file(folder.path(), BOOK);
    let why = async |arguments: &[&str], exit: i32, expected: &str| {
        let run = policy(&file, &[&["why", "execute_python_script"], arguments].concat()).await;
        assert_eq!(run.status.code(), Some(exit), "{run:?}");
        assert!(run.stdout.starts_with(expected), "{}", run.stdout);
    };
    why(&[], 0, "allow by rule 'own'\n").await;
    why(&["--door", "bus"], 1, "deny by rule 'no-scripts': scripts are not for others").await;
    why(&["--principal", "claimed:local:local"], 1, "ask by default: no rule allows it").await;
    let run = policy(&file, &["why", "nothing"]).await;
    assert_eq!((run.status.code(), &*run.stdout), (Some(2), ""));

    let run = policy(&file, &["check"]).await;
    let expected = "preset: none, default: ask, rules: 2, limits: 0, budgets: 0\n";
    assert!(run.stdout.contains(expected), "{run:?}");
    assert!(run.stdout.contains("the glob 'mcp:gone/*' matches no tool"), "{run:?}");
    assert!(run.status.success() && !run.stdout.contains("'script/*'"), "{run:?}");

    let run = policy(&file, &["matrix", "--json"]).await;
    let matrix: Value = serde_json::from_str(&run.stdout).unwrap();
    let cell = |cell: &&Value| {
        cell["tool"] == "script/execute_python_script"
            && cell["principal"] == "claimed:somebody"
            && cell["door"] == "mcp"
    };
    let cell = matrix["cells"].as_array().unwrap().iter().find(cell).unwrap();
    assert_eq!((&cell["decision"], &cell["by"]), (&json!("deny"), &json!("rule 'no-scripts'")));
}

#[tokio::test]
async fn a_rule_that_is_never_reached_keeps_the_program_from_starting() {
    let folder = tempfile::tempdir().unwrap();
    let late =
        "[[policy.rules]]\nname = \"late\"\neffect = \"allow\"\nprincipals = [\"local:x\"]\n";
    let file = settings_file(folder.path(), &format!("{BOOK}{late}"));
    let run = policy(&file, &["check"]).await;
    assert_eq!(run.status.code(), Some(2));
    let expected = "policy.rules[2]: rule 'late' is never reached: rule 'own' before it decides";
    assert!(run.stderr.contains(expected), "{}", run.stderr);
}

#[tokio::test]
async fn a_policy_is_replaced_as_a_whole_or_not_at_all() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let bus = vhost.amqp_url();
    let folder = tempfile::tempdir().unwrap();
    let file = settings_file(folder.path(), "");
    let mut agent = start(launch("agent-host", &bus).arg("--config").arg(&file).arg("serve")).await;
    let stranger = Stranger::new(&vhost, &[]).await;
    let call = async || {
        let frame = Frame::tool("tool.invoke", "list_tool_guides", &json!({}));
        stranger.ask(&frame).await.body["code"].clone()
    };
    assert_eq!(call().await, Value::Null);

    let deny = "[policy]\ndefault = \"deny\"\n";
    std::fs::write(&file, deny).unwrap();
    let logged = async |agent: &mut toolbus_testkit::process::Service, text: &str| {
        eventually(LIMIT, async || {
            let log = agent.process().stderr();
            ensure!(log.contains(text), "{log}");
            Ok(())
        })
        .await;
    };
    logged(&mut agent, "replaced the policy").await;
    assert_eq!(call().await, "denied");

    // A mistake anywhere keeps what there was, though the policy in it would allow.
    std::fs::write(&file, "[policy]\ndefault = \"allow\"\n[bus]\nprefetch = 0\n").unwrap();
    logged(&mut agent, "the settings have mistakes: the policy is kept").await;
    assert_eq!(call().await, "denied");
}
