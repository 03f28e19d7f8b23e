//! `agent-host login google` as a person uses it, what tools do with the login, and the logout.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use toolbus_testkit::eventually;
use toolbus_testkit::google::{Answer, CLIENT_ID, CLIENT_SECRET, Google, TOKEN_MARK};
use toolbus_testkit::process::{Finished, Launch};
use toolbus_testkit::scripted_server::{Asked, Reply};

use crate::support::*;

/// A person's settings and store, and Google.
struct Bench {
    folder: TempDir,
    google: Google,
}

fn api(method: &str, _: &Asked) -> Answer {
    Answer::Json(match method {
        "gmail.users.messages.send" => json!({"id": "sent-1"}),
        _ => json!({}),
    })
}

impl Bench {
    /// `None` skips the test.
    async fn start() -> Option<Self> {
        let bench =
            Self { folder: tempfile::tempdir().unwrap(), google: Google::start(api).await? };
        fs::write(bench.path("vault.key"), "1".repeat(64)).unwrap();
        let owner = fs::Permissions::from_mode(0o600);
        fs::set_permissions(bench.path("vault.key"), owner).unwrap();
        let settings = bench.settings();
        fs::write(bench.path("toolbus.toml"), &settings).unwrap();
        let (without, _) = settings.split_once("[vault]").unwrap();
        let google = &settings[settings.find("[google]").unwrap()..];
        fs::write(bench.path("no-vault.toml"), format!("{without}{google}")).unwrap();
        Some(bench)
    }

    fn settings(&self) -> String {
        let (base, folder) = (self.google.url(), self.path(""));
        let folder = folder.to_str().unwrap();
        format!(
            r#"
store = "sqlite:{folder}state.db"
[vault]
key_file = "{folder}vault.key"
[google]
client_id = "{CLIENT_ID}"
client_secret = "{CLIENT_SECRET}"
gmail_url = "{base}"
calendar_url = "{base}"
authorize_url = "{base}/oauth/authorize"
token_url = "{base}/oauth/token"
device_url = "{base}/oauth/device"
revoke_url = "{base}/oauth/revoke"
"#
        )
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn launch(&self, arguments: &[&str]) -> Launch {
        Launch::new("agent-host").args(arguments).arg("--config").arg(self.path("toolbus.toml"))
    }

    async fn run(&self, arguments: &[&str]) -> Finished {
        let finished = self.launch(arguments).run(LIMIT).await.unwrap();
        holds_none(&finished.stdout);
        holds_none(&finished.stderr);
        finished
    }

    async fn say(&self, arguments: &[&str]) -> String {
        let finished = self.run(arguments).await;
        assert!(finished.status.success(), "{finished:?}");
        finished.stdout
    }

    async fn send(&self) -> Finished {
        let arguments = json!({"to": "a@x.org", "subject": "s", "body": "b"}).to_string();
        self.run(&["invoke", "gmail_send", &arguments]).await
    }
}

fn holds_none(text: &str) {
    for secret in [TOKEN_MARK, CLIENT_SECRET, "canary-code"] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[tokio::test]
async fn a_person_logs_in_by_a_browser_and_out() {
    let Some(bench) = Bench::start().await else { return };
    let listed = bench.say(&["toolkits"]).await;
    assert!(listed.contains("nobody has logged in: run `agent-host login google`"), "{listed}");

    let folder = tempfile::tempdir().unwrap();
    let mut login = bench.launch(&["login", "google"]).spawn(folder.path()).unwrap();
    let page = eventually(LIMIT, async || {
        let printed = login.stdout();
        let page = printed.lines().find_map(|line| line.trim().strip_prefix("http"));
        anyhow::Ok(format!("http{}", page.context("no page yet")?))
    });
    // A browser, which is sent back.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let browser = toolbus_testkit::http_client_builder().build().unwrap();
    let shown = browser.get(page.await).send().await.unwrap();
    assert!(shown.status().is_success(), "{shown:?}");
    assert!(login.wait(LIMIT).await.unwrap().success(), "{}", login.logs());
    assert!(login.stdout().ends_with("logged in at Google: Gmail, Calendar\n"), "{}", login.logs());
    holds_none(&login.logs());

    let listed: Value = serde_json::from_str(&bench.say(&["toolkits", "--json"]).await).unwrap();
    let google = listed.as_array().unwrap().iter().find(|kit| kit["name"] == "google").unwrap();
    assert!(google["on"] == true && google["tools"].as_array().unwrap().len() == 6, "{google}");
    let offered: Value = serde_json::from_str(&bench.say(&["tools", "--json"]).await).unwrap();
    assert_single_types(&offered["tools"]);
    let sent = bench.send().await;
    assert!(sent.status.success() && sent.stdout.contains("sent-1"), "{sent:?}");
    bench.google.assert_valid();
    let kept = bench.say(&["vault", "list"]).await;
    assert!(
        kept.contains("'GMAIL_TOKEN' of google") && kept.contains("'CALENDAR_TOKEN' of google")
    );

    assert_eq!(bench.say(&["logout", "google"]).await, "logged out of Google\n");
    assert_eq!(bench.google.revoked().len(), 1);
    assert_eq!(bench.say(&["vault", "list"]).await, "");
    assert_eq!(bench.say(&["logout", "google"]).await, "nobody has logged in at Google\n");
    let sent = bench.send().await;
    assert!(format!("{sent:?}").contains("agent-host login google"), "{sent:?}");
}

#[tokio::test]
async fn a_person_logs_in_on_a_device() {
    let Some(bench) = Bench::start().await else { return };
    bench.google.script_device(vec!["authorization_pending"]);
    let said = bench.say(&["login", "google", "--device", "--only", "gmail"]).await;
    assert!(said.contains("https://www.google.com/device") && said.contains("ABCD-EFGH"), "{said}");
    assert!(said.ends_with("logged in at Google: Gmail\n"), "{said}");
    assert!(bench.send().await.status.success());

    // Google itself refuses these scopes.
    bench.google.script_device(vec!["invalid_scope"]);
    let refused = bench.run(&["login", "google", "--device"]).await;
    assert!(
        !refused.status.success() && refused.stderr.contains("leave out --device"),
        "{refused:?}"
    );

    bench.google.revoke_with(Reply::json(503, &json!({"error": "unavailable"})));
    let out = bench.run(&["logout", "google"]).await;
    assert!(out.status.success() && out.stderr.contains("has not revoked it"), "{out:?}");
    assert_eq!(bench.say(&["vault", "list"]).await, "");
}

#[tokio::test]
async fn without_a_vault_or_in_time_nobody_logs_in() {
    let Some(bench) = Bench::start().await else { return };
    let launch = Launch::new("agent-host").args(["login", "google", "--config"]);
    let refused = launch.arg(bench.path("no-vault.toml")).run(LIMIT).await.unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(refused.stderr.contains("vault.key_file"), "{refused:?}");

    let late = bench.run(&["login", "google", "--timeout", "300ms"]).await;
    assert!(late.status.code() == Some(1) && late.stderr.contains("nobody logged in"), "{late:?}");
    assert_eq!(bench.say(&["vault", "list"]).await, "");
}
