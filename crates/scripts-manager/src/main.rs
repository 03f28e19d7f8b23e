//! The `scripts-manager` binary.

use toolbus_runtime::service::Exit;

fn main() -> Exit {
    scripts_manager::main(clap::Parser::parse())
}
