//! What answers at which path, and how a request is refused that reaches no handler.

use axum::http::HeaderMap;
use axum::http::header::{ALLOW, ORIGIN};
use axum::response::Response;
use toolbus_tools::policy::{Decision, PolicyRequest};

use super::*;

/// What comes of a request with these headers, each `NAME: VALUE`.
async fn send(face: &Face, request: &str, headers: &[&str], body: &str) -> Response {
    let (method, path) = request.split_once(' ').unwrap();
    let mut builder = Request::builder().method(method).uri(path).extension(here());
    if !headers.iter().any(|header| header.starts_with("host: ")) {
        builder = builder.header(HOST, "localhost:8800");
    }
    for header in headers {
        let (name, value) = header.split_once(": ").unwrap();
        builder = builder.header(name, value);
    }
    let request = builder.body(Body::from(body.to_owned())).unwrap();
    face.router().oneshot(request).await.unwrap()
}

async fn text_of(response: Response) -> (StatusCode, HeaderMap, String) {
    let (head, body) = response.into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap();
    (head.status, head.headers, String::from_utf8(body.to_vec()).unwrap())
}

async fn get(face: &Face, path: &str, headers: &[&str]) -> (StatusCode, HeaderMap, String) {
    text_of(send(face, &format!("GET {path}"), headers, "").await).await
}

#[tokio::test]
async fn the_root_lists_the_paths_that_the_visitor_may_use() {
    let (agent, _bridge, _provider) = agent_with_bridge().await;
    let face = face_seeing(View::all(), agent.clone());
    let (status, headers, text) = get(&face, "/", &[]).await;
    assert_eq!((status, &headers[CONTENT_TYPE]), (StatusCode::OK, &text_type()));
    let expected = format!(
        "Toolbus {}, agent RockBot\n\nMCP clients connect to these paths of this address, by \
         streamable HTTP:\n  /mcp  the agent's own tools\n  /mcp/notes  the MCP server notes\n",
        env!("CARGO_PKG_VERSION")
    );
    assert!(text.starts_with(&expected), "{text}");

    let (_, headers, html) = get(&face, "/", &["accept: text/html,*/*;q=0.8"]).await;
    assert_eq!(headers[CONTENT_TYPE], "text/html; charset=utf-8");
    assert_eq!(headers["content-security-policy"], "default-src 'none'");
    assert!(html.contains("<code>/mcp/notes</code>"), "{html}");
    let (status, headers, body) = text_of(send(&face, "HEAD /", &[], "").await).await;
    assert_eq!((status, &*body), (StatusCode::OK, ""));
    assert_eq!(headers[CONTENT_TYPE], text_type());
    let refused = send(&face, "POST /", &[], "{}").await;
    assert_eq!(refused.status(), StatusCode::METHOD_NOT_ALLOWED);
    assert_eq!(refused.headers()[ALLOW], "GET,HEAD");

    let blind = face_seeing(view_without("mcp:notes/*"), agent.clone());
    let (status, _, text) = get(&blind, "/", &[]).await;
    assert!(status == StatusCode::OK && !text.contains("notes"), "{text}");
}

fn text_type() -> axum::http::HeaderValue {
    axum::http::HeaderValue::from_static("text/plain; charset=utf-8")
}

/// Who may not call the tool that lists servers is not shown them here.
#[tokio::test]
async fn servers_are_listed_for_those_alone_who_may_list_them() {
    let (agent, _bridge, _provider) = agent_with_bridge().await;
    let registry = Arc::clone(agent.invoker.registry());
    let deny_list = |request: &PolicyRequest<'_>| match request.subject.id.as_str() {
        "mcp:management/mcp_list_services" => Decision::Deny("no".into()),
        _ => Decision::Allow,
    };
    let invoker = Invoker::builder(registry).policy(deny_list).build();
    let face = face_seeing(View::all(), FaceDeps { invoker, ..agent });
    let (status, _, text) = get(&face, "/", &[]).await;
    assert!(status == StatusCode::OK && !text.contains("notes"), "{text}");
}

#[tokio::test]
async fn the_root_is_shown_to_pages_of_allowed_origins_under_allowed_names() {
    let (agent, _bridge, _provider) = agent_with_bridge().await;
    let face = face_seeing(View::all(), agent);
    for header in ["host: evil.example.com", "origin: https://evil.example.com"] {
        let (status, _, text) = get(&face, "/", &[header]).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{header}");
        assert!(!text.contains("notes"), "{text}");
    }
    let local = format!("{ORIGIN}: http://localhost:3000");
    assert_eq!(get(&face, "/", &[&local]).await.0, StatusCode::OK);
}

