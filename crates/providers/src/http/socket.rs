//! WebSocket clients. Pings are answered while the caller receives.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Sink, Stream};
use http::header::{
    CONNECTION, HOST, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::uri::Scheme;
use http::{HeaderValue, Request, StatusCode, Uri};
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_rustls::{HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{self, Message};
use tollgate_upstream::UpstreamError;
use tower::Service;

use super::body::{AnyBody, BodyChunks};
use super::request::RequestBody;
use super::{Endpoint, HttpClient, READ_BUFFER, Response, Timeouts, Variant, connect, failure};
use crate::refusal;

/// Maximum size of a message, in bytes. Servers also send image previews.
const MAX_MESSAGE_BYTES: usize = 16 << 20;

type SocketStream = WebSocketStream<TokioIo<Upgraded>>;

/// An open WebSocket. Dropping the value closes the connection.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: SocketStream,
    /// Messages that are not written yet.
    outbox: VecDeque<Message>,
}

impl HttpClient {
    /// Opens a WebSocket at the variant's URL, with the headers of the endpoint and of the variant.
    /// `timeouts.headers` limits the wait for the response of the handshake. A refused handshake
    /// has the error of its status and body.
    pub(crate) async fn open_socket(
        &self,
        endpoint: &Endpoint,
        variant: Variant,
        timeouts: Timeouts,
    ) -> Result<Socket, UpstreamError> {
        let (request, key) =
            request(endpoint, &variant).map_err(|error| UpstreamError::connect(error.to_string()))?;
        let stream = self.connect_socket(variant.uri).await?;
        let handshake = http1::Builder::new().max_buf_size(READ_BUFFER).handshake(stream);
        let (mut sender, connection) = handshake
            .await
            .map_err(|error| UpstreamError::connect(failure::chain(&error)))?;
        let mut driver = Some(connection.with_upgrades());
        let answered = driven(&mut driver, sender.try_send_request(request));
        let answered = tokio::time::timeout(timeouts.headers, answered)
            .await
            .map_err(|_| UpstreamError::timeout("timed out waiting for the response headers"))?;
        let mut response = answered.map_err(|mut failed| {
            let was_sent = failed.take_message().is_none();
            failure::exchange_error(&failed.into_error(), was_sent)
        })?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let (head, body) = response.into_parts();
            let refused = Response {
                status: head.status.as_u16(),
                headers: head.headers,
                error_texts: endpoint.error_texts.clone(),
                chunks: BodyChunks::new(AnyBody::Tls(body), timeouts.idle),
            };
            return Err(driven(&mut driver, refusal::from_response(refused, self.settings())).await);
        }
        let accepted = response.headers().get(SEC_WEBSOCKET_ACCEPT);
        if accepted.is_none_or(|accepted| accepted.as_bytes() != derive_accept_key(key.as_bytes()).as_bytes())
        {
            return Err(UpstreamError::protocol(
                "the WebSocket handshake has a wrong answer",
            ));
        }
        let upgraded = driven(&mut driver, hyper::upgrade::on(&mut response)).await;
        let upgraded = upgraded.map_err(|error| UpstreamError::protocol(failure::chain(&error)))?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE_BYTES))
            .max_frame_size(Some(MAX_MESSAGE_BYTES));
        let upgraded = TokioIo::new(upgraded);
        Ok(Socket {
            stream: WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config)).await,
            outbox: VecDeque::new(),
        })
    }

    /// Connects, with TLS for `https`. No byte of the handshake is sent, so every error permits a
    /// retry.
    async fn connect_socket(&self, uri: Uri) -> Result<MaybeHttpsStream<TokioIo<TcpStream>>, UpstreamError> {
        let unsent = |error: &dyn std::fmt::Display| UpstreamError::connect(error.to_string());
        let mut tcp = connect::tcp(&self.settings);
        if uri.scheme() != Some(&Scheme::HTTPS) {
            let connected = tcp.call(uri).await;
            return connected
                .map(MaybeHttpsStream::Http)
                .map_err(|error| UpstreamError::connect(failure::chain(&error)));
        }
        let config = self.roots.config().map_err(|error| unsent(&error))?;
        let connector = HttpsConnectorBuilder::new().with_tls_config(ClientConfig::clone(&config));
        let mut connector = connector.https_only().enable_http1().wrap_connector(tcp);
        let connected = tokio::time::timeout(self.settings.tls_timeout, connector.call(uri));
        match connected.await {
            Ok(stream) => stream.map_err(|error| unsent(&error)),
            Err(_) => Err(unsent(&"the connection or its TLS handshake timed out")),
        }
    }
}

