//! The conformance suite on the local sandbox, with the kernel's account of memory where there is
//! one, and with ours.

use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use toolbus_sandbox::{Config, MemoryAccounting, Sandbox};
use toolbus_scripts::Runner;
use toolbus_scripts::conformance::{Canaries, Fixture};

use crate::support::{config, probe};

struct Local(Sandbox);

impl Local {
    async fn start(memory_accounting: MemoryAccounting) -> Option<Self> {
        let config = Config { memory_accounting, max_concurrent: 8, ..config() };
        Some(Self(probe(config).await?))
    }
}

impl Fixture for Local {
    fn runner(&self) -> Arc<dyn Runner> {
        Arc::new(self.0.clone())
    }

    fn canaries(&self) -> BoxFuture<'_, Canaries> {
        let streams = ["127.0.0.1:0", "[::1]:0"].map(|address| TcpListener::bind(address).ok());
        let datagrams = ["127.0.0.1:0", "[::1]:0"].map(|address| UdpSocket::bind(address).ok());
        let listening = streams.iter().flatten().map(TcpListener::local_addr);
        let listening = listening.chain(datagrams.iter().flatten().map(UdpSocket::local_addr));
        let addresses = listening.map(|address| address.expect("an address").to_string()).collect();

        let callers = async move {
            let mut callers = Vec::new();

            for listener in streams.into_iter().flatten() {
                listener.set_nonblocking(true).expect("a flag");
                callers.extend(listener.accept().map(|(_, caller)| format!("stream {caller}")));
            }

            for socket in datagrams.into_iter().flatten() {
                socket.set_nonblocking(true).expect("a flag");
                let received = socket.recv_from(&mut [0; 16]);
                callers.extend(received.map(|(_, caller)| format!("datagram {caller}")));
            }

            callers
        };

        async { Canaries { addresses, callers: callers.boxed() } }.boxed()
    }

    fn settle<'a>(&'a self, _call_ids: &'a [String]) -> BoxFuture<'a, ()> {
        self.0.idle().boxed()
    }
}

mod by_the_kernel {
    use super::{Local, MemoryAccounting};

    toolbus_scripts::conformance_tests!(Local::start(MemoryAccounting::Automatic).await);
}

mod by_looking {
    use super::{Local, MemoryAccounting};

    toolbus_scripts::conformance_tests!(Local::start(MemoryAccounting::Sampled).await);
}
