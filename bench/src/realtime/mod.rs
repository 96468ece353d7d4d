//! The cost of realtime sessions: the delay that the gateway adds to an event of a provider, the
//! time to the first audio of an answer of the simulator, memory, and CPU for the audio of
//! speakers.

mod client;
mod stub;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::ensure;
use hdrhistogram::Histogram;
use serde_json::json;
use tokio::task::JoinSet;

use crate::gateway::Gateway;
use client::Session;
use stub::Stub;

/// Maximum number of sessions of an account.
const PER_ACCOUNT: usize = 20;
/// Audio of one event, in milliseconds.
const CHUNK_MS: u64 = 100;
/// Settings with which answers are sent without delay.
const UNPACED: &str = "[realtime]\nlead_ms = 0\n";
/// Size of a millisecond of audio, in bytes.
const BYTES_PER_MS: u64 = 48;

/// Command line of the measurement.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The gateway's program.
    #[arg(long, default_value = "target/dist/tollgate")]
    pub program: PathBuf,
    /// Number of sessions for memory and audio.
    #[arg(long, default_value_t = 500)]
    pub sessions: usize,
    /// Number of sessions that relay concurrently.
    #[arg(long, default_value_t = 100)]
    pub relayed: usize,
    /// Number of measured answers of the simulator.
    #[arg(long, default_value_t = 200)]
    pub answers: usize,
    /// Seconds for which people speak.
    #[arg(long, default_value_t = 20)]
    pub seconds: u64,
}

/// Prints the rows.
///
/// # Errors
/// The gateway cannot be started, or a session fails.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    crate::accounting::raise_open_files();
    println!("| what | figure |\n|---|---|");
    runtime.block_on(async {
        relay(options).await?;
        answer(options).await?;
        speak(options).await
    })
}

/// Measures how long an event of a provider takes, directly and through the gateway.
async fn relay(options: &Options) -> anyhow::Result<()> {
    let stub = Stub::start().await?;
    let address = stub.address();
    let gateway = Gateway::start(
        &options.program,
        &format!(
            "{UNPACED}[providers.stub]\npreset = \"openai-compatible\"\nbase_url = \"http://{address}/v1\"\n\
             [models.\"bench/realtime\"]\ntype = \"realtime\"\ntargets = [\"stub/model\"]\n\
             limits = {{ context_window = 32000, max_output_tokens = 4096 }}\n\
             prices = {{ input = \"1\", input_audio = \"1\", output = \"1\", output_audio = \"1\" }}\n"
        ),
    )?;
    let keys = keys(&gateway, options.relayed)?;
    let direct = delays(options.relayed, |_| Session::open(address, "model", "")).await?;
    let relayed = delays(options.relayed, |number| {
        Session::open(gateway.address(), "bench/realtime", &keys[number / PER_ACCOUNT])
    })
    .await?;
    let added = |quantile: f64| {
        let [direct, relayed] =
            [&direct, &relayed].map(|delays| delays.value_at_quantile(quantile) as f64 / 1e3);
        relayed - direct
    };
    println!(
        "| delay added to a relayed event, {} sessions, one event every {} ms each: p50, p99 | {:.2} ms, {:.2} ms |",
        options.relayed,
        stub::EVENT_INTERVAL.as_millis(),
        added(0.5),
        added(0.99)
    );
    Ok(())
}

/// Returns the delays of the events of one response in each of the sessions, in microseconds.
async fn delays<'a, F>(count: usize, open: impl Fn(usize) -> F + 'a) -> anyhow::Result<Histogram<u64>>
where
    F: Future<Output = anyhow::Result<Session>> + 'a,
{
    let mut sessions = Vec::new();
    for number in 0..count {
        sessions.push(open(number).await?);
    }
    let mut tasks = JoinSet::new();
    for (number, mut session) in sessions.into_iter().enumerate() {
        let offset = offset_of(stub::EVENT_INTERVAL, number, count);
        tasks.spawn(async move {
            tokio::time::sleep(offset).await;
            session.delays().await
        });
    }
    let mut all = Histogram::<u64>::new(3)?;
    while let Some(delays) = tasks.join_next().await {
        for delay in delays?? {
            all.record(delay)?;
        }
    }
    Ok(all)
}

