//! Toolkits: what the settings switch on is called through the embedded fleet, and reaches no
//! further than they say; without settings there is none of it.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolbus_testkit::process::{Finished, Launch};
use toolbus_testkit::scripted_server::{Asked, Reply, Server};

use crate::support::*;

/// Every key begins with it, so that a piece of one is found as well.
const MARK: &str = "c4nary";
/// From the environment, from the vault, and from a variable that the settings name.
const USAGE_KEY: &str = "c4nary-usage-key";
const REST_KEY: &str = "c4nary-rest-key";
const SEARCH_KEY: &str = "c4nary-search-key";
/// Everything, and what those libraries have to say that are quiet otherwise.
const LOG: &str = "trace,hyper=trace,hyper_util=trace,reqwest=trace";
/// Whom commands run as where tests are root's.
const USER: u32 = 65534;
/// What stands in a file that no tool may read.
const OUTSIDE: &str = "nobody reads this";

/// The tools of all toolkits, with the one endpoint of the settings.
const TOOLS: [&str; 14] = [
    "anthropic_usage",
    "append_file",
    "bash",
    "edit_file",
    "glob",
    "grep",
    "linkedin_job_detail",
    "linkedin_jobs",
    "read_file",
    "weather",
    "web_browse",
    "web_fetch",
    "web_search",
    "write_file",
];

/// An agent with every toolkit, and the server that all of them are sent to.
struct Bench {
    folder: TempDir,
    server: Server,
}

/// What the server answers. It repeats the keys that it is sent.
fn reply(asked: &Asked) -> Reply {
    let html = |text: &str| Reply::body(200, "text/html; charset=utf-8", text);
    let sent = |name: &str| asked.headers.get(name).cloned().unwrap_or_default();
    let path = asked.path.split('?').next().unwrap_or_default();

    match path {
        "/res/v1/web/search" => {
            let description = format!("asked with {}", sent("x-subscription-token"));
            let found = json!({"title": "Found", "url": "https://found.example/", "description": description});
            Reply::json(200, &json!({"web": {"results": [found]}}))
        }
        "/weather" => Reply::json(200, &json!({"path": asked.path, "sent": sent("authorization")})),
        "/jobs-guest/jobs/api/seeMoreJobPostings/search" => html(
            "<li><div class='base-card base-search-card'>\
             <a class='base-card__full-link' href='/jobs/view/1'><span>t</span></a>\
             <h3 class='base-search-card__title'> Engineer </h3></div></li>",
        ),
        "/jobs/view/1" => html(
            "<h1 class='top-card-layout__title'>Engineer</h1>\
             <div class='show-more-less-html__markup'><p>Do things.</p></div>",
        ),
        "/v1/organizations/cost_report" => {
            Reply::json(200, &json!({"data": [], "sent": sent("x-api-key")}))
        }
        "/page" => html("<h2>Heading</h2><p>of a page</p>"),
        _ => Reply::empty(404),
    }
}

impl Bench {
    async fn start() -> Self {
        let server = Server::answering_any(reply).await;
        let bench = Self { folder: tempfile::tempdir().unwrap(), server };
        let work = bench.path("work");
        fs::create_dir(&work).unwrap();
        if fs::metadata(&work).unwrap().uid() == 0 {
            chown(&work, Some(USER), Some(USER)).unwrap();
        }
        fs::write(bench.path("outside"), OUTSIDE).unwrap();

        fs::write(bench.path("vault.key"), "1".repeat(64)).unwrap();
        let owner = fs::Permissions::from_mode(0o600);
        fs::set_permissions(bench.path("vault.key"), owner).unwrap();
        fs::write(bench.path("toolbus.toml"), bench.settings()).unwrap();
        let set = bench.launch(&["vault", "set", "rest:weather", "TOKEN"]).stdin(REST_KEY);
        let set = set.run(LIMIT).await.unwrap();
        assert!(set.status.success(), "{set:?}");
        bench
    }

    fn settings(&self) -> String {
        let (base, folder) = (self.base(), self.path(""));
        let folder = folder.to_str().unwrap();
        format!(
            r#"
store = "sqlite:{folder}state.db"
[vault]
key_file = "{folder}vault.key"
[audit]
enabled = true
[files]
working_directory = "{folder}work"
[bash]
enabled = true
[web]
enabled = true
search_url = "{base}"
api_key = "${{SEARCH_KEY}}"
allowed_hosts = ["127.0.0.1"]
[[rest.endpoints]]
name = "weather"
description = "The weather of a city"
url_template = "{base}/weather?city={{city}}"
parameters_schema = '{{"type": "object", "properties": {{"city": {{"type": "string"}}}}, "required": ["city"]}}'
auth_type = "bearer"
auth_credential = "${{vault:TOKEN}}"
internal = true
[linkedin]
enabled = true
base_url = "{base}"
[anthropic_usage]
base_url = "{base}"
"#
        )
    }

