//! One hop: the host's addresses vetted, one of them dialled, one GET, and the answer read within its bounds.

use std::net::{IpAddr, SocketAddr};
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
use super::target::Target;
use super::{EgressClient, unreachable};
use crate::http::RequestBody;

/// The most that is kept of an answer's unread head.
const READ_BUFFER: usize = 64 << 10;
/// How many of a host's addresses are tried.
const MOST_DIALLED: usize = 3;

/// Bounds of one fetch.
pub(super) struct Limits {
    pub(super) most_bytes: u64,
    pub(super) deadline: Instant,
}

/// What a hop leads to.
pub(super) enum Answer {
    Body(Received),
    /// The address, as it stands in the header.
    Redirect(String),
}

/// A body, and what its sender says it is.
pub(super) struct Received {
    pub(super) bytes: Bytes,
    /// In lower case, without parameters; empty when nothing is said.
    pub(super) declared: String,
}

/// Asks for what is at an address.
pub(super) async fn get(
    client: &EgressClient,
    target: &Target,
    media_types: &[&'static str],
    limits: &Limits,
) -> Result<Answer, FetchError> {
    let request = request(target, media_types)?;
    let read = |response| read(client, response, limits);
    exchange(client, target, request, limits.deadline, read).await
}

/// Posts to an address; the status of the answer, whose body is not read.
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
    exchange(client, target, request, deadline, status).await
}

/// One request on a connection of its own, and what is read of its answer.
async fn exchange<T, F: Future<Output = Result<T, FetchError>>>(
    client: &EgressClient,
    target: &Target,
    request: Request<RequestBody>,
    deadline: Instant,
    read: impl FnOnce(Response<Incoming>) -> F,
) -> Result<T, FetchError> {
    let headers_by = Instant::now() + client.settings.headers;
    let patience = headers_by.min(deadline);
    let connected = timeout_at(patience, connect(client, target));
    let stream = connected.await.map_err(|_| FetchError::TooSlow)??;
    let shaken = http1::Builder::new()
        .max_buf_size(READ_BUFFER)
        .handshake::<_, RequestBody>(stream);
    let (mut sender, driver) = shaken.await.map_err(unreachable)?;
    let exchange = async {
        let answered = timeout_at(patience, sender.send_request(request)).await;
        let response = answered.map_err(|_| FetchError::TooSlow)?.map_err(unreachable)?;
        read(response).await
    };
    // The connection is driven here and by nobody else. It may end before the body was taken out of it.
    let driven = async {
        let _ = driver.await;
        std::future::pending::<std::convert::Infallible>().await
    };
    match select(pin!(exchange), pin!(driven)).await {
        Either::Left((answer, _)) => answer,
        Either::Right((never, _)) => match never {},
    }
}

fn request(target: &Target, media_types: &[&'static str]) -> Result<Request<RequestBody>, FetchError> {
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

/// A connection to one of the host's addresses that may be dialled.
async fn connect(client: &EgressClient, target: &Target) -> Result<Stream, FetchError> {
    let vetted = vetted(client, target).await?;
    let tls = match target.is_secure() {
        true => Some(client.http.tls_config().map_err(unreachable)?),
        false => None,
    };
    // Only the name in it is used, for the certificate.
    let uri: Uri = target.as_str().parse().map_err(unreachable)?;
    // So that a second address still has its turn.
    let patience = client.settings.headers / 3;
    let mut cause = FetchError::Unreachable;
    for address in vetted.into_iter().take(MOST_DIALLED) {
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
        match timeout(patience, connected).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => cause = unreachable(error),
            Err(_) => cause = unreachable("no connection in time"),
        }
    }
    Err(cause)
}

/// Whether something may be dialled, as far as that is known before a name is looked up.
pub(super) fn may_be_dialled(client: &EgressClient, target: &Target) -> bool {
    let port = target.port();
    let literal = match target.host() {
        Host::Ipv4(address) => IpAddr::V4(address),
        Host::Ipv6(address) => IpAddr::V6(address),
        Host::Domain(_) => return is_known_port(client, port),
    };
    is_fit(client, SocketAddr::new(unwrapped(literal), port))
}

fn is_known_port(client: &EgressClient, port: u16) -> bool {
    is_web_port(port) || client.settings.allow.iter().any(|rule| rule.has_port(port))
}

fn is_fit(client: &EgressClient, address: SocketAddr) -> bool {
    (is_web_port(address.port()) && is_public(address.ip())) || is_allowed(client, address)
}

/// The host's addresses that may be dialled; at least one.
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
        .filter(|address| is_fit(client, *address))
        .collect();
    if fit.is_empty() {
        return Err(unreachable(format_args!(
            "no address of {} may be dialled",
            target.authority()
        )));
    }
    Ok(fit)
}

