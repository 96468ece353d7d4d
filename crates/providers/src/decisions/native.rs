//! Decisions by upstreams with an endpoint for questions.

use bytes::Bytes;
use serde_json::Value;
use tollgate_formats::decisions::{Shape, answers, ask, check_compatible};
use tollgate_types::decide::{Question, QuestionKind, State};
use tollgate_upstream::{RelayAnswer, RelayCall, UpstreamCause, UpstreamError, UpstreamErrorKind};

use crate::http::{HttpClient, Response};
use crate::refusal;

/// Whether the request format can express the state.
pub(crate) fn can_express(shape: Shape, state: &State) -> bool {
    check_compatible(shape, state, &[]).is_ok()
}

/// Encodes the request body. Returns an error if the format cannot express the call.
pub(crate) fn body(shape: Shape, call: &RelayCall) -> Result<Bytes, UpstreamError> {
    check_compatible(shape, &call.state, &call.questions).map_err(|error| UpstreamError {
        param: error.param.clone(),
        ..UpstreamError::new(
            UpstreamErrorKind::Rejected,
            UpstreamCause::Protocol,
            format!("the request cannot be encoded: {}", error.code.as_str()),
        )
    })?;
    Ok(Bytes::from(ask(
        shape,
        &call.upstream_model,
        &call.state,
        &call.questions,
    )))
}

/// Decodes the answers in a response. Their number must be the number of questions.
pub(crate) async fn relayed(
    response: Response,
    http: &HttpClient,
    shape: Shape,
    questions: &[Question],
) -> Result<RelayAnswer, UpstreamError> {
    if !(200..300).contains(&response.status) {
        return Err(refusal::from_response(response, http.settings()).await);
    }
    let body = response.whole(http.settings().body_limit).await?;
    let failed: Option<Value> = serde_json::from_slice(&body).ok();
    if failed.is_some_and(|value| value.get("error").is_some_and(|error| !error.is_null())) {
        return Err(refusal::from_object(&body));
    }
    match answers(shape, &body, questions) {
        Ok((decisions, usage)) if decisions.len() == questions.len() => Ok(RelayAnswer { decisions, usage }),
        Ok((decisions, _)) => Err(UpstreamError::protocol(format!(
            "received {} answers to {} questions",
            decisions.len(),
            questions.len()
        ))),
        Err(error) => Err(UpstreamError::protocol(format!(
            "the answers are invalid: {} at {} ({} bytes)",
            error.code.as_str(),
            error.param.as_deref().unwrap_or("the top level"),
            body.len()
        ))),
    }
}

/// Returns a call with a question that every model with the endpoint can answer.
pub(crate) fn probe(call: &RelayCall) -> RelayCall {
    RelayCall {
        upstream_model: call.upstream_model.clone(),
        state: State {
            text: "The sky is blue.".to_owned(),
            media: Vec::new(),
        }
        .into(),
        questions: vec![Question {
            id: "colour".to_owned(),
            param: "questions".to_owned(),
            instructions: "Does the text say what colour the sky is?".to_owned(),
            kind: QuestionKind::Noul { yes: None, no: None },
            abstain: false,
        }],
    }
}
