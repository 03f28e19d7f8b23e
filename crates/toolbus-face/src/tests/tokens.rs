//! Clients that have tokens, and requests that come from other machines.

use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::response::Response;

use super::*;

/// A face with the clients `alice` and `bob`, whose tokens are `token-of-NAME`.
fn guarded(agent: FaceDeps) -> Face {
    let token = |name: &str| (name.to_owned(), format!("token-of-{name}"));
    let tokens = ["alice", "bob"].map(token).to_vec();
    let client_ids = [("alice".to_owned(), "c1".to_owned())].into();
    let api = ApiSettings {
        allowed_hosts: vec!["tools.example.com".to_owned()],
        tokens,
        client_ids,
        ..ApiSettings::default()
    };
    Face::new(&FaceSettings { api, ..FaceSettings::default() }, agent)
}

async fn send(face: &Face, mut request: Request<Body>, token: &str) -> Response {
    if !token.is_empty() {
        let value = format!("Bearer {token}").parse().unwrap();
        request.headers_mut().insert(AUTHORIZATION, value);
    }
    face.router().oneshot(request).await.unwrap()
}

fn page() -> Request<Body> {
    let request = Request::get("/").extension(here()).header(HOST, "localhost");
    request.body(Body::empty()).unwrap()
}

#[tokio::test]
async fn nothing_is_answered_without_a_token_where_clients_have_some() {
    let (agent, _bridge, _provider) = agent_with_bridge().await;
    let face = guarded(agent);
    for path in ["/mcp", "/mcp/notes", "/notes/mcp", "/mcp/nobody", "/"] {
        let request = || match path {
            "/" => page(),
            path => newer_request(path, "tools/list", json!({})),
        };
        for token in ["", "token-of-carol", "token-of-alic"] {
            let refused = send(&face, request(), token).await;
            assert_eq!(refused.status(), StatusCode::UNAUTHORIZED, "{path} {token}");
            assert_eq!(refused.headers()[WWW_AUTHENTICATE], "Bearer", "{path} {token}");
            let body = to_bytes(refused.into_body(), 1 << 20).await.unwrap();
            let line = String::from_utf8_lossy(&body).into_owned();
            assert!(line.contains("Authorization: Bearer TOKEN"), "{line}");
            assert!(!line.contains("notes"), "{line}");
        }

        let expected = if path == "/mcp/nobody" { StatusCode::NOT_FOUND } else { StatusCode::OK };
        let answered = send(&face, request(), "token-of-alice").await;
        assert_eq!(answered.status(), expected, "{path}");
    }

    // What is not served says so to everybody.
    let lost = Request::get("/sse").extension(here()).header(HOST, "localhost");
    let lost = send(&face, lost.body(Body::empty()).unwrap(), "").await;
    assert_eq!(lost.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_client_is_known_by_its_token_and_has_its_own_sessions() {
    let agent = agent().await;
    let run = |call: Invocation| {
        let principal = &call.scope.principal;
        std::future::ready(Ok(Output::text(format!("{} {:?}", principal.name, principal.proof))))
    };
    agent.invoker.registry().register(Tool::new("who", "", "test"), run).unwrap();

    let open = face_seeing(View::all(), agent.clone());
    let told = call(&open, "/mcp", "who").await;
    assert_eq!(told["result"]["content"][0]["text"], "mcp Claimed", "{told}");

    let face = guarded(agent);
    let call = |tool: &str| {
        let params = json!({"name": tool, "arguments": {}});
        newer_request("/mcp", "tools/call", params)
    };
    for (name, id) in [("alice", "Some(\"c1\")"), ("bob", "None")] {
        let answered = send(&face, call("who"), &format!("token-of-{name}")).await;
        let told = answer_in(answered.into_body()).await;
        let expected = format!("{name} Token {{ issuer: \"http\", id: {id} }}");
        assert_eq!(told["result"]["content"][0]["text"], expected, "{told}");
    }

    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": ERA, "capabilities": {}, "clientInfo": client});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let begun = send(&face, post(None, &hello), "token-of-alice").await;
    let session = begun.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    for (token, status) in [
        ("", StatusCode::UNAUTHORIZED),
        ("token-of-bob", StatusCode::NOT_FOUND),
        ("token-of-alice", StatusCode::ACCEPTED),
    ] {
        let answered = send(&face, post(Some(&session), &ready), token).await;
        assert_eq!(answered.status(), status, "{token}");
    }
    face.close().await;
}

/// From elsewhere, `localhost` is a name like any other: a program can write what it likes there.
#[tokio::test]
async fn names_of_this_machine_are_for_requests_that_come_from_it() {
    let (agent, _bridge, _provider) = agent_with_bridge().await;
    let face = guarded(agent);
    let status = async |path: &str, peer: Option<&str>, host: &str| {
        let mut request = match path {
            "/" => page(),
            path => newer_request(path, "tools/list", json!({})),
        };
        request.headers_mut().insert(HOST, host.parse().unwrap());
        request.extensions_mut().remove::<SocketAddr>();
        if let Some(peer) = peer {
            request.extensions_mut().insert(peer.parse::<SocketAddr>().unwrap());
        }
        send(&face, request, "token-of-alice").await.status()
    };

    for path in ["/mcp", "/mcp/notes", "/"] {
        for host in ["localhost", "127.0.0.1:8800", "[::1]"] {
            assert_eq!(status(path, Some("[::1]:5"), host).await, StatusCode::OK, "{path} {host}");
            for peer in [Some("192.0.2.7:5"), Some("[::ffff:172.17.0.1]:5"), None] {
                let told = status(path, peer, host).await;
                assert_eq!(told, StatusCode::FORBIDDEN, "{path} {host} {peer:?}");
            }
        }
        let told = status(path, Some("192.0.2.7:5"), "tools.example.com").await;
        assert_eq!(told, StatusCode::OK, "{path}");
    }
}
