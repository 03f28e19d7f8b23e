//! Starting where there is no broker, or none for us.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use toolbus_bus::{Bus as _, Health, PublishError, SubscribeError};
use toolbus_rabbitmq::{Config, ConnectError, RabbitBus, Start};
use toolbus_testkit::eventually;

use crate::support::{PATIENCE, Recorder, at_once, connect, durable, message, topic, vhost};

const LIMIT: Duration = Duration::from_secs(2);

async fn fails(url: &str) -> ConnectError {
    let mut config = Config::new(url).unwrap();
    config.start = Start::Within(LIMIT);
    let begin = Instant::now();
    let error = RabbitBus::connect(config).await.unwrap_err();
    assert!(begin.elapsed() < LIMIT + PATIENCE / 2, "it took {:?}", begin.elapsed());
    let shown = format!("{error} {error:?}");
    assert!(!shown.contains("hunter2"), "{shown}");
    error
}

/// The URL with another user and password.
fn as_user(url: &str, user: &str) -> String {
    let (_, rest) = url.rsplit_once('@').unwrap();
    format!("amqp://{user}@{rest}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_told_at_once() {
    let vhost = vhost!();
    let url = as_user(&vhost.amqp_url(), "guest:hunter2");
    let begin = Instant::now();
    let error = fails(&url).await;
    assert!(matches!(error, ConnectError::WrongCredentials { .. }), "{error:?}");
    assert!(begin.elapsed() < PATIENCE);
    assert!(error.to_string().contains("guest"), "{error}");

    let mut config = Config::new(&url).unwrap();
    config.start = Start::Whenever;
    config.broker_timeout = Duration::from_millis(100);
    let bus = RabbitBus::connect(config).await.unwrap();
    let reason = eventually(PATIENCE, async || match bus.health() {
        Health::Down { reason } if reason.contains("password") => Ok(reason),
        other => Err(other),
    })
    .await;
    assert!(!reason.contains("hunter2"), "{reason}");
    assert!(!format!("{bus:?}").contains("hunter2"), "{bus:?}");
    bus.close(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_virtual_host_that_is_not_there_is_told_at_once() {
    let vhost = vhost!();
    let url = vhost.amqp_url().replace(vhost.name(), "nowhere");
    let error = fails(&url).await;
    let ConnectError::VirtualHost { virtual_host, .. } = error else { panic!("{error:?}") };
    assert_eq!(virtual_host, "nowhere");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_there_is_told_in_time() {
    // A port that was free a moment ago.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let error = fails(&format!("amqp://u:hunter2@{address}/v")).await;
    let ConnectError::Unreachable { address: told, .. } = &error else { panic!("{error:?}") };
    assert_eq!(*told, address.to_string());
}

/// What accepts and never answers costs a thread and a socket for each attempt, so both must go
/// when the attempt is given up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broker_that_says_nothing_is_left_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("amqp://u:hunter2@{}/v", listener.local_addr().unwrap());
    let mute = async {
        let (mut socket, _) = listener.accept().await.unwrap();
        let mut sent = Vec::new();
        // Ends when the other side has closed.
        let _ = socket.read_to_end(&mut sent).await;
        sent
    };

    let (error, sent) = tokio::join!(fails(&url), tokio::time::timeout(PATIENCE, mute));
    assert!(matches!(error, ConnectError::TimedOut { .. }), "{error:?}");
    let sent = sent.expect("the socket was left open");
    assert!(sent.starts_with(b"AMQP"), "{sent:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_speaks_another_language_is_no_broker() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("amqp://u:hunter2@{}/v", listener.local_addr().unwrap());
    let other = async {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        }
    };

    let error = tokio::select! {
        error = fails(&url) => error,
        () = other => unreachable!("it serves for ever"),
    };

    let is_told = matches!(error, ConnectError::Unreachable { .. } | ConnectError::TimedOut { .. });
    assert!(is_told, "{error:?}");
}

/// A service starts before its broker, says so, and nothing waits for ever meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_may_start_first() {
    let vhost = vhost!();
    // A door that is opened later.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let door = listener.local_addr().unwrap();
    drop(listener);
    let (user, rest) =
        vhost.amqp_url().rsplit_once('@').map(|(u, r)| (u.to_owned(), r.to_owned())).unwrap();
    let (broker, path) = rest.split_once('/').unwrap();
    let mut config = Config::new(&format!("{user}@{door}/{path}")).unwrap();
    config.start = Start::Whenever;
    config.broker_timeout = Duration::from_secs(2);

    let begin = Instant::now();
    let bus = RabbitBus::connect(config).await.unwrap();
    assert!(matches!(bus.health(), Health::Down { .. }));
    let subscription = durable("q", "t", at_once(1));
    let handler = Recorder::acking();
    let subscribed = bus.subscribe(subscription.clone(), handler.clone()).await;
    assert!(matches!(subscribed, Err(SubscribeError::Unavailable(_))), "{subscribed:?}");
    let published = bus.publish(&topic("t"), message("early")).await;
    assert!(matches!(published, Err(PublishError::Unavailable(_))), "{published:?}");
    assert!(begin.elapsed() < PATIENCE);

    let listener = TcpListener::bind(door).await.unwrap();
    // On a busy machine the first connection may be given up for another.
    let serve = async {
        let mut connections = JoinSet::new();
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut broker = tokio::net::TcpStream::connect(broker).await.unwrap();
            connections.spawn(async move { copy_bidirectional(&mut client, &mut broker).await });
        }
    };

    let test = async {
        tokio::time::timeout(PATIENCE, bus.connected()).await.unwrap();
        assert_eq!(bus.health(), Health::Up);
        let _consumer = bus.subscribe(subscription, handler.clone()).await.unwrap();
        bus.publish(&topic("t"), message("now")).await.unwrap();
        handler.received(1).await;
        bus.close(Duration::from_secs(1)).await;
    };

    tokio::select! {
        () = test => {}
        () = serve => unreachable!("it serves for ever"),
    }
}

/// The address of a broker that is not there.
async fn closed_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().to_string()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_are_down_are_passed_over() {
    let vhost = vhost!();
    let down = format!("amqp://u:hunter2@{}/v", closed_address().await);
    let urls = format!("{down}, {},{down}", vhost.amqp_url());

    // Whichever it begins with.
    for _ in 0..5 {
        let bus = connect(&urls).await;
        assert_eq!(bus.health(), Health::Up);
        assert!(!format!("{bus:?}").contains("hunter2"), "{bus:?}");
        bus.close(Duration::ZERO).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_is_final_when_every_node_refuses() {
    let vhost = vhost!();
    let good = vhost.amqp_url();
    let wrong_password = as_user(&good, "guest:hunter2");
    let no_vhost = good.replace(vhost.name(), "nowhere");

    for _ in 0..3 {
        let bus = connect(&format!("{wrong_password},{no_vhost},{good}")).await;
        bus.close(Duration::ZERO).await;
    }

    let begin = Instant::now();
    let error = fails(&format!("{wrong_password},{no_vhost}")).await;
    let is_refusal =
        matches!(error, ConnectError::WrongCredentials { .. } | ConnectError::VirtualHost { .. });
    assert!(is_refusal && begin.elapsed() < LIMIT, "{error:?} after {:?}", begin.elapsed());

    // One that is down may come up and be another's word; until then the refusal says more.
    let down = format!("amqp://u:hunter2@{}/v", closed_address().await);
    let begin = Instant::now();
    let error = fails(&format!("{wrong_password},{down}")).await;
    assert!(matches!(error, ConnectError::WrongCredentials { .. }), "{error:?}");
    assert!(begin.elapsed() > LIMIT / 4, "it gave up after {:?}", begin.elapsed());
}

/// Two ways to one broker stand for two of its nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_connection_is_made_anew_to_another_node() {
    let vhost = vhost!();
    let url = vhost.amqp_url();
    let (user, rest) = url.rsplit_once('@').unwrap();
    let (broker, path) = rest.split_once('/').unwrap();
    let taken = Arc::new(Mutex::new(Vec::new()));
    let mut urls = Vec::new();
    let mut doors = JoinSet::new();

    for door in 0..2 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        urls.push(format!("{user}@{}/{path}", listener.local_addr().unwrap()));
        let (broker, taken) = (broker.to_owned(), Arc::clone(&taken));
        doors.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                taken.lock().push(door);
                let mut broker = tokio::net::TcpStream::connect(&broker).await.unwrap();
                connections
                    .spawn(async move { copy_bidirectional(&mut client, &mut broker).await });
            }
        });
    }

    let bus = connect(&urls.join(",")).await;
    for count in 2..=5 {
        eventually(PATIENCE, async || match vhost.close_connections().await.unwrap() {
            0 => Err("not connected"),
            _ => Ok(()),
        })
        .await;
        eventually(PATIENCE, async || {
            let taken = taken.lock().clone();
            if taken.len() >= count && bus.health() == Health::Up { Ok(()) } else { Err(taken) }
        })
        .await;
    }

    let taken = taken.lock().clone();
    assert!(taken.windows(2).all(|pair| pair[0] != pair[1]), "{taken:?}");
    bus.close(Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bus_that_is_dropped_hangs_up() {
    let vhost = vhost!();
    let bus = connect(&vhost.amqp_url()).await;
    drop(bus);
    eventually(PATIENCE, async || match vhost.connections().await.unwrap().len() {
        0 => Ok(()),
        count => Err(format!("{count} connections")),
    })
    .await;
}

/// A secret that is rotated is in its file anew, and the connections that are there live on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_in_a_file_is_read_for_each_connection() {
    let vhost = vhost!();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    let mut config = Config::new(&as_user(&vhost.amqp_url(), "guest:hunter2")).unwrap();
    config.password_file = Some(file.clone());
    config.start = Start::Within(LIMIT);
    let error = RabbitBus::connect(config.clone()).await.unwrap_err();
    assert!(matches!(error, ConnectError::Password { .. }), "{error:?}");

    config.start = Start::Whenever;
    std::fs::write(&file, "hunter2").unwrap();
    let bus = RabbitBus::connect(config).await.unwrap();
    eventually(PATIENCE, async || match bus.health() {
        Health::Down { reason } if reason.contains("refused the user guest") => Ok(()),
        other => Err(other),
    })
    .await;
    std::fs::write(&file, "guest\n").unwrap();
    eventually(PATIENCE, async || match bus.health() {
        Health::Up => Ok(()),
        other => Err(other),
    })
    .await;
    bus.close(Duration::ZERO).await;
}
