//! What stands for a picture or film in requests and answers: bytes in base64, and addresses.

use std::time::Duration;

use base64::Engine;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use serde_json::{Value, json};
use tollgate_upstream::{Content, Size, Source, UpstreamError};

use crate::http::BaseUrl;

/// Writes padding, and reads what has none, too.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// The bytes of a text in base64, which may be a `data:` URL.
pub(crate) fn decoded(text: &str) -> Result<Bytes, UpstreamError> {
    let inner = match text.starts_with("data:") {
        true => text.split_once(";base64,").map_or("", |(_, inner)| inner),
        false => text,
    };
    let bytes = BASE64
        .decode(inner.trim())
        .map_err(|_| UpstreamError::protocol(format!("{} bytes that are no base64", text.len())))?;
    match bytes.is_empty() {
        true => Err(UpstreamError::protocol("an empty picture or film")),
        false => Ok(bytes.into()),
    }
}

/// A picture or film as the `data:` URL that stands for it.
pub(crate) fn data_url(source: &Source) -> Value {
    Value::String(format!(
        "data:{};base64,{}",
        source.mime_type,
        BASE64.encode(&source.bytes)
    ))
}

/// A picture or film as Google's services take it.
pub(crate) fn encoded(source: &Source) -> Value {
    json!({"mimeType": &*source.mime_type, "bytesBase64Encoded": BASE64.encode(&source.bytes)})
}

/// Where a piece is that an answer has at this address. What is at the upstream's own server is asked for with the
/// operator's key, all else without.
pub(crate) fn place(base: &BaseUrl, told: &str) -> Result<Content, UpstreamError> {
    if let Some(own) = base.own_path(told) {
        return Ok(Content::Own(own));
    }
    if told.starts_with("data:") {
        return Ok(Content::Bytes(decoded(told)?));
    }
    match told.starts_with("https://") || told.starts_with("http://") {
        true => Ok(Content::Address(told.to_owned())),
        false => Err(UpstreamError::protocol(format!(
            "an address of {} bytes that is none",
            told.len()
        ))),
    }
}

/// A text that is not empty.
pub(crate) fn positive(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.trim().is_empty())
}

/// A size as the ratio of width to height in its smallest numbers, such as `16:9`.
pub(crate) fn ratio(size: Size) -> String {
    let (mut a, mut b) = (size.width, size.height);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    let common = a.max(1);
    format!("{}:{}", size.width / common, size.height / common)
}

/// A length in whole seconds; `None` when it is something between two.
pub(crate) fn seconds(duration: Duration) -> Option<u64> {
    (duration.subsec_nanos() == 0).then_some(duration.as_secs())
}
