//! Connections of callers. One thread accepts them. Each worker thread has its own runtime. A
//! connection stays on its worker, together with the upstream connections that its requests use, so
//! nothing moves between threads while a request is served.

mod framing;
mod refusal;
mod socket;
mod unread;
mod vitals;

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, TcpStream as StdTcpStream};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody};
use axum::response::{IntoResponse, Response};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tollgate_edge::{ApiError, Idempotency, RequestLayer};
use tower::Service;

use self::socket::{ConnectionState, Socket};
use self::unread::{Unread, expects_continue};
pub use self::vitals::Vitals;

/// Maximum size of a request head: request line and headers. The HTTP library also limits heads to
/// 100 headers; a configured limit would move them to the heap.
const MAX_HEAD_BYTES: usize = 32 * 1024;
/// Size of the read buffer of a connection. A smaller buffer would split large bodies into more
/// chunks.
const MAX_READ_BYTES: usize = 64 * 1024;

/// The service that workers run.
pub struct App {
    /// Outermost layer, applied to every request.
    pub request_layer: RequestLayer,
    /// Routes of the public API.
    pub router: axum::Router,
    /// Middleware that replays responses for requests with an `Idempotency-Key`.
    pub idempotency: Idempotency,
    /// Running calls, including those whose callers have disconnected. A call runs on the worker
    /// that started it.
    pub calls: TaskTracker,
    /// Tasks that must not end while the process runs.
    pub vitals: Vitals,
}

impl App {
    /// Serves a request from `peer` and returns the response.
    pub async fn serve<B>(&self, peer: IpAddr, request: http::Request<B>) -> Response
    where
        B: HttpBody<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        let mut router = self.router.clone();
        let routed = |request: http::Request<B>| async move {
            let request = request.map(Body::new);
            let mut serve = |request: http::Request<Body>| {
                let answer = router.call(request);
                async move { answer.await.unwrap_or_else(|never| match never {}) }
            };
            match Idempotency::may_have_key(&request) {
                true => self.idempotency.serve(request, serve).await,
                false => serve(request).await,
            }
        };
        self.request_layer.serve(peer, request, routed).await
    }
}

/// Limits of connections.
#[derive(Clone, Debug)]
pub struct ListenSettings {
    /// Maximum time until a request head is complete, and maximum idle time of a connection.
    pub head_timeout: Duration,
    /// Maximum number of connections from one address; further ones are closed.
    pub per_address: usize,
    /// Addresses without a connection limit, besides loopback.
    pub trusted: Vec<IpAddr>,
}

struct Connection {
    stream: StdTcpStream,
    peer: IpAddr,
    _slot: ConnectionSlot,
}

/// The worker threads that serve requests.
pub struct Workers {
    workers: Vec<Worker>,
    by_address: Arc<Mutex<HashMap<IpAddr, usize>>>,
    settings: ListenSettings,
}

struct Worker {
    connections: UnboundedSender<Connection>,
    open: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

/// Guard that counts a connection against the limit of its address until the guard is dropped.
struct ConnectionSlot {
    address: Option<IpAddr>,
    counts: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        let Some(address) = self.address else { return };
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&address);
            }
        }
    }
}

impl Workers {
    /// Starts `count` worker threads. They end after [`join`](Self::join), once their connections
    /// have ended.
    pub fn start(
        count: usize,
        app: Arc<App>,
        settings: ListenSettings,
        stop: &CancellationToken,
    ) -> Result<Self> {
        let workers =
            (0..count).map(|index| Worker::start(index, app.clone(), settings.clone(), stop.clone()));
        let workers: Vec<Worker> = workers.collect::<Result<_>>()?;
        Ok(Self {
            workers,
            by_address: Arc::default(),
            settings,
        })
    }

