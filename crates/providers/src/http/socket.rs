//! WebSocket clients for providers' progress messages. They skip messages that are not text.

use futures_util::StreamExt;
use http::header::{CONNECTION, HOST, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE};
use http::{HeaderValue, Request, Uri};
use hyper_rustls::{HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use tollgate_upstream::UpstreamError;
use tower::Service;

use super::{Endpoint, HttpClient, Variant, connect};

/// Maximum size of a message, in bytes. Servers also send image previews.
const MAX_MESSAGE_BYTES: usize = 16 << 20;

type Stream = WebSocketStream<TokioIo<MaybeHttpsStream<TokioIo<TcpStream>>>>;

/// An open WebSocket. Dropping the value closes the connection.
#[derive(Debug)]
pub(crate) struct Socket(Stream);

impl HttpClient {
    /// Opens a WebSocket at the variant's URL, with the headers of the endpoint and of the variant.
    /// The caller must set a timeout.
    pub(crate) async fn open_socket(
        &self,
        endpoint: &Endpoint,
        variant: Variant,
    ) -> Result<Socket, UpstreamError> {
        let unsent = |error: &dyn std::fmt::Display| UpstreamError::connect(error.to_string());
        let config = self.roots.config().map_err(|error| unsent(&error))?;
        let connector = HttpsConnectorBuilder::new().with_tls_config(ClientConfig::clone(&config));
        let connector = connector.https_or_http().enable_http1();
        let mut connector = connector.wrap_connector(connect::tcp(&self.settings));
        let request = request(endpoint, &variant).map_err(|error| unsent(&error))?;
        let stream = connector
            .call(variant.uri)
            .await
            .map_err(|error| unsent(&error))?;
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE_BYTES))
            .max_frame_size(Some(MAX_MESSAGE_BYTES));
        let opened = client_async_with_config(request, TokioIo::new(stream), Some(config)).await;
        let (stream, _) = opened.map_err(|error| UpstreamError::protocol(error.to_string()))?;
        Ok(Socket(stream))
    }
}

impl Socket {
    /// Returns the next text message; `None` after the end or an error.
    pub(crate) async fn next(&mut self) -> Option<String> {
        loop {
            match self.0.next().await?.ok()? {
                Message::Text(text) => return Some(text.to_string()),
                Message::Close(_) => return None,
                _ => {}
            }
        }
    }
}

/// Builds the handshake request, with the headers of the endpoint and of the variant.
fn request(endpoint: &Endpoint, variant: &Variant) -> Result<Request<()>, http::Error> {
    let mut parts = variant.uri.clone().into_parts();
    let scheme = if endpoint.secure { "wss" } else { "ws" };
    parts.scheme = Some(scheme.parse()?);
    let host = parts
        .authority
        .as_ref()
        .map_or("", |authority| authority.as_str());
    let host = HeaderValue::from_str(host)?;
    let mut request = Request::new(());
    *request.headers_mut() = endpoint.headers.clone();
    let headers = request.headers_mut();
    headers.extend(variant.headers.clone());
    headers.insert(HOST, host);
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    headers.insert(SEC_WEBSOCKET_KEY, HeaderValue::from_str(&generate_key())?);
    *request.uri_mut() = Uri::from_parts(parts)?;
    Ok(request)
}
