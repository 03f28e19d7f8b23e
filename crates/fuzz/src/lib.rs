//! The parsers of bytes from outside, as targets of a fuzzer.
//!
//! `cargo xtask accept fuzz` runs each target with libFuzzer, which is led by what code an input
//! reaches, and keeps the inputs that reach something new in `corpus/`. The tests run every target
//! on its kept inputs and on changes of them.
//!
//! A target takes any bytes. It fails when the parser panics, hangs, or needs too much memory, and
//! where it compares results with each other, when they differ.

use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

mod targets;

pub use targets::{TARGETS, Target};

/// Longest input of any target, in bytes.
pub const INPUT_BYTES_MAX: usize = 64 << 10;

/// The target of this name.
#[must_use]
pub fn find_target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

impl Target {
    /// The file with its kept inputs, one in a line, in Base64.
    #[must_use]
    pub fn corpus_file(&self) -> PathBuf {
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(format!("{}.txt", self.name))
    }

    /// Its kept inputs, which are sorted by their length.
    ///
    /// # Panics
    /// When the file cannot be read, or is not as it was written.
    #[must_use]
    pub fn inputs(&self) -> Vec<Vec<u8>> {
        let file = self.corpus_file();
        let kept = std::fs::read_to_string(&file);
        let kept = kept.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        kept.lines().map(|line| STANDARD.decode(line).expect("a line of Base64")).collect()
    }
}