    /// Accepts connections until the future is dropped.
    pub async fn accept(&self, listener: TcpListener) {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => self.dispatch(stream, peer.ip()),
                Err(error) => {
                    // File descriptors have probably run out: wait until some are released.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    /// Hands a connection to the worker with the fewest connections.
    fn dispatch(&self, stream: TcpStream, peer: IpAddr) {
        let Some(slot) = self.slot(peer) else { return };
        let _ = stream.set_nodelay(true);
        let Ok(stream) = stream.into_std() else { return };
        let idlest = self
            .workers
            .iter()
            .min_by_key(|worker| worker.open.load(Ordering::Relaxed));
        if let Some(worker) = idlest {
            worker.open.fetch_add(1, Ordering::Relaxed);
            let _ = worker.connections.send(Connection {
                stream,
                peer,
                _slot: slot,
            });
        }
    }

    fn slot(&self, peer: IpAddr) -> Option<ConnectionSlot> {
        let counts = self.by_address.clone();
        if peer.is_loopback() || self.settings.trusted.contains(&peer) {
            return Some(ConnectionSlot {
                address: None,
                counts,
            });
        }
        {
            let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
            let count = counts.entry(peer).or_default();
            if *count >= self.settings.per_address {
                return None;
            }
            *count += 1;
        }
        Some(ConnectionSlot {
            address: Some(peer),
            counts,
        })
    }

    /// Waits until every connection has ended. After the stop signal, idle connections end
    /// immediately and busy ones after their response.
    pub fn join(self) {
        for worker in self.workers {
            drop(worker.connections);
            if worker.thread.join().is_err() {
                tracing::error!("a worker thread panicked");
            }
        }
    }
}

impl Worker {
    fn start(index: usize, app: Arc<App>, settings: ListenSettings, stop: CancellationToken) -> Result<Self> {
        let (connections, receiver) = unbounded_channel();
        let open = Arc::new(AtomicUsize::new(0));
        let counter = open.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot create the runtime of a worker")?;
        let thread = std::thread::Builder::new()
            .name(format!("http-{index}"))
            .spawn(move || {
                let guard = app.vitals.clone();
                let work = work(receiver, counter, app, settings, stop.clone());
                runtime.block_on(guard.guard("an HTTP worker thread", stop, work));
            })
            .context("cannot start a worker thread")?;
        Ok(Self {
            connections,
            open,
            thread,
        })
    }
}

async fn work(
    mut connections: UnboundedReceiver<Connection>,
    open: Arc<AtomicUsize>,
    app: Arc<App>,
    settings: ListenSettings,
    stop: CancellationToken,
) {
    let tasks = TaskTracker::new();
    while let Some(connection) = connections.recv().await {
        let (open, app, settings, stop) = (open.clone(), app.clone(), settings.clone(), stop.clone());
        tasks.spawn(async move {
            if let Err(error) = serve_connection(connection, app, &settings, &stop).await {
                tracing::debug!(%error, "connection failed");
            }
            open.fetch_sub(1, Ordering::Relaxed);
        });
    }
    tasks.close();
    tasks.wait().await;
    // Unfinished calls would end with this runtime, so wait for them.
    app.calls.wait().await;
}

async fn serve_connection(
    connection: Connection,
    app: Arc<App>,
    settings: &ListenSettings,
    stop: &CancellationToken,
) -> Result<()> {
    let Connection { stream, peer, _slot } = connection;
    let (socket, connection_state) = Socket::new(TcpStream::from_std(stream)?);
    let ended = serve_requests((socket, &connection_state), peer, app.clone(), settings, stop).await;
    end_connection(
        &connection_state,
        ended.as_ref().err(),
        &app.request_layer,
        peer,
        stop,
    )
    .await;
    Ok(ended?)
}

async fn serve_requests(
    (socket, connection_state): (Socket, &Arc<ConnectionState>),
    peer: IpAddr,
    app: Arc<App>,
    settings: &ListenSettings,
    stop: &CancellationToken,
) -> hyper::Result<()> {
    let (connection_state, served) = (connection_state.clone(), AtomicU64::new(0));
    let unread = Unread::default();
    let service = service_fn(move |request: http::Request<Incoming>| {
        let (app, unread) = (app.clone(), unread.clone());
        let number = served.fetch_add(1, Ordering::Relaxed);
        let ambiguous = connection_state.ambiguous().filter(|head| head.request == number);
        async move {
            Ok::<_, Infallible>(match ambiguous {
                Some(head) => {
                    let refuse = |_| async { refusal::misframed(head.status) };
                    app.request_layer.serve(peer, request, refuse).await
                }
                None => {
                    let expects_continue = expects_continue(request.headers());
                    let mut response = app.serve(peer, unread.watch(request)).await;
                    unread.finish(expects_continue, &mut response).await;
                    response
                }
            })
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.head_timeout)
        .max_header_size(MAX_HEAD_BYTES)
        .max_buf_size(MAX_READ_BYTES)
        .serve_connection(TokioIo::new(socket), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    connection.await
}

/// Sends the reason to the caller if the connection ended within a request, then discards the
/// caller's remaining bytes so that the response is not lost.
async fn end_connection(
    connection_state: &ConnectionState,
    error: Option<&hyper::Error>,
    request_layer: &RequestLayer,
    peer: IpAddr,
    stop: &CancellationToken,
) {
    let Some(mut stream) = connection_state.stream() else {
        return;
    };
    let refusal = match (connection_state.refused(), connection_state.ambiguous()) {
        (Some(_), Some(head)) => Some(refusal::misframed(head.status)),
        (Some(status), None) => Some(ApiError(refusal::unreadable(status)).into_response()),
        (None, _) if connection_state.has_request_bytes() && error.is_some_and(hyper::Error::is_timeout) => {
            Some(ApiError(refusal::too_slow()).into_response())
        }
        (None, _) => None,
    };
    if let Some(refusal) = refusal {
        refusal::refuse(request_layer, peer, &mut stream, refusal).await;
    }
    if !stop.is_cancelled() {
        refusal::linger(stream).await;
    }
}
