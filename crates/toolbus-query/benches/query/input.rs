//! The value that is asked about: lines as a service logs them.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

pub(crate) const LINES: u64 = 400_000;
/// Every so many lines one is fatal.
const FATAL_INTERVAL: u64 = 50_000;

pub(crate) fn write(path: &Path) -> anyhow::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    for id in 0..LINES {
        let is_fatal = id % FATAL_INTERVAL == FATAL_INTERVAL / 2;
        let level = match id % 10 {
            _ if is_fatal => "fatal",
            0 => "warn",
            1..=6 => "info",
            _ => "debug",
        };
        let waited = if is_fatal { 999 } else { id * 7_919 % 998 };
        let number = id * 104_729 % 100_003;
        writeln!(
            file,
            r#"{{"id":{id},"time":"2026-11-26T10:00:{:02}.{:03}Z","level":"{level}","a":{{"b":{number},"c":[{},2.5,null,true]}},"message":"worker-{} lost its lease after {waited}ms, \"{}\" waits","labels":{{"zone":"eu-{}","pod":"pod-{number:x}-{id:x}"}},"path":"/v1/calls/{number:08x}/events"}}"#,
            id % 60,
            id % 1_000,
            id % 17,
            id % 64,
            id % 4_096,
            id % 4,
        )?;
    }
    Ok(file.flush()?)
}
