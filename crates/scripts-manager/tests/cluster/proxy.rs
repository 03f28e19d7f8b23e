//! A way to the cluster that can be cut.

use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

/// Passes connections on, until it is told to drop those that there are.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    cuts: watch::Sender<u32>,
}

impl Proxy {
    pub(crate) async fn start(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (cuts, cut) = watch::channel(0);
        let tasks = TaskTracker::new();
        let connections = tasks.clone();
        // Ends with the test's runtime.
        tasks.spawn(async move {
            while let Ok((mut here, _)) = listener.accept().await {
                let (target, mut cut) = (target.clone(), cut.clone());
                cut.mark_unchanged();
                connections.spawn(async move {
                    let Ok(mut there) = TcpStream::connect(target).await else { return };
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut here, &mut there) => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Self { address, cuts }
    }

    /// Drops every connection that there is; new ones are taken.
    pub(crate) fn cut(&self) {
        self.cuts.send_modify(|count| *count += 1);
    }
}
