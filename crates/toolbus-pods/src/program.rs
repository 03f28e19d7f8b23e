//! The supervisor's program, as pods are given it.

use std::io::Read as _;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::ZlibEncoder;
use toolbus_scripts::supervisor::Place;
use toolbus_scripts::supervisor::seccomp::Network;

/// A pod has one file system in memory that its script may write.
const POD: Place<'_> = Place {
    work: "/dev/shm/work",
    temporary: "/dev/shm/tmp",
    writable: &["/dev/shm"],
    outlives_input: true,
    network: Network::Denied,
    shared_bytes_max: None,
};

/// The program of a pod's first process, for `python3 -c`. Packed, because every pod's description
/// carries it, which the cluster reads and writes many times on the way of one script.
pub(crate) static PROGRAM: LazyLock<String> = LazyLock::new(|| pack_program(&POD.program()));
/// The same for pods that may have sockets of every kind.
pub(crate) static PROGRAM_WITH_NETWORK: LazyLock<String> =
    LazyLock::new(|| pack_program(&Place { network: Network::Allowed, ..POD }.program()));

/// One line that runs a program: its text by zlib in base64, which are there wherever Python is.
fn pack_program(program: &str) -> String {
    let mut text = Vec::new();
    ZlibEncoder::new(program.as_bytes(), Compression::best())
        .read_to_end(&mut text)
        .expect("memory can be read");
    let text = STANDARD.encode(text);
    format!("import binascii, zlib; exec(zlib.decompress(binascii.a2b_base64(\"{text}\")))")
}

#[cfg(test)]
mod tests;
