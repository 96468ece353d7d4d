mod answers;
mod limits;
mod questions;
mod state;
mod upstreams;

use serde_json::{Value, json};
use tollgate_types::ErrorCode;

use super::{Asked, read};
use crate::error::DecodeError;

/// A request of this state and these questions, as the house's own dialect has them.
fn native(state: Value, questions: Value) -> Value {
    json!({"model": "decide", "state": state, "questions": questions})
}

fn noul() -> Value {
    json!({"type": "noul", "instructions": "Is it?"})
}

fn asked(body: &Value) -> Asked {
    read(body.to_string().as_bytes()).unwrap_or_else(|error| panic!("{error:?}: {body}"))
}

fn refused(body: &Value) -> DecodeError {
    match read(body.to_string().as_bytes()) {
        Ok(asked) => panic!("{asked:?} was read of {body}"),
        Err(error) => error,
    }
}

/// What is wrong with a body, and where.
fn flaw(body: &Value) -> (ErrorCode, String) {
    let error = refused(body);
    assert!(error.message.len() < 300, "{}", error.message);
    (error.code, error.param.unwrap_or_default())
}
