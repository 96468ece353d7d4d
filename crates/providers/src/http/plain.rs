//! Connections without TLS, each driven by the call that uses it.
//!
//! The HTTP library would have every connection driven by a task of its own. A call would then wake that task to send,
//! and be woken by it for the answer and for each piece of a stream. Here a call polls its connection itself, and
//! nobody polls one that lies idle: that its server has closed it shows when it is taken again, before the request is
//! on its way.

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

/// Unused connections to one path of a provider. Each thread has its own: a worker of the server is a thread with a
/// runtime of its own, and a connection belongs to the runtime that it was made on. Under a runtime of several threads
/// this costs a few more connections and nothing else.
#[derive(Default)]
pub(super) struct Pool {
    shelves: ThreadLocal<Arc<Shelf>>,
}

/// The unused connections of one thread, the one that was used last on top.
#[derive(Default)]
struct Shelf(Mutex<Unused>);

#[derive(Default)]
struct Unused {
    connections: Vec<(Box<Connection>, Instant)>,
    /// Whether a task waits to close those that are not used for too long.
    is_watched: bool,
}

/// A connection and the half of it that takes requests. It is large and handed around, and so is always boxed.
struct Connection {
    sender: http1::SendRequest<RequestBody>,
    /// `None` once it has ended.
    driver: Option<http1::Connection<TokioIo<TcpStream>, RequestBody>>,
}

/// The body of an answer, with the connection that it comes over.
pub(super) struct PlainBody {
    body: Incoming,
    /// `None` once the body was read to its end.
    connection: Option<Box<Connection>>,
    shelf: Arc<Shelf>,
    most: usize,
    idle: Duration,
}

impl Pool {
    /// Sends a request and answers when the response headers are there.
    pub(super) async fn send(
        &self,
        uri: &Uri,
        mut request: Request<RequestBody>,
        settings: &HttpSettings,
    ) -> Result<Response<PlainBody>, UpstreamError> {
        let shelf = self.shelves.get_or_default().clone();
        loop {
            let (mut connection, is_used) = match shelf.take(settings.pool_idle) {
                Some(connection) => (connection, true),
                None => (Connection::open(uri, settings).await?, false),
            };
            let mut failed: TrySendError<_> = match connection.exchange(request).await {
                Ok(response) => {
                    return Ok(response.map(|body| PlainBody {
                        body,
                        connection: Some(connection),
                        shelf,
                        most: settings.pool_most_idle,
                        idle: settings.pool_idle,
                    }));
                }
                Err(failed) => failed,
            };
            match failed.take_message() {
                // Its server had closed it while nobody looked; nothing of the request was sent.
                Some(unsent) if is_used => request = unsent,
                unsent => return Err(failure::of_exchange(&failed.into_error(), unsent.is_none())),
            }
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

impl Shelf {
    fn unused(&self) -> std::sync::MutexGuard<'_, Unused> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, idle: Duration) -> Option<Box<Connection>> {
        let mut unused = self.unused();
        let (connection, since) = unused.connections.pop()?;
        if since.elapsed() < idle {
            return Some(connection);
        }
        // Those below it were used even longer ago.
        unused.connections.clear();
        None
    }

    fn put(self: &Arc<Self>, connection: Box<Connection>, most: usize, idle: Duration) {
        let mut unused = self.unused();
        if unused.connections.len() >= most {
            return;
        }
        unused.connections.push((connection, Instant::now()));
        if !std::mem::replace(&mut unused.is_watched, true) {
            TokioExecutor::new().execute(watch(Arc::downgrade(self), idle));
        }
    }

    /// Closes what was not used for this long; answers whether anything is left.
    fn tidy(&self, idle: Duration) -> bool {
        let mut unused = self.unused();
        let old = unused
            .connections
            .partition_point(|(_, since)| since.elapsed() >= idle);
        unused.connections.drain(..old);
        unused.is_watched = !unused.connections.is_empty();
        unused.is_watched
    }
}

/// Closes unused connections in time, until there are none.
async fn watch(shelf: Weak<Shelf>, idle: Duration) {
    loop {
        tokio::time::sleep(idle).await;
        let left = shelf.upgrade().is_some_and(|shelf| shelf.tidy(idle));
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
        let shaken = http1::Builder::new()
            .max_buf_size(READ_BUFFER)
            .handshake(socket)
            .await;
        let (sender, driver) = shaken.map_err(|error| UpstreamError::connect(failure::chain(&error)))?;
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

    /// Whether it can take another request.
    fn is_free(&mut self, cx: &mut Context<'_>) -> bool {
        drive(&mut self.driver, cx);
        self.driver.is_some() && self.sender.is_ready()
    }
}

type Driver = http1::Connection<TokioIo<TcpStream>, RequestBody>;

/// Lets the connection do what can be done now. How it ends shows in the answer that was waited for.
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
            && connection.is_free(cx)
        {
            self.shelf.put(connection, self.most, self.idle);
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
