//! Connections without TLS, driven by the call that uses them.
//!
//! hyper normally drives each connection in a separate task. A call would wake that task to send,
//! and the task would wake the call for the response and for each chunk of a stream. Here, the call
//! polls its connection directly, and idle connections are not polled. If the server has closed an
//! idle connection, the gateway detects this when it reuses the connection, before it sends the
//! request. If the server closes the connection at that moment, the request receives no response.
//! If the request may be repeated, the gateway then sends it once more on a new connection. Servers
//! may close a connection without notice after a server error, so the gateway does not reuse a
//! connection after a response with a 5xx status.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, Uri};
use http_body::{Body, Frame};
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1};
use hyper::rt::Executor as _;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use thread_local::ThreadLocal;
use tokio::net::TcpStream;
use tokio::time::Instant;
use tollgate_upstream::UpstreamError;
use tower::Service;

use super::request::RequestBody;
use super::{HttpSettings, READ_BUFFER, connect, failure};

/// Unused connections to one path of a provider. Each thread has its own connections: every worker
/// thread has its own runtime, and a connection belongs to the runtime that created it. In a
/// multi-threaded runtime, the only effect is additional connections.
#[derive(Default)]
pub(super) struct Pool {
    by_thread: ThreadLocal<Arc<IdleConnections>>,
}

/// Unused connections of one thread, the most recently used last.
#[derive(Default)]
struct IdleConnections(Mutex<Unused>);

#[derive(Default)]
struct Unused {
    connections: Vec<(Box<Connection>, Instant)>,
    /// Whether a task is waiting to close expired connections.
    is_watched: bool,
}

/// A connection and its request sender. It is boxed, because it is large and moved often.
struct Connection {
    sender: http1::SendRequest<RequestBody>,
    /// Driver of the connection; `None` after the connection has ended.
    driver: Option<http1::Connection<TokioIo<TcpStream>, RequestBody>>,
}

/// Body of a response, with its connection.
pub(super) struct PlainBody {
    body: Incoming,
    /// Connection of the body; `None` after the body was read completely.
    connection: Option<Box<Connection>>,
    /// Whether the connection may be used again.
    is_reusable: bool,
    idle_connections: Arc<IdleConnections>,
    max_idle: usize,
    idle: Duration,
}

impl Pool {
    /// Sends a request. Returns as soon as the response headers arrive.
    pub(super) async fn send(
        &self,
        uri: &Uri,
        mut request: Request<RequestBody>,
        resend: bool,
        settings: &HttpSettings,
    ) -> Result<Response<PlainBody>, UpstreamError> {
        let idle_connections = self.by_thread.get_or_default().clone();
        let mut is_resent = false;
        loop {
            let unused = if is_resent {
                None
            } else {
                idle_connections.take(settings.pool_idle)
            };
            let (mut connection, is_used) = match unused {
                Some(connection) => (connection, true),
                None => (Connection::open(uri, settings).await?, false),
            };
            let copy = (resend && is_used).then(|| copied(&request));
            let mut failed: TrySendError<_> = match connection.exchange(request).await {
                Ok(response) => {
                    let is_reusable = !response.status().is_server_error();
                    return Ok(response.map(|body| PlainBody {
                        body,
                        is_reusable,
                        connection: Some(connection),
                        idle_connections,
                        max_idle: settings.pool_max_idle,
                        idle: settings.pool_idle,
                    }));
                }
                Err(failed) => failed,
            };
            match failed.take_message() {
                // The server closed the connection while it was idle. No part of the request was
                // sent.
                Some(unsent) if is_used => request = unsent,
                unsent => match copy {
                    Some(copy) if unsent.is_none() && failure::is_hang_up(failed.error()) => {
                        request = copy;
                        is_resent = true;
                    }
                    _ => return Err(failure::exchange_error(&failed.into_error(), unsent.is_none())),
                },
            }
        }
    }
}