fn is_allowed(client: &EgressClient, address: SocketAddr) -> bool {
    client.settings.allow.iter().any(|rule| rule.covers(address))
}

/// Dials one address, whatever the URI says.
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
            let stream = TcpStream::connect(address).await?;
            if !is_allowed && is_this_machine(&stream)? {
                return Err("it is an address of this machine".into());
            }
            Ok(TokioIo::new(stream))
        })
    }
}

/// Whether both ends have one address: then the gateway would talk to itself or to a neighbour on its own machine, also
/// at a public address, which no table can know.
fn is_this_machine(stream: &TcpStream) -> std::io::Result<bool> {
    Ok(stream.local_addr()?.ip() == stream.peer_addr()?.ip())
}

/// Reads the answer.
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
                text(&head.headers, &LOCATION).ok_or_else(|| unreachable("a redirect to nowhere"))?;
            return Ok(Answer::Redirect(location.to_owned()));
        }
        status => return Err(unreachable(format_args!("the answer is {status}"))),
    }
    let packed = head.headers.get_all(CONTENT_ENCODING).iter();
    if packed
        .into_iter()
        .any(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        return Err(unreachable(
            "the answer is compressed, although that was not asked for",
        ));
    }
    let announced = text(&head.headers, &CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
    if announced.is_some_and(|length| length > limits.most_bytes) {
        return Err(FetchError::TooLarge);
    }
    let declared = text(&head.headers, &CONTENT_TYPE).unwrap_or_default();
    let declared = declared.split(';').next().unwrap_or_default().trim();
    let pace = Pace {
        begun: Instant::now() + client.settings.grace,
        least_per_second: u64::from(client.settings.least_per_second.max(1)),
    };
    Ok(Answer::Body(Received {
        declared: declared.to_ascii_lowercase(),
        bytes: body_within(body, limits, &pace).await?,
    }))
}

fn text<'h>(headers: &'h HeaderMap, name: &http::HeaderName) -> Option<&'h str> {
    headers.get(name)?.to_str().ok()
}

/// How fast a body must come.
struct Pace {
    /// When it is first asked for; the grace is over then.
    begun: Instant,
    least_per_second: u64,
}

impl Pace {
    /// When the next byte must be there, after so many.
    fn next_by(&self, received: u64) -> Instant {
        self.begun + Duration::from_millis(received.saturating_mul(1_000) / self.least_per_second)
    }
}

/// All of a body. Nothing is set apart for it by what its sender announces.
async fn body_within(mut body: Incoming, limits: &Limits, pace: &Pace) -> Result<Bytes, FetchError> {
    let mut all = BytesMut::new();
    loop {
        let received = all.len() as u64;
        let patience = pace.next_by(received).min(limits.deadline);
        let next = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx));
        let frame = match timeout_at(patience, next).await {
            Err(_) => return Err(FetchError::TooSlow),
            Ok(None) => return Ok(all.freeze()),
            Ok(Some(frame)) => frame.map_err(unreachable)?,
        };
        // Trailers say nothing here.
        let Ok(data) = frame.into_data() else { continue };
        if received + data.len() as u64 > limits.most_bytes {
            return Err(FetchError::TooLarge);
        }
        all.extend_from_slice(&data);
    }
}
