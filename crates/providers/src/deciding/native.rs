//! Upstreams that take questions.

use bytes::Bytes;
use serde_json::Value;
use tollgate_formats::decisions::{Shape, answers, ask, carry};
use tollgate_types::decide::{Question, QuestionKind, State};
use tollgate_upstream::{RelayAnswer, RelayCall, UpstreamCause, UpstreamError, UpstreamErrorKind};

use crate::http::{HttpClient, Response};
use crate::refusal;

/// Whether a shape has words for the state.
pub(crate) fn carries(shape: Shape, state: &State) -> bool {
    carry(shape, state, &[]).is_ok()
}

/// The body that asks.
pub(crate) fn body(shape: Shape, call: &RelayCall) -> Result<Bytes, UpstreamError> {
    carry(shape, &call.state, &call.questions).map_err(|error| UpstreamError {
        param: error.param.clone(),
        ..UpstreamError::new(
            UpstreamErrorKind::Rejected,
            UpstreamCause::Protocol,
            format!("the upstream cannot be asked: {}", error.code.as_str()),
        )
    })?;
    Ok(Bytes::from(ask(
        shape,
        &call.upstream_model,
        &call.state,
        &call.questions,
    )))
}

/// What is answered.
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
            "{} answers came to {} questions",
            decisions.len(),
            questions.len()
        ))),
        Err(error) => Err(UpstreamError::protocol(format!(
            "the answers make no sense: {} at {} ({} bytes)",
            error.code.as_str(),
            error.param.as_deref().unwrap_or("the top"),
            body.len()
        ))),
    }
}

/// A question that everybody answers who answers any.
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
            instructions: "Is it said what colour the sky has?".to_owned(),
            kind: QuestionKind::Noul { yes: None, no: None },
            abstain: false,
        }],
    }
}
