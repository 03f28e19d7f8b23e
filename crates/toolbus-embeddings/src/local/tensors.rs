//! Tensors of a safetensors file, whose numbers are checked: all of them are finite.

use std::collections::HashMap;

use candle_core::{DType, Device, Tensor, safetensors};
use toolbus_search::EmbedError;

const WHAT: &str = "a safetensors file";
/// Largest header, in bytes: it names each tensor, of which a large model has a thousand.
const HEADER_BYTES_MAX: u64 = 4 * 1_024 * 1_024;

/// The shape and the values of a tensor.
type Floats = (Vec<usize>, Vec<f32>);

/// All tensors of a file by their names.
pub(super) struct Tensors(HashMap<String, Tensor>);

impl Tensors {
    pub(super) fn read(file: &[u8]) -> Result<Self, EmbedError> {
        let header = file.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes));
        if header.is_some_and(|bytes| bytes > HEADER_BYTES_MAX) {
            let reason = format!("its header has more than {HEADER_BYTES_MAX} bytes");
            return Err(malformed(reason));
        }
        safetensors::load_buffer(file, &Device::Cpu).map(Self).map_err(malformed)
    }

    /// The shape and the values of a tensor, in the order of its rows.
    pub(super) fn floats(&self, name: &str) -> Result<Option<Floats>, EmbedError> {
        let Some(tensor) = self.0.get(name) else { return Ok(None) };
        let values = to_finite(tensor)?.flatten_all().and_then(|tensor| tensor.to_vec1());
        Ok(Some((tensor.dims().to_vec(), values.map_err(malformed)?)))
    }

    /// The values of a tensor as places in another one.
    pub(super) fn places(&self, name: &str) -> Result<Option<Vec<u32>>, EmbedError> {
        let Some(tensor) = self.0.get(name) else { return Ok(None) };
        if !matches!(tensor.dtype(), DType::U32 | DType::I32 | DType::I64) {
            return Err(unsupported(tensor));
        }
        let wide = tensor.to_dtype(DType::I64).and_then(|tensor| tensor.flatten_all());
        let values: Vec<i64> = wide.and_then(|tensor| tensor.to_vec1()).map_err(malformed)?;
        let places = values.into_iter().map(u32::try_from).collect::<Result<_, _>>();
        places.map(Some).map_err(|_| malformed("a place is out of range"))
    }

    /// All tensors of floats, at 32 bits.
    pub(super) fn into_floats(self) -> Result<HashMap<String, Tensor>, EmbedError> {
        let floats = self.0.into_iter().filter(|(_, tensor)| tensor.dtype().is_float());
        floats.map(|(name, tensor)| Ok((name, to_finite(&tensor)?))).collect()
    }
}

fn to_finite(tensor: &Tensor) -> Result<Tensor, EmbedError> {
    if !tensor.dtype().is_float() {
        return Err(unsupported(tensor));
    }
    let floats = tensor.to_dtype(DType::F32).map_err(malformed)?;

    // A sum with infinity or NaN in it is one of them, too; one of weights is never that large.
    let sum = floats.sum_all().and_then(|sum| sum.to_scalar::<f32>()).map_err(malformed)?;
    if sum.is_finite() { Ok(floats) } else { Err(malformed("a value is not a finite number")) }
}

fn malformed(reason: impl std::fmt::Display) -> EmbedError {
    EmbedError::malformed(WHAT, reason)
}

fn unsupported(tensor: &Tensor) -> EmbedError {
    EmbedError::Unsupported { what: "a tensor's type", kind: tensor.dtype().as_str().to_owned() }
}
