//! One hop: resolves the host, checks its addresses, connects to one of them, sends a GET or POST,
//! and reads the response within its limits.

use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::{Either, select};
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, LOCATION,
    USER_AGENT,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri};
use http_body::Body;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};
use tollgate_upstream::{FetchError, Post};
use tower::{BoxError, Service};
use url::Host;

use super::address::{is_public, is_web_port, unwrapped};
use super::call::{EgressCall, Receive};
use super::target::Target;
use super::{EgressClient, unreachable};
use crate::http::RequestBody;

/// Body of a response, received in chunks.
pub(super) type IncomingBody = Incoming;

/// Maximum size of the buffered response headers, in bytes.
const READ_BUFFER: usize = 64 << 10;
/// Maximum number of a host's addresses to connect to.
const MAX_DIALLED: usize = 3;

/// Accepted media types of the response to a call: one message, or a stream of events.
const CALL_MEDIA_TYPES: &[&str] = &["application/json", "text/event-stream"];

/// Limits of one fetch.
pub(super) struct Limits {
    pub(super) max_bytes: u64,
    pub(super) deadline: Instant,
}

/// Response of one hop.
pub(super) enum Answer {
    Body(Received),
    /// Value of the `Location` header, verbatim.
    Redirect(String),
}

/// A body and its declared media type.
pub(super) struct Received {
    pub(super) bytes: Bytes,
    /// Media type in lower case, without parameters; empty if not declared.
    pub(super) declared: String,
}