    /// A path of the test's folder, in which `work` is the working directory.
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn base(&self) -> String {
        self.server.url.strip_suffix("/v1").unwrap().to_owned()
    }

    /// `agent-host` with the settings and no keys in its environment.
    fn launch(&self, arguments: &[&str]) -> Launch {
        let launch = Launch::new("agent-host").arg("--config").arg(self.path("toolbus.toml"));
        launch.args(arguments.iter().copied())
    }

    async fn run(&self, arguments: &[&str]) -> Finished {
        let launch = self.launch(arguments).env("ANTHROPIC_ADMIN_API_KEY", USAGE_KEY);
        let run = launch.env("SEARCH_KEY", SEARCH_KEY).run(LIMIT).await.unwrap();
        holds_no_key("what a command prints", &format!("{run:?}"));
        run
    }

    async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        let arguments = arguments.to_string();
        let launch = self.launch(&["invoke", tool, "-", "--json"]).stdin(arguments);
        let launch = launch.env("ANTHROPIC_ADMIN_API_KEY", USAGE_KEY).env("TOOLBUS_LOG", LOG);
        let outcome = launch.env("SEARCH_KEY", SEARCH_KEY).run(LIMIT).await.unwrap();
        // Commands log warnings alone otherwise.
        assert!(outcome.stderr.contains("INFO"), "{outcome:?}");
        holds_no_key(tool, &format!("{outcome:?}"));
        Outcome::of(outcome)
    }

    /// What a tool says that succeeds.
    async fn say(&self, tool: &str, arguments: Value) -> String {
        let outcome = self.call(tool, arguments).await;
        assert_eq!(outcome.exit, Some(0), "{tool}: {outcome:?}");
        outcome.content().to_owned()
    }

    /// What a tool says that fails.
    async fn fail(&self, tool: &str, arguments: Value) -> String {
        let outcome = self.call(tool, arguments).await;
        assert_eq!(outcome.exit, Some(1), "{tool}: {outcome:?}");
        outcome.json["error"]["message"].as_str().unwrap().to_owned()
    }
}

#[track_caller]
fn holds_no_key(what: &str, text: &str) {
    let found: Vec<_> = text.lines().filter(|line| line.contains(MARK)).collect();
    assert!(found.is_empty(), "{what}: {found:#?}");
}

/// Each tool with arguments, and a part of what it says.
fn calls(base: &str) -> Vec<(&'static str, Value, &'static str)> {
    let page = json!({"url": format!("{base}/page")});
    let edit = json!({"path": "notes.txt", "old_string": "one", "new_string": "two"});
    let reports = json!({"action": "cost", "starting_at": "2026-01-01"});
    vec![
        ("write_file", json!({"path": "notes.txt", "content": "one\n"}), "Successfully wrote"),
        ("append_file", json!({"path": "notes.txt", "content": "more\n"}), "Successfully appended"),
        ("edit_file", edit, "1 occurrence"),
        ("read_file", json!({"path": "notes.txt"}), "two\nmore"),
        ("glob", json!({"pattern": "*.txt"}), "notes.txt"),
        ("grep", json!({"pattern": "mor."}), "notes.txt"),
        ("bash", json!({"command": "cat notes.txt && pwd"}), "two\nmore\n/"),
        ("web_search", json!({"query": "rust"}), "[Found](https://found.example/) — asked with"),
        ("web_browse", page.clone(), "## Heading\n\nof a page"),
        ("web_fetch", page, "of a page"),
        ("weather", json!({"city": "New York"}), "/weather?city=New%20York"),
        ("linkedin_jobs", json!({"keyword": "rust"}), "1. Engineer"),
        ("linkedin_job_detail", json!({"url": format!("{base}/jobs/view/1")}), "Do things."),
        ("anthropic_usage", reports, "Cost Report:"),
    ]
}

