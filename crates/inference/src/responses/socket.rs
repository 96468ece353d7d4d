//! `/v1/responses` over a WebSocket. Each `response.create` message is a separate request, and the
//! events of its response are messages. A session executes one response at a time.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use indexmap::IndexMap;
use serde_json::json;
use serde_json::value::RawValue;
use tokio::time::{Instant, sleep_until};
use tollgate_edge::error::status_and_type;
use tollgate_edge::sse;
use tollgate_edge::websocket::{Disconnected, Session};
use tollgate_formats::DecodeError;
use tollgate_types::{Error, ErrorCode};

use super::conversation::previous;
use super::events::Events;
use super::service::{self, Answer, Request};
use super::store::LatestResponse;
use crate::Inference;

/// Maximum duration of a session. A running response is completed before the session is closed.
const MAX_SESSION_DURATION: Duration = Duration::from_hours(1);
/// Close code of RFC 6455 for a session that has fulfilled its purpose.
const NORMAL_CLOSURE: u16 = 1000;

/// Runs one session until it ends.
pub(super) async fn run_session(mut session: Session, inference: Inference) {
    let end = Instant::now() + MAX_SESSION_DURATION;
    // Requests may continue from the latest response of the session even if it is not stored.
    let latest = Arc::new(LatestResponse::default());
    let mut running: Option<Box<Events>> = None;
    loop {
        let is_busy = running.is_some();
        let sent = tokio::select! {
            message = session.recv(is_busy) => match message {
                None => return,
                Some(_) if is_busy => refuse(&mut session, &one_at_a_time()).await,
                Some(message) => begin(&mut session, &inference, &latest, message.as_str(), &mut running).await,
            },
            event = next(&mut running) => match event {
                Some(event) => send(&mut session, &event).await,
                None => {
                    running = None;
                    Ok(())
                }
            },
            () = sleep_until(end), if !is_busy => {
                return session.close(NORMAL_CLOSURE, "A session lasts at most one hour. Reconnect.").await;
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Returns the next event of the running response; waits forever if none is running.
async fn next(running: &mut Option<Box<Events>>) -> Option<Bytes> {
    match running {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

async fn begin(
    session: &mut Session,
    inference: &Inference,
    latest: &Arc<LatestResponse>,
    message: &str,
    running: &mut Option<Box<Events>>,
) -> Result<(), Disconnected> {
    let turn = session.turn().await;
    let created = async {
        let (caller, ctx) = turn.started?;
        let body = request(message)?;
        service::create(Request {
            inference,
            ctx: &ctx,
            caller,
            origin: None,
            body,
            latest: Some(latest),
        })
        .await
    };
    let created = created.await;
    // Open Responses: a failed turn evicts the response from which it continued. After a success
    // the new response is the latest.
    if let Some(Some(previous)) = previous(message.as_bytes()) {
        latest.evict(&previous);
    }
    match created {
        Ok(Answer::Stream(events)) => {
            *running = Some(events);
            Ok(())
        }
        // Session requests always set `stream`.
        Ok(Answer::Whole(_) | Answer::Subscribed(_)) => Ok(()),
        Err(error) => {
            session.log_failure(turn.id, &error);
            refuse(session, &error).await
        }
    }
}

/// Converts a message to a request body.
fn request(message: &str) -> Result<Bytes, Error> {
    let mut members: IndexMap<String, Box<RawValue>> = serde_json::from_str(message)
        .map_err(|error| DecodeError::invalid_json(format!("The message is not a JSON object: {error}.")))?;
    let kind = members.shift_remove("type");
    if kind.is_none_or(|kind| kind.get() != "\"response.create\"") {
        let message = "'type' must be 'response.create', the only supported message type.";
        return Err(Error::new(ErrorCode::InvalidParameter, message).with_param("type"));
    }
    members.insert("stream".to_owned(), RawValue::TRUE.to_owned());
    let body = serde_json::to_vec(&members).map_err(|error| Error::internal(error.to_string()))?;
    Ok(Bytes::from(body))
}

/// Sends the data of an event as a message. Keep-alive events are dropped, because WebSockets have
/// their own pings.
async fn send(session: &mut Session, event: &[u8]) -> Result<(), Disconnected> {
    match sse::data(event).and_then(|data| str::from_utf8(data).ok()) {
        Some(data) => session.send(data).await,
        None => Ok(()),
    }
}

async fn refuse(session: &mut Session, error: &Error) -> Result<(), Disconnected> {
    let (status, kind) = status_and_type(error.code);
    let message = json!({
        "type": "error",
        "status": status.as_u16(),
        "error": {
            "type": kind, "code": code(error), "message": error.message, "param": error.param,
        },
    });
    session.send(message.to_string()).await
}

/// Returns the error code. An unknown previous response has the format's own code, from which
/// clients of sessions recover.
fn code(error: &Error) -> &'static str {
    match (error.code, error.param.as_deref()) {
        (ErrorCode::NotFound, Some("previous_response_id")) => "previous_response_not_found",
        (code, _) => code.as_str(),
    }
}

fn one_at_a_time() -> Error {
    let message = "A response is still running in this session. Wait until it ends, or open another session.";
    Error::new(ErrorCode::Conflict, message)
}
