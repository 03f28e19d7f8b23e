//! Tokens of texts, estimated by their lengths: no tokenizer is that of every model, and none is
//! fast enough to read every result.

/// How many bytes of text are about one token.
pub const BYTES_PER_TOKEN: u64 = 4;

/// About how many tokens a text of so many bytes is.
#[must_use]
pub fn estimate(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX).div_ceil(BYTES_PER_TOKEN)
}