/// Polls the connection while the future waits. Errors of the connection are reported by the
/// future.
async fn driven<C: Future + Unpin, F: Future>(driver: &mut Option<C>, future: F) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|cx| {
        if let Some(running) = driver
            && Pin::new(running).poll(cx).is_ready()
        {
            *driver = None;
        }
        future.as_mut().poll(cx)
    })
    .await
}

impl Socket {
    /// Adds a text message to those that [`flush`](Self::flush) and [`receive`](Self::receive)
    /// write.
    pub(crate) fn queue(&mut self, text: String) {
        self.outbox.push_back(Message::text(text));
    }

    /// Writes all queued messages, within `timeout`. Cancel-safe: a message that is not written
    /// yet remains queued.
    pub(crate) async fn flush(&mut self, timeout: Duration) -> Result<(), UpstreamError> {
        let written = poll_fn(|cx| self.poll_flush(cx));
        match tokio::time::timeout(timeout, written).await {
            Ok(written) => written.map_err(broken),
            Err(_) => Err(UpstreamError::timeout("timed out writing to the WebSocket")),
        }
    }

    /// Returns the next text message, and writes queued messages meanwhile. The end of the
    /// connection is an error. Cancel-safe.
    pub(crate) async fn receive(&mut self) -> Result<String, UpstreamError> {
        poll_fn(|cx| self.poll_receive(cx)).await
    }

    /// Returns the next text or binary message; otherwise like [`receive`](Self::receive).
    pub(crate) async fn receive_bytes(&mut self) -> Result<Bytes, UpstreamError> {
        poll_fn(|cx| self.poll_message(cx)).await.map(Message::into_data)
    }

    /// Returns the next text message; `None` after the end or an error.
    pub(crate) async fn next(&mut self) -> Option<String> {
        self.receive().await.ok()
    }

    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<String, UpstreamError>> {
        loop {
            if let Message::Text(text) = ready!(self.poll_message(cx))? {
                return Poll::Ready(Ok(text.as_str().to_owned()));
            }
        }
    }

    /// Returns the next text or binary message.
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<Message, UpstreamError>> {
        // An error of writing is also an error of reading, after the messages that have arrived.
        let _ = self.poll_flush(cx);
        loop {
            match ready!(Pin::new(&mut self.stream).poll_next(cx)) {
                Some(Ok(message @ (Message::Text(_) | Message::Binary(_)))) => {
                    return Poll::Ready(Ok(message));
                }
                Some(Ok(Message::Close(frame))) => return Poll::Ready(Err(closed(frame.as_ref()))),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Poll::Ready(Err(broken(error))),
                None => return Poll::Ready(Err(closed(None))),
            }
        }
    }

    fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), tungstenite::Error>> {
        let mut stream = Pin::new(&mut self.stream);
        while !self.outbox.is_empty() {
            ready!(stream.as_mut().poll_ready(cx))?;
            if let Some(message) = self.outbox.pop_front() {
                stream.as_mut().start_send(message)?;
            }
        }
        stream.poll_flush(cx)
    }
}

/// Returns the error of a connection that the server has closed. The reason is included if it is a
/// machine-readable word.
fn closed(frame: Option<&CloseFrame>) -> UpstreamError {
    let code = frame.map_or("without a code".to_owned(), |frame| {
        let reason = refusal::word(&frame.reason).unwrap_or_default();
        format!("with the code {} {reason}", u16::from(frame.code))
    });
    UpstreamError::protocol(format!("the upstream closed the WebSocket {}", code.trim_end()))
}

fn broken(error: tungstenite::Error) -> UpstreamError {
    UpstreamError::protocol(failure::chain(&error))
}

/// Builds the handshake request, with the headers of the endpoint and of the variant. Returns it
/// with its key.
fn request(endpoint: &Endpoint, variant: &Variant) -> Result<(Request<RequestBody>, String), http::Error> {
    let authority = variant.uri.authority();
    let host = HeaderValue::from_str(authority.map_or("", |authority| authority.as_str()))?;
    let key = generate_key();
    let mut request = Request::new(RequestBody::from(Bytes::new()));
    *request.headers_mut() = endpoint.headers.clone();
    let headers = request.headers_mut();
    headers.extend(variant.headers.clone());
    headers.insert(HOST, host);
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    headers.insert(SEC_WEBSOCKET_KEY, HeaderValue::from_str(&key)?);
    *request.uri_mut() = variant.path.clone();
    Ok((request, key))
}
