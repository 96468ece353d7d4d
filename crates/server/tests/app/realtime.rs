//! Time limits of realtime sessions, on a clock that the tests advance. The connections are in
//! memory, so that a message has arrived when its sender has written it.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a failure of a helper function fails its test"
)]

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::{SinkExt, StreamExt};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{DuplexStream, duplex};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{advance, pause, resume, timeout};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{WebSocketStream, client_async};
use tollgate_operations::{Actor, ListRealtimeSessions};
use tollgate_storage::NoFiles;

use crate::app::{Scene, Tenant};

const VOICE: &str = "sim/voice";
const TRANSCRIPTION: &str = "sim/transcribe";
/// Maximum wait for an event. It ends hung tests; it does not measure speed.
const DEADLINE: Duration = Duration::from_mins(1);
/// Size of the buffer of a connection, in bytes.
const BUFFER_BYTES: usize = 64 << 10;
/// Number of small events that fit neither into [`BUFFER_BYTES`] nor into the buffers at both ends.
const MAX_UNREAD: usize = 8 * BUFFER_BYTES / 40;

/// An open session.
struct Session {
    socket: WebSocketStream<DuplexStream>,
    _connection: JoinSet<()>,
}

/// The next message for a client.
#[derive(Debug, PartialEq)]
enum Received {
    Event(Value),
    Ping,
    /// The end, with the code of a close frame.
    End(Option<u16>),
}

impl Session {
    async fn open(scene: &Scene, tenant: &Tenant, model: &str) -> Self {
        let (client, server) = duplex(BUFFER_BYTES);
        let app = scene.app.clone();
        let serve = service_fn(move |request: Request<Incoming>| {
            let app = app.clone();
            async move {
                let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
                Ok::<_, std::convert::Infallible>(app.serve(peer, request).await)
            }
        });
        let mut connection = JoinSet::new();
        connection.spawn(async move {
            let connection = http1::Builder::new().serve_connection(TokioIo::new(server), serve);
            // A client that leaves is no failure.
            let _ = connection.with_upgrades().await;
        });
        let mut request = format!("ws://gateway/v1/realtime?model={model}")
            .into_client_request()
            .unwrap();
        let key = format!("Bearer {}", tenant.key).parse().unwrap();
        request.headers_mut().insert("authorization", key);
        let (socket, _) = client_async(request, client).await.unwrap();
        let mut session = Self {
            socket,
            _connection: connection,
        };
        assert_eq!(session.event().await["type"], "session.created");
        session
    }

    async fn send(&mut self, event: Value) {
        self.socket.send(Message::text(event.to_string())).await.unwrap();
    }

    /// Creates a message of the user. Does not wait for its events.
    async fn create_item(&mut self, text: &str) {
        let content = json!([{"type": "input_text", "text": text}]);
        let item = json!({"type": "message", "role": "user", "content": content});
        self.send(json!({"type": "conversation.item.create", "item": item}))
            .await;
    }

    async fn append_silence(&mut self, ms: usize) {
        let audio = STANDARD.encode(vec![0_u8; 48 * ms]);
        self.send(json!({"type": "input_audio_buffer.append", "audio": audio}))
            .await;
    }

    async fn receive(&mut self) -> Received {
        let received = timeout(DEADLINE, self.socket.next()).await;
        match received.expect("a message arrives in time") {
            Some(Ok(Message::Text(text))) => Received::Event(serde_json::from_str(&text).unwrap()),
            Some(Ok(Message::Ping(_))) => Received::Ping,
            Some(Ok(Message::Close(frame))) => Received::End(frame.map(|frame| frame.code.into())),
            Some(Ok(other)) => panic!("{other:?}"),
            Some(Err(_)) | None => Received::End(None),
        }
    }

    /// Returns the next event, and answers pings.
    async fn event(&mut self) -> Value {
        loop {
            match self.receive().await {
                Received::Event(event) => return event,
                Received::Ping => {}
                Received::End(code) => panic!("the session has ended: {code:?}"),
            }
        }
    }

    /// Reads to the end of the session. Returns the code of the close frame.
    async fn end(&mut self) -> Option<u16> {
        loop {
            if let Received::End(code) = self.receive().await {
                return code;
            }
        }
    }
}

/// Advances the clock of all timers, and of nothing else.
async fn pass(seconds: u64) {
    pause();
    advance(Duration::from_secs(seconds)).await;
    resume();
}

