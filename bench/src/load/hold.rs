//! Many slow streams concurrently, each read to its end: while all of them are open, the server's
//! memory is measured.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::report::{Report, Tally};
use super::{Gate, Options};
use crate::stamp::StampReader;
use crate::wire::{ChunkedBody, Framing, framing};

/// Timeout from the start of the last stream until all are open.
const OPENING: Duration = Duration::from_secs(20);
/// Timeout of a read from any stream.
const SILENCE: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Counts {
    live: AtomicU64,
    peak: AtomicU64,
    opened: AtomicU64,
    failed: AtomicU64,
}

pub(super) fn run(options: &Options, gate: Gate) -> anyhow::Result<Report> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(hold(options, gate))
}

async fn hold(options: &Options, gate: Gate) -> anyhow::Result<Report> {
    let requests: Vec<Arc<[u8]>> = super::requests(options, &options.body)?
        .into_iter()
        .map(Arc::from)
        .collect();
    let counts = Arc::new(Counts::default());
    let begin = Instant::now();
    let ramp = Duration::from_millis(options.spread_ms);
    let mut streams = JoinSet::new();
    for index in 0..options.connections {
        let (options, counts) = (options.clone(), counts.clone());
        let request = requests[index % requests.len()].clone();
        let due = begin + ramp.mul_f64(index as f64 / options.connections as f64);
        streams.spawn(async move {
            sleep_until(due).await;
            let address = options.address[index % options.address.len()];
            let outcome = stream(&options, address, &request, &counts).await;
            if outcome.is_err() {
                counts.failed.fetch_add(1, Relaxed);
            }
            outcome
        });
    }
    let all = options.connections as u64;
    while counts.opened.load(Relaxed) + counts.failed.load(Relaxed) < all && begin.elapsed() < ramp + OPENING
    {
        sleep(Duration::from_millis(20)).await;
    }
    gate.announce()?;
    let mut tally = Tally::new();
    while let Some(ended) = streams.join_next().await {
        match ended.map_err(anyhow::Error::from).flatten() {
            Ok(chunks) => {
                tally.ok += 1;
                tally.chunks += chunks;
            }
            Err(error) => tally.fail(format!("{error:#}")),
        }
    }
    tally.peak_live = counts.peak.load(Relaxed);
    Ok(tally.report(options, begin.elapsed().as_secs_f64()))
}

/// Runs one stream from its connection to its `[DONE]`; returns the number of content chunks.
async fn stream(
    options: &Options,
    address: SocketAddr,
    request: &[u8],
    counts: &Counts,
) -> anyhow::Result<u64> {
    let mut socket = TcpStream::connect(address).await.context("connecting")?;
    socket.set_nodelay(true)?;
    socket.write_all(request).await.context("writing the request")?;
    let mut buffer = [0; 2048];
    let mut head = Vec::new();
    let (chunked, start) = loop {
        let length = receive(&mut socket, &mut buffer).await?;
        head.extend_from_slice(&buffer[..length]);
        if let Some(found) = read_head(&head)? {
            break found;
        }
    };
    let _live = Live::new(counts);
    let mut decoder = ChunkedBody::default();
    let mut stamps = StampReader::default();
    let mut bytes = &head[start..];
    loop {
        if chunked {
            while let Some(payload) = decoder.take(&mut bytes) {
                stamps.feed(payload, |_| {});
            }
        } else {
            stamps.feed(bytes, |_| {});
        }
        if stamps.done() {
            break;
        }
        let length = receive(&mut socket, &mut buffer).await?;
        bytes = &buffer[..length];
    }
    ensure!(
        stamps.stamps() == options.chunks,
        "{} content chunks of {}",
        stamps.stamps(),
        options.chunks
    );
    Ok(stamps.stamps())
}

async fn receive(socket: &mut TcpStream, buffer: &mut [u8]) -> anyhow::Result<usize> {
    let length = timeout(SILENCE, socket.read(buffer))
        .await
        .context("the stream sent no data")??;
    ensure!(length > 0, "closed before [DONE]");
    Ok(length)
}

/// Whether the body is chunked, and its offset; `None` while the head is incomplete.
fn read_head(received: &[u8]) -> anyhow::Result<Option<(bool, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut answer = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(start) = answer.parse(received).context("parsing the head")? else {
        return Ok(None);
    };
    let status = answer.code.unwrap_or_default();
    ensure!(
        status == 200,
        "status {status}: {}",
        String::from_utf8_lossy(&received[start..])
    );
    Ok(Some((framing(answer.headers) == Framing::Chunked, start)))
}

/// Counts an open stream until it is dropped.
struct Live<'a>(&'a Counts);

impl<'a> Live<'a> {
    fn new(counts: &'a Counts) -> Live<'a> {
        counts.opened.fetch_add(1, Relaxed);
        counts
            .peak
            .fetch_max(counts.live.fetch_add(1, Relaxed) + 1, Relaxed);
        Live(counts)
    }
}

impl Drop for Live<'_> {
    fn drop(&mut self) {
        self.0.live.fetch_sub(1, Relaxed);
    }
}