/// Sends a GET and returns the body or the redirect.
pub(super) async fn get(
    client: &EgressClient,
    target: &Target,
    media_types: &[&'static str],
    limits: &Limits,
) -> Result<Answer, FetchError> {
    let request = request(target, media_types)?;
    let read = |response| read(client, response, limits);
    exchange(
        client,
        target,
        request,
        headers_deadline(client, limits.deadline),
        read,
    )
    .await
}

/// Posts to a URL and returns the status of the response. Does not read the body.
pub(super) async fn post(
    client: &EgressClient,
    target: &Target,
    post: &Post,
    deadline: Instant,
) -> Result<u16, FetchError> {
    let mut request = request(target, &[])?;
    *request.method_mut() = Method::POST;
    let headers = request.headers_mut();
    headers.remove(ACCEPT);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    for (name, value) in &post.headers {
        let value = HeaderValue::from_str(value).map_err(unreachable)?;
        headers.insert(HeaderName::from_static(name), value);
    }
    *request.body_mut() = post.body.clone().into();
    let status = |response: Response<Incoming>| async move { Ok(response.status().as_u16()) };
    exchange(
        client,
        target,
        request,
        headers_deadline(client, deadline),
        status,
    )
    .await
}

/// Posts JSON to a URL and passes the response to `receiver`.
pub(super) async fn call(
    client: &EgressClient,
    target: &Target,
    call: &EgressCall<'_>,
    receiver: &mut dyn Receive,
) -> Result<(), FetchError> {
    let mut request = request(target, CALL_MEDIA_TYPES)?;
    *request.method_mut() = Method::POST;
    let headers = request.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.extend(call.headers.clone());
    *request.body_mut() = call.body.clone().into();
    exchange(client, target, request, call.deadline, |response| {
        receive(response, call.max_bytes, receiver)
    })
    .await
}

/// Returns the deadline of the response headers of a hop.
pub(super) fn headers_deadline(client: &EgressClient, deadline: Instant) -> Instant {
    deadline.min(Instant::now() + client.settings.headers)
}

/// Sends one request on a new connection, and reads the response with `read`. `time_limit` is the
/// deadline of the response headers.
pub(super) async fn exchange<T, F: Future<Output = Result<T, FetchError>>>(
    client: &EgressClient,
    target: &Target,
    request: Request<RequestBody>,
    time_limit: Instant,
    read: impl FnOnce(Response<Incoming>) -> F,
) -> Result<T, FetchError> {
    let connected = timeout_at(time_limit, connect(client, target));
    let stream = connected.await.map_err(|_| FetchError::TooSlow)??;
    let handshake = http1::Builder::new()
        .max_buf_size(READ_BUFFER)
        .handshake::<_, RequestBody>(stream);
    let (mut sender, driver) = handshake.await.map_err(unreachable)?;
    let exchange = async {
        let answered = timeout_at(time_limit, sender.send_request(request)).await;
        let response = answered.map_err(|_| FetchError::TooSlow)?.map_err(unreachable)?;
        read(response).await
    };
    // Only this future drives the connection. The connection may end before the response body is
    // read, so this future never completes.
    let driven = async {
        let _ = driver.await;
        std::future::pending::<std::convert::Infallible>().await
    };
    match select(pin!(exchange), pin!(driven)).await {
        Either::Left((answer, _)) => answer,
        Either::Right((never, _)) => match never {},
    }
}

/// Creates a GET request that accepts these media types.
pub(super) fn request(
    target: &Target,
    media_types: &[&'static str],
) -> Result<Request<RequestBody>, FetchError> {
    let mut request = Request::new(RequestBody::default());
    *request.uri_mut() = target.path().parse().map_err(unreachable)?;
    let accept = HeaderValue::from_str(&media_types.join(", ")).map_err(unreachable)?;
    let host = HeaderValue::from_str(target.authority()).map_err(unreachable)?;
    let headers = request.headers_mut();
    headers.insert(HOST, host);
    headers.insert(ACCEPT, accept);
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    headers.insert(
        USER_AGENT,
        HeaderValue::from_static(concat!("tollgate/", env!("CARGO_PKG_VERSION"))),
    );
    Ok(request)
}

type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// Connects to one of the host's allowed addresses.
async fn connect(client: &EgressClient, target: &Target) -> Result<Stream, FetchError> {
    let vetted = vetted(client, target).await?;
    let tls = match target.is_secure() {
        true => Some(client.http.tls_config().map_err(unreachable)?),
        false => None,
    };
    // The connector uses only the host name of the URI, to verify the certificate.
    let uri: Uri = target.as_str().parse().map_err(unreachable)?;
    // Each connection attempt has a third of the timeout, so that all addresses can be tried.
    let time_limit = client.settings.headers / 3;
    let mut cause = FetchError::Unreachable;
    for address in vetted.into_iter().take(MAX_DIALLED) {
        let mut dial = Dial {
            address,
            is_allowed: is_allowed(client, address),
        };
        let connected = async {
            match &tls {
                Some(tls) => HttpsConnector::from((dial, tls.clone())).call(uri.clone()).await,
                None => dial.call(uri.clone()).await.map(MaybeHttpsStream::Http),
            }
        };
        match timeout(time_limit, connected).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => cause = unreachable(error),
            Err(_) => cause = unreachable("the connection timed out"),
        }
    }
    Err(cause)
}

/// Whether the gateway may connect to the target, as far as its port and IP address show. Makes no
/// DNS lookup.
pub(super) fn may_be_dialled(client: &EgressClient, target: &Target) -> bool {
    let port = target.port();
    let literal = match target.host() {
        Host::Ipv4(address) => IpAddr::V4(address),
        Host::Ipv6(address) => IpAddr::V6(address),
        Host::Domain(_) => return is_known_port(client, port),
    };
    is_dialable(client, SocketAddr::new(unwrapped(literal), port))
}

fn is_known_port(client: &EgressClient, port: u16) -> bool {
    is_web_port(port) || client.settings.allow.iter().any(|rule| rule.has_port(port))
}

fn is_dialable(client: &EgressClient, address: SocketAddr) -> bool {
    (is_web_port(address.port()) && is_public(address.ip())) || is_allowed(client, address)
}

/// Returns the host's addresses that the gateway may connect to; at least one.
async fn vetted(client: &EgressClient, target: &Target) -> Result<Vec<SocketAddr>, FetchError> {
    let port = target.port();
    if !is_known_port(client, port) {
        return Err(FetchError::NotAnAddress);
    }
    let found = match target.host() {
        Host::Ipv4(address) => vec![IpAddr::V4(address)],
        Host::Ipv6(address) => vec![IpAddr::V6(address)],
        Host::Domain(name) => client.resolver.resolve(name).await.map_err(unreachable)?,
    };
    let fit: Vec<SocketAddr> = found
        .into_iter()
        .map(|address| SocketAddr::new(unwrapped(address), port))
        .filter(|address| is_dialable(client, *address))
        .collect();
    if fit.is_empty() {
        return Err(unreachable(format_args!(
            "no address of {} is allowed",
            target.authority()
        )));
    }
    Ok(fit)
}

fn is_allowed(client: &EgressClient, address: SocketAddr) -> bool {
    client.settings.allow.iter().any(|rule| rule.covers(address))
}

/// Connects to one address and ignores the host of the URI.
#[derive(Clone, Copy)]
struct Dial {
    address: SocketAddr,
    is_allowed: bool,
}

impl Service<Uri> for Dial {
    type Response = TokioIo<TcpStream>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Uri) -> Self::Future {
        let Dial { address, is_allowed } = *self;
        Box::pin(async move {
            let own = || BoxError::from("the address belongs to this machine");
            if !is_allowed && is_own_address(address) {
                return Err(own());
            }
            let stream = TcpStream::connect(address).await?;
            if !is_allowed && is_this_machine(&stream)? {
                return Err(own());
            }
            Ok(TokioIo::new(stream))
        })
    }
}