/// Measures the time from the request of an answer to its first audio, one session at a time.
async fn answer(options: &Options) -> anyhow::Result<()> {
    let gateway = Gateway::start(&options.program, UNPACED)?;
    let mut session = Session::open(gateway.address(), "sim/voice", gateway.key()).await?;
    let mut times = Histogram::<u64>::new(3)?;
    for number in 0..=options.answers {
        session.append(600).await?;
        session
            .send(&json!({"type": "input_audio_buffer.commit"}))
            .await?;
        session.until("conversation.item.done").await?;
        let began = Instant::now();
        let response = json!({"type": "response.create", "response": {"max_output_tokens": 20}});
        session.send(&response).await?;
        session.until("response.output_audio.delta").await?;
        let took = u64::try_from(began.elapsed().as_micros())?;
        session.until("response.done").await?;
        // The first answer fills caches.
        if number > 0 {
            times.record(took)?;
        }
        // A session has a limited number of items.
        if number % 100 == 99 {
            session = Session::open(gateway.address(), "sim/voice", gateway.key()).await?;
        }
    }
    println!(
        "| from the end of a turn to the first audio of the simulator's answer: p50, p99 | {:.1} ms, {:.1} ms |",
        times.value_at_quantile(0.5) as f64 / 1e3,
        times.value_at_quantile(0.99) as f64 / 1e3
    );
    Ok(())
}

/// Measures the memory of sessions, and the CPU of the audio of people who speak all the time.
async fn speak(options: &Options) -> anyhow::Result<()> {
    let gateway = Gateway::start(&options.program, "")?;
    let keys = keys(&gateway, options.sessions)?;
    let mut first = Session::open(gateway.address(), "sim/voice", &keys[0]).await?;
    first.detect_turns().await?;
    drop(first);
    let before = gateway.memory_kib();
    let mut sessions = Vec::new();
    for number in 0..options.sessions {
        let key = &keys[number / PER_ACCOUNT];
        sessions.push(Session::open(gateway.address(), "sim/voice", key).await?);
    }
    let idle = gateway.memory_kib().saturating_sub(before) / options.sessions as u64;
    println!(
        "| memory of an idle session, of {} | {idle} KiB |",
        options.sessions
    );

    for session in &mut sessions {
        session.detect_turns().await?;
    }
    let parts = options.seconds * 1_000 / CHUNK_MS;
    let (cpu, began) = (gateway.cpu()?, Instant::now());
    let mut tasks = JoinSet::new();
    for (number, mut session) in sessions.into_iter().enumerate() {
        let offset = offset_of(Duration::from_millis(CHUNK_MS), number, options.sessions);
        tasks.spawn(async move {
            let mut due = tokio::time::Instant::now() + offset;
            for _ in 0..parts {
                tokio::time::sleep_until(due).await;
                session.append(CHUNK_MS).await?;
                due += Duration::from_millis(CHUNK_MS);
            }
            anyhow::Ok(session)
        });
    }
    let mut spoken = Vec::new();
    while let Some(session) = tasks.join_next().await {
        spoken.push(session??);
    }
    let elapsed = began.elapsed();
    ensure!(
        elapsed < Duration::from_secs(options.seconds + 2),
        "the sessions fell behind: {elapsed:?}"
    );
    println!(
        "| CPU for the audio of {} speakers with turn detection, of one core | {:.0} % |",
        spoken.len(),
        (gateway.cpu()? - cpu) / elapsed.as_secs_f64() * 100.0
    );
    let turn = gateway.memory_kib().saturating_sub(before) / spoken.len() as u64;
    println!(
        "| memory of a session with {} s of audio | {turn} KiB |",
        options.seconds
    );
    Ok(())
}

/// Returns the start of a session, so that all of them are spread over the interval of their
/// events.
fn offset_of(interval: Duration, number: usize, sessions: usize) -> Duration {
    interval.mul_f64(number as f64 / sessions.max(1) as f64)
}

/// Creates enough accounts for this number of sessions.
fn keys(gateway: &Gateway, sessions: usize) -> anyhow::Result<Vec<String>> {
    let accounts = 0..sessions.div_ceil(PER_ACCOUNT);
    accounts.map(|_| gateway.new_key()).collect()
}
