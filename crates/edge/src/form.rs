//! `multipart/form-data` bodies with files. Size and transfer rate are checked as for JSON, before
//! parsing.

use axum::body::Body;
use axum::extract::multipart::MultipartError;
use axum::extract::{DefaultBodyLimit, FromRequest, Multipart, Request};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};
use tollgate_types::{Error, ErrorCode};

use crate::body;
use crate::context::context_of;
use crate::error::ApiError;

/// Media type of a form, without parameters.
const MULTIPART: &str = "multipart/form-data";
/// Maximum number of fields in a form.
pub(crate) const MAX_FIELDS: usize = 64;

/// One field of a form: a text or a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormField {
    pub name: String,
    /// File name, if the field is a file.
    pub filename: Option<String>,
    /// Declared media type.
    pub content_type: Option<String>,
    pub content: Bytes,
}

/// Fields of a form of at most `LIMIT` bytes, in body order.
#[derive(Debug)]
pub struct FormBody<const LIMIT: usize>(pub Vec<FormField>);

impl<S: Send + Sync, const LIMIT: usize> FromRequest<S> for FormBody<LIMIT> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        body::check_encoding(&parts.headers)?;
        if boundary(&parts.headers).is_none() {
            return Err(not_multipart().into());
        }
        let grace_period = context_of(&parts)?.body_grace_period;
        let whole = body::read(&parts.headers, body, LIMIT, grace_period).await?;
        let mut request = Request::from_parts(parts, Body::from(whole));
        // The body was read with the limit of this endpoint.
        DefaultBodyLimit::disable().apply(&mut request);
        Ok(Self(fields(request).await?))
    }
}

async fn fields(request: Request) -> Result<Vec<FormField>, Error> {
    let rejected = Multipart::from_request(request, &()).await;
    let mut form = rejected.map_err(|error| malformed(error.to_string()))?;
    let broken = |error: MultipartError| match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            Error::new(ErrorCode::RequestTooLarge, "A field of the form is too large.")
        }
        _ => malformed(error.body_text()),
    };
    let mut fields = Vec::new();
    while let Some(field) = form.next_field().await.map_err(broken)? {
        if fields.len() == MAX_FIELDS {
            return Err(too_many_fields());
        }
        fields.push(FormField {
            name: part_name(field.name())?.to_owned(),
            filename: field.file_name().map(str::to_owned),
            content_type: field.content_type().map(str::to_owned),
            content: field.bytes().await.map_err(broken)?,
        });
    }
    Ok(fields)
}

/// Returns the boundary of a multipart body; `None` for other bodies.
pub(crate) fn boundary(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let (essence, parameters) = value.split_once(';')?;
    if !essence.trim().eq_ignore_ascii_case(MULTIPART) {
        return None;
    }
    let boundary = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let is_boundary = name.trim().eq_ignore_ascii_case("boundary");
        is_boundary.then(|| value.trim().trim_matches('"'))
    });
    boundary.filter(|boundary| !boundary.is_empty())
}

pub(crate) fn not_multipart() -> Error {
    let message = "The body must be a multipart form: send 'content-type: multipart/form-data' with the 'boundary' parameter.";
    Error::new(ErrorCode::UnsupportedMediaType, message)
}

pub(crate) fn malformed(source: String) -> Error {
    // The parser's error type is private to axum, so only its text distinguishes the faults.
    let fault = if source.contains("header") {
        "the headers of a part cannot be parsed"
    } else if source.contains("Content-Type") {
        "the content-type of a part cannot be parsed"
    } else {
        "a boundary is missing, or the body ends too early"
    };
    let message = format!("The multipart body is malformed: {fault}.");
    Error::new(ErrorCode::InvalidParameter, message).with_source(source)
}

pub(crate) fn too_many_fields() -> Error {
    let message = format!("The form has more than {MAX_FIELDS} fields.");
    Error::new(ErrorCode::InvalidParameter, message)
}

/// Returns the name of a part, or an error if it has none.
pub(crate) fn part_name(name: Option<&str>) -> Result<&str, Error> {
    let message = "A part of the form has no name. Add 'name' to its Content-Disposition header.";
    let unnamed = || Error::new(ErrorCode::InvalidParameter, message);
    name.filter(|name| !name.is_empty()).ok_or_else(unnamed)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(content_type: &str, body: &'static str) -> Result<Vec<FormField>, Error> {
        let request = Request::builder()
            .header(CONTENT_TYPE, content_type)
            .body(Body::from(body))
            .unwrap();
        fields(request).await
    }

    #[tokio::test]
    async fn forms_are_parsed() {
        let body = "--x\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nm\r\n\
                    --x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a b.wav\"\r\n\
                    Content-Type: audio/wav\r\n\r\n\r\n-- \r\n\r\n--x--\r\n";
        let fields = read("multipart/form-data; boundary=x", body).await.unwrap();
        let file = FormField {
            name: "file".to_owned(),
            filename: Some("a b.wav".to_owned()),
            content_type: Some("audio/wav".to_owned()),
            content: Bytes::from_static(b"\r\n-- \r\n"),
        };
        assert_eq!(
            (fields[0].name.as_str(), &fields[0].content[..]),
            ("model", &b"m"[..])
        );
        assert_eq!(fields[1..], [file]);
    }

    #[tokio::test]
    async fn truncated_forms_are_refused() {
        let unterminated = "--x\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nm";
        let unnamed = "--x\r\ncontent-disposition: form-data\r\n\r\nm\r\n--x--\r\n";
        let empty_name = "--x\r\ncontent-disposition: form-data; name=\"\"\r\n\r\nm\r\n--x--\r\n";
        let bad_header = "--x\r\nno header\r\n\r\nm\r\n--x--\r\n";
        let cut = "The multipart body is malformed: a boundary is missing, or the body ends too early.";
        let headers = "The multipart body is malformed: the headers of a part cannot be parsed.";
        let nameless = "A part of the form has no name. Add 'name' to its Content-Disposition header.";
        for (body, message) in [
            ("", cut),
            ("--x\r\n", cut),
            (unterminated, cut),
            ("model=m", cut),
            (bad_header, headers),
            (unnamed, nameless),
            (empty_name, nameless),
        ] {
            let error = read("multipart/form-data; boundary=x", body).await.unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidParameter, "{body:?}");
            assert_eq!(error.message, message, "{body:?}");
        }
        let with_fields = |count: usize| {
            let field = "--x\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\nm\r\n";
            String::leak(field.repeat(count) + "--x--\r\n")
        };
        let form = "multipart/form-data; boundary=x";
        assert_eq!(
            read(form, with_fields(MAX_FIELDS)).await.unwrap().len(),
            MAX_FIELDS
        );
        let error = read(form, with_fields(MAX_FIELDS + 1)).await.unwrap_err();
        assert_eq!(error.message, "The form has more than 64 fields.");
    }

    #[test]
    fn boundaries_are_found() {
        for (content_type, expected) in [
            ("multipart/form-data; boundary=x", Some("x")),
            ("Multipart/Form-Data;charset=utf-8; Boundary=\"x y\"", Some("x y")),
            ("multipart/form-data", None),
            ("multipart/form-data; boundary=", None),
            ("multipart/mixed; boundary=x", None),
            ("application/json", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, content_type.parse().unwrap());
            assert_eq!(boundary(&headers), expected, "{content_type}");
        }
    }
}
