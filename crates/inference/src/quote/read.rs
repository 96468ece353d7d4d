//! The request, checked as far as it is not the request that it asks about.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::value::RawValue;
use tollgate_types::{Error, ErrorCode};

/// Which endpoint a quote is for.
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
    /// Of this model.
    EmbedContent(String),
    BatchEmbedContents(String),
}

impl Endpoint {
    /// The endpoint at a path, written as it is called.
    fn parse(path: &str) -> Option<Self> {
        Some(match path {
            "/v1/chat/completions" => Endpoint::ChatCompletions,
            "/v1/completions" => Endpoint::Completions,
            "/v1/messages" => Endpoint::Messages,
            "/v1/responses" => Endpoint::Responses,
            "/v1/embeddings" => Endpoint::Embeddings,
            "/v1/decisions" | "/v1/systemone" | "/v1beta/decisions" => Endpoint::Decisions,
            path => {
                let of_model = ["/v1/models/", "/v1beta/models/"];
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

    /// Whether the path names the model, which the body then does not.
    pub(super) fn names_model(&self) -> bool {
        matches!(
            self,
            Endpoint::GenerateContent { .. } | Endpoint::EmbedContent(_) | Endpoint::BatchEmbedContents(_)
        )
    }
}

/// A request for a quote.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) endpoint: Endpoint,
    /// The path as it was sent.
    pub(super) path: String,
    /// The body of the request that it asks about, byte for byte.
    pub(super) body: Bytes,
}

/// Reads a request.
pub(super) fn request(body: &[u8]) -> Result<Request, Error> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_slice(body).map_err(|error| {
        let message = format!("The body is not a JSON object: {error}.");
        Error::new(ErrorCode::InvalidJson, message)
    })?;
    let known = ["endpoint", "request"];
    if let Some(unknown) = members.keys().find(|name| !known.contains(&name.as_str())) {
        let message = format!("'{unknown}' is not a parameter of this endpoint. Leave it out.");
        return Err(Error::new(ErrorCode::UnknownParameter, message).with_param(unknown.as_str()));
    }
    let member = |name: &str, what: &str| {
        members.get(name).map(|value| value.get()).ok_or_else(|| {
            let message = format!("'{name}' is missing: send {what}.");
            Error::new(ErrorCode::MissingRequiredParameter, message).with_param(name)
        })
    };
    let path = member("endpoint", "the path of an endpoint")?;
    let path: String = serde_json::from_str(path).map_err(|_| no_endpoint())?;
    let endpoint = Endpoint::parse(&path).ok_or_else(no_endpoint)?;
    let request = member("request", "the body of a request to that endpoint")?;
    if !request.starts_with('{') {
        let message = "'request' must be the body of a request: a JSON object.";
        return Err(Error::new(ErrorCode::InvalidParameter, message).with_param("request"));
    }
    Ok(Request {
        endpoint,
        path,
        body: Bytes::copy_from_slice(request.as_bytes()),
    })
}

fn no_endpoint() -> Error {
    let message = "'endpoint' must be the path of an endpoint that generates text, makes embeddings or decides, such as \
                   '/v1/chat/completions' or '/v1/models/sim/chat:generateContent'.";
    Error::new(ErrorCode::InvalidParameter, message).with_param("endpoint")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_taken_byte_for_byte() {
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
            ("/v1/moderations", None),
            ("v1/messages", None),
        ] {
            assert_eq!(Endpoint::parse(path), expected, "{path}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
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
