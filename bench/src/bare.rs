//! The bare proxy: forwards bytes both ways through hyper, without reading or storing them. It is
//! the baseline of a gateway on the same HTTP library.

use std::net::SocketAddr;

use anyhow::Context as _;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HOST};
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};

/// Maximum size of the read buffers, on both sides.
const BUFFER_BYTES: usize = 64 * 1024;

/// Command line of the bare proxy.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Where to listen; port 0 picks a free one. The bound address is the first line on stdout.
    #[arg(long, default_value = "127.0.0.1:9200")]
    pub listen: SocketAddr,
    /// The server that receives every request.
    #[arg(long, default_value = "127.0.0.1:9100")]
    pub upstream: SocketAddr,
    /// Worker threads; as many as the machine has cores if omitted.
    #[arg(long)]
    pub threads: Option<usize>,
}

type Forwarder = Client<HttpConnector, Incoming>;

/// Serves until the process ends.
///
/// # Errors
/// When the address cannot be bound.
pub fn run(options: &Options) -> anyhow::Result<()> {
    crate::accounting::raise_open_files();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = options.threads {
        runtime.worker_threads(threads);
    }
    runtime.enable_all().build()?.block_on(async {
        let listener = crate::stub::bind(options.listen)?;
        println!("{}", listener.local_addr()?);
        let authority: Authority = options
            .upstream
            .to_string()
            .parse()
            .context("the upstream address")?;
        tokio::spawn(accept(listener, authority)).await?;
        Ok(())
    })
}

async fn accept(listener: tokio::net::TcpListener, authority: Authority) {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let forwarder: Forwarder = Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .http1_max_buf_size(BUFFER_BYTES)
        .build(connector);
    loop {
        let Ok((socket, _)) = listener.accept().await else {
            continue;
        };
        let _ = socket.set_nodelay(true);
        let (forwarder, authority) = (forwarder.clone(), authority.clone());
        tokio::spawn(async move {
            let service = service_fn(|request| forward(&forwarder, &authority, request));
            // A failing upstream ends the caller's connection: the load tool counts a bad answer.
            let _ = http1::Builder::new()
                .max_buf_size(BUFFER_BYTES)
                .serve_connection(TokioIo::new(socket), service)
                .await;
        });
    }
}

async fn forward(
    forwarder: &Forwarder,
    authority: &Authority,
    mut request: Request<Incoming>,
) -> anyhow::Result<Response<Incoming>> {
    let path = request
        .uri()
        .path_and_query()
        .cloned()
        .unwrap_or(PathAndQuery::from_static("/"));
    *request.uri_mut() = Uri::builder()
        .scheme(Scheme::HTTP)
        .authority(authority.clone())
        .path_and_query(path)
        .build()?;
    request.headers_mut().remove(HOST);
    request.headers_mut().remove(CONNECTION);
    Ok(forwarder.request(request).await?)
}
