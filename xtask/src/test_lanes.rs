//! Lanes: test programs run in several at a time, each of them once.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context as _;

/// Names the folder of claims for whoever starts a test program.
const CLAIMS: &str = "TOOLBUS_TEST_CLAIMS";

/// Which test programs of a run have been begun: an empty file for each, in a folder that is
/// removed at drop.
pub(crate) struct LaneClaims {
    folder: PathBuf,
}

impl LaneClaims {
    /// No program has been begun.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("toolbus-lanes-{}", std::process::id()));

        // A run with this id that was killed.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        Ok(Self { folder })
    }

    /// Has the programs that this command starts be claimed first.
    pub(crate) fn pass_to(&self, command: &mut Command) {
        command.env(CLAIMS, &self.folder);
    }
}

impl Drop for LaneClaims {
    fn drop(&mut self) {
        // What is left of it harms nobody.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Whether this test program is to be run here: where there are lanes, no other one has begun it.
pub(crate) fn claim(program: &Path) -> anyhow::Result<bool> {
    let Some(folder) = std::env::var_os(CLAIMS) else { return Ok(true) };
    claim_in(Path::new(&folder), program)
}

fn claim_in(folder: &Path, program: &Path) -> anyhow::Result<bool> {
    let name = program.file_name().context("a test program has no name")?;
    match OpenOptions::new().write(true).create_new(true).open(folder.join(name)) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error).context("claiming a test program"),
    }
}

/// Output of a lane: whole lines behind its number. Without a number all is written at once, even
/// within a line, so that a test that hangs shows its name.
pub(crate) struct LaneOutput<W> {
    lane: Option<usize>,
    line: Vec<u8>,
    to: W,
}

impl<W: Write> LaneOutput<W> {
    /// The output of a lane, written there.
    pub(crate) fn new(lane: Option<usize>, to: W) -> Self {
        Self { lane, line: Vec::new(), to }
    }
}

impl<W: Write> Write for LaneOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(lane) = self.lane else { return self.to.write(bytes) };
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line.is_empty() {
                write!(self.line, "{lane}| ")?;
            }
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                // In one piece, or the other lane would write into the line.
                self.to.write_all(&self.line)?;
                self.line.clear();
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

#[cfg(test)]
mod tests;
