mod answers;
mod limits;
mod questions;
mod state;
mod upstreams;

use serde_json::{Value, json};
use tollgate_types::ErrorCode;

use super::{DecisionRequest, read};
use crate::error::DecodeError;

/// Returns a request with this state and these questions in Tollgate's own dialect.
fn native(state: Value, questions: Value) -> Value {
    json!({"model": "decide", "state": state, "questions": questions})
}

fn noul() -> Value {
    json!({"type": "noul", "instructions": "Is it?"})
}

fn decision_request(body: &Value) -> DecisionRequest {
    read(body.to_string().as_bytes()).unwrap_or_else(|error| panic!("{error:?}: {body}"))
}

fn refused(body: &Value) -> DecodeError {
    match read(body.to_string().as_bytes()) {
        Ok(decision_request) => panic!("{decision_request:?} was read of {body}"),
        Err(error) => error,
    }
}

/// Returns the code and the parameter of the error for a body.
fn error_of(body: &Value) -> (ErrorCode, String) {
    let error = refused(body);
    assert!(error.message.len() < 300, "{}", error.message);
    (error.code, error.param.unwrap_or_default())
}
