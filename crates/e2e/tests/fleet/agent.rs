//! The agent at the command line: a scripted model, and the fleet behind its tools.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolbus_testkit::litellm::LiteLlm;
use toolbus_testkit::process::{Finished, Launch, binary};
use toolbus_testkit::rabbit::{self, Message};
use toolbus_testkit::scripted_server::{Part, Reply, Server};
use toolbus_testkit::{eventually, process::Process};

use crate::support::{ANSWERS, Frame, LIMIT, Stranger, as_told, scripts, start};

/// An answer of OpenAI's chat completions: this text, and calls of these tools.
pub(crate) fn answer(text: &str, calls: &[(&str, Value)]) -> Reply {
    let mut events = Vec::new();
    let mut event = |delta: Value, stop: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": stop});
        let chunk = json!({
            "id": "answer", "object": "chat.completion.chunk", "created": 1, "model": "model-1",
            "choices": [choice],
        });
        events.push(format!("data: {chunk}\n\n"));
    };
    for word in text.split_inclusive(' ') {
        event(json!({"content": word}), None);
    }
    for (index, (name, arguments)) in calls.iter().enumerate() {
        let function = json!({"name": name, "arguments": arguments.to_string()});
        let id = format!("call_{index}");
        let call = json!({"index": index, "id": id, "type": "function", "function": function});
        event(json!({"tool_calls": [call]}), None);
    }
    let stop = if calls.is_empty() { "stop" } else { "tool_calls" };
    event(json!({}), Some(stop));
    events.push("data: [DONE]\n\n".to_owned());
    Reply::events(events)
}

pub(crate) fn script(source: &str) -> (&'static str, Value) {
    ("execute_python_script", json!({"script": source}))
}

/// A policy that asks for no approval. Tests of approvals leave it out.
pub(crate) const OPEN: &str = "[policy]\npreset = \"open\"\n";

/// A folder with settings that name the server's model.
pub(crate) fn settings(server: &Server) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "store = \"sqlite:{}\"\n{OPEN}[models]\nretries = 0\n[models.endpoints.main]\nprovider = \
         \"openai\"\nmodel = \"model-1\"\nbase_url = \"{}\"\napi_key = \"sk-hunter2\"\n",
        folder.path().join("state.db").display(),
        server.url
    );
    std::fs::write(folder.path().join("toolbus.toml"), text).unwrap();
    folder
}

pub(crate) fn launch(folder: &Path, arguments: &[&str]) -> Launch {
    let config = folder.join("toolbus.toml");
    Launch::new("agent-host").arg("--config").arg(config).args(arguments.iter().copied())
}

pub(crate) async fn run(folder: &Path, arguments: &[&str]) -> Finished {
    launch(folder, arguments).run(LIMIT).await.unwrap()
}

