//! Approvals that are answered at the command line, in another process than the one that waits.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use toolbus::{ApprovalDemand, Decision, Invoker, PolicyRequest, Registry, Scope, Tool};
use toolbus_approvals::{ApprovalConfig, Approvals, MIGRATIONS};
use toolbus_store::{LazyStore, Location};
use toolbus_testkit::eventually;
use toolbus_testkit::process::{Finished, Launch};
use toolbus_tools::call::{Call, Invocation, Outcome as CallOutcome, Output};
use toolbus_tools::{Door, Principal};
use toolbus_wire::name::AgentName;

use crate::asks::on_a_terminal;
use crate::face::{ERAS, Host};
use crate::support::*;

/// A process whose calls of `pay` have to be approved by somebody else.
struct Waiting {
    approvals: Approvals,
    invoker: Invoker,
}

impl Waiting {
    fn at(file: &Path) -> Self {
        let store = LazyStore::new(Location::Sqlite(file.to_owned()), &[MIGRATIONS]);
        let config = ApprovalConfig { wait_for_operator: true, ..ApprovalConfig::default() };
        let approvals = Approvals::new(store, config, &AgentName::standard(), "test");
        let registry = Registry::new();
        let pay = |call: Invocation| {
            std::future::ready(Ok(Output::text(Value::Object(call.arguments).to_string())))
        };
        registry.register(Tool::new("pay", "", "test"), pay).unwrap();
        let policy =
            |_: &PolicyRequest<'_>| Decision::Ask(ApprovalDemand::new("payments", "money moves"));
        let invoker = Invoker::builder(Arc::new(registry)).policy(policy).gate(approvals.gate());
        Self { approvals, invoker: invoker.build() }
    }

    async fn pay(&self, arguments: Value) -> CallOutcome {
        let alice = Principal::claimed("alice");
        let scope = Arc::new(Scope::new(Door::Mcp, alice, AgentName::standard()));
        self.invoker.invoke(Call::by_name(&scope, "pay", arguments).unwrap()).await
    }
}

pub(crate) async fn approvals(file: &Path, arguments: &[&str]) -> Finished {
    let store = format!("sqlite:{}", file.display());
    let launch = Launch::new("agent-host").arg("approvals").args(arguments);
    launch.env("TOOLBUS_STORE", store).run(LIMIT).await.unwrap()
}

pub(crate) async fn json_of(file: &Path, arguments: &[&str]) -> Value {
    let finished = approvals(file, arguments).await;
    assert!(finished.status.success(), "{finished:?}");
    serde_json::from_str(&finished.stdout).unwrap()
}

/// The id of the only call that waits.
pub(crate) async fn waiting_id(file: &Path) -> String {
    let mut id = String::new();
    eventually(LIMIT, async || {
        let listed = json_of(file, &["list", "--json"]).await;
        match listed[0]["id"].as_str() {
            Some(found) => {
                id = found.to_owned();
                Ok(())
            }
            None => Err(listed.to_string()),
        }
    })
    .await;
    id
}

