//! Vectors on the wire. Conversion between encodings is lossless: numbers are parsed to the nearest
//! 32-bit float and written with the fewest digits that parse to the same float.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::head::Encoding;
use crate::error::{BoxedError, DecodeError};
use crate::json::{Kind, Reader};

/// Metadata of a vector whose numbers were not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VectorInfo {
    pub(super) encoding: Encoding,
    /// Size on the wire, in bytes.
    pub(super) bytes: u64,
    /// Number of elements.
    pub(super) dimensions: u32,
}

/// Skips the value under the cursor. Returns `None` unless the value is a non-empty array of
/// numbers or base64 of at least one complete 32-bit float.
pub(super) fn inspect(reader: &mut Reader<'_>) -> Result<Option<VectorInfo>, BoxedError> {
    let start = reader.place();
    let mut dimensions = 0;
    let encoding = match reader.kind()? {
        Kind::Array => {
            reader.begin_array()?;
            let mut all = true;
            while reader.item()? {
                dimensions += 1;
                if reader.kind()? == Kind::Number {
                    reader.number()?;
                } else {
                    all = false;
                    reader.skip()?;
                }
            }
            (dimensions > 0 && all).then_some(Encoding::Float)
        }
        Kind::String => {
            let text = reader.string()?.decoded();
            let bytes = base64_bytes(text.as_bytes());
            dimensions = u32::try_from(bytes.unwrap_or_default() / 4).unwrap_or(u32::MAX);
            bytes.map(|_| Encoding::Base64)
        }
        _ => {
            reader.skip()?;
            None
        }
    };
    let bytes = u64::from(reader.end() - start);
    Ok(encoding.map(|encoding| VectorInfo {
        encoding,
        bytes,
        dimensions,
    }))
}

/// Returns the decoded length in bytes of base64 that contains complete 32-bit floats; `None` for
/// other texts.
fn base64_bytes(text: &[u8]) -> Option<usize> {
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    let (digits, _) = text.split_at(text.len() - padding);
    let floats = (text.len() / 4 * 3).saturating_sub(padding);
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let is_whole = text.len().is_multiple_of(4)
        && padding <= 2
        && floats > 0
        && floats.is_multiple_of(4)
        && digits.iter().all(is_digit);
    is_whole.then_some(floats)
}

/// Reads the vector under the cursor in either encoding. Fails if the vector is empty or has a
/// value that is not a finite 32-bit float.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<Vec<f32>, BoxedError> {
    let no_vector = || {
        Box::new(DecodeError::invalid(
            "embedding",
            "An embedding is not a vector of 32-bit floats.",
        ))
    };
    let vector: Vec<f32> = match reader.kind()? {
        Kind::Array => {
            let mut vector = Vec::new();
            reader.begin_array()?;
            while reader.item()? {
                if reader.kind()? != Kind::Number {
                    return Err(no_vector());
                }
                vector.push(reader.number()?.token.parse().map_err(|_| no_vector())?);
            }
            vector
        }
        Kind::String => {
            let bytes = STANDARD
                .decode(&*reader.string()?.decoded())
                .map_err(|_| no_vector())?;
            let (floats, rest) = bytes.as_chunks();
            if !rest.is_empty() {
                return Err(no_vector());
            }
            floats.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
        }
        _ => return Err(no_vector()),
    };
    // JSON cannot represent NaN or infinity.
    if vector.is_empty() || vector.iter().any(|value| !value.is_finite()) {
        return Err(no_vector());
    }
    Ok(vector)
}

/// Appends a vector of finite numbers.
pub(super) fn write(out: &mut Vec<u8>, vector: &[f32], encoding: Encoding) {
    match encoding {
        Encoding::Float => {
            let text = serde_json::to_vec(vector);
            out.extend_from_slice(&text.unwrap_or_default());
        }
        Encoding::Base64 => {
            let bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
            out.push(b'"');
            out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
            out.push(b'"');
        }
    }
}
