//! Unpacking of bodies, within a limit on what comes out.

use std::io::{self, Write};

use brotli_decompressor::{BrotliDecoderParameter, DecompressorWriter};
use flate2::write::MultiGzDecoder;

use crate::error::Error;

/// What brotli unpacks with at a time, in bytes.
const BROTLI_BUFFER_BYTES: usize = 8 << 10;

/// Unpacks a body as it comes.
pub(crate) enum Unpacker {
    Identity(Bounded),
    Gzip(Box<MultiGzDecoder<Bounded>>),
    Brotli(Box<DecompressorWriter<Bounded>>),
}

/// Bytes up to a limit. What is over it is refused, which ends the unpacking.
#[derive(Debug)]
pub(crate) struct Bounded {
    bytes: Vec<u8>,
    max: usize,
    is_over: bool,
}

impl Unpacker {
    /// What unpacks bodies of this `Content-Encoding`.
    pub(crate) fn of(encoding: &str, max: usize) -> Result<Self, Error> {
        let bounded = Bounded { bytes: Vec::new(), max, is_over: false };
        match encoding.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Ok(Self::Identity(bounded)),
            "gzip" | "x-gzip" => Ok(Self::Gzip(Box::new(MultiGzDecoder::new(bounded)))),
            "br" => {
                let mut decoder = DecompressorWriter::new(bounded, BROTLI_BUFFER_BYTES);
                // Windows of up to a gigabyte are an extension that no browser reads.
                let large = BrotliDecoderParameter::BROTLI_DECODER_PARAM_LARGE_WINDOW;
                decoder.set_parameter(large, 0);
                Ok(Self::Brotli(Box::new(decoder)))
            }
            // Several, one in the other, are not needed by anybody honest.
            other => {
                let shown: String =
                    other.chars().filter(|c| c.is_ascii_graphic()).take(40).collect();
                Err(Error::Encoding(format!("'{shown}' is not supported")))
            }
        }
    }

    pub(crate) fn is_packed(&self) -> bool {
        !matches!(self, Self::Identity(_))
    }

    /// Takes more of the body.
    ///
    /// # Errors
    /// When it is not packed as it says. [`Unpacker::is_over`] says whether it was the limit.
    pub(crate) fn push(&mut self, chunk: &[u8]) -> io::Result<()> {
        match self {
            Self::Identity(bounded) => bounded.write_all(chunk),
            Self::Gzip(decoder) => decoder.write_all(chunk),
            Self::Brotli(decoder) => decoder.write_all(chunk),
        }
    }

    /// Whether there was more than the limit.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::Identity(bounded) => bounded.is_over,
            Self::Gzip(decoder) => decoder.get_ref().is_over,
            Self::Brotli(decoder) => decoder.get_ref().is_over,
        }
    }

    /// The end of the body: what is still held back comes out.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Identity(_) => Ok(()),
            Self::Gzip(decoder) => decoder.try_finish(),
            Self::Brotli(decoder) => decoder.close(),
        }
    }

    /// What came out.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let bounded = match self {
            Self::Identity(bounded) => bounded,
            Self::Gzip(decoder) => decoder.get_mut(),
            Self::Brotli(decoder) => decoder.get_mut(),
        };
        std::mem::take(&mut bounded.bytes)
    }
}

impl Write for Bounded {
    fn write(&mut self, chunk: &[u8]) -> io::Result<usize> {
        let room = self.max - self.bytes.len();
        let taken = chunk.len().min(room);
        self.bytes.extend_from_slice(&chunk[..taken]);
        if taken == 0 && !chunk.is_empty() {
            self.is_over = true;
            return Err(io::Error::other("there is more than the limit"));
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
