//! Bodies that are forms with files in them (`multipart/form-data`). Their size and pace are judged as those of JSON are,
//! before anything is taken apart.

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

/// What the media type of a form begins with.
const FORM: &str = "multipart/form-data";
/// Most fields of one form.
pub(crate) const MOST_FIELDS: usize = 64;

/// One field of a form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FormField {
    /// Its name.
    pub name: String,
    /// What the file is called, if it is one.
    pub filename: Option<String>,
    /// What the file is said to be.
    pub content_type: Option<String>,
    /// What it holds.
    pub content: Bytes,
}

/// The fields of a form of at most `LIMIT` bytes, in their order.
#[derive(Debug)]
pub struct FormBody<const LIMIT: usize>(pub Vec<FormField>);

impl<S: Send + Sync, const LIMIT: usize> FromRequest<S> for FormBody<LIMIT> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        body::check_encoding(&parts.headers)?;
        if boundary(&parts.headers).is_none() {
            return Err(no_form().into());
        }
        let free_time = context_of(&parts)?.body_time;
        let whole = body::read(&parts.headers, body, LIMIT, free_time).await?;
        let mut request = Request::from_parts(parts, Body::from(whole));
        // It was read within the limit of this endpoint.
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
        if fields.len() == MOST_FIELDS {
            return Err(malformed(format!("more than {MOST_FIELDS} fields")));
        }
        fields.push(FormField {
            name: field.name().unwrap_or_default().to_owned(),
            filename: field.file_name().map(str::to_owned),
            content_type: field.content_type().map(str::to_owned),
            content: field.bytes().await.map_err(broken)?,
        });
    }
    Ok(fields)
}

/// What stands between the fields of a form, if the body is one.
pub(crate) fn boundary(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let (essence, parameters) = value.split_once(';')?;
    if !essence.trim().eq_ignore_ascii_case(FORM) {
        return None;
    }
    let boundary = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let is_boundary = name.trim().eq_ignore_ascii_case("boundary");
        is_boundary.then(|| value.trim().trim_matches('"'))
    });
    boundary.filter(|boundary| !boundary.is_empty())
}

pub(crate) fn no_form() -> Error {
    let message = "The body must be a form with the file in it: send 'content-type: multipart/form-data' with its boundary.";
    Error::new(ErrorCode::UnsupportedMediaType, message)
}

pub(crate) fn malformed(source: String) -> Error {
    let message = "The body is no form that can be read: its fields stand between boundaries, and the last one has an end.";
    Error::new(ErrorCode::InvalidParameter, message).with_source(source)
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
    async fn a_form_is_taken_apart() {
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
    async fn what_is_broken_off_is_refused() {
        let begun = "--x\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nm";
        for body in ["", "--x\r\n", begun, "model=m"] {
            let error = read("multipart/form-data; boundary=x", body).await.unwrap_err();
            assert_eq!(error.code, ErrorCode::InvalidParameter, "{body:?}");
        }
        let most = |count: usize| {
            let field = "--x\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\nm\r\n";
            String::leak(field.repeat(count) + "--x--\r\n")
        };
        let form = "multipart/form-data; boundary=x";
        assert_eq!(read(form, most(MOST_FIELDS)).await.unwrap().len(), MOST_FIELDS);
        assert!(read(form, most(MOST_FIELDS + 1)).await.is_err());
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
