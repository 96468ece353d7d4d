//! Stored objects as responses: the whole object, a range (RFC 9110, section 14), or 304 Not
//! Modified.

use std::ops::Range;

use axum::body::Body;
use axum::response::Response;
use http::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    ETAG, IF_NONE_MATCH, IF_RANGE, RANGE, X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use tollgate_storage::blob::BlobContent;
use tollgate_types::Error;

use crate::range::{RangeRequest, parse_range};

/// Metadata of an object for its response. The bytes of an object never change.
#[derive(Clone, Copy, Debug)]
pub struct Object<'o> {
    /// Size of the object, in bytes.
    pub bytes: u64,
    /// SHA-256 digest of the object's bytes.
    pub sha256: &'o [u8; 32],
    pub media_type: &'o str,
    /// Content disposition: `inline` or `attachment`.
    pub disposition: &'o str,
    /// File name for the `content-disposition` header.
    pub filename: &'o str,
}

/// Builds the response to a request for an object. `open` returns the bytes of the object, or of a
/// range.
pub async fn respond<F>(
    object: &Object<'_>,
    method: &Method,
    headers: &HeaderMap,
    open: impl FnOnce(Option<Range<u64>>) -> F,
) -> Result<Response, Error>
where
    F: Future<Output = Result<BlobContent, Error>>,
{
    let tag = format!("\"{}\"", hex(object.sha256));
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    if text(IF_NONE_MATCH).is_some_and(|known| known == "*" || known.split(',').any(|one| one.trim() == tag))
    {
        return build_response(StatusCode::NOT_MODIFIED, Body::empty(), object, &tag);
    }
    let is_same = text(IF_RANGE).is_none_or(|known| known.trim() == tag);
    let part = match text(RANGE)
        .filter(|_| is_same)
        .map(|range| parse_range(range, object.bytes))
    {
        None | Some(RangeRequest::Whole) => None,
        Some(RangeRequest::Part(range)) => Some(range),
        Some(RangeRequest::Unsatisfiable) => return range_not_satisfiable(object, &tag),
    };
    let status = if part.is_some() {
        StatusCode::PARTIAL_CONTENT
    } else {
        StatusCode::OK
    };
    let range = part.clone().unwrap_or(0..object.bytes);
    let body = match *method == Method::HEAD {
        true => Body::empty(),
        false => Body::from_stream(open(part.clone()).await?),
    };
    let mut response = build_response(status, body, object, &tag)?;
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(range.end - range.start));
    if part.is_some() {
        let content_range = format!(
            "bytes {}-{}/{}",
            range.start,
            range.end.saturating_sub(1),
            object.bytes
        );
        headers.insert(CONTENT_RANGE, value(content_range)?);
    }
    Ok(response)
}

fn range_not_satisfiable(object: &Object<'_>, tag: &str) -> Result<Response, Error> {
    let mut response = build_response(StatusCode::RANGE_NOT_SATISFIABLE, Body::empty(), object, tag)?;
    let content_range = value(format!("bytes */{}", object.bytes))?;
    response.headers_mut().insert(CONTENT_RANGE, content_range);
    Ok(response)
}

/// Sets a content security policy, so that browsers execute no scripts of the object.
fn build_response(status: StatusCode, body: Body, object: &Object<'_>, tag: &str) -> Result<Response, Error> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let plain = HeaderValue::from_static;
    headers.insert(CONTENT_TYPE, value(object.media_type.to_owned())?);
    let disposition = format!("{}; {}", object.disposition, filename_parameters(object.filename));
    headers.insert(CONTENT_DISPOSITION, value(disposition)?);
    headers.insert(ETAG, value(tag.to_owned())?);
    headers.insert(ACCEPT_RANGES, plain("bytes"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, plain("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, plain("default-src 'none'; sandbox"));
    Ok(response)
}

/// Returns the file name as header parameters (RFC 6266). A name that is not plain ASCII results in
/// two parameters: an ASCII approximation and the encoded name.
fn filename_parameters(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b" !#$&+-.^_`|~()[]{}@,=".contains(&byte);
    let ascii_name: String = name
        .chars()
        .map(|c| match u8::try_from(c) {
            Ok(byte) if is_plain(byte) => c,
            _ => '_',
        })
        .collect();
    if ascii_name == name {
        return format!("filename=\"{name}\"");
    }
    let mut whole = String::new();
    for byte in name.bytes() {
        match byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~".contains(&byte) {
            true => whole.push(char::from(byte)),
            false => whole.push_str(&format!("%{byte:02X}")),
        }
    }
    format!("filename=\"{ascii_name}\"; filename*=UTF-8''{whole}")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn value(text: String) -> Result<HeaderValue, Error> {
    HeaderValue::try_from(text).map_err(|error| Error::internal(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filenames_cannot_inject_parameters() {
        for (name, expected) in [
            ("a b.pdf", "filename=\"a b.pdf\""),
            (
                "a\"; x=\"b",
                "filename=\"a__ x=_b\"; filename*=UTF-8''a%22%3B%20x%3D%22b",
            ),
            ("für.txt", "filename=\"f_r.txt\"; filename*=UTF-8''f%C3%BCr.txt"),
            ("a\r\nb", "filename=\"a__b\"; filename*=UTF-8''a%0D%0Ab"),
        ] {
            assert_eq!(filename_parameters(name), expected);
            assert!(HeaderValue::try_from(filename_parameters(name)).is_ok());
        }
    }
}