#[tokio::test]
async fn every_tool_that_is_switched_on_gives_its_result() {
    let bench = Bench::start().await;
    let calls = calls(&bench.base());
    let mut called: Vec<&str> = calls.iter().map(|(tool, _, _)| *tool).collect();
    called.sort_unstable();
    assert_eq!(called, TOOLS);
    for (tool, arguments, expected) in calls {
        let said = bench.say(tool, arguments).await;
        assert!(said.contains(expected), "{tool}: {said}");
    }

    // The keys went where they had to.
    let asked = bench.server.asked();
    let sent = |name: &str| -> Vec<&str> {
        asked.iter().filter_map(|asked| asked.headers.get(name)).map(String::as_str).collect()
    };
    assert_eq!(sent("x-subscription-token"), [SEARCH_KEY]);
    assert_eq!(sent("authorization"), [format!("Bearer {REST_KEY}")]);
    assert_eq!(sent("x-api-key"), [USAGE_KEY]);

    let guides = bench.say("list_tool_guides", json!({})).await;
    for guide in ["files", "shell", "web", "rest", "linkedin", "anthropic_usage"] {
        assert!(guides.contains(&format!("- {guide}: ")), "{guide}: {guides}");
    }

    // A row for each call, and a key in none; nor elsewhere in the store.
    let audit = bench.run(&["audit", "--json"]).await;
    for tool in TOOLS {
        assert!(audit.stdout.contains(tool), "{tool}: {audit:?}");
    }
    for entry in fs::read_dir(bench.folder.path()).unwrap().flatten() {
        if entry.file_name().to_string_lossy().starts_with("state.db") {
            let bytes = fs::read(entry.path()).unwrap();
            holds_no_key("the store", &String::from_utf8_lossy(&bytes));
        }
    }
    holds_no_key("the settings", &bench.run(&["tools", "--print-config"]).await.stdout);
}

#[tokio::test]
async fn files_commands_and_pages_reach_no_further_than_the_settings_say() {
    let bench = Bench::start().await;
    let outside = bench.path("outside");
    let link = bench.path("work").join("link");
    std::os::unix::fs::symlink(&outside, &link).unwrap();
    for path in [outside.to_str().unwrap(), "../outside", "link", "/etc/passwd"] {
        for tool in ["read_file", "edit_file"] {
            let arguments = json!({"path": path, "old_string": "nobody", "new_string": "I"});
            let arguments = match tool {
                "read_file" => json!({"path": path}),
                _ => arguments,
            };
            let said = bench.fail(tool, arguments).await;
            assert!(said.starts_with("Error") && !said.contains(OUTSIDE), "{tool} {path}: {said}");
        }
    }
    assert_eq!(fs::read_to_string(&outside).unwrap(), OUTSIDE);

    // Commands see no file outside, no key of this process, and no network.
    let command = format!(
        "cat {} 2>&1; env; cat /proc/1/environ 2>&1 | tr '\\0' '\\n'; ls {}",
        outside.display(),
        bench.path("work").display()
    );
    let said = bench.say("bash", json!({"command": command})).await;
    assert!(said.contains("No such file") && said.contains("link"), "{said}");
    assert!(!said.contains(OUTSIDE), "{said}");
    let port = bench.base().rsplit(':').next().unwrap().to_owned();
    let connect = format!("exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected");
    let said = bench.say("bash", json!({"command": connect})).await;
    assert!(said.contains("[exit code") && !said.contains("connected"), "{said}");
    assert!(bench.server.asked().is_empty());

    // An address that nobody has allowed.
    for tool in ["web_browse", "web_fetch"] {
        let said = bench.fail(tool, json!({"url": "http://127.0.0.2/"})).await;
        assert!(said.contains("not on the public Internet"), "{said}");
    }
    let metadata = json!({"url": "http://169.254.169.254/latest/"});
    assert!(bench.fail("web_fetch", metadata).await.contains("169.254.169.254"));
}

/// What `agent-host toolkits --json` says, by the names of toolkits.
async fn listed(run: Finished) -> Vec<(String, bool, Value)> {
    assert!(run.status.success(), "{run:?}");
    let listed: Value = serde_json::from_str(&run.stdout).unwrap();
    let toolkits = listed.as_array().unwrap().iter();
    let name = |toolkit: &Value| toolkit["name"].as_str().unwrap().to_owned();
    toolkits.map(|it| (name(it), it["on"] == true, it.clone())).collect()
}

