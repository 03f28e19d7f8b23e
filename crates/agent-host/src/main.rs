//! The `agent-host` binary.

use toolbus_runtime::service::Exit;

fn main() -> Exit {
    agent_host::main(clap::Parser::parse())
}
