//! Bodies: their size, their packing, and how slowly they come.

use std::io::Write as _;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use toolbus_fetch::Error;
use toolbus_testkit::scripted_server::{Part, Reply};

use crate::support::{CUT, REFUSE, fetcher, get, read, server};

/// "hello from brotli".
const BROTLI_HELLO: &[u8] = &[
    0x1b, 0x10, 0x00, 0xe0, 0xa5, 0xd2, 0xd8, 0x72, 0x10, 0x43, 0x24, 0x89, 0x1c, 0x62, 0xab, 0x7c,
    0xf4, 0x00,
];
/// 64 MiB of zeros.
const BROTLI_BOMB: &[u8] = &[
    0xcb, 0xff, 0xff, 0x3f, 0x00, 0x24, 0x00, 0xe2, 0xb1, 0x40, 0x72, 0xef, 0xff, 0xf8, 0xff, 0xff,
    0x07, 0x80, 0x04, 0x40, 0x1c, 0x16, 0x80, 0xee, 0xfd, 0x1f, 0xff, 0xff, 0xff, 0x00, 0x90, 0x00,
    0x88, 0xc3, 0x02, 0xd0, 0xbd, 0xff, 0xe3, 0xff, 0xff, 0x1f, 0x00, 0x12, 0x00, 0x71, 0x58, 0x00,
    0xba, 0xf7, 0x7f, 0xfc, 0xff, 0xff, 0x03, 0x40, 0x02, 0x20, 0x0e, 0x0b, 0x40, 0xf7, 0xfe, 0x8f,
    0xff, 0xff, 0x7f, 0x00, 0x48, 0x00, 0xc4, 0x61, 0x01, 0xe8, 0xde, 0xff, 0xf1, 0xff, 0xff, 0x0f,
    0x00, 0x09, 0x80, 0x38, 0x2c, 0x00, 0xdd, 0xfb, 0xbf, 0xfc, 0xff, 0xff, 0x03, 0x20, 0x01, 0x10,
    0x87, 0x05, 0xa0, 0x7b, 0xff, 0x07,
];

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text).expect("it packs");
    encoder.finish().expect("it packs")
}

/// What is read of a reply, cut or refused at 10,000 bytes.
async fn check(reply: Reply, is_cut: bool) -> Result<(usize, bool), Error> {
    let (_server, base) = server(move |_| reply.clone()).await;
    let limit = if is_cut { CUT } else { REFUSE };
    let body = read(&fetcher(&["127.0.0.1"]), get(&base), limit).await?;
    Ok((body.bytes.len(), body.is_cut))
}

fn packed(encoding: &str, bytes: Vec<u8>) -> Reply {
    Reply::body(200, "text/plain", bytes).header("content-encoding", encoding)
}

#[tokio::test]
async fn the_limit_is_exact() {
    for length in [9_999, 10_000, 10_001, 100_000] {
        for reply in [
            Reply::body(200, "text/plain", vec![b'x'; length]),
            Reply::body(200, "text/plain", vec![b'x'; length]).with_length(),
            packed("gzip", gzip(&vec![b'x'; length])),
        ] {
            let is_over = length > 10_000;
            assert_eq!(
                check(reply.clone(), true).await.expect("cut"),
                (length.min(10_000), is_over)
            );
            match check(reply, false).await {
                Ok(read) => assert_eq!((read, is_over), ((length, false), false)),
                Err(Error::TooLarge { bytes, max }) => {
                    assert!(is_over && max == 10_000 && bytes.is_none_or(|b| b == length as u64));
                }
                Err(error) => panic!("{error}"),
            }
        }
    }
}

#[tokio::test]
async fn a_length_that_is_over_the_limit_is_refused_at_once() {
    let reply = Reply::body(200, "text/plain", vec![b'x'; 20_000]).with_length();
    let error = check(reply, false).await.expect_err("too large");
    assert!(matches!(error, Error::TooLarge { bytes: Some(20_000), max: 10_000 }), "{error:?}");
}

#[tokio::test]
async fn packed_bodies_are_unpacked() {
    let (server, base) = server(|path| match path {
        "/gzip" => packed("gzip", gzip(b"hello")),
        "/members" => packed("x-gzip", [gzip(b"hel"), gzip(b""), gzip(b"lo")].concat()),
        "/identity" => packed("identity", b"hello".to_vec()),
        _ => packed("BR", BROTLI_HELLO.to_vec()),
    })
    .await;
    let fetcher = fetcher(&["127.0.0.1"]);
    for path in ["/gzip", "/members", "/identity"] {
        let body = read(&fetcher, get(&format!("{base}{path}")), REFUSE).await.expect(path);
        assert_eq!(body.bytes, b"hello", "{path}");
    }
    let body = read(&fetcher, get(&base), REFUSE).await.expect("brotli");
    assert_eq!(body.bytes, b"hello from brotli");
    assert_eq!(server.asked()[0].headers["accept-encoding"], "gzip, br");
}