/// Copies the request. The copies share the chunks of the body.
fn copied(request: &Request<RequestBody>) -> Request<RequestBody> {
    let mut copy = Request::new(request.body().clone());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    copy
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

impl IdleConnections {
    fn unused(&self) -> std::sync::MutexGuard<'_, Unused> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, idle: Duration) -> Option<Box<Connection>> {
        let mut unused = self.unused();
        let (connection, since) = unused.connections.pop()?;
        if since.elapsed() < idle {
            return Some(connection);
        }
        // The connections below this one in the stack have been idle even longer.
        unused.connections.clear();
        None
    }

    fn put(self: &Arc<Self>, connection: Box<Connection>, max_idle: usize, idle: Duration) {
        let mut unused = self.unused();
        if unused.connections.len() >= max_idle {
            return;
        }
        unused.connections.push((connection, Instant::now()));
        if !std::mem::replace(&mut unused.is_watched, true) {
            TokioExecutor::new().execute(watch(Arc::downgrade(self), idle));
        }
    }

    /// Closes connections that have been idle for this long. Returns whether any connections are
    /// left.
    fn close_expired(&self, idle: Duration) -> bool {
        let mut unused = self.unused();
        let old = unused
            .connections
            .partition_point(|(_, since)| since.elapsed() >= idle);
        unused.connections.drain(..old);
        unused.is_watched = !unused.connections.is_empty();
        unused.is_watched
    }
}

/// Closes expired connections once per `idle` interval. Returns when no idle connection is left or
/// the pool was dropped.
async fn watch(idle_connections: Weak<IdleConnections>, idle: Duration) {
    loop {
        tokio::time::sleep(idle).await;
        let left = idle_connections
            .upgrade()
            .is_some_and(|idle_connections| idle_connections.close_expired(idle));
        if !left {
            return;
        }
    }
}

impl Connection {
    async fn open(uri: &Uri, settings: &HttpSettings) -> Result<Box<Connection>, UpstreamError> {
        let mut connector: HttpConnector = connect::tcp(settings);
        let socket = connector.call(uri.clone()).await;
        let socket = socket.map_err(|error| UpstreamError::connect(failure::chain(&error)))?;
        let handshake = http1::Builder::new()
            .max_buf_size(READ_BUFFER)
            .handshake(socket)
            .await;
        let (sender, driver) = handshake.map_err(|error| UpstreamError::connect(failure::chain(&error)))?;
        Ok(Box::new(Connection {
            sender,
            driver: Some(driver),
        }))
    }

    /// Sends a request and waits for the response headers.
    async fn exchange(
        &mut self,
        request: Request<RequestBody>,
    ) -> Result<Response<Incoming>, TrySendError<Request<RequestBody>>> {
        let Connection { sender, driver } = self;
        let mut answer = pin!(sender.try_send_request(request));
        poll_fn(|cx| {
            drive(driver, cx);
            answer.as_mut().poll(cx)
        })
        .await
    }

    /// Whether the connection can accept another request.
    fn is_free(&mut self, cx: &mut Context<'_>) -> bool {
        drive(&mut self.driver, cx);
        self.driver.is_some() && self.sender.is_ready()
    }
}

type Driver = http1::Connection<TokioIo<TcpStream>, RequestBody>;

/// Polls the connection once. Errors of the connection are reported by the pending response.
fn drive(driver: &mut Option<Driver>, cx: &mut Context<'_>) {
    if let Some(running) = driver
        && Pin::new(running).poll(cx).is_ready()
    {
        *driver = None;
    }
}

impl PlainBody {
    fn end(&mut self, cx: &mut Context<'_>) {
        if let Some(mut connection) = self.connection.take()
            && self.is_reusable
            && connection.is_free(cx)
        {
            self.idle_connections.put(connection, self.max_idle, self.idle);
        }
    }
}

impl Body for PlainBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = &mut *self;
        let mut polled = Pin::new(&mut this.body).poll_frame(cx);
        if polled.is_pending()
            && let Some(connection) = &mut this.connection
        {
            drive(&mut connection.driver, cx);
            polled = Pin::new(&mut this.body).poll_frame(cx);
        }
        match &polled {
            Poll::Ready(Some(Ok(_))) if this.body.is_end_stream() => this.end(cx),
            Poll::Ready(None) => this.end(cx),
            _ => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

impl fmt::Debug for PlainBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlainBody").finish_non_exhaustive()
    }
}
