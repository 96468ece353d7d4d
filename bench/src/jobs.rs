//! The cost of jobs: accepting them, polling ten thousand concurrently, and composing a video. The
//! simulator of a separate gateway generates the outputs.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use hdrhistogram::Histogram;
use serde_json::json;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use crate::gateway::{Client, Gateway};

/// Connections that send jobs.
const CONNECTIONS: usize = 8;
/// Timeout of a video.
const JOB_TIMEOUT: Duration = Duration::from_secs(600);
/// All accepted jobs run concurrently.
const SETTINGS: &str = "[jobs]\nconcurrency = 20000\nper_account = 20000\n";
const VIDEOS_PATH: &str = "/v1/videos/generations";

/// Command line of the measurement.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The gateway's program.
    #[arg(long, default_value = "target/dist/tollgate")]
    pub program: PathBuf,
    /// Number of jobs that are accepted and polled concurrently.
    #[arg(long, default_value_t = 10_000)]
    pub jobs: usize,
    /// Seconds for which they are polled.
    #[arg(long, default_value_t = 30)]
    pub seconds: u64,
}

/// Prints the rows.
///
/// # Errors
/// The gateway cannot be started, or a request fails.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    crate::accounting::raise_open_files();
    println!("| what | figure |\n|---|---|");
    runtime.block_on(async {
        accept_and_follow(options).await?;
        compose(options).await
    })
}

/// Accepts videos whose simulator takes long, and then polls all of them repeatedly.
async fn accept_and_follow(options: &Options) -> anyhow::Result<()> {
    let gateway = Gateway::start(&options.program, SETTINGS)?;
    let times = Arc::new(Mutex::new(Histogram::<u64>::new(3)?));
    let before = gateway.cpu()?;
    let mut tasks = JoinSet::new();
    for number in 0..CONNECTIONS {
        let mut client = Client::connect(&gateway).await?;
        let (times, jobs) = (times.clone(), options.jobs / CONNECTIONS);
        tasks.spawn(async move {
            for job in 0..jobs {
                let prompt = format!("video {number} {job} [[sim delay=3600000]]");
                let body =
                    json!({"model": "sim/video", "prompt": prompt, "duration": 1, "resolution": "360p"});
                let began = Instant::now();
                client.send("POST", VIDEOS_PATH, body.to_string()).await?;
                let took = u64::try_from(began.elapsed().as_micros())?;
                times.lock().await.record(took)?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    let accepted = gateway.cpu()? - before;
    let times = times.lock().await;
    let milliseconds = |quantile: f64| times.value_at_quantile(quantile) as f64 / 1e3;
    println!(
        "| accepting {} jobs over {CONNECTIONS} connections while they start: p50, p99 | {:.1} ms, {:.1} ms |",
        times.len(),
        milliseconds(0.5),
        milliseconds(0.99)
    );
    println!(
        "| CPU per job: accepted, started and submitted | {:.2} ms |",
        accepted * 1e3 / times.len() as f64
    );
    // By then the last accepted job has started.
    tokio::time::sleep(Duration::from_secs(10)).await;
    let (before, began) = (gateway.cpu()?, Instant::now());
    tokio::time::sleep(Duration::from_secs(options.seconds)).await;
    let share = (gateway.cpu()? - before) / began.elapsed().as_secs_f64() * 100.0;
    println!(
        "| CPU while {} jobs are polled, share of one core | {share:.1} % |",
        times.len()
    );
    println!("| memory with these jobs | {} MiB |", gateway.memory());
    Ok(())
}

/// Composes a video of three scenes in full size.
async fn compose(options: &Options) -> anyhow::Result<()> {
    let gateway = Gateway::start(&options.program, SETTINGS)?;
    let mut client = Client::connect(&gateway).await?;
    let scene_spec = |n: u32| json!({"narration": format!("Scene {n} describes the harbour, slowly and in full detail."), "visual": {"prompt": format!("scene {n}")}, "transition": "fade"});
    let body = json!({"mode": "render", "storyboard": {
        "scenes": [scene_spec(1), scene_spec(2), scene_spec(3)], "aspect_ratio": "9:16", "resolution": "1080p",
        "captions": {"style": "karaoke"}, "music": {"mood": "calm"},
    }});
    let (before, began) = (gateway.cpu()?, Instant::now());
    let job = client
        .send("POST", "/v1/videos/compose", body.to_string())
        .await?;
    let path = format!("/v1/jobs/{}?wait=30", job["job_id"].as_str().context("no id")?);
    loop {
        ensure!(
            began.elapsed() < JOB_TIMEOUT,
            "the video was not ready within the time limit"
        );
        let job = client.send("GET", &path, String::new()).await?;
        match job["status"].as_str() {
            Some("queued" | "in_progress") => {}
            Some("completed") => {
                let seconds = job["result"]["duration"]
                    .as_f64()
                    .context("the result has no duration")?;
                let cpu = gateway.cpu()? - before;
                println!(
                    "| composing {seconds:.1} s of 1080x1920, three scenes: CPU per second of video | {:.2} s |",
                    cpu / seconds
                );
                println!(
                    "| the same: time per second of video | {:.2} s |",
                    began.elapsed().as_secs_f64() / seconds
                );
                return Ok(());
            }
            _ => bail!("the composition failed: {job}"),
        }
    }
}
