//! A state folder that programs of both commits use in turn. Each is stopped or killed with calls
//! in flight. The whole fleet runs in one process.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use toolbus_testkit::eventually;
use toolbus_testkit::process::{Launch, Process};
use toolbus_testkit::scripted_server::Server;

use super::api::{self, Api};
use super::effects::{Ledger, stored_jobs};
use super::tally::{Effect, Tally, now_ms};
use super::{Ending, Version};
use crate::agent::answer;
use crate::support::{LIMIT, start};

/// The hosts of the folder in order, with the way each ends. The last one stays.
const TURNS: [(Version, Ending); 6] = [
    (Version::Earlier, Ending::Stop),
    (Version::Current, Ending::Kill),
    (Version::Earlier, Ending::Kill),
    (Version::Current, Ending::Stop),
    (Version::Earlier, Ending::Stop),
    (Version::Current, Ending::Stop),
];

/// Prompt that has the model schedule a task.
const SCHEDULE: &str = "Tick every two seconds";
/// A program whose output is large enough to be stored as an artifact.
const LINES: &str = "for n in range(10000): print('line', n)";
/// Time of an effect that is still in flight when its host ends, in milliseconds.
const LONG_MS: u64 = 300_000;
const QUICK_MS: u64 = 50;

/// An acknowledged job.
struct Submitted {
    job: String,
    call: String,
    /// The job is in the queue when its host ends, or has ended before.
    is_quick: bool,
}

/// A call that waits for an approval, in a separate process that outlives its host.
struct Waiting {
    process: Process,
    call: String,
    _folder: TempDir,
}

/// The folder, and the state that every later program must find in it.
struct StateFolder {
    folder: TempDir,
    ledger: Ledger,
    model: Server,
    key: String,
    jobs: Vec<Submitted>,
    waiting: Option<Waiting>,
    /// Times at which hosts ended with calls in flight.
    ends_ms: Vec<(i64, i64)>,
    turns: usize,
    artifacts: Vec<String>,
}

impl StateFolder {
    async fn new() -> Self {
        let (folder, ledger) = (tempfile::tempdir().unwrap(), Ledger::new());
        let task = json!({"name": "tick", "cron": "*/2 * * * * *", "description": "Say tick."});
        let model = Server::answering(move |asked| {
            let messages = asked.body["messages"].as_array().unwrap();
            let said = messages.iter().rfind(|message| message["role"] == "user").unwrap();
            let is_result = messages.last().unwrap()["role"] == "tool";
            match said["content"] == SCHEDULE && !is_result {
                true => answer("", &[("schedule_task", task.clone())]),
                false => answer("Noted.", &[]),
            }
        })
        .await;

        let state = Self {
            folder,
            ledger,
            model,
            key: String::new(),
            jobs: Vec::new(),
            waiting: None,
            ends_ms: Vec::new(),
            turns: 0,
            artifacts: Vec::new(),
        };
        state.write_settings();
        state
    }

