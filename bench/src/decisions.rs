//! The cost of typed decisions: 128 questions over a state of 20 KB, for every source of
//! probabilities. The simulator of a separate gateway answers immediately, so the measured cost is
//! the gateway's.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::ensure;
use hdrhistogram::Histogram;
use serde_json::{Map, Value, json};

use crate::gateway::{Client, Gateway};

/// The simulator's models, by their source of probabilities.
const WAYS: [&str; 4] = [
    "sim/decide",
    "sim/decide-logits",
    "sim/decide-logprobs",
    "sim/decide-sampled",
];
/// The maximum number of questions in a request.
const QUESTIONS: usize = 128;
/// Bytes of the state.
const STATE: usize = 20 << 10;
/// The pause in which settlement after the response is counted.
const SETTLED: Duration = Duration::from_millis(250);

/// Command line of the measurement.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The gateway's program.
    #[arg(long, default_value = "target/dist/tollgate")]
    pub program: PathBuf,
    /// Number of requests of each way.
    #[arg(long, default_value_t = 50)]
    pub requests: usize,
    /// One request of each way: checks that the measurement works.
    #[arg(long)]
    pub quick: bool,
}

/// Prints the rows.
///
/// # Errors
/// The gateway cannot be started, or a request fails.
pub fn run(options: &Options) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    println!(
        "{QUESTIONS} questions over {} KB, a quarter each: yes or no, 5 options, 50 options, 5 levels\n",
        STATE >> 10
    );
    println!("| method | model calls | p50 | p95 | CPU | credits |\n|---|---|---|---|---|---|");
    runtime.block_on(async {
        for model in WAYS {
            way(options, model).await?;
        }
        Ok(())
    })
}

/// Measures one way on a new gateway.
async fn way(options: &Options, model: &str) -> anyhow::Result<()> {
    let gateway = Gateway::start(&options.program, "tpm = 1000000000\n")?;
    let mut client = Client::connect(&gateway).await?;
    // One-time costs of the first request, such as the tables of a tokenizer, are not measured.
    client.send("POST", "/v1/decisions", body(model, 0)).await?;
    let requests = if options.quick { 1 } else { options.requests.max(1) };
    let mut times = Histogram::<u64>::new(3)?;
    let mut last = Value::Null;
    let before = gateway.cpu()?;
    for number in 1..=requests {
        let body = body(model, number);
        let began = Instant::now();
        last = client.send("POST", "/v1/decisions", body).await?;
        times.record(u64::try_from(began.elapsed().as_micros())?)?;
    }
    tokio::time::sleep(SETTLED).await;
    let cpu = (gateway.cpu()? - before) / requests as f64;
    let answers: Vec<&Value> = last["answers"]
        .as_object()
        .into_iter()
        .flat_map(Map::values)
        .collect();
    ensure!(
        answers.len() == QUESTIONS,
        "some questions have no answer: {last}"
    );
    let calls = match last["method"]["source"].as_str() {
        // All questions are in one.
        Some("native") => 1,
        _ => answers
            .iter()
            .filter_map(|answer| answer["method"]["calls"].as_u64())
            .sum(),
    };
    let milliseconds = |quantile: f64| times.value_at_quantile(quantile) as f64 / 1e3;
    println!(
        "| {} | {calls} | {:.1} ms | {:.1} ms | {:.1} ms | {} |",
        last["method"]["source"].as_str().unwrap_or_default(),
        milliseconds(0.5),
        milliseconds(0.95),
        cpu * 1e3,
        last["usage"]["cost"].as_str().unwrap_or_default()
    );
    Ok(())
}

/// Returns a request body that differs from all earlier ones.
fn body(model: &str, number: usize) -> String {
    let mut state = format!("Report {number}. ");
    while state.len() < STATE {
        state.push_str("The parcel was late, the box was wet, and nobody answered the telephone. ");
    }
    let questions = (0..QUESTIONS).map(|place| (format!("q{place}"), question(place)));
    let questions: Map<String, Value> = questions.collect();
    json!({"model": model, "state": state, "questions": questions}).to_string()
}

fn question(place: usize) -> Value {
    let instructions = format!("Question {place} about the report: what is it?");
    let several =
        |number: usize| -> Vec<String> { (0..number).map(|place| format!("option {place}")).collect() };
    match place % 4 {
        0 => json!({"type": "noul", "instructions": instructions}),
        1 => json!({"type": "choice", "instructions": instructions, "options": several(5)}),
        2 => json!({"type": "choice", "instructions": instructions, "options": several(50)}),
        _ => json!({"type": "score", "instructions": instructions, "criteria": several(5)}),
    }
}
