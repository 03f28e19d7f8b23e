//! Files of models: read whole up to a limit, and what tells a model from others.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use sha2::{Digest as _, Sha256};
use toolbus_search::EmbedError;

/// Largest file of weights that is read.
pub(super) const WEIGHTS_BYTES_MAX: u64 = 1_024 * 1_024 * 1_024;
/// Largest tokenizer that is read.
pub(super) const TOKENIZER_BYTES_MAX: u64 = 64 * 1_024 * 1_024;

pub(super) fn read(what: &'static str, path: &Path, limit: u64) -> Result<Vec<u8>, EmbedError> {
    let failed = |source| EmbedError::Read { path: path.display().to_string(), source };
    let file = File::open(path).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    if bytes > limit {
        return Err(EmbedError::TooLarge { what, bytes, limit });
    }
    let mut content = Vec::new();
    file.take(limit).read_to_end(&mut content).map_err(failed)?;
    Ok(content)
}

/// The same; `None` where there is no such file.
pub(super) fn read_optional(
    what: &'static str,
    path: &Path,
    limit: u64,
) -> Result<Option<Vec<u8>>, EmbedError> {
    match read(what, path, limit) {
        Ok(content) => Ok(Some(content)),
        Err(EmbedError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The name of a model by its kind and all that decides its vectors.
pub(super) fn identity(kind: &str, parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    digest[..16].iter().fold(format!("{kind}-"), |all, byte| format!("{all}{byte:02x}"))
}
