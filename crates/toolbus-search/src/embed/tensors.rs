//! Reading tensors from the bytes of a safetensors file, with limits on all that it says of itself.

use serde_json::Value;

use super::EmbedError;

/// Longest header that is read.
const HEADER_BYTES_MAX: u64 = 4 * 1_024 * 1_024;
const WHAT: &str = "a safetensors file";

/// The bytes of a safetensors file with what its header says of them.
pub(super) struct Tensors<'a> {
    header: serde_json::Map<String, Value>,
    data: &'a [u8],
}

/// One tensor.
pub(super) struct Tensor<'a> {
    kind: String,
    pub(super) shape: Vec<usize>,
    bytes: &'a [u8],
}

impl<'a> Tensors<'a> {
    pub(super) fn read(file: &'a [u8]) -> Result<Self, EmbedError> {
        let (length, rest) = file
            .split_first_chunk::<8>()
            .ok_or_else(|| EmbedError::malformed(WHAT, "it is shorter than its length"))?;
        let bytes = u64::from_le_bytes(*length);
        if bytes > HEADER_BYTES_MAX {
            let (what, limit) = ("the header of a safetensors file", HEADER_BYTES_MAX);
            return Err(EmbedError::TooLarge { what, bytes, limit });
        }

        let (header, data) = rest
            .split_at_checked(bytes as usize)
            .ok_or_else(|| EmbedError::malformed(WHAT, "its header is cut off"))?;
        let header =
            serde_json::from_slice(header).map_err(|error| EmbedError::malformed(WHAT, error))?;
        Ok(Self { header, data })
    }

    pub(super) fn find(&self, name: &str) -> Result<Option<Tensor<'a>>, EmbedError> {
        let Some(said) = self.header.get(name) else { return Ok(None) };
        let malformed = |reason| EmbedError::malformed(WHAT, format!("tensor {name} {reason}"));
        let numbers = |member: &str| -> Option<Vec<usize>> {
            let number = |value: &Value| value.as_u64().and_then(|n| usize::try_from(n).ok());
            said[member].as_array()?.iter().map(number).collect()
        };
        let kind = said["dtype"].as_str().ok_or_else(|| malformed("has no type"))?.to_owned();
        let shape = numbers("shape").ok_or_else(|| malformed("has no shape"))?;
        let offsets = numbers("data_offsets").ok_or_else(|| malformed("has no offsets"))?;

        let bytes = match offsets[..] {
            [start, end] => self.data.get(start..end),
            _ => None,
        };
        let bytes = bytes.ok_or_else(|| malformed("is not within the file"))?;
        let width = match kind.as_str() {
            "F16" | "BF16" => 2,
            "F32" | "I32" => 4,
            "F64" | "I64" => 8,
            _ => return Err(EmbedError::Unsupported { what: "a tensor's type", kind }),
        };
        let elements = shape.iter().try_fold(1_usize, |all, part| all.checked_mul(*part));
        if elements.and_then(|elements| elements.checked_mul(width)) != Some(bytes.len()) {
            return Err(malformed("has another size than its shape"));
        }
        Ok(Some(Tensor { kind, shape, bytes }))
    }
}

impl Tensor<'_> {
    /// Its values, all of them finite.
    pub(super) fn floats(&self) -> Result<Vec<f32>, EmbedError> {
        let values: Vec<f32> = match self.kind.as_str() {
            "F16" => self.chunks().map(|bytes| half(u16::from_le_bytes(bytes))).collect(),
            "BF16" => self
                .chunks()
                .map(|bytes| f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16))
                .collect(),
            "F32" => self.chunks().map(f32::from_le_bytes).collect(),
            "F64" => self.chunks().map(|bytes| f64::from_le_bytes(bytes) as f32).collect(),
            kind => {
                let (what, kind) = ("a tensor's type", kind.to_owned());
                return Err(EmbedError::Unsupported { what, kind });
            }
        };
        if values.iter().all(|value| value.is_finite()) {
            Ok(values)
        } else {
            Err(EmbedError::malformed(WHAT, "a value is not a finite number"))
        }
    }

    /// Its values as places in another tensor.
    pub(super) fn places(&self) -> Result<Vec<u32>, EmbedError> {
        let negative = || EmbedError::malformed(WHAT, "a place is out of range");
        match self.kind.as_str() {
            "I32" => self
                .chunks()
                .map(|bytes| u32::try_from(i32::from_le_bytes(bytes)).map_err(|_| negative()))
                .collect(),
            "I64" => self
                .chunks()
                .map(|bytes| u32::try_from(i64::from_le_bytes(bytes)).map_err(|_| negative()))
                .collect(),
            kind => Err(EmbedError::Unsupported { what: "a tensor's type", kind: kind.to_owned() }),
        }
    }

    fn chunks<const WIDTH: usize>(&self) -> impl Iterator<Item = [u8; WIDTH]> + '_ {
        self.bytes.as_chunks::<WIDTH>().0.iter().copied()
    }
}

/// A float of 16 bits.
fn half(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::from(bits >> 10 & 0x1f);
    let fraction = f32::from(bits & 0x3ff) / 1_024.0;
    match exponent {
        0 => sign * fraction * 2.0_f32.powi(-14),
        0x1f => f32::NAN,
        _ => sign * (1.0 + fraction) * 2.0_f32.powi(exponent - 15),
    }
}