/// The results that the model was given in its last request.
pub(crate) fn results(server: &Server) -> Vec<String> {
    let asked = server.asked();
    let messages = asked.last().unwrap().body["messages"].as_array().unwrap().clone();
    let results = messages.iter().filter(|message| message["role"] == "tool");
    results.map(|result| result["content"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_agent_answers_with_what_its_tools_say() {
    let calls = [script("print(6 * 7)"), ("no_such_tool", json!({}))];
    let server = Server::start([
        answer("I look. ", &calls),
        answer("It is 42.", &[]),
        answer("As I said.", &[]),
    ])
    .await;
    let folder = settings(&server);
    let folder = folder.path();

    let asked = run(folder, &["ask", "What is six times seven?", "--session", "sums"]).await;
    assert!(asked.status.success(), "{asked:?}");
    assert_eq!((&*asked.stdout, &*asked.stderr), ("I look. It is 42.\n", ""));
    let told = results(&server);
    assert_eq!(told[0], "42\n");
    assert_eq!(told[1], "Error: Tool 'no_such_tool' is not registered.");
    let tools = server.asked()[0].body["tools"].as_array().unwrap().len();
    assert!(tools > 20, "{tools}");

    // The session goes on in another process.
    let again = run(folder, &["ask", "Sure?", "--session", "sums", "--json"]).await;
    let again: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!((&again["text"], &again["session"]), (&json!("As I said."), &json!("session/sums")));
    assert_eq!(server.asked()[2].body["messages"].as_array().unwrap().len(), 7);

    let listed = run(folder, &["sessions"]).await;
    assert_eq!(listed.stdout, "session/sums  What is six times seven?\n");
    let shown = run(folder, &["sessions", "sums"]).await;
    assert!(shown.stdout.contains("> Sure?\nAs I said.\n"), "{}", shown.stdout);
}

/// Where tools can be found by what they are for, a turn begins with those that fit.
#[tokio::test]
async fn a_turn_begins_with_the_tools_that_fit_what_was_said() {
    let server = Server::answering(|_| answer("Well.", &[])).await;
    let folder = settings(&server);
    let folder = folder.path();
    let ask = async |text: &str, enabled: &str| {
        let launch = launch(folder, &["ask", text]).env("TOOLBUS_DISCOVERY__ENABLED", enabled);
        let asked = launch.run(LIMIT).await.unwrap();
        assert!(asked.status.success(), "{asked:?}");
        server.asked().last().unwrap().body["messages"].to_string()
    };
    let told = ask("Please execute a Python script", "true").await;
    let hint = "Potentially relevant tools for this request";
    assert!(told.contains(hint) && told.contains("- execute_python_script: "), "{told}");
    assert!(!ask("Zyzzyva qwfp", "true").await.contains(hint));
    assert!(!ask("Please execute a Python script", "false").await.contains(hint));
}

#[tokio::test]
async fn what_keeps_the_agent_from_answering_is_told() {
    let denied = json!({"error": {"message": "bad key sk-hunter2", "code": "invalid_api_key"}});
    let server = Server::start([Reply::error(401, &denied)]).await;
    let folder = settings(&server);
    let refused = run(folder.path(), &["ask", "Hello"]).await;
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(refused.stderr.contains("refused the key"), "{refused:?}");
    assert!(!refused.stderr.contains("hunter2"), "{refused:?}");

    let misuse = async |arguments: &[&str], expected: &str| {
        let run = run(folder.path(), arguments).await;
        assert_eq!(run.status.code(), Some(2), "{run:?}");
        assert!(run.stderr.contains(expected), "{run:?}");
    };
    misuse(&["ask", "Hello", "--model", "other"], "there is no model 'other'").await;
    misuse(&["ask", " "], "nothing to say").await;
    misuse(&["ask", "Hello", "--session", "a b"], "a session id").await;
    let none = Launch::new("agent-host").args(["ask", "Hello"]).run(LIMIT).await.unwrap();
    assert_eq!(none.status.code(), Some(2), "{none:?}");
    assert!(none.stderr.contains("there is no model"), "{none:?}");
}

#[tokio::test]
async fn a_profile_that_cannot_be_used_is_told() {
    let server = Server::start([answer("It is Ada.", &[])]).await;
    let folder = settings(&server);
    let profile = folder.path().join("profile");
    std::fs::create_dir(&profile).unwrap();
    std::fs::write(profile.join("1-soul.md"), "You are Ada.\n").unwrap();
    let ask = async || {
        let launch = launch(folder.path(), &["ask", "Who are you?"]);
        launch.env("TOOLBUS_AGENT__PROFILE", &profile).run(LIMIT).await.unwrap()
    };

    let rules = profile.join("2-rules.md");
    std::os::unix::fs::symlink("not-there", &rules).unwrap();
    let run = ask().await;
    let told = format!("the profile cannot be used: {}: it is a link to nothing", rules.display());
    assert_eq!(run.status.code(), Some(2), "{run:?}");
    assert!(run.stderr.contains(&told), "{run:?}");
    assert_eq!(server.asked().len(), 0);

    std::fs::remove_file(&rules).unwrap();
    let run = ask().await;
    assert_eq!(run.stdout, "It is Ada.\n", "{run:?}");
    let system = server.only_request().body["messages"][0]["content"].clone();
    let system = system.as_str().unwrap();
    assert!(system.starts_with("You are Ada.\n\n# Text from outside\n"), "{system}");
}

/// Definitions that do not fit are found by a search, and a result that is too long comes in parts.
#[tokio::test]
async fn tools_are_found_and_long_results_are_split() {
    let long = "print('# One\\n' + 'a' * 60_000 + '\\n# Two\\n' + 'b' * 60_000)";
    let server = Server::start([
        answer("", &[("tool_search", json!({"query": "save_skill"}))]),
        answer("", &[script(long), ("list_skills", json!({}))]),
        answer("Done.", &[]),
    ])
    .await;
    let folder = settings(&server);
    let asked = launch(folder.path(), &["ask", "Look"])
        .env("TOOLBUS_AGENT__DEFINITIONS_MAX", "3KiB")
        .run(LIMIT)
        .await
        .unwrap();
    assert_eq!(asked.stdout, "Done.\n", "{asked:?}");

    let offered = |at: usize| -> Vec<String> {
        let tools = server.asked()[at].body["tools"].as_array().unwrap().clone();
        tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let (before, after) = (offered(0), offered(1));
    assert!(before.len() < 10 && !before.contains(&"save_skill".to_owned()), "{before:?}");
    assert!(after.starts_with(&before) && after.contains(&"save_skill".to_owned()), "{after:?}");

    let results = results(&server);
    let index = &results[results.len() - 2];
    assert!(index.contains("has been split into 2 chunk(s)"), "{index}");
    assert!(index.contains("| 0 | One | `session/") && index.contains("art_"), "{index}");
    assert!(index.len() < 2_000, "{index}");
    assert!(results.last().unwrap().contains("No skills saved yet"), "{results:?}");
}

/// Programs have turns over HTTP, and are told of them while they run.
#[tokio::test]
async fn a_program_has_turns_over_http() {
    let server =
        Server::start([answer("I look. ", &[script("print(6 * 7)")]), answer("42.", &[])]).await;
    let folder = settings(&server);
    let launch = launch(folder.path(), &["serve", "--http", "127.0.0.1:0"]);
    let launch = launch.env("TOOLBUS_HTTP__TOKENS__alice", "${TOKEN_OF_ALICE}");
    let service = start(launch.env("TOKEN_OF_ALICE", "a token of alice")).await;
    let (_, status) = service.look("/status").await.unwrap();
    let status: Value = serde_json::from_str(&status).unwrap();
    let url = format!("http://{}/v1/turns", status["details"]["http"].as_str().unwrap());

    let client = toolbus_testkit::http_client_builder().build().unwrap();
    let said = json!({"text": "What is it?", "session": "sums"});
    let refused = client.post(&url).json(&said).send().await.unwrap();
    assert_eq!(refused.status(), 401);
    // What settings say of where a token is, is none.
    let refused = client.post(&url).json(&said).bearer_auth("${TOKEN_OF_ALICE}");
    assert_eq!(refused.send().await.unwrap().status(), 401);
    let turn = client.post(&url).json(&said).bearer_auth("a token of alice");
    let turn = turn.header("accept", "text/event-stream").send().await.unwrap();
    let told = turn.text().await.unwrap();
    for expected in [
        "event: session\ndata: {\"session\":\"sums\"}\n\n",
        "event: call_begun\ndata: {\"id\":\"call_0\",\"tool\":\"execute_python_script\"",
        "\"text\":\"42\\n\"}\n\n",
        "event: end\ndata: {\"end\":\"answered\",\"text\":\"42.\"",
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
}

/// What a skill is listed under is written by a model, once it is saved.
#[tokio::test]
async fn a_skill_is_summed_up_by_the_model() {
    let server = Server::answering(|asked| {
        let asked = &as_told(asked);
        let messages = asked.body["messages"].as_array().unwrap();
        let (first, last) = (&messages[1]["content"], &messages[messages.len() - 1]);
        if first.as_str().unwrap().starts_with("# Tea") {
            return answer("How tea is\nmade.", &[]);
        }
        let page = json!({"name": "tea", "content": "# Tea\n\nBoil water."});
        let calls = [("save_skill", page)];
        answer("Noted.", if last["role"] == "tool" { &[] } else { &calls })
    })
    .await;
    let folder = settings(&server);
    let asked = run(folder.path(), &["ask", "Remember how to make tea"]).await;
    assert_eq!(asked.stdout, "Noted.Noted.\n", "{asked:?}");
    let listed = run(folder.path(), &["invoke", "list_skills"]).await;
    assert!(listed.stdout.contains("tea: How tea is made."), "{listed:?}");
}

/// Both APIs, with every tool that there is, through a proxy that others wrote: to Anthropic's
/// messages it is spoken as they are, and a server of OpenAI's API is behind it.
#[tokio::test]
async fn the_agent_works_through_a_proxy_of_others() {
    let backend = Server::answering(|asked| {
        let messages = asked.body["messages"].as_array().unwrap();
        match messages.last().unwrap()["role"].as_str() {
            Some("tool") => answer("It is 42.", &[]),
            _ => answer("I look. ", &[script("print(6 * 7)")]),
        }
    })
    .await;
    let params = json!({"model": "hosted_vllm/model-1", "api_base": backend.url, "api_key": "x"});
    let models = json!([{"model_name": "proxied", "litellm_params": params}]);
    let Some(proxy) = LiteLlm::start(&models.to_string()).await else { return };
    let folder = tempfile::tempdir().unwrap();
    let endpoint = |name: &str, provider: &str, url: &str| {
        format!(
            "[models.endpoints.{name}]\nprovider = \"{provider}\"\nmodel = \"proxied\"\n\
             base_url = \"{url}\"\napi_key = \"{}\"\n",
            LiteLlm::KEY
        )
    };
    let store = format!("store = \"sqlite:{}/state.db\"\n", folder.path().display());
    let openai = endpoint("gpt", "openai", &format!("{}/v1", proxy.url()));
    let anthropic = endpoint("claude", "anthropic", &proxy.url());
    std::fs::write(folder.path().join("toolbus.toml"), store + &openai + &anthropic).unwrap();

    for model in ["gpt", "claude"] {
        let asked =
            run(folder.path(), &["ask", "What is six times seven?", "--model", model]).await;
        assert_eq!(asked.stdout, "I look. It is 42.\n", "{model}: {asked:?}");
        assert_eq!(results(&backend), ["42\n"], "{model}");
        let offered = backend.asked().last().unwrap().body["tools"].as_array().unwrap().len();
        assert!(offered > 20, "{model}: {offered}");
    }
}

/// Killed and resumed: the call that had ended is not made again, in a fleet over a broker.
#[tokio::test]
async fn a_turn_goes_on_after_its_process_was_killed() {
    let Some(vhost) = rabbit::vhost().await else { return };
    let _manager = scripts(&vhost.amqp_url()).await;
    let hanging = Reply::events([": nothing yet\n\n"]).then(Part::Hang);
    let source = "import uuid\nprint(uuid.uuid4())";
    let server = Server::start([
        answer("", &[script(source)]),
        hanging,
        answer("It ran once.", &[]),
        answer("Nothing else.", &[]),
    ])
    .await;
    let folder = settings(&server);
    let bus = vhost.amqp_url();

    let arguments = ["--bus", &bus, "ask", "Run it", "--session", "a"];
    let mut first = launch(folder.path(), &arguments).start().unwrap();
    eventually(LIMIT, async || match server.asked().len() {
        2 => Ok(()),
        requests => Err(requests),
    })
    .await;
    let before = results(&server);
    first.process().kill();

    let arguments = ["--bus", &bus, "ask", "What else?", "--session", "a"];
    let second = run(folder.path(), &arguments).await;
    assert!(second.status.success(), "{second:?}");
    assert_eq!(second.stdout, "It ran once.Nothing else.\n");
    assert_eq!(results(&server), before, "its output is another each time that it runs");
    assert_eq!(before.len(), 1);
}

/// Two processes of one agent share its users: each message is answered once, whoever takes it.
#[tokio::test]
async fn two_hosts_of_one_name_answer_each_message_once() {
    const MESSAGES: usize = 40;
    let Some(vhost) = rabbit::vhost().await else { return };
    let bus = vhost.amqp_url();
    let server = Server::answering(|asked| {
        let messages = asked.body["messages"].as_array().unwrap();
        let said = messages.iter().rfind(|message| message["role"] == "user").unwrap();
        answer(&format!("heard {}", said["content"].as_str().unwrap()), &[])
    })
    .await;
    let folder = settings(&server);
    let serve = || start(launch(folder.path(), &["--bus", &bus, "serve"]));
    let _hosts = (serve().await, serve().await);

    let user = Stranger::new(&vhost, &[]).await;
    for at in 0..MESSAGES {
        let session = format!("s{}", at % 8);
        let said = json!({"content": at.to_string(), "sessionId": session, "userId": "u"});
        let kind = "RockBot.UserProxy.UserMessage";
        user.send(&Frame::new("user.message", kind, said.to_string())).await;
    }
    let replies = user.take(ANSWERS, MESSAGES).await;
    let text = |message: &Message| -> String {
        let reply: Value = serde_json::from_slice(&message.body).unwrap();
        reply["content"].as_str().unwrap().to_owned()
    };
    let mut texts: Vec<_> = replies.iter().map(text).collect();
    texts.sort();
    let mut expected: Vec<_> = (0..MESSAGES).map(|at| format!("heard {at}")).collect();
    expected.sort();
    assert_eq!(texts, expected);
    assert_eq!(server.asked().len(), MESSAGES, "no turn was done twice");
}

/// What does not fit on the disk is told, and what was said before that is there.
#[tokio::test]
async fn a_full_disk_is_told_and_the_session_goes_on_later() {
    let server = Server::answering(|_| answer("Heard.", &[])).await;
    let folder = settings(&server);
    let disk = tempfile::tempdir().unwrap();
    let config = folder.path().join("toolbus.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    let (_, models) = text.split_once('\n').unwrap();
    let store = format!("store = \"sqlite:{}/state.db\"", disk.path().display());
    std::fs::write(&config, format!("{store}\n{models}")).unwrap();

    let script = r#"
        mount -t tmpfs -o size=4m none "$1"
        ask() {
            "$2" --config "$3" ask "$4" --session a 2>"$3.err"
            echo "exit $?"
            grep '^error' "$3.err"
        }
        ask "$@" one
        head -c 8M /dev/zero > "$1/filler" 2>/dev/null
        ask "$@" two
        rm "$1/filler"
        ask "$@" three
    "#;
    let mut command = tokio::process::Command::new("timeout");
    command.args(["60", "unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh"]);
    command.arg(disk.path()).arg(binary("agent-host").unwrap()).arg(&config);
    command.env("XDG_STATE_HOME", folder.path());
    let output = command.output().await.unwrap();
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let full = "error: sessions cannot be kept: the disk that the state is on is full\n";
    assert_eq!(output, format!("Heard.\nexit 0\nexit 1\n{full}Heard.\nexit 0\n"));

    let asked = server.asked();
    let last = asked.last().unwrap().body["messages"].as_array().unwrap();
    assert!(last.iter().any(|message| message["content"] == "one"), "{last:?}");
}

/// What a person sees who talks with it, and interrupts it.
#[tokio::test]
async fn a_person_talks_with_the_agent() {
    let server = Server::start([
        answer("One moment. ", &[script("import time\ntime.sleep(60)")]),
        answer("Hello!", &[]),
    ])
    .await;
    let folder = settings(&server);
    let typing = include_str!("chat.py");
    let mut command = std::process::Command::new("python3");
    command.args(["-c", typing]).arg(binary("agent-host").unwrap());
    command.arg("--config").arg(folder.path().join("toolbus.toml")).arg("chat");
    command.env("XDG_STATE_HOME", folder.path()).env("TERM", "xterm");
    let mut process = Process::spawn("chat", &mut command, folder.path()).unwrap();
    let status = process.wait(LIMIT).await.unwrap();
    let shown = process.stdout();
    assert!(status.success(), "{shown}");
    for expected in [
        "One moment.",
        "execute_python_script {\"script\":",
        "cancelled",
        "Hello!",
        "tokens read",
        "there is no /nothing",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    assert!(shown.lines().all(|line| line.chars().count() < 200), "{shown}");
    assert_eq!(server.asked().len(), 2);
}
