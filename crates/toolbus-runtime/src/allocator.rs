//! The memory allocator of every service: jemalloc.
//!
//! A call is some hundreds of small, short-lived allocations on two threads, with a body of
//! kibibytes among them; `docs/adr/0017-one-allocator-for-every-service.md` has the numbers.

use tikv_jemallocator::Jemalloc;

#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;