#[tokio::test]
async fn bombs_are_bounded_by_what_comes_out() {
    let gzip_bomb = gzip(&vec![0; 64 << 20]);
    assert!(gzip_bomb.len() < 100_000 && BROTLI_BOMB.len() < 200);
    for reply in [packed("gzip", gzip_bomb), packed("br", BROTLI_BOMB.to_vec())] {
        let started = Instant::now();
        assert_eq!(check(reply.clone(), true).await.expect("cut"), (10_000, true));
        let error = check(reply, false).await.expect_err("refused");
        assert!(matches!(error, Error::TooLarge { .. }), "{error}");
        assert!(started.elapsed() < Duration::from_secs(10));
    }
}

#[tokio::test]
async fn packing_that_is_wrong_or_unknown_is_refused() {
    let cut_short = gzip(b"hello")[..15].to_vec();
    for reply in [
        packed("gzip", b"no gzip at all".to_vec()),
        packed("gzip", cut_short),
        packed("br", b"\xff\xff\xff\xff\xff".to_vec()),
        packed("br", BROTLI_HELLO[..8].to_vec()),
        packed("zstd", b"x".to_vec()),
        packed("gzip, gzip", gzip(&gzip(b"hello"))),
        packed("gzip", gzip(b"x")).header("content-encoding", "br"),
    ] {
        let error = check(reply.clone(), true).await.expect_err("refused");
        assert!(matches!(error, Error::Encoding(_)), "{reply:?}: {error}");
    }
}

#[tokio::test]
async fn endless_bodies_are_cut() {
    let endless = |reply: Reply, chunk: Vec<u8>| reply.then(Part::Forever(chunk));
    let plain = endless(Reply::body(200, "text/plain", "x"), vec![b'x'; 1000]);
    assert_eq!(check(plain.clone(), true).await.expect("cut"), (10_000, true));
    assert!(matches!(check(plain, false).await, Err(Error::TooLarge { .. })));

    // Packs that hold nothing never reach the limit of what comes out.
    let empty = endless(packed("gzip", gzip(b"x")), gzip(b""));
    assert_eq!(check(empty, true).await.expect("cut"), (1, true));
}

#[tokio::test]
async fn slow_bodies_end_with_the_time() {
    for reply in [
        Reply::body(200, "text/plain", "x").then(Part::Hang),
        Reply::body(200, "text/plain", "x").then(Part::Wait(Duration::from_secs(60))),
    ] {
        let (_server, base) = server(move |_| reply.clone()).await;
        let mut request = get(&base);
        request.timeout = Duration::from_millis(300);
        let error = read(&fetcher(&["127.0.0.1"]), request, CUT).await.expect_err("slow");
        assert!(matches!(error, Error::TimedOut(_)), "{error}");
        assert!(error.to_string().contains("0.3 s"), "{error}");
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_no_body() {
    let broken = Reply::body(200, "text/plain", "half").then(Part::Break);
    assert!(matches!(check(broken, true).await, Err(Error::Broken(_))));
}

#[tokio::test]
async fn headers_are_bounded() {
    let mut reply = Reply::body(200, "text/plain", "x");
    for at in 0..40 {
        reply = reply.header(&format!("x-{at}"), &"y".repeat(2_000));
    }
    let error = check(reply, true).await.expect_err("too many");
    assert!(matches!(error, Error::Headers(_)), "{error}");

    // Beyond that the parser gives up by itself.
    let mut reply = Reply::body(200, "text/plain", "x");
    for at in 0..1_000 {
        reply = reply.header(&format!("x-{at}"), &"y".repeat(2_000));
    }
    let error = check(reply, true).await.expect_err("too many");
    assert!(matches!(error, Error::NoAnswer { .. }), "{error}");
}

#[tokio::test]
async fn line_breaks_in_headers_are_refused() {
    let reply = Reply::body(200, "text/plain", "x").header("x", "y\r\n folded\0");
    let error = check(reply, true).await.expect_err("no header");
    assert!(matches!(error, Error::NoAnswer { .. }), "{error}");
}
