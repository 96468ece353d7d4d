//! One connection: reads requests and writes replies, until one side closes it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::{sleep, timeout};

use super::audio;
use super::chat_request::{ChatRequest, Shape};
use super::composed::Composed;
use super::converse;
use super::counts;
use super::embeddings;
use super::generate_content;
use super::live;
use super::plan::{Chunk, Ending, Plan};
use super::realtime;
use super::received::{ReceivedRequest, read_body, read_head};
use super::reply::{Content, Reply};
use super::script::Script;
use super::served::{End, Served, Tokens};
use super::texts;

/// Maximum time that an orderly close of a connection waits for the client's close.
const LINGER: Duration = Duration::from_secs(10);

/// Reason why a reply was not written completely.
enum Stop {
    ClientGone,
}

/// Serves the connection to its end.
pub(super) async fn serve(mut stream: TcpStream, number: u64, address: u16, script: Arc<Script>) {
    let mut buffer = BytesMut::new();
    // The client causes the errors of a connection, and the record contains them.
    while let Ok(true) = serve_one(&mut stream, &mut buffer, number, address, &script).await {}
}

/// Answers one request. Returns true if another request may follow.
async fn serve_one(
    stream: &mut TcpStream,
    buffer: &mut BytesMut,
    number: u64,
    address: u16,
    script: &Script,
) -> io::Result<bool> {
    let Some(mut head) = read_head(stream, buffer).await? else {
        return Ok(false);
    };
    head.request.connection = number;
    let is_passed_over = script.passes_over(&head.request);
    if !is_passed_over {
        head.request.sequence = script.count_request();
    }
    let sequence = head.request.sequence;
    if live::is_handshake(&head.request) && script.admits(&head.request) {
        script.record_request(head.request.clone());
        live::serve(stream, script, &head.request).await?;
        return Ok(false);
    }
    let is_conversation = realtime::is_handshake(&head.request) && script.admits(&head.request);
    let early = if is_conversation {
        let refusal = script.change(|state| state.realtime.refusal());
        if refusal.is_none() {
            script.record_request(head.request.clone());
            realtime::serve(stream, script, &head.request).await?;
            return Ok(false);
        }
        refusal
    } else if shape_of(&head.request).is_some() || is_embeddings(&head.request) {
        script.reply_before_body()
    } else {
        None
    };
    let unread = early.is_some();
    if !unread {
        head.request.body = read_body(stream, buffer, &head).await?;
    }
    let request = head.request;
    let (reply, chat) = match early {
        Some(reply) => (reply, None),
        None => choose(script, &request),
    };
    if !is_passed_over {
        script.record_request(request);
    }

    let composed = match (&reply.content, &chat) {
        (Content::Answer(answer), Some(chat)) => Some(Composed::new(
            answer,
            chat,
            format!("chatcmpl-{address}-{sequence}"),
            sequence,
        )),
        _ => None,
    };
    let plan = Plan::new(&reply, chat.as_ref().zip(composed.as_ref()), sequence);
    let entry = (chat.as_ref().zip(composed.as_ref())).map(|(chat, composed)| {
        (
            script.open_served(opened(chat, composed, sequence)),
            composed.tokens,
        )
    });
    let recorder = UsageRecorder { script, entry };
    if perform(&plan, stream, buffer, &recorder).await.is_err() {
        recorder.end(End::ClientGone);
        return Ok(false);
    }
    match plan.ending {
        Ending::KeepAlive if head.keep_alive && !unread => Ok(true),
        Ending::Reset => {
            stream.set_zero_linger()?;
            Ok(false)
        }
        Ending::KeepAlive | Ending::Close | Ending::Hang => {
            stream.shutdown().await?;
            // Closing with unread bytes would reset the connection and could lose the reply.
            let (mut reader, _) = stream.split();
            let _ = timeout(LINGER, client_gone(&mut reader, buffer, true)).await;
            Ok(false)
        }
    }
}

fn shape_of(request: &ReceivedRequest) -> Option<Shape> {
    Shape::of(request.bare_path()).filter(|_| request.method == "POST")
}

