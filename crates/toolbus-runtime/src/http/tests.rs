//! Requests that are refused, repeated, and that stall.

use axum::body::{Body, to_bytes};
use axum::http::StatusCode;
use axum::routing::post;

use super::*;

/// Far more than the system takes on its own.
const LARGE: usize = 32 << 20;

/// Refuses what comes to `/refuse` without reading it, and reads what comes to `/read`.
async fn server() -> (Server, TcpStream) {
    let router = Router::new()
        .route("/refuse", post(async || StatusCode::PAYLOAD_TOO_LARGE))
        .route("/read", post(async |body: Body| to_bytes(body, LARGE).await.unwrap()));
    let limits = Limits { connections_max: 1, lifetime: None };
    let server = serve(&"127.0.0.1:0".parse().unwrap(), router, limits).await.unwrap();
    let client = TcpStream::connect(server.address()).await.unwrap();
    (server, client)
}

#[tokio::test]
async fn a_port_that_was_checked_is_closed_again() {
    let (server, _client) = server().await;
    let taken = server.address().to_string().parse().unwrap();
    assert_eq!(check_port(&taken).await.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    server.close().await;

    check_port(&taken).await.unwrap();
    assert!(TcpStream::connect(taken.to_string()).await.is_err());
    serve(&taken, Router::new(), Limits { connections_max: 1, lifetime: None }).await.unwrap();
}

#[tokio::test]
async fn a_request_says_where_it_comes_from() {
    let told = async |head: axum::http::request::Parts| {
        let peer = head.extensions.get::<SocketAddr>().copied();
        format!("{peer:?} {}", is_from_here(&head.extensions))
    };
    let limits = Limits { connections_max: 1, lifetime: None };
    let router = Router::new().route("/read", post(told));
    let server = serve(&"127.0.0.1:0".parse().unwrap(), router, limits).await.unwrap();
    let mut client = TcpStream::connect(server.address()).await.unwrap();
    let expected = format!("{:?} true", Some(client.local_addr().unwrap()));
    ask(&mut client, "/read", 0).await.unwrap();
    client.shutdown().await.unwrap();
    let answer = rest(client).await;
    assert!(answer.ends_with(&expected), "{answer}");
}

#[test]
fn addresses_of_this_machine_are_known_in_both_families() {
    let check = |peer: &str, expected: bool| {
        let mut extensions = Extensions::new();
        assert!(!is_from_here(&extensions));
        extensions.insert(peer.parse::<SocketAddr>().unwrap());
        assert_eq!(is_from_here(&extensions), expected, "{peer}");
    };
    check("127.0.0.1:1", true);
    check("[::1]:1", true);
    check("[::ffff:127.0.0.1]:1", true);
    check("192.0.2.7:1", false);
    check("[::ffff:192.0.2.7]:1", false);
}

async fn ask(client: &mut TcpStream, path: &str, length: usize) -> io::Result<()> {
    let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n");
    client.write_all(head.as_bytes()).await?;
    client.write_all(&vec![b'x'; length]).await
}

async fn rest(mut client: TcpStream) -> String {
    let mut text = String::new();
    client.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn who_is_refused_hears_it_after_all_it_sent_and_that_the_connection_ends() {
    let (_server, mut client) = server().await;
    ask(&mut client, "/refuse", LARGE).await.unwrap();
    let answer = rest(client).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
}

#[tokio::test]
async fn who_sends_without_end_is_cut_off() {
    let (_server, mut client) = server().await;
    let sending = async { while ask(&mut client, "/refuse", LARGE).await.is_ok() {} };
    tokio::time::timeout(60 * LINGER_TIMEOUT, sending).await.expect("it is cut off");
}

#[tokio::test]
async fn a_connection_lasts_while_all_of_each_request_is_read() {
    let (server, mut client) = server().await;
    for _ in 0..3 {
        ask(&mut client, "/read", 5).await.unwrap();
    }
    ask(&mut client, "/read", 0).await.unwrap();
    client.shutdown().await.unwrap();
    let answers = rest(client).await;
    assert_eq!(answers.matches("\r\n\r\nxxxxx").count(), 3, "{answers}");
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 4, "{answers}");
    assert!(!answers.contains("close"), "{answers}");
    assert!(server.drain(Duration::from_secs(60)).await);
}

/// Short, and yet far longer than what a client of this machine takes.
const SHORT: Timeouts = Timeouts {
    head: Duration::from_secs(2),
    body_idle: Duration::from_millis(500),
    body_total: Duration::from_secs(2),
    write: Duration::from_millis(500),
};

/// What each test may take that waits for a server to do something.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Reads bodies that come in time, for as many clients at once.
async fn hurried_server(connections_max: usize) -> Server {
    let read = async |body: Body| match to_bytes(body, LARGE).await {
        Ok(bytes) => (StatusCode::OK, bytes),
        // What handlers of others make of a body that does not come.
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "oh".into()),
    };
    let router = Router::new().route("/read", post(read));
    let limits = Limits { connections_max, lifetime: None };
    open(router, limits, SHORT).await
}

