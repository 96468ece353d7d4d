//! Connections of callers. One thread accepts; each worker thread has a runtime of its own, and a connection stays on
//! the worker that it was given to, together with the connections to upstreams that its requests use. Nothing moves
//! between threads while a request is served.

mod refusal;
mod socket;

use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, TcpStream as StdTcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::BoxError;
use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tollgate_edge::{Idempotency, Shell};
use tower::Service;

use socket::{Left, Socket};

/// Largest request head: first line and headers. The library takes at most 100 headers by itself; told to, it would keep
/// them on the heap.
const HEAD_BYTES: usize = 32 * 1024;
/// Most that is read of a connection at once. A smaller buffer would take large bodies in more pieces.
const READ_BYTES: usize = 64 * 1024;

/// What serves requests.
pub struct App {
    /// The outermost layer.
    pub shell: Shell,
    /// The routes.
    pub router: axum::Router,
    /// Serves requests that must not be carried out twice.
    pub idempotency: Idempotency,
    /// Calls that run, also those whose callers left: they live on the worker that began them.
    pub calls: TaskTracker,
}

impl App {
    /// The answer to a request from this address.
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
            match Idempotency::is_asked_for(&request) {
                true => self.idempotency.serve(request, serve).await,
                false => serve(request).await,
            }
        };
        self.shell.serve(peer, request, routed).await
    }
}

/// How connections are treated.
#[derive(Clone, Debug)]
pub struct ListenSettings {
    /// Until a request's head is there; idle connections are closed after it too.
    pub head_timeout: Duration,
    /// Most connections from one address.
    pub per_address: usize,
    /// Addresses that are not counted, beside loopback.
    pub trusted: Vec<IpAddr>,
}

struct Connection {
    stream: StdTcpStream,
    peer: IpAddr,
    _place: Place,
}

/// The threads that serve requests.
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

/// A connection's place in the count of its address; given back when the connection is dropped.
struct Place {
    address: Option<IpAddr>,
    counts: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Drop for Place {
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
    /// Starts worker threads. They end when the workers are joined and their connections have ended.
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
                Ok((stream, peer)) => self.give(stream, peer.ip()),
                Err(error) => {
                    // Out of file descriptors, most likely: wait for some to be given back.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }

    /// Gives a connection to the worker with the fewest.
    fn give(&self, stream: TcpStream, peer: IpAddr) {
        let Some(place) = self.place(peer) else { return };
        let _ = stream.set_nodelay(true);
        let Ok(stream) = stream.into_std() else { return };
        let least = self
            .workers
            .iter()
            .min_by_key(|worker| worker.open.load(Ordering::Relaxed));
        if let Some(worker) = least {
            worker.open.fetch_add(1, Ordering::Relaxed);
            let _ = worker.connections.send(Connection {
                stream,
                peer,
                _place: place,
            });
        }
    }

    fn place(&self, peer: IpAddr) -> Option<Place> {
        let counts = self.by_address.clone();
        if peer.is_loopback() || self.settings.trusted.contains(&peer) {
            return Some(Place {
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
        Some(Place {
            address: Some(peer),
            counts,
        })
    }

    /// Waits until every connection has ended. The stop signal makes idle ones end at once and busy ones after their
    /// answer.
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
            .context("no runtime")?;
        let thread = std::thread::Builder::new()
            .name(format!("http-{index}"))
            .spawn(move || runtime.block_on(work(receiver, counter, app, settings, stop)))
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
                tracing::debug!(%error, "a connection broke");
            }
            open.fetch_sub(1, Ordering::Relaxed);
        });
    }
    tasks.close();
    tasks.wait().await;
    // What is left ends with this runtime, so it is waited for.
    app.calls.wait().await;
}

async fn serve_connection(
    connection: Connection,
    app: Arc<App>,
    settings: &ListenSettings,
    stop: &CancellationToken,
) -> Result<()> {
    let Connection { stream, peer, _place } = connection;
    let (socket, left) = Socket::new(TcpStream::from_std(stream)?);
    let ended = serve_requests(socket, peer, app.clone(), settings, stop).await;
    end_connection(&left, ended.as_ref().err(), &app.shell, peer, stop).await;
    Ok(ended?)
}

async fn serve_requests(
    socket: Socket,
    peer: IpAddr,
    app: Arc<App>,
    settings: &ListenSettings,
    stop: &CancellationToken,
) -> hyper::Result<()> {
    let service = service_fn(move |request| {
        let app = app.clone();
        async move { Ok::<_, Infallible>(app.serve(peer, request).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(settings.head_timeout)
        .max_header_size(HEAD_BYTES)
        .max_buf_size(READ_BYTES)
        .serve_connection(TokioIo::new(socket), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        ended = connection.as_mut() => return ended,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    connection.await
}

/// Tells the caller why, when its connection ends in the middle of a request, and lets the answer arrive.
async fn end_connection(
    left: &Left,
    error: Option<&hyper::Error>,
    shell: &Shell,
    peer: IpAddr,
    stop: &CancellationToken,
) {
    let Some(mut stream) = left.stream() else { return };
    let refusal = match left.refused() {
        Some(status) => Some(refusal::unreadable(status)),
        None if left.heard() && error.is_some_and(hyper::Error::is_timeout) => Some(refusal::too_slow()),
        None => None,
    };
    if let Some(refusal) = refusal {
        refusal::refuse(shell, peer, &mut stream, refusal).await;
    }
    if !stop.is_cancelled() {
        refusal::linger(stream).await;
    }
}