#[tokio::test]
async fn other_paths_say_where_to_go() {
    let face = Face::new(&FaceSettings::default(), agent().await);
    for path in ["/favicon.ico", "/mcp/", "/mcp/notes/more", "/sse", "//", "/.well-known/a/mcp"] {
        let (status, headers, line) = get(&face, path, &[]).await;
        assert_eq!((status, &headers[CONTENT_TYPE]), (StatusCode::NOT_FOUND, &text_type()));
        assert!(line.starts_with("nothing is served at this path: ") && line.ends_with('\n'));
        assert_eq!(line.lines().count(), 1, "{line}");
    }
    for path in ["/mcp/nobody", "/nobody/mcp", "/mcp/mcp"] {
        let (status, _, line) = get(&face, path, &[]).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{path}");
        assert!(line.starts_with("no MCP server of this name is there"), "{line}");
    }
}

/// Both ways to write the path of a server are one mount: a session of one is known to the other.
#[tokio::test]
async fn a_server_is_at_both_ways_to_write_its_path() {
    let (agent, _bridge, _provider) = agent_with_bridge().await;
    let face = face_seeing(View::all(), agent);
    for path in ["/mcp/notes", "/notes/mcp", "/NOTES/mcp"] {
        assert_eq!(names(&ask(&face, path, "tools/list").await), ["add", "erase"], "{path}");
    }

    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": ERA,
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    }});
    let at = |path: &str, mut request: Request<Body>| {
        *request.uri_mut() = path.parse().unwrap();
        face.router().oneshot(request)
    };
    let begun = at("/notes/mcp", post(None, &hello)).await.unwrap();
    let session = begun.headers()["mcp-session-id"].to_str().unwrap().to_owned();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let accepted = at("/mcp/notes", post(Some(&session), &ready)).await.unwrap();
    assert_eq!(accepted.status(), StatusCode::ACCEPTED);
    let elsewhere = at("/mcp", post(Some(&session), &ready)).await.unwrap();
    assert_eq!(elsewhere.status(), StatusCode::NOT_FOUND);
    face.close().await;
}

#[tokio::test]
async fn a_body_that_is_no_message_is_answered_with_an_error_of_json_rpc() {
    const JSON: [&str; 2] =
        ["content-type: application/json", "accept: application/json, text/event-stream"];
    let face = Face::new(&FaceSettings::default(), agent().await);
    let check = async |body: &str, more: &[&str], expected: Value| {
        let headers = [&JSON[..], more].concat();
        let (status, headers, text) = text_of(send(&face, "POST /mcp", &headers, body).await).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{text}");
        assert_eq!(headers[CONTENT_TYPE], "application/json");
        let error: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(error, expected, "{body}");
    };
    let error = |code: i32, message: &str, id: Option<Value>| {
        let mut error = json!({"jsonrpc": "2.0", "error": {"code": code, "message": message}});
        if let Some(id) = id {
            error["id"] = id;
        }
        error
    };

    let message = "Parse error: the body is no JSON at line 1, column 1";
    check("{", &[], error(-32700, message, Some(Value::Null))).await;
    let older = ["mcp-protocol-version: 2025-06-18"];
    check("{", &older, error(-32700, message, Some(Value::Null))).await;
    // Since then an id that was not read is left out.
    for version in ["2025-11-25", "2026-07-28"] {
        let version = format!("mcp-protocol-version: {version}");
        check("{", &[&version], error(-32700, message, None)).await;
    }
    let batch = r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#;
    let message = "Invalid Request: a batch is not taken: each message has a POST of its own";
    check(batch, &[], error(-32600, message, Some(Value::Null))).await;
    let message = "Invalid Request: `jsonrpc` has to be \"2.0\"";
    check(r#"{"id":5,"method":"ping"}"#, &[], error(-32600, message, Some(json!(5)))).await;
    face.close().await;
}

#[tokio::test]
async fn headers_that_are_wrong_are_refused_by_a_line_that_says_what_is_wanted() {
    let face = Face::new(&FaceSettings::default(), agent().await);
    let check = async |request: &str, headers: &[&str], status: u16, wanted: &str| {
        let (told, kind, line) = text_of(send(&face, request, headers, "{}").await).await;
        assert_eq!(told.as_u16(), status, "{request} {headers:?}: {line}");
        assert_eq!(kind[CONTENT_TYPE], text_type());
        assert!(line.contains(wanted), "{line}");
    };
    let accept = "accept: application/json, text/event-stream";
    let json = "content-type: application/json; charset=utf-8";
    let wanted = "Content-Type: application/json";
    check("POST /mcp", &[accept], 415, wanted).await;
    check("POST /mcp", &[accept, "content-type: text/plain"], 415, wanted).await;
    let wanted = "Accept: application/json, text/event-stream";
    check("POST /mcp", &[json], 406, wanted).await;
    check("POST /mcp", &[json, "accept: application/json"], 406, wanted).await;
    // Such as a browser's.
    let wanted = "this address is for MCP clients";
    check("GET /mcp", &["accept: text/html"], 406, wanted).await;
    // As the protocol has it, in the library's words.
    check("GET /mcp", &["accept: text/event-stream"], 400, "Session ID is required").await;
    let gone = ["accept: text/event-stream", "mcp-session-id: gone"];
    check("GET /mcp", &gone, 404, "Session not found").await;
    check("PUT /mcp", &[], 405, "").await;
    face.close().await;
}