async fn open(router: Router, limits: Limits, timeouts: Timeouts) -> Server {
    serve_within(&"127.0.0.1:0".parse().unwrap(), router, limits, timeouts).await.unwrap()
}

/// A client that sends a head and the first byte of a body.
async fn stalled_client(server: &Server) -> TcpStream {
    let mut client = TcpStream::connect(server.address()).await.unwrap();
    let head = b"POST /read HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nx";
    client.write_all(head).await.unwrap();
    client
}

/// Sends one request on a connection of its own and asserts that it is answered.
async fn assert_served(server: &Server, path: &str) {
    let mut client = TcpStream::connect(server.address()).await.unwrap();
    let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    client.write_all(b"content-length: 5\r\n\r\nhello").await.unwrap();
    let answer = tokio::time::timeout(TEST_TIMEOUT, rest(client)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

async fn assert_timed_out(client: TcpStream) {
    let answer = tokio::time::timeout(TEST_TIMEOUT, rest(client)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
}

#[tokio::test]
async fn clients_that_stall_are_dropped_and_others_are_served() {
    const PLACES: usize = 64;
    let server = hurried_server(PLACES).await;
    let mut stalled = Vec::new();
    for _ in 1..PLACES {
        stalled.push(stalled_client(&server).await);
    }

    // There is one place left, and then none: the next client waits until the others are dropped.
    assert_served(&server, "/read").await;
    stalled.push(stalled_client(&server).await);
    assert_served(&server, "/read").await;

    for client in stalled {
        assert_timed_out(client).await;
    }
    assert!(server.drain(TEST_TIMEOUT).await);
}

#[tokio::test]
async fn a_client_that_trickles_is_dropped() {
    let server = hurried_server(1).await;
    let (reader, mut writer) = stalled_client(&server).await.into_split();
    let started = std::time::Instant::now();

    // Each byte is in time, all of them are not. It fails once the connection is closed.
    let trickle = async {
        while writer.write_all(b"x").await.is_ok() {
            // sleeps: the pace of the trickle.
            tokio::time::sleep(SHORT.body_idle / 10).await;
        }
    };
    let head = async {
        let mut reader = tokio::io::BufReader::new(reader);
        let mut line = String::new();
        tokio::io::AsyncBufReadExt::read_line(&mut reader, &mut line).await.unwrap();
        line
    };
    let head = tokio::select! {
        head = head => head,
        () = trickle => panic!("the connection was closed without an answer"),
    };

    assert!(head.starts_with("HTTP/1.1 408 "), "{head}");
    assert!(started.elapsed() >= SHORT.body_total, "{:?}", started.elapsed());
    assert_served(&server, "/read").await;
}

#[tokio::test]
async fn a_response_may_take_longer_than_a_body() {
    let router = Router::new().route(
        "/slow",
        post(async |body: Body| {
            let bytes = to_bytes(body, LARGE).await.unwrap();
            // sleeps: longer than any limit on the body.
            tokio::time::sleep(SHORT.body_total + SHORT.body_idle).await;
            bytes
        }),
    );
    let limits = Limits { connections_max: 1, lifetime: None };
    let server = open(router, limits, SHORT).await;

    assert_served(&server, "/slow").await;
}

/// Everything that a server still says on a connection, however it ends.
async fn all_of(mut client: TcpStream) -> String {
    let mut bytes = Vec::new();
    let reading = client.read_to_end(&mut bytes);
    let _ = tokio::time::timeout(TEST_TIMEOUT, reading).await.expect("the connection ends");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[tokio::test]
async fn idle_connections_make_room_and_busy_ones_do_not() {
    let (finish, finishing) = tokio::sync::watch::channel(false);
    let router = Router::new()
        .route("/read", post(async |body: Body| to_bytes(body, LARGE).await.unwrap()))
        .route(
            "/busy",
            post(async move || {
                let mut finishing = finishing.clone();
                finishing.wait_for(|is_over| *is_over).await.map(|_| "done").unwrap()
            }),
        );
    let limits = Limits { connections_max: 4, lifetime: None };
    // None of them is closed for being late.
    let timeouts = Timeouts { head: TEST_TIMEOUT, ..SHORT };
    let server = open(router, limits, timeouts).await;

    let mut busy = TcpStream::connect(server.address()).await.unwrap();
    busy.write_all(b"POST /busy HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut idle = Vec::new();
    for _ in 0..12 {
        idle.push(TcpStream::connect(server.address()).await.unwrap());
    }
    // One has begun its head, and is told why it ends.
    let mut begun = TcpStream::connect(server.address()).await.unwrap();
    begun.write_all(b"POST /read HT").await.unwrap();
    for _ in 0..5 {
        idle.push(TcpStream::connect(server.address()).await.unwrap());
    }
    assert_served(&server, "/read").await;
    assert!(all_of(begun).await.starts_with("HTTP/1.1 408 "));

    finish.send(true).unwrap();
    let answer = all_of(busy).await;
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("done"), "{answer}");
}

#[tokio::test]
async fn a_connection_waits_again_after_its_answer() {
    let server = hurried_server(1).await;
    let mut kept = TcpStream::connect(server.address()).await.unwrap();
    ask(&mut kept, "/read", 5).await.unwrap();
    // It is answered, kept alive, and makes room.
    assert_served(&server, "/read").await;
    assert!(all_of(kept).await.starts_with("HTTP/1.1 200 "));
}

#[tokio::test]
async fn a_head_that_never_ends_is_answered() {
    let server = hurried_server(1).await;
    let mut client = TcpStream::connect(server.address()).await.unwrap();
    client.write_all(b"POST /read HTTP/1.1\r\nhost: x\r\n").await.unwrap();
    assert!(all_of(client).await.starts_with("HTTP/1.1 408 "));
    assert_served(&server, "/read").await;
}

#[tokio::test]
async fn a_client_that_does_not_read_is_dropped() {
    let router = Router::new()
        .route("/endless", post(async || Body::new(Endless(vec![b'x'; 64 << 10].into()))))
        .route("/read", post(async |body: Body| to_bytes(body, LARGE).await.unwrap()));
    let limits = Limits { connections_max: 1, lifetime: None };
    let server = open(router, limits, SHORT).await;
    let mut deaf = TcpStream::connect(server.address()).await.unwrap();
    deaf.write_all(b"POST /endless HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();

    // There is one place: this is answered once the other is gone.
    assert_served(&server, "/read").await;
    drop(deaf);
}

/// A body without an end.
struct Endless(hyper::body::Bytes);

impl hyper::body::Body for Endless {
    type Data = hyper::body::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<hyper::body::Frame<Self::Data>, Self::Error>>> {
        std::task::Poll::Ready(Some(Ok(hyper::body::Frame::data(self.0.clone()))))
    }
}

#[tokio::test]
async fn routers_at_one_port_have_places_of_their_own() {
    let endless = Router::new()
        .route("/endless", post(async || Body::new(Endless(vec![b'x'; 64 << 10].into()))));
    let read =
        Router::new().route("/read", post(async |body: Body| to_bytes(body, LARGE).await.unwrap()));
    let router = with_places(read, 1).merge(with_places(endless, 2));
    let limits = Limits { connections_max: 4, lifetime: None };
    let timeouts = Timeouts { write: TEST_TIMEOUT, ..SHORT };
    let server = open(router, limits, timeouts).await;

    let ask = async || {
        let mut client = TcpStream::connect(server.address()).await.unwrap();
        client.write_all(b"POST /endless HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        let mut status = [0; 12];
        client.read_exact(&mut status).await.unwrap();
        (client, String::from_utf8_lossy(&status).into_owned())
    };
    let (first, second, refused) = (ask().await, ask().await, ask().await);
    assert_eq!([first.1, second.1], ["HTTP/1.1 200"; 2]);
    assert_eq!(refused.1, "HTTP/1.1 503");
    assert_served(&server, "/read").await;

    // One that goes away gives its place back.
    drop(first.0);
    let served = async { while ask().await.1 != "HTTP/1.1 200" {} };
    tokio::time::timeout(TEST_TIMEOUT, served).await.expect("there is a place again");
}
