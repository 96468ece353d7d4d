//! Images and videos in requests and responses: base64 and URLs.

use std::time::Duration;

use base64::Engine;
use base64::alphabet::STANDARD as ALPHABET;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use serde_json::{Value, json};
use tollgate_upstream::{Content, Size, Source, UpstreamError};

use crate::http::BaseUrl;

/// Base64 engine that writes padding and decodes with or without it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &ALPHABET,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Decodes base64 or a base64 `data:` URL. Returns an error for empty content.
pub(crate) fn decoded(text: &str) -> Result<Bytes, UpstreamError> {
    let inner = match text.starts_with("data:") {
        true => text.split_once(";base64,").map_or("", |(_, inner)| inner),
        false => text,
    };
    let bytes = BASE64
        .decode(inner.trim())
        .map_err(|_| UpstreamError::protocol(format!("{} bytes are not base64", text.len())))?;
    match bytes.is_empty() {
        true => Err(UpstreamError::protocol("an image or video is empty")),
        false => Ok(bytes.into()),
    }
}

/// Encodes an image or video as a `data:` URL.
pub(crate) fn data_url(source: &Source) -> Value {
    Value::String(format!(
        "data:{};base64,{}",
        source.mime_type,
        BASE64.encode(&source.bytes)
    ))
}

/// Encodes an image or video as `{mimeType, bytesBase64Encoded}`, for Google's APIs.
pub(crate) fn encoded(source: &Source) -> Value {
    json!({"mimeType": &*source.mime_type, "bytesBase64Encoded": BASE64.encode(&source.bytes)})
}

/// Returns the content at a URL from a response. Decodes a `data:` URL. A URL on the upstream's own
/// server is downloaded with the provider's credentials; any other HTTP URL is downloaded without
/// them. Any other text is an error.
pub(crate) fn content_at(base: &BaseUrl, location: &str) -> Result<Content, UpstreamError> {
    if let Some(own) = base.own_path(location) {
        return Ok(Content::Upstream(own));
    }
    if location.starts_with("data:") {
        return Ok(Content::Bytes(decoded(location)?));
    }
    match location.starts_with("https://") || location.starts_with("http://") {
        true => Ok(Content::Address(location.to_owned())),
        false => Err(UpstreamError::protocol(format!(
            "{} bytes are not a URL",
            location.len()
        ))),
    }
}

/// Returns the text; `None` if it is absent or blank.
pub(crate) fn non_empty(text: &Option<String>) -> Option<&str> {
    text.as_deref().filter(|text| !text.trim().is_empty())
}

/// Returns the aspect ratio of a size in lowest terms, such as `16:9`.
pub(crate) fn ratio(size: Size) -> String {
    let (mut a, mut b) = (size.width, size.height);
    while b > 0 {
        (a, b) = (b, a % b);
    }
    let common = a.max(1);
    format!("{}:{}", size.width / common, size.height / common)
}

/// Returns a duration in whole seconds; `None` if it has a fraction.
pub(crate) fn seconds(duration: Duration) -> Option<u64> {
    (duration.subsec_nanos() == 0).then_some(duration.as_secs())
}
