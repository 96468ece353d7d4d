//! The cost of batches: fifty thousand lines of embeddings and of chat, compared with the same
//! single calls, and the upload speed of a file. The simulator of a separate gateway answers.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::gateway::{Client, Gateway};

/// Connections for single calls: as many as lines of an account run concurrently.
const CONNECTIONS: usize = 16;
/// Interval between two status queries of a batch.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Timeout of a batch.
const JOB_TIMEOUT: Duration = Duration::from_secs(1_800);
/// The boundary of the multipart form.
const BOUNDARY: &str = "7f83b1657ff1fc53";

/// Command line of the measurement.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The gateway's program.
    #[arg(long, default_value = "target/dist/tollgate")]
    pub program: PathBuf,
    /// Lines of each batch, at most 50,000.
    #[arg(long, default_value_t = 50_000)]
    pub lines: usize,
    /// Number of the same calls made one by one.
    #[arg(long, default_value_t = 20_000)]
    pub calls: usize,
    /// Size of the uploaded file in MiB.
    #[arg(long, default_value_t = 256)]
    pub mib: usize,
}

/// The requests of one measurement.
#[derive(Clone, Copy)]
struct Load {
    name: &'static str,
    endpoint: &'static str,
    body: fn(usize) -> Value,
}

const LOADS: [Load; 2] = [
    Load {
        name: "embeddings",
        endpoint: "/v1/embeddings",
        body: |number| json!({"model": "sim/embeddings", "dimensions": 64, "input": format!("text number {number}")}),
    },
    Load {
        name: "chat",
        endpoint: "/v1/chat/completions",
        body: |number| {
            let message = json!({"role": "user", "content": format!("Say number {number}.")});
            json!({"model": "sim/chat", "max_tokens": 32, "messages": [message]})
        },
    },
];

/// Prints the rows.
///
/// # Errors
/// The gateway cannot be started, or a request fails.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    println!("| what | figure |\n|---|---|");
    runtime.block_on(async {
        for load in LOADS {
            let line = batch(options, load).await?;
            one_by_one(options, load, line).await?;
        }
        upload(options).await
    })
}

/// Runs a batch, and returns the CPU seconds of one of its lines.
async fn batch(options: &Options, load: Load) -> anyhow::Result<f64> {
    let gateway = Gateway::start(&options.program, "")?;
    let mut client = Client::connect(&gateway).await?;
    client
        .send("POST", load.endpoint, (load.body)(0).to_string())
        .await?;
    let idle = gateway.memory();
    let mut content = String::new();
    for number in 0..options.lines {
        let line = json!({"custom_id": number.to_string(), "method": "POST", "url": load.endpoint, "body": (load.body)(number)});
        content.push_str(&line.to_string());
        content.push('\n');
    }
    let file = upload_file(&mut client, "batch", content.as_bytes()).await?;
    let (before, began) = (gateway.cpu()?, Instant::now());
    let asked = json!({"input_file_id": file, "endpoint": load.endpoint, "completion_window": "24h"});
    let accepted = client.send("POST", "/v1/batches", asked.to_string()).await?;
    let accepting = began.elapsed();
    let path = format!("/v1/batches/{}", accepted["id"].as_str().context("no batch id")?);
    let done = loop {
        ensure!(
            began.elapsed() < JOB_TIMEOUT,
            "the batch did not end within the time limit"
        );
        tokio::time::sleep(POLL_INTERVAL).await;
        let seen = client.send("GET", &path, String::new()).await?;
        match seen["status"].as_str() {
            Some("completed") => break seen,
            Some("validating" | "in_progress" | "finalizing") => {}
            _ => bail!("the batch failed: {seen}"),
        }
    };
    let (took, cpu) = (began.elapsed().as_secs_f64(), gateway.cpu()? - before);
    ensure!(
        done["request_counts"]["completed"] == options.lines,
        "some lines have no response: {done}"
    );
    let (name, lines) = (load.name, options.lines as f64);
    println!(
        "| {name}: accepting {} lines | {:.2} s |",
        options.lines,
        accepting.as_secs_f64()
    );
    println!(
        "| {name}: lines per second, from request to result files | {:.0} |",
        lines / took
    );
    println!("| {name}: CPU per line | {:.0} µs |", cpu / lines * 1e6);
    println!(
        "| {name}: peak memory, over {idle} MiB before | {} MiB |",
        gateway.peak_memory()?.saturating_sub(idle)
    );
    Ok(cpu / lines)
}