    fn write_settings(&self) {
        let servers = json!({"mcpServers": {"ledger": self.ledger.server()}}).to_string();
        std::fs::write(self.path("mcp.json"), servers).unwrap();
        let key = self.path("vault.key");
        std::fs::write(&key, "1".repeat(64) + "\n").unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();

        let head = format!(
            "store = \"{}\"\n[shutdown]\ngrace = \"3s\"\n[mcp]\nconfig = \"{}\"\n\
             allow_stdio_registration = true\nsandbox_registered = false\n[vault]\n\
             key_file = \"{}\"\n[artifacts]\ndoors = [\"command-line\"]\n[approvals]\n\
             wait_for_operator = true\ntimeout = \"20m\"\n[models]\nretries = 0\n\
             [models.endpoints.main]\nprovider = \"openai\"\nmodel = \"model-1\"\n\
             base_url = \"{}\"\napi_key = \"sk-hunter2\"\n",
            self.store(),
            self.path("mcp.json").display(),
            key.display(),
            self.model.url,
        );
        let policy = "[[policy.rules]]\nname = \"held\"\neffect = \"ask\"\n\
                      reason = \"a person says so\"\ntools = [\"mcp:ledger/held\"]\n\
                      [[policy.limits]]\nname = \"months\"\ncalls = 1000000\nper = \"month\"\n";
        let settings = [&head, api::SETTINGS, policy].concat();
        std::fs::write(self.path("toolbus.toml"), settings).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn store(&self) -> String {
        format!("sqlite:{}", self.path("state.db").display())
    }

    fn launch(&self, version: Version, arguments: &[&str]) -> Launch {
        let launch = version.launch("agent-host").arg("--config").arg(self.path("toolbus.toml"));
        let launch = launch.args(arguments.iter().copied());
        launch.env("XDG_STATE_HOME", self.path("state")).env("XDG_DATA_HOME", self.path("data"))
    }

    /// Runs a command that must succeed, and returns its output.
    async fn run(&self, version: Version, arguments: &[&str], input: &str) -> String {
        let launch = self.launch(version, arguments).stdin(input);
        let finished = launch.run(LIMIT).await.unwrap();
        assert!(finished.status.success(), "{version:?}: {arguments:?}: {finished:?}");
        finished.stdout
    }

    /// Runs one host: it checks the state that earlier hosts left, adds more, and ends with calls
    /// in flight.
    async fn serve(&mut self, version: Version, ending: Ending) {
        let mut service = start(self.launch(version, &["serve"])).await;
        let api = Api::of(&service).await;
        if self.turns == 0 {
            self.key = api.new_key("ci").await;
            self.run(version, &["ask", SCHEDULE], "").await;
            let server = self.ledger.server();
            let arguments = json!({
                "server_name": "second", "command": server["command"], "arguments": server["args"],
            });
            let register = ["invoke", "mcp_register_server", &arguments.to_string()];
            self.run(version, &register, "").await;
        }

        self.check(version, &api).await;
        self.approve_waiting(version).await;
        self.add(version).await;
        self.put_in_flight(version, &api).await;
        let from = now_ms();
        match ending {
            Ending::Stop => {
                service.process().terminate(LIMIT).await.unwrap();
            }
            Ending::Kill => service.process().kill(),
        }
        // A call that takes longer than the grace period is cut off as by a kill.
        self.ends_ms.push((from, now_ms()));
        self.turns += 1;
    }

    /// Checks that the state of all earlier hosts is there.
    async fn check(&self, version: Version, api: &Api) {
        let sessions = self.run(version, &["sessions", "--json"], "").await;
        let secrets = self.run(version, &["vault", "list", "--json"], "").await;
        for turn in 0..self.turns {
            let query = json!({"query": format!("zebra{turn}")}).to_string();
            let found = self.run(version, &["invoke", "search_memory", &query], "").await;
            assert!(found.contains(&format!("The animal is zebra{turn}.")), "{version:?}: {found}");
            assert!(sessions.contains(&format!("Turn {turn} begins")), "{version:?}: {sessions}");
            assert!(secrets.contains(&format!("SECRET{turn}")), "{version:?}: {secrets}");
        }
        for artifact in &self.artifacts {
            let saved = self.run(version, &["artifacts", "save", artifact, "-"], "").await;
            assert_eq!(saved.lines().count(), 10_000, "{version:?}: {artifact}");
        }

        let schedules = self.run(version, &["schedules", "list"], "").await;
        assert!(schedules.starts_with("tick  */2 * * * * *  next 20"), "{version:?}: {schedules}");
        let tools = self.run(version, &["tools"], "").await;
        assert!(tools.contains("  second: effect, held"), "{version:?}: {tools}");
        self.check_jobs(api).await;
    }

    /// Checks that this host ran the jobs that were queued when their host ended, and that their
    /// owners see them.
    async fn check_jobs(&self, api: &Api) {
        for (number, Submitted { job, is_quick, .. }) in self.jobs.iter().enumerate() {
            let token = self.token_of(number);
            eventually(LIMIT, async || {
                let state = api.state_of(token, job).await?;
                let expected = if *is_quick { "completed" } else { "failed" };
                ensure!(state == expected, "{job} is {state}, and not {expected}");
                Ok(())
            })
            .await;
        }
    }

    /// Returns the token of a job's owner: alternately a key and a client with a token.
    fn token_of(&self, number: usize) -> &str {
        if number.is_multiple_of(2) { &self.key } else { api::ADMIN }
    }

    /// Adds a session, a memory, an artifact and a credential.
    async fn add(&mut self, version: Version) {
        let turn = self.turns;
        self.run(version, &["ask", &format!("Turn {turn} begins")], "").await;
        let fact = json!({"content": format!("The animal is zebra{turn}.")}).to_string();
        self.run(version, &["invoke", "save_memory", &fact], "").await;
        let secret = format!("SECRET{turn}");
        self.run(version, &["vault", "set", "mcp:ledger", &secret], "c4nary\n").await;

        let script = json!({"script": LINES}).to_string();
        self.run(version, &["invoke", "execute_python_script", &script], "").await;
        let listed = self.run(version, &["artifacts", "list", "--json"], "").await;
        let listed: Value = serde_json::from_str(&listed).unwrap();
        let names = listed.as_array().unwrap().iter().map(|one| one["artifact"].as_str().unwrap());
        self.artifacts = names.map(str::to_owned).collect();
        assert_eq!(self.artifacts.len(), turn + 1, "{listed}");
    }

    /// Starts two jobs, queues three behind them, and starts a call in a separate process that
    /// waits for an approval.
    async fn put_in_flight(&mut self, version: Version, api: &Api) {
        for ms in [LONG_MS, LONG_MS] {
            let call = self.submit(api, ms).await;
            eventually(LIMIT, async || {
                ensure!(self.ledger.effect(&call).starts == 1, "{call} has not begun");
                Ok(())
            })
            .await;
        }
        for _ in 0..3 {
            self.submit(api, QUICK_MS).await;
        }

        let call = self.ledger.next_call("held");
        let argument = format!("call={call}");
        let launch = self.launch(version, &["exec", "ledger/held", &argument, "--timeout", "15m"]);
        let folder = tempfile::tempdir().unwrap();
        let process = launch.spawn(folder.path()).unwrap();
        self.waiting = Some(Waiting { process, call, _folder: folder });
        self.pending_approval(version).await;
    }

    async fn submit(&mut self, api: &Api, ms: u64) -> String {
        let call = self.ledger.next_call("job");
        let token = self.token_of(self.jobs.len());
        let job = api.submit(token, &call, ms).await.unwrap();
        let is_quick = ms == QUICK_MS;
        self.jobs.push(Submitted { job, call: call.clone(), is_quick });
        call
    }

    /// Returns the id of the call that waits for an approval.
    async fn pending_approval(&self, version: Version) -> String {
        eventually(LIMIT, async || {
            let listed = self.run(version, &["approvals", "list", "--json"], "").await;
            let listed: Value = serde_json::from_str(&listed)?;
            listed[0]["id"].as_str().map(str::to_owned).context("no call waits")
        })
        .await
    }

    /// Approves a call that a program of the other commit made.
    async fn approve_waiting(&mut self, version: Version) {
        let Some(mut waiting) = self.waiting.take() else { return };
        assert_eq!(self.ledger.effect(&waiting.call), Effect::default());
        let id = self.pending_approval(version).await;
        self.run(version, &["approvals", "approve", &id], "").await;

        let status = waiting.process.wait(LIMIT).await.unwrap();
        let log = waiting.process.logs();
        assert!(status.success() && log.contains(": done"), "{log}");
        assert_eq!(self.ledger.effect(&waiting.call), Effect { starts: 1, ends: 1 });
    }
}

#[tokio::test]
async fn a_state_folder_goes_to_the_next_program_and_back() {
    let mut state = StateFolder::new().await;
    for (version, ending) in TURNS {
        Box::pin(state.serve(version, ending)).await;
    }

    // A final host of the last commit finds all of the state.
    let (version, _) = TURNS[TURNS.len() - 1];
    let mut service = start(state.launch(version, &["serve"])).await;
    let api = Api::of(&service).await;
    state.check(version, &api).await;
    state.approve_waiting(version).await;
    service.process().terminate(LIMIT).await.unwrap();

    let stored = stored_jobs(&state.store()).await.unwrap();
    assert_eq!(stored.len(), state.jobs.len(), "{stored:?}");
    let ended = state.jobs.iter().map(|submitted| {
        let job = stored.iter().find(|job| job.id == submitted.job);
        let job = job.unwrap_or_else(|| panic!("{} is gone", submitted.job));
        job.clone().into_ended(&submitted.call).expect("it has ended")
    });
    let tally = Tally::of(&ended.collect::<Vec<_>>(), &state.ledger.effects(), &state.ends_ms);
    tally.check("embedded");
}
