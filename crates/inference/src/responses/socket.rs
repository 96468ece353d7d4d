//! `/v1/responses` as a WebSocket: each `response.create` is a request of its own, and the events of its answer are
//! messages. One response at a time.

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
use tollgate_edge::websocket::{Gone, Session};
use tollgate_formats::DecodeError;
use tollgate_types::{Error, ErrorCode};

use super::events::Events;
use super::kept::Latest;
use super::service::{self, Answer, Request};
use crate::Inference;

/// A session ends with the first response after so long.
const LONGEST: Duration = Duration::from_hours(1);
/// RFC 6455: the session has fulfilled its purpose.
const NORMAL: u16 = 1000;

/// Holds one session.
pub(super) async fn talk(mut session: Session, inference: Inference) {
    let end = Instant::now() + LONGEST;
    // The latest response of the session can be gone on from, kept or not.
    let latest = Arc::new(Latest::default());
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
                return session.close(NORMAL, "A session lasts an hour: connect again.").await;
            }
        };
        if sent.is_err() {
            return;
        }
    }
}

/// The next event of the response that runs; nothing is waited for when none does.
async fn next(running: &mut Option<Box<Events>>) -> Option<Bytes> {
    match running {
        Some(events) => events.next().await,
        None => std::future::pending().await,
    }
}

async fn begin(
    session: &mut Session,
    inference: &Inference,
    latest: &Arc<Latest>,
    message: &str,
    running: &mut Option<Box<Events>>,
) -> Result<(), Gone> {
    let turn = session.turn().await;
    let created = async {
        let (caller, ctx) = turn.started?;
        let body = request(message)?;
        service::create(Request {
            inference,
            ctx: &ctx,
            caller,
            body,
            latest: Some(latest),
        })
        .await
    };
    match created.await {
        Ok(Answer::Stream(events)) => {
            *running = Some(events);
            Ok(())
        }
        // A request that is made here asks for a stream.
        Ok(Answer::Whole(_) | Answer::Followed(_)) => Ok(()),
        Err(error) => {
            session.log_failure(turn.id, &error);
            refuse(session, &error).await
        }
    }
}

/// The body of the request that a message makes.
fn request(message: &str) -> Result<Bytes, Error> {
    let mut members: IndexMap<String, Box<RawValue>> = serde_json::from_str(message)
        .map_err(|error| DecodeError::invalid_json(format!("The message is not a JSON object: {error}.")))?;
    let kind = members.shift_remove("type");
    if kind.is_none_or(|kind| kind.get() != "\"response.create\"") {
        let message = "'type' must be 'response.create': this is the one message that is taken here.";
        return Err(Error::new(ErrorCode::InvalidParameter, message).with_param("type"));
    }
    members.insert("stream".to_owned(), RawValue::TRUE.to_owned());
    let body = serde_json::to_vec(&members).map_err(|error| Error::internal(error.to_string()))?;
    Ok(Bytes::from(body))
}

/// The data of an event is the message; signs of life are the protocol's own here.
async fn send(session: &mut Session, event: &[u8]) -> Result<(), Gone> {
    match sse::data(event).and_then(|data| str::from_utf8(data).ok()) {
        Some(data) => session.send(data).await,
        None => Ok(()),
    }
}

async fn refuse(session: &mut Session, error: &Error) -> Result<(), Gone> {
    let (status, kind) = status_and_type(error.code);
    let message = json!({
        "type": "error",
        "status": status.as_u16(),
        "error": {
            "type": kind, "code": error.code.as_str(), "message": error.message, "param": error.param,
        },
    });
    session.send(message.to_string()).await
}

fn one_at_a_time() -> Error {
    let message = "A response is still running in this session. Wait for its end, or open another session.";
    Error::new(ErrorCode::Conflict, message)
}
