use tempfile::TempDir;
use toolbus_testkit::eventually;

use super::*;
use crate::server_pool::PoolConfig;

/// Longer than a reload takes, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(120);
/// Longer than any test: what is found is not found by looking.
const NEVER: Duration = Duration::from_secs(24 * 60 * 60);

/// A list of servers of these names, which nobody reaches.
fn list(names: &[&str]) -> String {
    let entry = |name: &&str| format!(r#""{name}": {{"url": "http://127.0.0.1:1/mcp"}}"#);
    let entries: Vec<_> = names.iter().map(entry).collect();
    format!(r#"{{"mcpServers": {{{}}}}}"#, entries.join(", "))
}

/// The files of a folder, followed by watching alone.
fn followed(folder: &TempDir) -> ServerPool {
    let [operator, agents] = paths(folder);
    let registrations = Arc::new(Registrations::at(agents));
    let config = Config::default();
    let sources =
        Sources::new(operator, None, config, registrations, RegistrationRules::allow_all());
    let set = ServerPool::start(Vec::new(), PoolConfig::new([])).unwrap();
    sources.follow_and_poll(NEVER, &set);
    set
}

fn paths(folder: &TempDir) -> [PathBuf; 2] {
    ["mcp.json", "mcp.registered.json"].map(|name| folder.path().join(name))
}

async fn until_there_are(set: &ServerPool, expected: &[&str]) {
    eventually(PATIENCE, async || {
        let servers = set.list();
        let names: Vec<_> = servers.iter().map(|status| status.name.as_str()).collect();
        if names == expected { Ok(()) } else { Err(format!("{names:?}")) }
    })
    .await;
}

#[tokio::test]
async fn changes_are_seen_without_looking() {
    let folder = tempfile::tempdir().unwrap();
    let [operator, agents] = paths(&folder);
    let set = followed(&folder);
    std::fs::write(&operator, list(&["a", "b"])).unwrap();
    until_there_are(&set, &["a", "b"]).await;
    std::fs::write(folder.path().join("new"), list(&["b"])).unwrap();
    std::fs::rename(folder.path().join("new"), &operator).unwrap();
    until_there_are(&set, &["b"]).await;
    std::fs::write(&agents, list(&["c"])).unwrap();
    until_there_are(&set, &["b", "c"]).await;
    set.close(Duration::ZERO).await;
}
