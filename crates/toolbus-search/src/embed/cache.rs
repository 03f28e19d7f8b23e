//! Vectors that outlive the process: one file, by what was embedded and by which model.

use std::collections::HashMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::EmbedError;
use crate::tool_index::{Compact, ContentHash};

const WHAT: &str = "the file of vectors";
const MAGIC: &[u8; 8] = b"tbvec\x00\x00\x02";
const CHECKSUM_BYTES: usize = 32;
/// Largest file that is read or written.
const FILE_BYTES_MAX: u64 = 512 * 1_024 * 1_024;

/// Vectors by the content that they are of.
#[derive(Debug, Default)]
pub(crate) struct VectorCache {
    vectors: HashMap<ContentHash, Compact>,
}

impl VectorCache {
    /// Reads what was kept for this model. There is nothing where there is no file, or one of
    /// another model.
    pub(crate) fn read(path: &Path, model: &str, dimensions: usize) -> Result<Self, EmbedError> {
        let failed = |source| EmbedError::Read { path: path.display().to_string(), source };
        let bytes = match fs::metadata(path) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(failed(error)),
        };
        if bytes > FILE_BYTES_MAX {
            return Err(EmbedError::TooLarge { what: WHAT, bytes, limit: FILE_BYTES_MAX });
        }

        let file = fs::read(path).map_err(failed)?;
        let malformed = |reason| EmbedError::malformed(WHAT, reason);
        let content = file
            .len()
            .checked_sub(CHECKSUM_BYTES)
            .and_then(|end| file.split_at_checked(end))
            .filter(|(content, checksum)| Sha256::digest(content)[..] == **checksum)
            .map(|(content, _)| content)
            .ok_or_else(|| malformed("its checksum is wrong"))?;
        let header = header(model, dimensions);
        let Some(records) = content.strip_prefix(&header[..]) else { return Ok(Self::default()) };

        let mut vectors = HashMap::new();
        let mut chunks = records.chunks_exact(16 + 4 + dimensions);
        for record in chunks.by_ref() {
            let (hash, rest) = record.split_first_chunk::<16>().expect("it has more");
            let (scale, values) = rest.split_first_chunk::<4>().expect("it has more");
            let scale = f32::from_le_bytes(*scale);
            let values = values.iter().map(|byte| *byte as i8).collect();
            if scale.is_finite() && scale > 0.0 {
                vectors.insert(*hash, Compact { scale, values });
            }
        }
        if !chunks.remainder().is_empty() {
            return Err(malformed("its last vector is cut off"));
        }
        Ok(Self { vectors })
    }

    /// Takes the vector of a content out.
    pub(crate) fn take(&mut self, content: &ContentHash) -> Option<Compact> {
        self.vectors.remove(content)
    }

    /// Writes vectors in place of what was kept, as a whole or not at all. Those over the limit are
    /// left out.
    pub(crate) fn write(
        path: &Path,
        model: &str,
        dimensions: usize,
        vectors: impl Iterator<Item = (ContentHash, Compact)>,
    ) -> io::Result<()> {
        let mut content = header(model, dimensions);
        let record_bytes = 16 + 4 + dimensions;
        for (hash, vector) in vectors.filter(|(_, vector)| vector.values.len() == dimensions) {
            if (content.len() + record_bytes + CHECKSUM_BYTES) as u64 > FILE_BYTES_MAX {
                break;
            }
            content.extend_from_slice(&hash);
            content.extend_from_slice(&vector.scale.to_le_bytes());
            content.extend(vector.values.iter().map(|value| *value as u8));
        }
        let checksum = Sha256::digest(&content);
        content.extend_from_slice(&checksum);

        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".new");
        let mut file = fs::File::create(&temporary)?;
        file.write_all(&content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    }
}

fn header(model: &str, dimensions: usize) -> Vec<u8> {
    let mut header = MAGIC.to_vec();
    header.extend_from_slice(&(dimensions as u64).to_le_bytes());
    header.extend_from_slice(&(model.len() as u64).to_le_bytes());
    header.extend_from_slice(model.as_bytes());
    header
}
