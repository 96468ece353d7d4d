//! How far a graph is: the server tells it over a WebSocket, to whoever has queued the graph, and nobody can ask for it.

use std::time::Duration;

use serde_json::Value;
use tollgate_upstream::UpstreamError;

use crate::http::{Socket, escape};
use crate::media::Server;

/// How long it is listened for. A server that works says something with each step.
const LISTENING: Duration = Duration::from_secs(3);

/// What is heard of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    /// So much of what it is at is done, in percent.
    Percent(u8),
    /// It has ended in some way.
    Ended,
}

/// What is heard of this graph of this client's first; nothing where the server cannot be listened to or says nothing in time.
pub(super) async fn heard(server: &Server, client: &str, id: &str) -> Option<Heard> {
    let path = format!("{}?clientId={}", server.path("/ws"), escape(client, ""));
    let listened = async {
        let mut socket = server.listen(&path).await?;
        Ok::<_, UpstreamError>(first(&mut socket, id).await)
    };
    match tokio::time::timeout(LISTENING, listened).await {
        Ok(Ok(heard)) => heard,
        Ok(Err(error)) => {
            tracing::debug!(%error, "cannot listen to how far a graph is");
            None
        }
        Err(_) => None,
    }
}

async fn first(socket: &mut Socket, id: &str) -> Option<Heard> {
    loop {
        if let Some(heard) = read(&socket.next().await?, id) {
            return Some(heard);
        }
    }
}

/// What a message says of this graph. Messages about others, and those that cannot be read, say nothing.
fn read(message: &str, id: &str) -> Option<Heard> {
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
        "executing" if data["node"].is_null() => Some(Heard::Ended),
        "execution_success" | "execution_error" | "execution_interrupted" => Some(Heard::Ended),
        _ => None,
    }
}

/// Steps of a sampler. A node with one step says nothing about the graph.
fn percent(steps: &Value) -> Option<Heard> {
    let (value, most) = (steps["value"].as_f64()?, steps["max"].as_f64()?);
    if most <= 1.0 || !(0.0..=most).contains(&value) {
        return None;
    }
    let percent = (value * 100.0 / most).floor();
    (0..=100)
        .rev()
        .find(|whole| f64::from(*whole) <= percent)
        .map(Heard::Percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_said_of_the_graph_is_heard() {
        for (message, expected) in [
            (
                r#"{"type": "progress", "data": {"value": 3, "max": 20, "prompt_id": "p", "node": "3"}}"#,
                Some(Heard::Percent(15)),
            ),
            (
                r#"{"type": "progress", "data": {"value": 20, "max": 20, "prompt_id": "p"}}"#,
                Some(Heard::Percent(100)),
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
                Some(Heard::Percent(62)),
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
                Some(Heard::Ended),
            ),
            (
                r#"{"type": "execution_success", "data": {"prompt_id": "p"}}"#,
                Some(Heard::Ended),
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
