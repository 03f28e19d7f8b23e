use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

use super::{LinkState, Proxy};

/// Longer than anything here takes that does not hang.
const LIMIT: Duration = Duration::from_secs(120);
/// How long nothing must come for a link to count as silent.
const SILENCE: Duration = Duration::from_millis(200);

struct Ends {
    proxy: Proxy,
    client: TcpStream,
    broker: TcpStream,
}

async fn connect() -> Ends {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let proxy = Proxy::start(listener.local_addr().unwrap()).await.unwrap();
    let client = TcpStream::connect(proxy.address()).await.unwrap();
    let (broker, _) = listener.accept().await.unwrap();
    Ends { proxy, client, broker }
}

async fn carry(from: &mut TcpStream, to: &mut TcpStream, text: &[u8]) {
    from.write_all(text).await.unwrap();
    let mut read = vec![0; text.len()];
    timeout(LIMIT, to.read_exact(&mut read)).await.unwrap().unwrap();
    assert_eq!(read, text);
}

async fn is_silent(stream: &mut TcpStream) -> bool {
    timeout(SILENCE, stream.read(&mut [0; 16])).await.is_err()
}

#[tokio::test]
async fn it_carries_both_ways_and_passes_an_end_on() {
    let Ends { proxy: _proxy, mut client, mut broker } = connect().await;
    let long: Vec<u8> = (0..100_000_u32).map(|at| at as u8).collect();

    let both = async {
        let (read, written) = tokio::join!(
            async {
                let mut read = vec![0; long.len()];
                broker.read_exact(&mut read).await.map(|_| read)
            },
            client.write_all(&long)
        );
        written.unwrap();
        assert_eq!(read.unwrap(), long);
    };
    timeout(LIMIT, both).await.unwrap();
    carry(&mut broker, &mut client, b"down").await;

    client.shutdown().await.unwrap();
    assert_eq!(timeout(LIMIT, broker.read(&mut [0; 1])).await.unwrap().unwrap(), 0);
}

#[tokio::test]
async fn a_reset_ends_both_sides_and_the_next_connection_works() {
    let Ends { proxy, mut client, mut broker } = connect().await;
    carry(&mut client, &mut broker, b"up").await;

    proxy.reset();
    for stream in [&mut client, &mut broker] {
        let error = timeout(LIMIT, stream.read(&mut [0; 1])).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }

    let _second = TcpStream::connect(proxy.address()).await.unwrap();
}

#[tokio::test]
async fn a_silent_direction_keeps_its_bytes() {
    let Ends { proxy, mut client, mut broker } = connect().await;
    carry(&mut client, &mut broker, b"before").await;

    proxy.set_link(LinkState { is_silent_up: true, ..LinkState::default() });
    client.write_all(b"held").await.unwrap();
    assert!(is_silent(&mut broker).await);
    carry(&mut broker, &mut client, b"the other way").await;

    proxy.set_link(LinkState { is_silent_down: true, ..LinkState::default() });
    let mut held = [0; 4];
    timeout(LIMIT, broker.read_exact(&mut held)).await.unwrap().unwrap();
    assert_eq!(&held, b"held");
    broker.write_all(b"late").await.unwrap();
    assert!(is_silent(&mut client).await);

    // A silent connection can be reset, too.
    proxy.reset();
    assert!(timeout(LIMIT, client.read(&mut [0; 1])).await.unwrap().is_err());
}

#[tokio::test]
async fn latency_delays_and_a_narrow_link_takes_its_time() {
    let Ends { proxy, mut client, mut broker } = connect().await;
    let latency = Duration::from_millis(100);
    proxy.set_link(LinkState { latency, ..LinkState::default() });
    let start = Instant::now();
    carry(&mut client, &mut broker, b"slow").await;
    carry(&mut broker, &mut client, b"slow").await;
    assert!(start.elapsed() >= 2 * latency);

    let narrow = LinkState { bytes_per_second: Some(10_000), ..LinkState::default() };
    proxy.set_link(narrow);
    let start = Instant::now();
    carry(&mut client, &mut broker, &[7; 2_000]).await;
    assert!(start.elapsed() >= Duration::from_millis(200));
}
