//! Starts the broker that all tests of a run share, says where it is and stays until its standard
//! input ends. `cargo xtask` runs it.
//!
//! Prints `NAME=VALUE` lines for the environment of the tests, then `ready`.

use std::io::{Read as _, Write as _};

use anyhow::Context as _;
use toolbus_testkit::rabbit::Node;

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let node = runtime.block_on(Node::start()).context("the broker for the tests")?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "TOOLBUS_TEST_AMQP={}", node.broker().amqp())?;
    writeln!(stdout, "TOOLBUS_TEST_AMQP_API={}", node.broker().api())?;
    writeln!(stdout, "ready")?;
    stdout.flush()?;
    // Nothing is ever written to us: this returns when the other end is gone.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
