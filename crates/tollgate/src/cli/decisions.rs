//! Arguments of `tollgate decisions`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use secrecy::SecretString;

/// Subcommands of `tollgate decisions`.
#[derive(Debug, Subcommand)]
pub enum Decisions {
    /// Evaluate a model's decisions on questions with known answers.
    Eval(Eval),
}

/// Arguments of `tollgate decisions eval`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tollgate decisions eval sample.jsonl --model sim/decide
  tollgate decisions eval sample.jsonl --model sim/decide-logits --svg reliability.svg --fit examples.json
  tollgate decisions eval sample.jsonl --model sim/decide --url https://gateway.example.com --one-order --json

Each line of the file is a request body for POST /v1/decisions without `model`, plus the true \
answers:

  {\"state\": \"I was charged twice!\", \"questions\": {
    \"refund\":  {\"type\": \"noul\", \"instructions\": \"Does the customer want a refund?\", \"abstain\": true},
    \"team\":    {\"type\": \"choice\", \"instructions\": \"Who answers?\", \"criteria\": {\"billing\": null, \"tech\": null}},
    \"urgency\": {\"type\": \"score\", \"instructions\": \"How urgent is it?\", \"criteria\": [\"can wait\", \"today\", \"now\"]}},
   \"truth\": {\"refund\": true, \"team\": \"billing\", \"urgency\": 1}, \"group\": \"payments\"}

(on one line). A truth is true or false, the name of an option or of a function, or a level's \
label or number (from 0). Use null when the question has \"abstain\" and cannot be answered. A \
truth can also be the share of people who would give each answer, such as {\"billing\": 0.8, \
\"tech\": 0.2}, or 0.8 for a yes. Questions without a truth are sent but not scored. `group` is \
optional; each group is also scored separately.

The evaluation calls the gateway's API, which charges the key's account. Choices and function \
questions are sent a second time with reversed options, to measure how often the order changes \
the answer; --one-order skips this.

docs/decisions-quality.md explains the metrics. Exit code 3 when requests failed.")]
pub struct Eval {
    /// File with questions and their true answers, one JSON object per line.
    pub file: PathBuf,
    /// Id of the model to evaluate.
    #[arg(long, value_name = "MODEL")]
    pub model: String,
    /// Base URL of the gateway.
    #[arg(
        long,
        value_name = "URL",
        env = "TOLLGATE_URL",
        default_value = "http://127.0.0.1:8080"
    )]
    pub url: String,
    /// API key. Prefer the environment variable: `ps` shows the command line.
    #[arg(long, value_name = "KEY", env = "TOLLGATE_API_KEY", hide_env_values = true)]
    pub key: Option<SecretString>,
    /// Plot the calibration curve (reliability diagram) and write it to this SVG file.
    #[arg(long, value_name = "OUT.svg")]
    pub svg: Option<PathBuf>,
    /// Write a request body for POST /v1/decisions/calibrations, with uncorrected probabilities, to
    /// this JSON file.
    #[arg(long, value_name = "OUT.json", conflicts_with = "calibration")]
    pub fit: Option<PathBuf>,
    /// Calibration profile: default (also if omitted), none, or a profile id.
    #[arg(long, value_name = "PROFILE")]
    pub calibration: Option<String>,
    /// Number of concurrent requests, 1–64.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub parallel: u8,
    /// Skip the second request with reversed options.
    #[arg(long)]
    pub one_order: bool,
}