#[tokio::test]
async fn calls_are_answered_from_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state.db");
    assert_eq!(json_of(&file, &["list", "--json"]).await, json!([]));
    assert!(!file.exists(), "a look makes no file");
    let waiting = Waiting::at(&file);

    let answering = async {
        let id = waiting_id(&file).await;
        let listed = approvals(&file, &["list"]).await.stdout;
        let start = format!("{}  pending ", &id[..12]);
        assert!(listed.starts_with(&start) && listed.contains("alice (claimed)"), "{listed}");
        let shown = approvals(&file, &["show", &id[..8]]).await.stdout;
        for part in ["test/pay", "payments", "money moves", "\"to\": \"bob\"", "pending"] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        let args = ["approve", &id, "--remember", "tool", "--for", "1h", "--note", "go on"];
        let said = approvals(&file, &args).await;
        assert_eq!(said.stdout, format!("{id}: test/pay is approved\n"), "{said:?}");
        let late = approvals(&file, &["deny", &id]).await;
        assert_eq!(late.status.code(), Some(1), "{late:?}");
        assert!(late.stderr.contains("already by "), "{late:?}");
    };
    let (outcome, ()) = tokio::join!(waiting.pay(json!({"to": "bob"})), answering);
    assert_eq!(outcome.unwrap().content.unwrap(), r#"{"to":"bob"}"#);

    // It is remembered, until it is taken back.
    waiting.pay(json!({"to": "carol"})).await.unwrap();
    let remembered = json_of(&file, &["remembered", "--json"]).await;
    assert_eq!(remembered[0]["remember"], "tool");
    let id = remembered[0]["id"].as_str().unwrap();
    assert_eq!(approvals(&file, &["revoke", id]).await.stdout, "1 taken back\n");
    assert_eq!(approvals(&file, &["revoke", id]).await.status.code(), Some(1));

    let answering = async {
        let id = waiting_id(&file).await;
        let other = approvals(&file, &["approve", &id, "--arguments", "[1]"]).await;
        assert_eq!(other.status.code(), Some(1), "{other:?}");
        let other = approvals(&file, &["approve", &id, "--arguments", r#"{"to": "dave"}"#]).await;
        assert!(other.stdout.ends_with("is modified\n"), "{other:?}");
    };
    let (outcome, ()) = tokio::join!(waiting.pay(json!({"to": "carol"})), answering);
    assert_eq!(outcome.unwrap().content.unwrap(), r#"{"to":"dave"}"#);

    let answering = async {
        let id = waiting_id(&file).await;
        assert!(approvals(&file, &["deny", &id, "--note", "no"]).await.status.success());
    };
    let (outcome, ()) = tokio::join!(waiting.pay(json!({"to": "erin"})), answering);
    let error = outcome.unwrap_err();
    assert!(error.message.starts_with("'test/pay' was denied by "), "{error}");
    let all = json_of(&file, &["list", "--all", "--json"]).await;
    let states: Vec<_> = all.as_array().unwrap().iter().map(|row| &row["state"]).collect();
    assert_eq!(states, ["consumed", "consumed", "denied"]);
    waiting.approvals.close().await;
}

/// Nothing is opened, and nothing is kept, before a call needs it.
#[tokio::test]
async fn a_service_says_where_it_keeps_state() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state.db");
    let store = format!("sqlite:{}", file.display());
    let launch = Launch::new("agent-host").arg("serve").env("TOOLBUS_STORE", &store);
    let mut service = start(launch).await;

    let (_, status) = service.look("/status").await.unwrap();
    let status: Value = serde_json::from_str(&status).unwrap();
    let expected = json!({"location": store, "keeps": ["approvals", "sessions", "memory", "schedules", "artifacts"]});
    assert_eq!(status["details"]["state"], expected, "{status}");
    let log = service.process().logs();
    assert!(log.contains(&store), "{log}");
    assert!(!file.exists());
}

#[tokio::test]
async fn a_store_that_is_none_is_a_mistake_in_the_settings() {
    let launch = Launch::new("agent-host").args(["approvals", "list"]);
    let run = launch.env("TOOLBUS_STORE", "mysql://me:hunter2@host/db").run(LIMIT).await.unwrap();
    assert_eq!(run.status.code(), Some(2), "{run:?}");
    let told = "expected sqlite:PATH or postgres://USER@HOST/DATABASE";
    assert!(run.stderr.contains(told) && !run.stderr.contains("hunter2"), "{run:?}");
}

/// Settings by which every call of a tool of a server needs an approval.
fn asking_settings(folder: &Path, more: &str) -> PathBuf {
    let file = folder.join("toolbus.toml");
    let store = folder.join("state.db");
    let text = format!(
        r#"
        store = "sqlite:{}"
        [[policy.rules]]
        name = "careful"
        effect = "ask"
        reason = "it marks"
        tools = ["mcp:*"]
        read_only = false
        {more}
        "#,
        store.display()
    );
    std::fs::write(&file, text).unwrap();
    file
}

#[tokio::test]
async fn a_person_at_a_terminal_answers_for_their_own_calls() {
    let (servers, folder) = (Servers::with(&[]), tempfile::tempdir().unwrap());
    let settings = asking_settings(folder.path(), "").display().to_string();
    let list = servers.file().display().to_string();
    let call = json!({"server_name": "marks", "tool_name": "mark", "arguments": {}}).to_string();
    let arguments =
        ["--config", &settings, "--mcp-config", &list, "invoke", "mcp_invoke_tool", &call];

    let (exit, shown) = on_a_terminal(&arguments, ("[N]o: ", "y\n")).await;
    assert!(exit == 0 && shown.contains("mark: done"), "{shown}");
    for part in ["'mcp:marks/mark' wants to run", "it marks", "rule 'careful'"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // Nothing is a no, and so is every other key.
    for keys in ["\n", "x\n"] {
        let (exit, shown) = on_a_terminal(&arguments, ("[N]o: ", keys)).await;
        assert!(exit == 1 && shown.contains("denied"), "{shown}");
    }
    assert_eq!(servers.marks(), ["mark"]);
}

#[tokio::test]
async fn mcp_clients_answer_for_their_own_calls_only_where_they_may() {
    for may in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let more = format!("[approvals]\nallow_self_approval = {may}");
        let settings = asking_settings(folder.path(), &more);
        let launch = Launch::new("agent-host").arg("--config").arg(settings);
        let Some((host, servers)) = Host::with_marks(launch).await else { return };

        for (era, _) in ERAS {
            let call = |decision: &str| {
                let mut step = host.call("/marks", "mark", json!({}));
                step["answers"] = json!({"form": {"decision": decision}});
                step
            };
            let [yes, no] = host.does(era, [call("approve"), call("deny")]).await;
            let text = |told: &Value| told["content"][0]["text"].as_str().unwrap().to_owned();
            assert!(text(&no).starts_with("denied: 'mcp:marks/mark' "), "{no}");
            if may {
                assert_eq!(text(&yes), "mark: done", "{yes}");
                let asked = yes["asked"][0].as_str().unwrap();
                assert!(asked.starts_with("May 'mcp:marks/mark' run?"), "{asked}");
            } else {
                assert_eq!((&yes["isError"], &yes["asked"]), (&json!(true), &json!([])), "{yes}");
                assert!(text(&yes).contains("there is nobody to ask"), "{yes}");
            }
        }
        let expected: &[&str] = if may { &["mark", "mark"] } else { &[] };
        assert_eq!(servers.marks(), expected);
    }
}
