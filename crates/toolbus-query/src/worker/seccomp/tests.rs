//! What the filter refuses, tried in a thread that has it.

use std::fs::File;
use std::io::{self, Read as _};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::Command;

use super::program;

/// Tries something under the filter.
fn under_filter<T: Send + 'static>(
    attempt: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let thread = std::thread::spawn(move || {
        seccompiler::apply_filter(&program()?).map_err(io::Error::other)?;
        attempt()
    });
    thread.join().expect("it does not panic")
}

#[track_caller]
fn check_refused<T: Send + 'static>(attempt: impl FnOnce() -> io::Result<T> + Send + 'static) {
    let error = under_filter(attempt).map(drop).expect_err("it is refused");
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{error}");
}

#[test]
fn files_are_not_opened() {
    check_refused(|| File::open("/dev/null"));
    check_refused(|| File::create("/tmp/toolbus-query-test"));
    check_refused(|| std::fs::metadata("/"));
    check_refused(|| std::fs::remove_file("/tmp/toolbus-query-test"));
}

#[test]
fn other_descriptors_are_not_read() {
    let mut file = File::open("/dev/zero").expect("it is there");
    check_refused(move || file.read(&mut [0; 8]));
}

#[test]
fn nobody_is_talked_to() {
    check_refused(|| TcpListener::bind("127.0.0.1:0"));
    check_refused(|| UdpSocket::bind("127.0.0.1:0"));
    check_refused(UnixStream::pair);
}

#[test]
fn nothing_is_started() {
    check_refused(|| Command::new("/bin/true").status());
    check_refused(|| std::thread::Builder::new().spawn(|| ()));
}

#[test]
fn memory_is_had() {
    let length = under_filter(|| Ok(std::hint::black_box(vec![1_u8; 64 << 20]).len()));
    assert_eq!(length.expect("it is allowed"), 64 << 20);
}
