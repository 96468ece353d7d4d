//! One connection: requests are read, replies are written, until one side has had enough.

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
use super::plan::{Ending, Piece, Plan};
use super::received::{ReceivedRequest, read_body, read_head};
use super::reply::{Content, Reply};
use super::script::Script;
use super::served::{End, Served, Tokens};
use super::texts;

/// How long a connection that was closed in order waits for the client to close too.
const LINGER: Duration = Duration::from_secs(10);

/// Why a reply was not written to its end.
enum Stop {
    ClientGone,
}

/// Serves the connection to its end.
pub(super) async fn serve(mut stream: TcpStream, number: u64, address: u16, script: Arc<Script>) {
    let mut buffer = BytesMut::new();
    // What goes wrong on a connection is the client's doing, and is seen in the records.
    while let Ok(true) = serve_one(&mut stream, &mut buffer, number, address, &script).await {}
}

/// Answers one request; true when another may follow.
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
    head.request.sequence = script.count_request();
    let sequence = head.request.sequence;
    let early = if shape_of(&head.request).is_some() || is_embeddings(&head.request) {
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
    script.record_request(request);

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
    let books = Books { script, entry };
    if perform(&plan, stream, buffer, &books).await.is_err() {
        books.end(End::ClientGone);
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

/// The reply to a request that was read whole.
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
    if let Some(reply) = script.batches_reply(request) {
        return (reply, None);
    }
    if let Some(reply) = script.media_reply(request) {
        return (reply, None);
    }
    let shape = shape_of(request);
    let decided = script.decision_reply(request);
    // A text is an answer like any other, in whatever format.
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

/// Where the progress of one answer is written down; nowhere, when the reply is no answer.
struct Books<'a> {
    script: &'a Script,
    entry: Option<(usize, Tokens)>,
}

impl Books<'_> {
    /// Written down before the bytes go out, so that nobody can have read what is not in the books.
    fn says(&self, piece: &Piece) {
        let Some((place, total)) = self.entry else { return };
        if piece.said.is_none() && piece.usage.is_none() {
            return;
        }
        self.script.change_served(place, |served| {
            if let Some(said) = piece.said {
                served.used.completion = served.used.completion.max(said);
                served.used.reasoning = total.reasoning.min(said);
            }
            if piece.usage.is_some() {
                served.reported.clone_from(&piece.usage);
            }
        });
    }

    /// A forever piece says one token each time.
    fn says_more(&self) {
        if let Some((place, _)) = self.entry {
            self.script
                .change_served(place, |served| served.used.completion += 1);
        }
    }

    fn end(&self, end: End) {
        let Some((place, total)) = self.entry else { return };
        self.script.change_served(place, |served| {
            served.end = end;
            if end == End::Complete {
                served.used = total;
            }
        });
    }
}

/// Writes the plan out, watching for the client to leave.
async fn perform(
    plan: &Plan,
    stream: &mut TcpStream,
    buffer: &mut BytesMut,
    books: &Books<'_>,
) -> Result<(), Stop> {
    let (mut reader, mut writer) = stream.split();
    let write = async {
        for (index, piece) in plan.pieces.iter().enumerate() {
            wait_for(piece).await;
            books.says(piece);
            if index + 1 == plan.pieces.len() && plan.forever.is_none() && plan.ending != Ending::Hang {
                books.end(if plan.cut { End::Cut } else { End::Complete });
            }
            write_piece(&mut writer, piece).await?;
        }
        while let Some(piece) = &plan.forever {
            wait_for(piece).await;
            books.says_more();
            write_piece(&mut writer, piece).await?;
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

async fn wait_for(piece: &Piece) {
    for gate in &piece.gates {
        gate.passed().await;
    }
    if !piece.wait.is_zero() {
        sleep(piece.wait).await;
    }
}

async fn write_piece(writer: &mut WriteHalf<'_>, piece: &Piece) -> Result<(), Stop> {
    writer
        .write_all(&piece.bytes)
        .await
        .map_err(|_| Stop::ClientGone)?;
    // Many ready writes in a row would starve the watch over the client and the other connections.
    tokio::task::yield_now().await;
    Ok(())
}

/// Returns when the client has closed its side. What it sends meanwhile is kept for the next request, or, at the end
/// of the connection, thrown away.
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
