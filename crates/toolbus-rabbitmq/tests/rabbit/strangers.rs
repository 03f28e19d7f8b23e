//! What anybody with access to the broker may write around a message. It is delivered, or it is a
//! dead letter; it never takes the connection away from everybody else.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use toolbus_bus::{Bus as _, Health};

use crate::support::{
    Recorder, connect, connections, dead_letters, durable, in_order, message, subscribe, topic,
    vhost,
};

/// A client that writes octets as it is told, which no AMQP library does.
struct Raw {
    stream: TcpStream,
}

fn short(text: &[u8]) -> Vec<u8> {
    [&[u8::try_from(text.len()).unwrap()], text].concat()
}

fn long(octets: &[u8]) -> Vec<u8> {
    [&u32::try_from(octets.len()).unwrap().to_be_bytes()[..], octets].concat()
}

impl Raw {
    async fn connect(url: &str) -> Self {
        let (_, rest) = url.rsplit_once('@').unwrap();
        let (host, vhost) = rest.split_once('/').unwrap();
        let mut raw = Self { stream: TcpStream::connect(host).await.unwrap() };
        raw.stream.write_all(b"AMQP\0\0\x09\x01").await.unwrap();
        raw.answered().await;

        // connection.start-ok, tune-ok, open; channel.open.
        let login = [long(b""), short(b"PLAIN"), long(b"\0guest\0guest"), short(b"en_US")].concat();
        raw.method(0, &[&[0, 10, 0, 11], &login[..]].concat()).await;
        raw.answered().await;
        raw.method(0, &[0, 10, 0, 31, 7, 255, 0, 2, 0, 0, 0, 0]).await;
        let open = [short(vhost.as_bytes()), short(b""), vec![0]].concat();
        raw.method(0, &[&[0, 10, 0, 40], &open[..]].concat()).await;
        raw.answered().await;
        raw.method(1, &[0, 20, 0, 10, 0]).await;
        raw.answered().await;

        raw
    }

    /// Publishes a message with these properties, written out with their flags.
    async fn publish(&mut self, key: &[u8], flags: u16, properties: &[u8]) {
        let publish = [short(b"rockbot"), short(key), vec![0]].concat();
        self.method(1, &[&[0, 60, 0, 40, 0, 0], &publish[..]].concat()).await;
        let header = [&[0, 60, 0, 0], &2_u64.to_be_bytes()[..], &flags.to_be_bytes(), properties];
        self.frame(2, 1, &header.concat()).await;
        self.frame(3, 1, b"{}").await;
    }

    async fn method(&mut self, channel: u16, payload: &[u8]) {
        self.frame(1, channel, payload).await;
    }

    async fn frame(&mut self, kind: u8, channel: u16, payload: &[u8]) {
        let frame = [&[kind], &channel.to_be_bytes()[..], &long(payload), &[206]].concat();
        self.stream.write_all(&frame).await.unwrap();
    }

    /// Reads one frame, whatever it says.
    async fn answered(&mut self) {
        let mut head = [0; 7];
        self.stream.read_exact(&mut head).await.unwrap();
        let [_, _, _, size @ ..] = head;
        let mut payload = vec![0; usize::try_from(u32::from_be_bytes(size)).unwrap() + 1];
        self.stream.read_exact(&mut payload).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_that_are_no_texts_arrive_as_what_can_be_read() {
    let vhost = vhost!();
    let bus = connect(&vhost.amqp_url()).await;
    let handler = Recorder::acking();
    let _consumer = subscribe(&bus, durable("q", "t.#", in_order(8)), &handler).await;
    let connections = connections(&vhost).await;

    let mut raw = Raw::connect(&vhost.amqp_url()).await;
    raw.publish(b"t.id", 0x80, &short(b"id \xff\xfe")).await;
    raw.publish(b"t.key \xff", 0, b"").await;
    raw.publish(b"t.reply", 0x200, &short(b"reply.\xc3")).await;
    let headers = [short(b"rb-own\xff"), b"S".to_vec(), long(b"\xff")].concat();
    raw.publish(b"t.header", 0x2000, &long(&headers)).await;

    let seen = handler.received(4).await;
    let topics: Vec<_> = seen.iter().map(|delivery| delivery.topic.as_str()).collect();
    assert_eq!(topics, ["t.id", "t.key ?", "t.reply", "t.header"]);
    assert_eq!(seen[0].envelope.message_id, "id ??");
    assert_eq!(seen[2].envelope.reply_to, Some(topic("reply.?")));
    assert!(seen[3].envelope.headers.is_empty(), "a value that is no text is left out");
    assert!(seen.iter().all(|delivery| !delivery.redelivered), "the connection was lost");

    bus.publish(&topic("t.good"), message("good")).await.unwrap();
    handler.received(5).await;
    let now = vhost.connections().await.unwrap();
    assert!(connections.iter().all(|connection| now.contains(connection)), "{now:?}");
    bus.close(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_nested_without_end_do_no_harm() {
    let vhost = vhost!();
    // So deep that they are longer than what is read otherwise.
    let bus = connect(&format!("{}?frame_max=131072", vhost.amqp_url())).await;
    let handler = Recorder::acking();
    let _consumer = subscribe(&bus, durable("q", "t", in_order(8)), &handler).await;

    let mut value = b"V".to_vec();
    for _ in 0..10_000 {
        value = [b"F".to_vec(), long(&[short(b"a"), value].concat())].concat();
    }

    let own = [short(b"rb-own"), b"S".to_vec(), long(b"value")].concat();
    let headers = [short(b"a"), value, own].concat();
    let mut raw = Raw::connect(&vhost.amqp_url()).await;
    raw.publish(b"t", 0x2000, &long(&headers)).await;

    let seen = handler.received(1).await;
    assert_eq!(seen[0].envelope.headers.get("own"), Some("value"));
    bus.publish(&topic("t"), message("good")).await.unwrap();
    handler.received(2).await;
    assert_eq!(bus.health(), Health::Up);
    bus.close(Duration::ZERO).await;
}

/// The broker sends them although it has agreed to send no frame as long as that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_that_are_too_long_are_dead_letters() {
    let vhost = vhost!();
    let bus = connect(&vhost.amqp_url()).await;
    let handler = Recorder::acking();
    let _consumer = subscribe(&bus, durable("q", "t", in_order(8)), &handler).await;
    let connections = connections(&vhost).await;

    let text = vec![b'x'; 100_000];
    let headers = [short(b"rb-own"), b"S".to_vec(), long(&text)].concat();
    let mut raw = Raw::connect(&vhost.amqp_url()).await;
    raw.publish(b"t", 0x2000, &long(&headers)).await;
    raw.publish(b"t", 0x80, &short(b"good")).await;

    let seen = handler.received(1).await;
    assert_eq!(seen[0].envelope.message_id, "good");
    let letters = dead_letters(&vhost, "rockbot.q.dlq", 1).await;
    let own = letters[0].properties["headers"]["rb-own"].as_str();
    assert_eq!(own.map(str::len), Some(text.len()), "the broker keeps all of it");
    let now = vhost.connections().await.unwrap();
    assert!(connections.iter().all(|connection| now.contains(connection)), "{now:?}");
    bus.close(Duration::ZERO).await;
}
