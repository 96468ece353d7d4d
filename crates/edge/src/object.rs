//! Objects that are kept, as answers: the whole, a part (`range`, RFC 9110, section 14), or that the caller has it already.

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

use crate::range::{Wanted, wanted};

/// What an answer says of an object. Its bytes never change.
#[derive(Clone, Copy, Debug)]
pub struct Object<'o> {
    /// How many bytes it has.
    pub bytes: u64,
    /// Of its bytes.
    pub sha256: &'o [u8; 32],
    /// What it is.
    pub media_type: &'o str,
    /// What a browser does with it: `inline` or `attachment`.
    pub disposition: &'o str,
    /// What it is called.
    pub filename: &'o str,
}

/// Answers what a request asks for of an object; `open` gets its bytes, or those of a range.
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
        return dressed(StatusCode::NOT_MODIFIED, Body::empty(), object, &tag);
    }
    let is_same = text(IF_RANGE).is_none_or(|known| known.trim() == tag);
    let part = match text(RANGE)
        .filter(|_| is_same)
        .map(|range| wanted(range, object.bytes))
    {
        None | Some(Wanted::Whole) => None,
        Some(Wanted::Part(range)) => Some(range),
        Some(Wanted::Nothing) => return no_such_part(object, &tag),
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
    let mut response = dressed(status, body, object, &tag)?;
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from(range.end - range.start));
    if part.is_some() {
        let said = format!(
            "bytes {}-{}/{}",
            range.start,
            range.end.saturating_sub(1),
            object.bytes
        );
        headers.insert(CONTENT_RANGE, value(said)?);
    }
    Ok(response)
}

fn no_such_part(object: &Object<'_>, tag: &str) -> Result<Response, Error> {
    let mut response = dressed(StatusCode::RANGE_NOT_SATISFIABLE, Body::empty(), object, tag)?;
    let said = value(format!("bytes */{}", object.bytes))?;
    response.headers_mut().insert(CONTENT_RANGE, said);
    Ok(response)
}

/// Whatever it is, a browser runs nothing of it.
fn dressed(status: StatusCode, body: Body, object: &Object<'_>, tag: &str) -> Result<Response, Error> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let plain = HeaderValue::from_static;
    headers.insert(CONTENT_TYPE, value(object.media_type.to_owned())?);
    let disposition = format!("{}; {}", object.disposition, named(object.filename));
    headers.insert(CONTENT_DISPOSITION, value(disposition)?);
    headers.insert(ETAG, value(tag.to_owned())?);
    headers.insert(ACCEPT_RANGES, plain("bytes"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, plain("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, plain("default-src 'none'; sandbox"));
    Ok(response)
}

/// A name as a parameter (RFC 6266): as it is where it is plain, else a likeness of it and the whole of it.
fn named(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b" !#$&+-.^_`|~()[]{}@,=".contains(&byte);
    let likeness: String = name
        .chars()
        .map(|c| match u8::try_from(c) {
            Ok(byte) if is_plain(byte) => c,
            _ => '_',
        })
        .collect();
    if likeness == name {
        return format!("filename=\"{name}\"");
    }
    let mut whole = String::new();
    for byte in name.bytes() {
        match byte.is_ascii_alphanumeric() || b"!#$&+-.^_`|~".contains(&byte) {
            true => whole.push(char::from(byte)),
            false => whole.push_str(&format!("%{byte:02X}")),
        }
    }
    format!("filename=\"{likeness}\"; filename*=UTF-8''{whole}")
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
    fn no_name_is_more_than_a_name() {
        for (name, expected) in [
            ("a b.pdf", "filename=\"a b.pdf\""),
            (
                "a\"; x=\"b",
                "filename=\"a__ x=_b\"; filename*=UTF-8''a%22%3B%20x%3D%22b",
            ),
            ("für.txt", "filename=\"f_r.txt\"; filename*=UTF-8''f%C3%BCr.txt"),
            ("a\r\nb", "filename=\"a__b\"; filename*=UTF-8''a%0D%0Ab"),
        ] {
            assert_eq!(named(name), expected);
            assert!(HeaderValue::try_from(named(name)).is_ok());
        }
    }
}
