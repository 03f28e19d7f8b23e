//! Answers over HTTP, however they are written and in whatever pieces they come.

use futures_util::FutureExt as _;
use oauth2::http;
use proptest::prelude::*;
use reqwest::Body;
use rmcp::model::{ListToolsRequest, RequestId};

use super::*;
use crate::transport::fuzz::{self, hostile_bytes};

/// What may be answered with.
const STATUSES: [u16; 8] = [200, 201, 202, 204, 400, 404, 429, 503];
const KINDS: [&str; 4] = [JSON, EVENT_STREAM, "application/json; charset=utf-8", "text/html"];

/// A response whose body comes in pieces of this length.
fn response(status: u16, kind: &str, body: &[u8], piece: usize) -> Response {
    let pieces: Vec<_> =
        body.chunks(piece).map(|piece| Ok::<_, io::Error>(piece.to_vec())).collect();
    let response = http::Response::builder()
        .status(status)
        .header(CONTENT_TYPE, kind)
        .header(RETRY_AFTER, "1")
        .body(Body::wrap_stream(stream::iter(pieces)))
        .expect("it is valid");
    response.into()
}

fn request() -> ClientJsonRpcMessage {
    let request = ClientRequest::ListToolsRequest(ListToolsRequest::default());
    JsonRpcMessage::request(request, RequestId::Number(fuzz::CALL))
}

/// Reads the response as the answer to a request, whatever its status, and every event of it.
fn read(response: Response) -> Vec<String> {
    let (wire, _tag) = fuzz::wire();
    let message = request();
    let post = Post {
        address: "http://localhost/",
        message: &message,
        session: None,
        token: None,
        headers: &HashMap::new(),
        pause: &RequestedPause::default(),
    };

    let reading = async {
        let answer = if response.status().is_success() {
            post.read_answer(response, &wire).await
        } else {
            post.read_refusal(response).await
        };
        match answer {
            Ok(StreamableHttpPostResponse::Sse(events, _)) => {
                events.filter_map(async |event| event.ok()?.data).collect().await
            }
            Ok(StreamableHttpPostResponse::Json(message, _)) => {
                vec![serde_json::to_string(&message).expect("it is a message")]
            }
            other => vec![format!("{:?}", other.map(drop))],
        }
    };
    // Every piece is there, so whatever waits would do so for ever.
    tokio::task::unconstrained(reading).now_or_never().expect("nothing is waited for")
}

#[test]
fn a_body_is_bounded_before_it_is_kept() {
    let body = vec![b'x'; 1_000];
    for piece in [1, 100, 1_000] {
        let read = |max| {
            read_body(response(200, JSON, &body, piece), max)
                .now_or_never()
                .expect("nothing is waited for")
        };
        assert_eq!(read(1_000).expect("it fits"), body);
        assert!(matches!(read(999), Err(Error::ResponseBodyTooLarge { max_size: 999 })));
    }
}

proptest! {
    #[test]
    fn every_answer_is_read_or_refused(
        body in hostile_bytes(),
        status in proptest::sample::select(&STATUSES[..]),
        kind in proptest::sample::select(&KINDS[..]),
        piece in 1..64_usize,
    ) {
        let whole = read(response(status, kind, &body, body.len().max(1)));
        let parts = read(response(status, kind, &body, piece));
        prop_assert_eq!(whole, parts);
    }
}