/// Whether the address belongs to this machine: a UDP socket connected to it has the same address
/// as its source. Sends no packet.
pub(super) fn is_own_address(address: SocketAddr) -> bool {
    let unspecified: IpAddr = match address {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let source = || {
        let socket = UdpSocket::bind((unspecified, 0))?;
        socket.connect(address)?;
        socket.local_addr()
    };
    // An address without a route is unreachable anyway.
    source().is_ok_and(|source| source.ip() == address.ip())
}

/// Whether both ends have the same address: the gateway would be connected to its own machine,
/// possibly through a public address that no table contains.
fn is_this_machine(stream: &TcpStream) -> std::io::Result<bool> {
    Ok(stream.local_addr()?.ip() == stream.peer_addr()?.ip())
}

/// Reads the response: a body, a redirect or an error.
async fn read(
    client: &EgressClient,
    response: Response<Incoming>,
    limits: &Limits,
) -> Result<Answer, FetchError> {
    let (head, body) = response.into_parts();
    match head.status.as_u16() {
        200 => {}
        301 | 302 | 303 | 307 | 308 => {
            let location =
                text(&head.headers, &LOCATION).ok_or_else(|| unreachable("the redirect has no location"))?;
            return Ok(Answer::Redirect(location.to_owned()));
        }
        status => return Err(unreachable(format_args!("the endpoint returned {status}"))),
    }
    check_encoding(&head.headers)?;
    let announced = text(&head.headers, &CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
    if announced.is_some_and(|length| length > limits.max_bytes) {
        return Err(FetchError::TooLarge);
    }
    let declared = text(&head.headers, &CONTENT_TYPE).unwrap_or_default();
    let declared = declared.split(';').next().unwrap_or_default().trim();
    Ok(Answer::Body(Received {
        declared: declared.to_ascii_lowercase(),
        bytes: body_within(client, body, limits).await?,
    }))
}

/// Passes the response to `receiver`, with any status.
async fn receive(
    response: Response<Incoming>,
    max_bytes: u64,
    receiver: &mut dyn Receive,
) -> Result<(), FetchError> {
    let (head, mut body) = response.into_parts();
    check_encoding(&head.headers)?;
    receiver.head(head.status.as_u16(), &head.headers);
    let mut received = 0;
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        // Trailers are ignored.
        let Ok(chunk) = frame.map_err(unreachable)?.into_data() else {
            continue;
        };
        received += chunk.len() as u64;
        if received > max_bytes {
            return Err(FetchError::TooLarge);
        }
        if receiver.chunk(chunk).is_break() {
            break;
        }
    }
    Ok(())
}

/// Returns an error if the body is compressed.
fn check_encoding(headers: &HeaderMap) -> Result<(), FetchError> {
    let packed = headers.get_all(CONTENT_ENCODING).iter();
    match packed
        .into_iter()
        .any(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        false => Ok(()),
        true => Err(unreachable(
            "the response is compressed, but the request did not accept compression",
        )),
    }
}

pub(super) fn text<'h>(headers: &'h HeaderMap, name: &http::HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// Minimum speed of a body.
struct Pace {
    /// End of the grace period, which starts with the body.
    grace_ends_at: Instant,
    min_bytes_per_second: u64,
}

impl Pace {
    /// Returns the deadline of the next byte after `received` bytes.
    fn deadline_after(&self, received: u64) -> Instant {
        self.grace_ends_at + Duration::from_millis(received.saturating_mul(1_000) / self.min_bytes_per_second)
    }
}

/// Reads a whole body. Allocates memory only for received bytes, not for the announced length.
pub(super) async fn body_within(
    client: &EgressClient,
    mut body: Incoming,
    limits: &Limits,
) -> Result<Bytes, FetchError> {
    let pace = Pace {
        grace_ends_at: Instant::now() + client.settings.grace,
        min_bytes_per_second: u64::from(client.settings.min_bytes_per_second.max(1)),
    };
    let mut all = BytesMut::new();
    loop {
        let received = all.len() as u64;
        let time_limit = pace.deadline_after(received).min(limits.deadline);
        let next = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx));
        let frame = match timeout_at(time_limit, next).await {
            Err(_) => return Err(FetchError::TooSlow),
            Ok(None) => return Ok(all.freeze()),
            Ok(Some(frame)) => frame.map_err(unreachable)?,
        };
        // Trailers are ignored.
        let Ok(data) = frame.into_data() else { continue };
        if received + data.len() as u64 > limits.max_bytes {
            return Err(FetchError::TooLarge);
        }
        all.extend_from_slice(&data);
    }
}