/// Makes the same calls one by one, and compares their cost with that of a line.
async fn one_by_one(options: &Options, load: Load, line: f64) -> anyhow::Result<()> {
    let gateway = Gateway::start(&options.program, "")?;
    let before = gateway.cpu()?;
    let mut tasks = JoinSet::new();
    let share = options.calls / CONNECTIONS;
    for connection in 0..CONNECTIONS {
        let mut client = Client::connect(&gateway).await?;
        tasks.spawn(async move {
            for call in 0..share {
                let body = (load.body)(connection * share + call);
                client.send("POST", load.endpoint, body.to_string()).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    // Work after the response (settlement) is counted, too.
    tokio::time::sleep(POLL_INTERVAL).await;
    let call = (gateway.cpu()? - before) / (share * CONNECTIONS) as f64;
    println!(
        "| {}: CPU of the same call outside a batch | {:.0} µs |",
        load.name,
        call * 1e6
    );
    println!(
        "| {}: CPU of a line, as a share of a call | {:.0} % |",
        load.name,
        line / call * 100.0
    );
    Ok(())
}

/// Uploads a large file, and compares that with writing the same bytes to the same disk.
async fn upload(options: &Options) -> anyhow::Result<()> {
    let gateway = Gateway::start(&options.program, "")?;
    let mut client = Client::connect(&gateway).await?;
    let content: Vec<u8> = (0..options.mib << 20).map(|place| (place % 251) as u8).collect();
    let disk = write(&gateway.folder().join("disk"), &content)?;
    let (idle, began) = (gateway.memory(), Instant::now());
    upload_file(&mut client, "user_data", &content).await?;
    let speed = options.mib as f64 / began.elapsed().as_secs_f64();
    let disk = options.mib as f64 / disk.as_secs_f64();
    println!("| uploading {} MiB | {speed:.0} MiB/s |", options.mib);
    println!("| writing the same bytes to disk, synced | {disk:.0} MiB/s |");
    println!(
        "| peak memory during the upload, over {idle} MiB before | {} MiB |",
        gateway.peak_memory()?.saturating_sub(idle)
    );
    Ok(())
}

/// Writes a file, syncs it to the disk, and returns the time that this took.
fn write(path: &Path, content: &[u8]) -> anyhow::Result<Duration> {
    let began = Instant::now();
    let mut file = fs::File::create(path)?;
    file.write_all(content)?;
    file.sync_all()?;
    let took = began.elapsed();
    fs::remove_file(path)?;
    Ok(took)
}

/// Uploads a file, and returns its id.
async fn upload_file(client: &mut Client, purpose: &str, content: &[u8]) -> anyhow::Result<Value> {
    let mut form = format!(
        "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\n{purpose}\r\n--{BOUNDARY}\r\n\
         Content-Disposition: form-data; name=\"file\"; filename=\"a.jsonl\"\r\n\r\n"
    )
    .into_bytes();
    form.extend_from_slice(content);
    form.extend_from_slice(format!("\r\n--{BOUNDARY}--\r\n").as_bytes());
    let content_type = format!("multipart/form-data; boundary={BOUNDARY}");
    let uploaded = client
        .send_as("POST", "/v1/files", &content_type, Bytes::from(form))
        .await?;
    let uploaded: Value = serde_json::from_slice(&uploaded)?;
    Ok(uploaded["id"].clone())
}