fn is_embeddings(request: &ReceivedRequest) -> bool {
    request.method == "POST" && request.bare_path().ends_with("/embeddings")
}

/// Parses a chat completion request; `None` for other requests.
fn chat_of(request: &ReceivedRequest) -> Option<ChatRequest> {
    let shape =
        shape_of(request).filter(|shape| !matches!(shape, Shape::Text | Shape::Content | Shape::Converse))?;
    ChatRequest::parse(&request.body, shape).ok()
}

/// Chooses the reply to a completely read request.
fn choose(script: &Script, request: &ReceivedRequest) -> (Reply, Option<ChatRequest>) {
    let path = request.bare_path();
    if request.method == "GET" && path == "/_served" {
        return (
            Reply::body(200, "application/json", script.served_json().to_string()),
            None,
        );
    }
    if request.method == "GET"
        && let Some(reply) = script.file_reply(path)
    {
        return (reply, None);
    }
    if request.method == "POST"
        && let Some(reply) = script.hook_reply(path)
    {
        return (reply, None);
    }
    if let Some(reply) = script.stripe_reply(request) {
        return (reply, None);
    }
    if let Some(reply) = script.tokens_reply(request) {
        return (reply, None);
    }
    if !script.admits(request) {
        return (
            Reply::error(401, "invalid_api_key", "Incorrect API key provided."),
            None,
        );
    }
    let judged = script.state().judge.as_ref().and_then(|judge| judge(request));
    if let Some(reply) = judged {
        return (reply, chat_of(request));
    }
    if let Some(reply) = script.batches_reply(request) {
        return (reply, None);
    }
    if let Some(reply) = script.media_reply(request) {
        return (reply, None);
    }
    let shape = shape_of(request);
    let decided = script.decision_reply(request);
    // An answer is sent in the format of the request; other decision replies are sent verbatim.
    let is_text = |reply: &&Reply| shape.is_some() && matches!(reply.content, Content::Answer(_));
    if let Some(reply) = decided.as_ref().filter(|reply| !is_text(reply)) {
        return (reply.clone(), None);
    }
    if shape.is_some() || is_embeddings(request) {
        let parsed = match shape {
            Some(Shape::Text) => texts::parse(&request.body),
            Some(Shape::Content) => generate_content::parse(path, &request.body),
            Some(Shape::Converse) => {
                let (model, stream) = converse::target(path).unwrap_or_default();
                converse::parse(&percent_decoded(model), stream, &request.body)
            }
            Some(shape) => ChatRequest::parse(&request.body, shape),
            None => embeddings::parse(&request.body),
        };
        return match parsed {
            Ok(chat) => {
                let preface = script.state().preface;
                let reply = decided.unwrap_or_else(|| script.chat_reply(&chat));
                (reply, Some(ChatRequest { preface, ..chat }))
            }
            Err(problem) => (Reply::error(400, "invalid_request", &problem), None),
        };
    }
    if request.method == "POST" && counts::is_count(path) {
        return (script.counts_reply(path, &request.body), None);
    }
    if request.method == "POST" && audio::is_audio(path) {
        let usual = || audio::reply(request);
        return (script.queued_reply().unwrap_or_else(usual), None);
    }
    if request.method == "POST" && path.ends_with("/moderations") {
        return (script.moderations_reply(&request.body), None);
    }
    if request.method == "POST"
        && let Some((_, action)) = generate_content::target(path)
    {
        let vectors = || {
            Reply::body(
                200,
                "application/json",
                generate_content::vectors(action, &request.body),
            )
        };
        return (script.queued_reply().unwrap_or_else(vectors), None);
    }
    if request.method == "GET" && (path.ends_with("/models") || path.ends_with("/foundation-models")) {
        return (script.models_reply(None), None);
    }
    if request.method == "GET"
        && let Some((_, model)) = path.split_once("/models/")
    {
        return (script.models_reply(Some(&percent_decoded(model))), None);
    }
    let message = format!("Invalid URL ({} {path})", request.method);
    (Reply::error(404, "unknown_url", &message), None)
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = (first == b'%')
            .then(|| tail.get(..2))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(escaped.unwrap_or(first));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn opened(chat: &ChatRequest, composed: &Composed, sequence: u64) -> Served {
    Served {
        id: composed.id.clone(),
        request: sequence,
        model: chat.model.clone(),
        streamed: chat.stream,
        used: Tokens {
            completion: 0,
            reasoning: 0,
            ..composed.tokens
        },
        reported: None,
        end: End::Open,
    }
}

/// Recorder of one answer. Records nothing if the reply is not an answer.
struct UsageRecorder<'a> {
    script: &'a Script,
    entry: Option<(usize, Tokens)>,
}

