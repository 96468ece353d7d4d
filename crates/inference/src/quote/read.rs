//! Parses a quote request. The request in it is validated later, by the service of its endpoint.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::value::RawValue;
use tollgate_types::{Error, ErrorCode};

use super::media::MediaEndpoint;

/// Endpoints that accept no JSON.
const FORM_ENDPOINTS: [&str; 4] = [
    "/v1/images/edits",
    "/v1/images/variations",
    "/v1/audio/transcriptions",
    "/v1/audio/translations",
];

/// Endpoint of the quoted request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Endpoint {
    ChatCompletions,
    Completions,
    Messages,
    Responses,
    Embeddings,
    Decisions,
    GenerateContent {
        model: String,
        is_streamed: bool,
    },
    /// Gemini's `embedContent` for this model.
    EmbedContent(String),
    BatchEmbedContents(String),
    Research,
    Media(MediaEndpoint),
}

impl Endpoint {
    /// Parses the path of an endpoint.
    fn parse(path: &str) -> Option<Self> {
        Some(match path {
            "/v1/chat/completions" => Endpoint::ChatCompletions,
            "/v1/completions" => Endpoint::Completions,
            "/v1/messages" => Endpoint::Messages,
            "/v1/responses" => Endpoint::Responses,
            "/v1/embeddings" => Endpoint::Embeddings,
            "/v1/decisions" | "/v1/systemone" | "/v1beta/decisions" => Endpoint::Decisions,
            "/v1/research" | "/v1/deep-research" => Endpoint::Research,
            "/v1/images/generations" => Endpoint::Media(MediaEndpoint::ImageGenerations),
            "/v1/videos/generations" => Endpoint::Media(MediaEndpoint::VideoGenerations),
            "/v1/videos" => Endpoint::Media(MediaEndpoint::Videos),
            "/v1/videos/compose" => Endpoint::Media(MediaEndpoint::Compositions),
            "/v1/audio/speech" => Endpoint::Media(MediaEndpoint::Speech),
            path => {
                let of_model = ["/v1/models/", "/v1beta/models/", "/v1/", "/v1beta/"];
                let target = of_model.iter().find_map(|start| path.strip_prefix(start))?;
                let (model, action) = target.rsplit_once(':')?;
                let model = model.to_owned();
                match action {
                    "generateContent" | "streamGenerateContent" => Endpoint::GenerateContent {
                        model,
                        is_streamed: action.starts_with("stream"),
                    },
                    "embedContent" => Endpoint::EmbedContent(model),
                    "batchEmbedContents" => Endpoint::BatchEmbedContents(model),
                    _ => return None,
                }
            }
        })
    }

    /// Whether the path, instead of the body, contains the model id.
    pub(super) fn names_model(&self) -> bool {
        matches!(
            self,
            Endpoint::GenerateContent { .. } | Endpoint::EmbedContent(_) | Endpoint::BatchEmbedContents(_)
        )
    }
}

/// A parsed quote request.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) endpoint: Endpoint,
    /// Path of the endpoint as sent.
    pub(super) path: String,
    /// Body of the quoted request, byte for byte.
    pub(super) body: Bytes,
}

/// Parses the body of a quote request.
pub(super) fn request(body: &[u8]) -> Result<Request, Error> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_slice(body).map_err(|error| {
        let message = format!("The body is not a JSON object: {error}.");
        Error::new(ErrorCode::InvalidJson, message)
    })?;
    let known = ["endpoint", "request"];
    if let Some(unknown) = members.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(Error::unknown_parameter(unknown.as_str()));
    }
    let member = |name: &str, what: &str| {
        members.get(name).map(|value| value.get()).ok_or_else(|| {
            let message = format!("'{name}' is missing. Send {what}.");
            Error::new(ErrorCode::MissingRequiredParameter, message).with_param(name)
        })
    };
    let path = member("endpoint", "the path of an endpoint")?;
    let path: String = serde_json::from_str(path).map_err(|_| no_endpoint())?;
    let endpoint = Endpoint::parse(&path).ok_or_else(|| match FORM_ENDPOINTS.contains(&path.as_str()) {
        true => form_endpoint(&path),
        false => no_endpoint(),
    })?;
    let request = member("request", "the body of a request to that endpoint")?;
    if !request.starts_with('{') {
        let message = "'request' must be a JSON object, the body of the request to quote.";
        return Err(Error::new(ErrorCode::InvalidParameter, message).with_param("request"));
    }
    Ok(Request {
        endpoint,
        path,
        body: Bytes::copy_from_slice(request.as_bytes()),
    })
}

