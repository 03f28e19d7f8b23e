//! The resource limits that a worker sets on itself, before it looks at the value.
//!
//! They can only be lowered from there: both limits of each kind are set.

use std::{fs, io};

use rustix::param::page_size;
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::set_no_new_privs;

use crate::protocol::Request;

/// What a worker is taken to have when it starts where `/proc` does not say.
const OWN_BYTES_DEFAULT: u64 = 512 << 20;

/// Limits that are the same for every question.
pub(super) fn set_fixed() -> io::Result<()> {
    set(Resource::Core, 0)?;
    set(Resource::Fsize, 0)?;
    set_no_new_privs(true)?;
    Ok(())
}

/// Limits of this question. The thread that answers is the last one.
pub(super) fn set_for(request: &Request, file_size: Option<u64>) -> io::Result<()> {
    set(Resource::Nproc, 0)?;
    // The signal for the end of the time can be told from others; killing is for who ignores it.
    let seconds = request.cpu_seconds;
    limit(Resource::Cpu, seconds, seconds.saturating_add(1))?;

    let of_value = file_size.unwrap_or_default().min(request.memory_bytes);
    let bytes = own_bytes().saturating_add(request.memory_bytes).saturating_add(of_value);
    set(Resource::As, bytes)
}

/// The address space that this process has so far.
fn own_bytes() -> u64 {
    let pages = fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|line| line.split(' ').next()?.parse::<u64>().ok());
    pages.map_or(OWN_BYTES_DEFAULT, |pages| pages.saturating_mul(page_size() as u64))
}

fn set(resource: Resource, to: u64) -> io::Result<()> {
    limit(resource, to, to)
}

/// Never above what is allowed already.
fn limit(resource: Resource, current: u64, maximum: u64) -> io::Result<()> {
    let allowed = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let new = Rlimit { current: Some(current.min(allowed)), maximum: Some(maximum.min(allowed)) };
    Ok(setrlimit(resource, new)?)
}
