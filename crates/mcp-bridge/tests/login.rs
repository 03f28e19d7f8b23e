//! `mcp-bridge login` as a person at a terminal uses it: the address is printed, the one that the
//! browser ends at is pasted.

#![allow(clippy::unwrap_used, reason = "all of this is tests")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

struct Server {
    child: Child,
    port: u16,
}

impl Server {
    fn start() -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../toolbus-mcp/tests/servers/oauth.py");
        let mut child = Command::new("python3")
            .args(["-E", "-s", "-B", script])
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3");
        let mut port = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut port).unwrap();
        Self { child, port: port.trim().parse().expect("a port") }
    }

    /// Where the browser is sent that opens this address.
    fn redirect(&self, url: &str) -> String {
        let target = url.strip_prefix(&format!("http://127.0.0.1:{}", self.port)).expect("its own");
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(stream, "GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let location = answer.lines().find_map(|line| line.strip_prefix("Location: "));
        location.unwrap_or_else(|| panic!("no redirect: {answer}")).to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program in a folder with an `mcp.json`, without a broker and with a health port that another
/// process may have.
fn bridge(folder: &Path, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_mcp-bridge"))
        .args(arguments)
        .current_dir(folder)
        .env("TOOLBUS_MCP__TOKENS", folder.join("tokens"))
        .env("TOOLBUS_HEALTH", "192.0.2.1:1")
        .env("TOOLBUS_LOG", "trace,rmcp=trace")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program")
}

fn folder(server: &Server) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let entries = format!(
        r#"{{"mcpServers": {{
            "Docs": {{"url": "http://127.0.0.1:{}/mcp", "auth": {{"type": "authorization_code"}}}},
            "plain": {{"url": "http://127.0.0.1:{}/mcp"}},
            "wrong": {{"url": "http://127.0.0.1/mcp", "auth": {{"type": "magic"}}}}}}}}"#,
        server.port, server.port
    );
    std::fs::write(folder.path().join("mcp.json"), entries).unwrap();
    folder
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_address_is_printed_and_the_token_kept_and_nothing_told_of_it() {
    let server = Server::start();
    let folder = folder(&server);
    let mut bridge = bridge(folder.path(), &["login", "docs"]);
    let mut stdout = BufReader::new(bridge.stdout.take().unwrap());
    let mut said = String::new();
    let url = loop {
        let from = said.len();
        assert!(stdout.read_line(&mut said).unwrap() > 0, "no address: {said}");
        if let Some(url) = said[from..].trim().strip_prefix("http") {
            break format!("http{url}");
        }
    };
    let redirect = server.redirect(&url);
    assert!(redirect.contains("code=s3cret-code"), "{redirect}");
    writeln!(bridge.stdin.take().unwrap(), "{redirect}").unwrap();
    stdout.read_to_string(&mut said).unwrap();
    let output = bridge.wait_with_output().unwrap();
    assert!(output.status.success(), "{said}\n{}", stderr(&output));
    assert!(said.contains("Logged in at Docs."), "{said}");

    let file = folder.path().join("tokens/docs.json");
    assert!(std::fs::read_to_string(&file).unwrap().contains("s3cret-access"));
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let log = stderr(&output);
    assert!(!log.contains("s3cret"), "{log}");
}

#[test]
fn what_cannot_be_logged_in_at_is_told() {
    let server = Server::start();
    let folder = folder(&server);
    let check = |arguments: &[&str], expected: &str| {
        let output = bridge(folder.path(), arguments).wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(stderr(&output).contains(expected), "{arguments:?}: {}", stderr(&output));
    };
    check(&["login", "nobody"], "there is no server 'nobody' in mcp.json");
    check(&["login", "plain"], "has no auth of type authorization_code");
    check(&["login", "wrong"], "auth.type: has to be bearer, client_credentials or");
    check(&["login", "docs", "--timeout", "100ms"], "nobody logged in within");
}