async fn open_sessions(scene: &Scene) -> usize {
    let command = ListRealtimeSessions {
        account: None,
        before: None,
        limit: 100,
    };
    let operations = &scene.app_state.operations;
    let listed = operations.execute(&Actor::command_line(), command).await;
    listed.unwrap().len()
}

async fn scene() -> (Scene, Tenant) {
    let scene = Scene::new(Arc::new(NoFiles), |_| {}).await;
    let tenant = scene.tenant(100).await;
    (scene, tenant)
}

/// Waits until the gateway has this many sessions.
async fn until_open(scene: &Scene, count: usize) {
    let waited = timeout(DEADLINE, async {
        while open_sessions(scene).await != count {
            yield_now().await;
        }
    });
    waited.await.expect("sessions end in time");
}

/// Waits until the gateway has no session, and nothing is held.
async fn ended(scene: &Scene, tenant: &Tenant) {
    until_open(scene, 0).await;
    let waited = timeout(DEADLINE, async {
        while !scene.balance(tenant).await.held.is_zero() {
            yield_now().await;
        }
    });
    waited.await.expect("the session is settled in time");
}

#[tokio::test]
async fn a_client_that_answers_no_ping_loses_its_connection_after_a_minute() {
    for model in [VOICE, TRANSCRIPTION] {
        let (scene, tenant) = scene().await;
        let mut silent = Session::open(&scene, &tenant, model).await;
        let mut answering = Session::open(&scene, &tenant, model).await;
        for _ in 0..6 {
            pass(20).await;
            // Reading a ping queues its answer, which the next write sends.
            while answering.receive().await != Received::Ping {}
            answering.socket.flush().await.unwrap();
        }
        until_open(&scene, 1).await;
        answering
            .send(json!({"type": "session.update", "session": {}}))
            .await;
        assert_eq!(answering.event().await["type"], "session.updated");
        let code = silent.end().await;
        assert_eq!(code, None, "{model}");
        drop(answering);
        ended(&scene, &tenant).await;
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_loses_its_connection_after_a_minute() {
    let (scene, tenant) = scene().await;
    let mut session = Session::open(&scene, &tenant, VOICE).await;
    session
        .create_item(&"One two three four five six seven. ".repeat(10))
        .await;
    session.send(json!({"type": "response.create"})).await;
    while session.event().await["type"] != "response.output_audio.delta" {}
    // Two events repeat each item, and none of them is read.
    for _ in 0..2 {
        session.create_item(&"x".repeat(700_000)).await;
    }
    // The gateway reads no further events, so the buffer of the connection fills.
    let event = json!({"type": "session.update", "session": {}}).to_string();
    let mut sent = 0;
    while sent < MAX_UNREAD {
        let writing = session.socket.send(Message::text(&*event));
        if timeout(Duration::from_millis(500), writing).await.is_err() {
            break;
        }
        sent += 1;
    }
    assert!(sent < MAX_UNREAD, "the gateway reads on");
    assert_eq!(open_sessions(&scene).await, 1);
    assert!(!scene.balance(&tenant).await.held.is_zero());
    pass(61).await;
    ended(&scene, &tenant).await;
    assert_eq!(session.end().await, None);
}

#[tokio::test]
async fn a_transcription_that_is_not_paid_for_a_minute_is_closed() {
    let scene = Scene::new(Arc::new(NoFiles), |_| {}).await;
    let tenant = scene.tenant(0).await;
    let mut session = Session::open(&scene, &tenant, TRANSCRIPTION).await;
    for (seconds, is_tried) in [(0, true), (1, false), (4, true), (40, true)] {
        pass(seconds).await;
        session.append_silence(1_000).await;
        session
            .send(json!({"type": "session.update", "session": {}}))
            .await;
        let event = session.event().await;
        if is_tried {
            assert_eq!(event["error"]["code"], "insufficient_credits", "{event}");
            assert_eq!(session.event().await["type"], "session.updated");
        } else {
            assert_eq!(event["type"], "session.updated", "{event}");
        }
    }
    pass(20).await;
    session.append_silence(1_000).await;
    assert_eq!(session.event().await["error"]["code"], "insufficient_credits");
    assert_eq!(session.end().await, Some(1008));
    ended(&scene, &tenant).await;
}