impl UsageRecorder<'_> {
    /// Updates the record before the bytes are sent, so that a client never reads more than is
    /// recorded.
    fn says(&self, chunk: &Chunk) {
        let Some((position, total)) = self.entry else {
            return;
        };
        if chunk.tokens_sent.is_none() && chunk.usage.is_none() {
            return;
        }
        self.script.change_served(position, |served| {
            if let Some(tokens_sent) = chunk.tokens_sent {
                served.used.completion = served.used.completion.max(tokens_sent);
                served.used.reasoning = total.reasoning.min(tokens_sent);
            }
            if chunk.usage.is_some() {
                served.reported.clone_from(&chunk.usage);
            }
        });
    }

    /// Records one more token. Each repetition of the endless chunk is one token.
    fn says_more(&self) {
        if let Some((position, _)) = self.entry {
            self.script
                .change_served(position, |served| served.used.completion += 1);
        }
    }

    fn end(&self, end: End) {
        let Some((position, total)) = self.entry else {
            return;
        };
        self.script.change_served(position, |served| {
            served.end = end;
            if end == End::Complete {
                served.used = total;
            }
        });
    }
}

/// Writes the plan. Stops if the client disconnects.
async fn perform(
    plan: &Plan,
    stream: &mut TcpStream,
    buffer: &mut BytesMut,
    recorder: &UsageRecorder<'_>,
) -> Result<(), Stop> {
    let (mut reader, mut writer) = stream.split();
    let write = async {
        for (index, chunk) in plan.chunks.iter().enumerate() {
            wait_for(chunk).await;
            recorder.says(chunk);
            if index + 1 == plan.chunks.len() && plan.forever.is_none() && plan.ending != Ending::Hang {
                recorder.end(if plan.cut { End::Cut } else { End::Complete });
            }
            write_chunk(&mut writer, chunk).await?;
        }
        while let Some(chunk) = &plan.forever {
            wait_for(chunk).await;
            recorder.says_more();
            write_chunk(&mut writer, chunk).await?;
        }
        if plan.ending == Ending::Hang {
            std::future::pending::<()>().await;
        }
        Ok(())
    };
    tokio::select! {
        biased;
        written = write => written,
        () = client_gone(&mut reader, buffer, false) => Err(Stop::ClientGone),
    }
}

async fn wait_for(chunk: &Chunk) {
    for gate in &chunk.gates {
        gate.passed().await;
    }
    if !chunk.wait.is_zero() {
        sleep(chunk.wait).await;
    }
}

async fn write_chunk(writer: &mut WriteHalf<'_>, chunk: &Chunk) -> Result<(), Stop> {
    writer
        .write_all(&chunk.bytes)
        .await
        .map_err(|_| Stop::ClientGone)?;
    // Without a yield, many consecutive writes would delay other connections and the detection of a
    // client that disconnects.
    tokio::task::yield_now().await;
    Ok(())
}

/// Returns when the client has closed its side. Bytes that the client sends until then are stored
/// for the next request, or discarded at the end of the connection.
async fn client_gone(reader: &mut ReadHalf<'_>, buffer: &mut BytesMut, discard: bool) {
    while let Ok(read) = reader.read_buf(buffer).await {
        if read == 0 {
            return;
        }
        if discard {
            buffer.clear();
        }
    }
}
