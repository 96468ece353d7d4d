//! Progress of a graph. The server sends it only over a WebSocket, and only to the client that
//! queued the graph.

use std::time::Duration;

use serde_json::Value;
use tollgate_upstream::UpstreamError;

use crate::http::{Socket, escape};
use crate::media::Server;

/// Maximum time to connect and to receive a message about the graph. A running graph sends one for
/// each step.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(3);

/// A message about a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProgressEvent {
    /// Progress of the current node in percent.
    Percent(u8),
    /// The graph has ended: it succeeded, failed or was interrupted.
    Ended,
}

/// Returns the first message about the progress or the end of this graph; `None` if the connection
/// fails or no such message arrives in time.
pub(super) async fn progress_event(server: &Server, client: &str, id: &str) -> Option<ProgressEvent> {
    let path = format!("{}?clientId={}", server.path("/ws"), escape(client, ""));
    let listening = async {
        let mut socket = server.open_socket(&path, LISTEN_TIMEOUT).await?;
        Ok::<_, UpstreamError>(first(&mut socket, id).await)
    };
    match tokio::time::timeout(LISTEN_TIMEOUT, listening).await {
        Ok(Ok(progress_event)) => progress_event,
        Ok(Err(error)) => {
            tracing::debug!(%error, "cannot read the progress of a graph");
            None
        }
        Err(_) => None,
    }
}

async fn first(socket: &mut Socket, id: &str) -> Option<ProgressEvent> {
    loop {
        if let Some(progress_event) = read(&socket.next().await?, id) {
            return Some(progress_event);
        }
    }
}

/// Parses a message about this graph. Returns `None` for other graphs, for other types of messages
/// and for malformed messages.
fn read(message: &str, id: &str) -> Option<ProgressEvent> {
    let message: Value = serde_json::from_str(message).ok()?;
    let data = &message["data"];
    if data["prompt_id"] != id {
        return None;
    }
    match message["type"].as_str()? {
        "progress" => percent(data),
        "progress_state" => {
            let nodes = data["nodes"].as_object()?;
            percent(nodes.values().find(|node| node["state"] == "running")?)
        }
        "executing" if data["node"].is_null() => Some(ProgressEvent::Ended),
        "execution_success" | "execution_error" | "execution_interrupted" => Some(ProgressEvent::Ended),
        _ => None,
    }
}

/// Returns the progress of a sampler's steps in percent. `None` for invalid values, and for a node
/// with only one step, which does not indicate the progress of the graph.
fn percent(steps: &Value) -> Option<ProgressEvent> {
    let (value, max) = (steps["value"].as_f64()?, steps["max"].as_f64()?);
    if max <= 1.0 || !(0.0..=max).contains(&value) {
        return None;
    }
    let percent = (value * 100.0 / max).floor();
    (0..=100)
        .rev()
        .find(|whole| f64::from(*whole) <= percent)
        .map(ProgressEvent::Percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_progress_of_the_own_graph_is_read() {
        for (message, expected) in [
            (
                r#"{"type": "progress", "data": {"value": 3, "max": 20, "prompt_id": "p", "node": "3"}}"#,
                Some(ProgressEvent::Percent(15)),
            ),
            (
                r#"{"type": "progress", "data": {"value": 20, "max": 20, "prompt_id": "p"}}"#,
                Some(ProgressEvent::Percent(100)),
            ),
            (
                r#"{"type": "progress", "data": {"value": 3, "max": 20, "prompt_id": "q"}}"#,
                None,
            ),
            (r#"{"type": "progress", "data": {"value": 3, "max": 20}}"#, None),
            (
                r#"{"type": "progress", "data": {"value": 1, "max": 1, "prompt_id": "p"}}"#,
                None,
            ),
            (
                r#"{"type": "progress", "data": {"value": 3, "max": 0, "prompt_id": "p"}}"#,
                None,
            ),
            (
                r#"{"type": "progress", "data": {"value": -1, "max": 20, "prompt_id": "p"}}"#,
                None,
            ),
            (
                r#"{"type": "progress", "data": {"value": 1e300, "max": 20, "prompt_id": "p"}}"#,
                None,
            ),
            (
                r#"{"type": "progress_state", "data": {"prompt_id": "p", "nodes": {
                    "1": {"value": 1, "max": 1, "state": "finished"}, "3": {"value": 5, "max": 8, "state": "running"}}}}"#,
                Some(ProgressEvent::Percent(62)),
            ),
            (
                r#"{"type": "progress_state", "data": {"prompt_id": "p", "nodes": []}}"#,
                None,
            ),
            (
                r#"{"type": "executing", "data": {"node": "3", "prompt_id": "p"}}"#,
                None,
            ),
            (
                r#"{"type": "executing", "data": {"node": null, "prompt_id": "p"}}"#,
                Some(ProgressEvent::Ended),
            ),
            (
                r#"{"type": "execution_success", "data": {"prompt_id": "p"}}"#,
                Some(ProgressEvent::Ended),
            ),
            (r#"{"type": "status", "data": {"sid": "p"}}"#, None),
            (r#"{"data": {"prompt_id": "p"}}"#, None),
            ("[1]", None),
            ("nonsense", None),
        ] {
            assert_eq!(read(message, "p"), expected, "{message}");
        }
    }
}
