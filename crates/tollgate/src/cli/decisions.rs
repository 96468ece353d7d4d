//! `decisions`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use secrecy::SecretString;

/// `decisions`.
#[derive(Debug, Subcommand)]
pub enum Decisions {
    /// Says how good a model's decisions are, by questions whose answers are known.
    Eval(Eval),
}

/// `decisions eval`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tollgate decisions eval sample.jsonl --model sim/decide
  tollgate decisions eval sample.jsonl --model sim/decide-logits --svg reliability.svg --fit examples.json
  tollgate decisions eval sample.jsonl --model sim/decide --url https://gateway.example.com --one-order --json

Each line of the file is the body of a request to POST /v1/decisions, without its model, and what would be right:

  {\"state\": \"I was charged twice!\", \"questions\": {
    \"refund\":  {\"type\": \"noul\", \"instructions\": \"Is money asked for?\", \"abstain\": true},
    \"team\":    {\"type\": \"choice\", \"instructions\": \"Who answers?\", \"criteria\": {\"billing\": null, \"tech\": null}},
    \"urgency\": {\"type\": \"score\", \"instructions\": \"How urgent is it?\", \"criteria\": [\"can wait\", \"today\", \"now\"]}},
   \"truth\": {\"refund\": true, \"team\": \"billing\", \"urgency\": 1}, \"group\": \"payments\"}

(on one line). A truth is true or false, the name of an option or of a function, the number of a level from 0 or its label;
null, when the question has \"abstain\" and cannot be answered; or what share of people would say so, such as
{\"billing\": 0.8, \"tech\": 0.2}, and 0.8 for a yes. Questions without a truth are asked and not judged. `group` is optional:
each group is judged by itself, too.

The gateway is asked as any caller asks it, and charges the key's account. Choices and questions of functions are asked a
second time with their options reversed, which shows how often the order alone changes the answer; --one-order saves that.

What the figures mean: docs/decisions-quality.md. Exit code 3 when lines were not answered.")]
pub struct Eval {
    /// The questions and their answers, one JSON object in each line.
    pub file: PathBuf,
    /// The model that is judged.
    #[arg(long, value_name = "MODEL")]
    pub model: String,
    /// Where the gateway is.
    #[arg(
        long,
        value_name = "URL",
        env = "TOLLGATE_URL",
        default_value = "http://127.0.0.1:8080"
    )]
    pub url: String,
    /// A key of one of its accounts; better in the variable than where `ps` shows it.
    #[arg(long, value_name = "KEY", env = "TOLLGATE_API_KEY", hide_env_values = true)]
    pub key: Option<SecretString>,
    /// Draws how right answers are beside how right they say to be.
    #[arg(long, value_name = "OUT.svg")]
    pub svg: Option<PathBuf>,
    /// Writes the body for POST /v1/decisions/calibrations, of uncorrected probabilities.
    #[arg(long, value_name = "OUT.json", conflicts_with = "calibration")]
    pub fit: Option<PathBuf>,
    /// By which profile probabilities are corrected: default, none, or the id of a profile.
    #[arg(long, value_name = "PROFILE")]
    pub calibration: Option<String>,
    /// How many requests run at once.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub parallel: u8,
    /// Asks nothing a second time with its options reversed.
    #[arg(long)]
    pub one_order: bool,
}
