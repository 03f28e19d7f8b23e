//! A way to the cluster that can be cut, closed, slowed down, and held up.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Uri;
use kube::Config;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::task::TaskTracker;

/// What becomes of connections and of what goes through them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Open,
    /// Whatever goes through takes so much longer, either way.
    Slow(Duration),
    /// What comes from the cluster waits here.
    AnswersHeld,
    /// What goes to the cluster waits here.
    RequestsHeld,
    /// Connections are dropped, those that there are and those that come.
    Closed,
}

/// Passes connections on.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    cuts: watch::Sender<u32>,
    ages: watch::Sender<u32>,
    way: watch::Sender<Way>,
    held: Arc<AtomicUsize>,
    ended: Arc<AtomicUsize>,
}

impl Proxy {
    pub(crate) async fn start(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (cuts, cut) = watch::channel(0);
        let (ages, age) = watch::channel(0);
        let (way, ways) = watch::channel(Way::Open);
        let (held, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let tasks = TaskTracker::new();
        let (connections, held_here) = (tasks.clone(), Arc::clone(&held));
        let ended_here = Arc::clone(&ended);
        // Ends with the test's runtime.
        tasks.spawn(async move {
            while let Ok((here, _)) = listener.accept().await {
                let (target, mut cut, ways) = (target.clone(), cut.clone(), ways.clone());
                let held = Arc::clone(&held_here);
                cut.mark_unchanged();
                let (mut age, ended) = (age.clone(), Arc::clone(&ended_here));
                age.mark_unchanged();
                if *ways.borrow() == Way::Closed {
                    continue;
                }
                connections.spawn(async move {
                    let Ok(there) = TcpStream::connect(target).await else { return };
                    let (from_here, to_here) = here.into_split();
                    let (from_there, to_there) = there.into_split();
                    let is_over = || {
                        let over = age.has_changed().unwrap_or(true);
                        ended.fetch_add(usize::from(over), Ordering::Relaxed);
                        over
                    };
                    let held = &held;
                    let answers =
                        pass((from_there, to_here), ways.clone(), (Way::AnswersHeld, held), || {
                            false
                        });
                    let requests =
                        pass((from_here, to_there), ways, (Way::RequestsHeld, held), is_over);
                    tokio::select! {
                        _ = async { tokio::join!(answers, requests) } => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Self { address, cuts, ages, way, held, ended }
    }

    /// One in front of a cluster, and how the cluster is reached through it.
    pub(crate) async fn in_front_of(mut cluster: Config) -> (Self, Config) {
        let target = cluster.cluster_url.authority().expect("an address").to_string();
        let proxy = Self::start(target).await;
        cluster.cluster_url = format!("https://{}", proxy.address).parse().expect("an address");
        (proxy, cluster)
    }

    /// A kubeconfig that leads through this proxy, of one that leads to `server`.
    pub(crate) fn lead_through(&self, kubeconfig: &str, server: &Uri) -> String {
        let server = server.to_string();
        let server = server.trim_end_matches('/');
        assert!(kubeconfig.contains(server), "{server} is not in the kubeconfig");
        kubeconfig.replace(server, &format!("https://{}", self.address))
    }

    /// From now on.
    pub(crate) fn set(&self, way: Way) {
        self.held.store(0, Ordering::Relaxed);
        self.way.send_replace(way);
        if way == Way::Closed {
            self.cut();
        }
    }

    /// Drops every connection that there is; new ones are taken.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|count| *count += 1);
    }

    /// Lets each connection that there is end at the next request that is sent over it, which gets
    /// no answer; new ones are taken.
    pub(crate) fn age(&self) {
        self.ages.send_modify(|count| *count += 1);
    }

    /// How many connections have ended so.
    pub(crate) fn ended(&self) -> usize {
        self.ended.load(Ordering::Relaxed)
    }

    /// How much was held up since the way was set.
    pub(crate) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

async fn pass(
    (mut from, mut to): (impl AsyncRead + Unpin, impl AsyncWrite + Unpin),
    mut ways: watch::Receiver<Way>,
    (closed, held): (Way, &AtomicUsize),
    is_over: impl Fn() -> bool,
) {
    let mut buffer = vec![0; 32 << 10];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        if is_over() {
            break;
        }
        let way = *ways.borrow_and_update();
        match way {
            // sleeps: the delay of the fault.
            Way::Slow(time) => sleep(time).await,
            way if way == closed => _ = held.fetch_add(count, Ordering::Relaxed),
            _ => {}
        }
        if ways.wait_for(|way| *way != closed).await.is_err()
            || to.write_all(&buffer[..count]).await.is_err()
        {
            break;
        }
    }
    let _ = to.shutdown().await;
}
