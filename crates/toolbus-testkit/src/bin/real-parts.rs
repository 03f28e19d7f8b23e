//! Starts the servers that all tests of a run share, prints where they are, and stays until its
//! standard input ends: `real-parts [rabbitmq] [postgresql]`. `cargo xtask` runs it.
//!
//! Prints `NAME=VALUE` lines for the environment of the tests, then `ready`.

use std::io::{Read as _, Write as _};

use anyhow::{Context as _, bail};
use toolbus_testkit::postgres::Server;
use toolbus_testkit::rabbit::Node;

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut stdout = std::io::stdout();
    let (mut broker, mut database) = (None, None);

    for service in std::env::args().skip(1) {
        match service.as_str() {
            "rabbitmq" => {
                let node = runtime.block_on(Node::start()).context("the broker for the tests")?;
                writeln!(stdout, "TOOLBUS_TEST_AMQP={}", node.broker().amqp())?;
                writeln!(stdout, "TOOLBUS_TEST_AMQP_API={}", node.broker().api())?;
                broker = Some(node);
            }
            "postgresql" => {
                let server = runtime.block_on(Server::start_shared());
                let server = server.context("the database server for the tests")?;
                writeln!(stdout, "TOOLBUS_TEST_POSTGRES={}", server.port())?;
                database = Some(server);
            }
            _ => bail!("unknown service {service}: expected rabbitmq or postgresql"),
        }
    }

    writeln!(stdout, "ready")?;
    stdout.flush()?;
    // Nothing is ever written to us: this returns when the other end is gone.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    drop((broker, database));
    Ok(())
}