fn no_endpoint() -> Error {
    let message = "'endpoint' must be the path of an endpoint for text generation, embeddings, decisions, research, \
                   images, videos or speech, such as '/v1/chat/completions', '/v1/images/generations' or \
                   '/v1/models/sim/chat:generateContent'.";
    Error::new(ErrorCode::InvalidParameter, message).with_param("endpoint")
}

fn form_endpoint(path: &str) -> Error {
    let message = format!(
        "'endpoint' is '{path}', which accepts forms. Quotes exist for endpoints with JSON bodies, such as \
         '/v1/images/generations' or '/v1/audio/speech'."
    );
    Error::new(ErrorCode::InvalidParameter, message).with_param("endpoint")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_bodies_are_read_verbatim() {
        let body = br#"{"request": { "a" : 1,  "b":"\u0041" } , "endpoint":"/v1/messages"}"#;
        let read = request(body).unwrap();
        assert_eq!(read.endpoint, Endpoint::Messages);
        assert_eq!(read.body, r#"{ "a" : 1,  "b":"\u0041" }"#);
    }

    fn generate(model: &str, is_streamed: bool) -> Endpoint {
        let model = model.to_owned();
        Endpoint::GenerateContent { model, is_streamed }
    }

    #[test]
    fn models_in_paths_may_have_slashes_and_colons() {
        for (path, expected) in [
            (
                "/v1/models/sim/chat:generateContent",
                Some(generate("sim/chat", false)),
            ),
            (
                "/v1beta/models/a/b:c:streamGenerateContent",
                Some(generate("a/b:c", true)),
            ),
            ("/v1/models/sim/chat:countTokens", None),
            ("/v1/models/sim/chat", None),
            ("/v1/decisions", Some(Endpoint::Decisions)),
            ("/v1/systemone", Some(Endpoint::Decisions)),
            (
                "/v1/images/generations",
                Some(Endpoint::Media(MediaEndpoint::ImageGenerations)),
            ),
            ("/v1/videos", Some(Endpoint::Media(MediaEndpoint::Videos))),
            ("/v1/images/edits", None),
            ("/v1/moderations", None),
            ("v1/messages", None),
        ] {
            assert_eq!(Endpoint::parse(path), expected, "{path}");
        }
    }

    #[test]
    fn invalid_requests_name_the_parameter() {
        for (body, code, param) in [
            ("[]", ErrorCode::InvalidJson, None),
            ("{", ErrorCode::InvalidJson, None),
            (r#"{"a":1}"#, ErrorCode::UnknownParameter, Some("a")),
            ("{}", ErrorCode::MissingRequiredParameter, Some("endpoint")),
            (r#"{"endpoint":7}"#, ErrorCode::InvalidParameter, Some("endpoint")),
            (
                r#"{"endpoint":"/v1/nothing"}"#,
                ErrorCode::InvalidParameter,
                Some("endpoint"),
            ),
            (
                r#"{"endpoint":"/v1/audio/transcriptions"}"#,
                ErrorCode::InvalidParameter,
                Some("endpoint"),
            ),
            (
                r#"{"endpoint":"/v1/messages"}"#,
                ErrorCode::MissingRequiredParameter,
                Some("request"),
            ),
            (
                r#"{"endpoint":"/v1/messages","request":[]}"#,
                ErrorCode::InvalidParameter,
                Some("request"),
            ),
        ] {
            let error = request(body.as_bytes()).unwrap_err();
            assert_eq!((error.code, error.param.as_deref()), (code, param), "{body}");
        }
    }
}