#[tokio::test]
async fn toolkits_are_listed_with_their_tools_and_the_reasons_of_those_that_are_off() {
    let bench = Bench::start().await;
    let on = listed(bench.run(&["toolkits", "--json"]).await).await;
    let mut tools = Vec::new();
    // Google needs a person.
    for (name, is_on, toolkit) in on.iter().filter(|(name, ..)| name != "google") {
        assert!(is_on, "{name}: {toolkit}");
        for tool in toolkit["tools"].as_array().unwrap() {
            assert_eq!(tool["on"], true, "{tool}");
            tools.push(tool["name"].as_str().unwrap().to_owned());
        }
    }
    tools.sort_unstable();
    assert_eq!(tools, TOOLS);
    let offered = bench.run(&["tools", "--json"]).await.stdout;
    let offered: Value = serde_json::from_str(&offered).unwrap();
    assert_single_types(&offered["tools"]);
    let text = bench.run(&["toolkits"]).await.stdout;
    assert!(text.contains("rest             on   weather\n"), "{text}");
    assert!(text.contains("bash             on   bash\n"), "{text}");
    // Those of accounts are there for whoever runs the program alone.
    let indent = " ".repeat(22);
    for tools in ["linkedin_jobs, linkedin_job_detail", "anthropic_usage"] {
        assert!(text.contains(&format!("  {tools}\n{indent}for local:*\n")), "{text}");
    }

    // Keys that are missing are named.
    let removed = bench.run(&["vault", "remove", "rest:weather", "TOKEN"]).await;
    assert!(removed.status.success(), "{removed:?}");
    let run = bench.launch(&["toolkits"]).run(LIMIT).await.unwrap();
    assert!(run.status.success(), "{run:?}");
    for line in [
        "web              on   web_browse, web_fetch\n",
        "web_search is off: no key: web.api_key names the variable SEARCH_KEY, which is not set\n",
        "rest             off  no key: the vault has no TOKEN of rest:weather; `agent-host vault set \
         rest:weather TOKEN` puts it there\n",
        "anthropic_usage  off  no key: set anthropic_usage.api_key or the variable \
         ANTHROPIC_ADMIN_API_KEY\n",
    ] {
        assert!(run.stdout.contains(line), "{line}: {}", run.stdout);
    }
}

#[tokio::test]
async fn without_settings_there_are_none_of_them() {
    let run = |arguments: &'static [&'static str]| async move {
        Launch::new("agent-host").args(arguments.iter().copied()).run(LIMIT).await.unwrap()
    };
    let tools = run(&["tools"]).await.stdout;
    let names: Vec<&str> =
        tools.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"execute_python_script"), "{tools}");
    for tool in TOOLS {
        assert!(!names.contains(&tool), "{tool}: {tools}");
    }
    let off = listed(run(&["toolkits", "--json"]).await).await;
    assert_eq!(off.len(), 7);
    for (name, is_on, toolkit) in off {
        let reason = toolkit["reason"].as_str().unwrap_or_default();
        assert!(!is_on && reason.contains(&*name) || reason.contains("files."), "{toolkit}");
    }
}

#[tokio::test]
async fn wrong_settings_are_told_by_their_keys() {
    let folder = tempfile::tempdir().unwrap();
    let check = async |settings: &str, expected: &[&str]| {
        let file = folder.path().join("toolbus.toml");
        fs::write(&file, settings).unwrap();
        let run = Launch::new("agent-host").arg("--config").arg(&file).arg("toolkits");
        let run = run.run(LIMIT).await.unwrap();
        assert_eq!(run.status.code(), Some(2), "{run:?}");
        for part in expected {
            assert!(run.stderr.contains(part), "{part}: {run:?}");
        }
        holds_no_key("mistakes", &run.stderr);
    };
    let wrong = "[files]\nworking_directory = \"/\"\n[bash]\ntimeout = \"1h\"\n\
                 [web]\napi_key = \"${c4nary\"\n[linkedin]\ntimeout = \"1h\"\n\
                 [anthropic_usage]\ntimeout = \"1h\"\n[[rest.endpoints]]\nname = \"x\"";
    let keys = [
        "files.working_directory",
        "bash.timeout",
        "web.api_key",
        "linkedin.timeout",
        "anthropic_usage.timeout",
        "rest.endpoints[0]",
    ];
    check(wrong, &keys).await;
    check("[bash]\nenabled = true", &["bash.enabled", "files.working_directory"]).await;
}

/// A machine that is a sandbox itself: commands have the program's rights, which is warned about.
#[tokio::test]
async fn commands_without_a_sandbox_are_warned_about() {
    let bench = Bench::start().await;
    let launch = bench.launch(&["invoke", "bash", r#"{"command": "echo here; env"}"#]);
    let launch = launch.env("TOOLBUS_BASH__ISOLATION", "none").env("SEARCH_KEY", SEARCH_KEY);
    let run = launch.run(LIMIT).await.unwrap();
    assert!(run.status.success() && run.stdout.starts_with("here\n"), "{run:?}");
    assert!(run.stderr.contains("without a sandbox, as `bash.isolation` says"), "{run:?}");
    holds_no_key("what a command prints", &format!("{run:?}"));
}
