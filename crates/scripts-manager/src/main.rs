//! The `scripts-manager` binary.

#[cfg(feature = "jemalloc")]
use tikv_jemallocator::Jemalloc;
use toolbus_runtime::command_line;
use toolbus_runtime::service::Exit;

/// See docs/adr/0017-one-allocator-for-every-service.md.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

fn main() -> Exit {
    command_line::run(scripts_manager::main)
}
