//! Metrics of the pipeline. Most handles are created once, because a lookup by name for each
//! request would cost more than the increment.

use metrics::Counter;
use tollgate_billing::Charge;
use tollgate_types::Usage;
use tollgate_types::usage::Outcome;

const DECISION_TOKENS: &str = "tollgate_decision_tokens_total";

/// Handles of the counters, created at startup.
pub(crate) struct Meters {
    calls: Vec<Counter>,
    charged: Counter,
    overrun: Counter,
    estimated: Counter,
    input: Counter,
    output: Counter,
    uncharged_input: Counter,
    uncharged_output: Counter,
}

impl Meters {
    pub(crate) fn new() -> Self {
        let calls = Outcome::ALL
            .into_iter()
            .map(|outcome| metrics::counter!("tollgate_calls_total", "outcome" => outcome.as_str()))
            .collect();
        metrics::describe_counter!("tollgate_calls_total", "Ended calls, by outcome");
        metrics::describe_counter!("tollgate_charged_nano_credits_total", "Nano-credits charged");
        metrics::describe_counter!(
            "tollgate_overrun_nano_credits_total",
            "Nano-credits that calls cost beyond their hold"
        );
        metrics::describe_counter!(
            "tollgate_estimated_calls_total",
            "Calls charged by estimate, without reported usage"
        );
        metrics::describe_counter!("tollgate_tokens_total", "Tokens of settled calls, by direction");
        metrics::describe_counter!(
            DECISION_TOKENS,
            "Tokens of typed decisions: charged to accounts, and reported by upstreams"
        );
        metrics::describe_counter!(
            "tollgate_uncharged_tokens_total",
            "Tokens that providers reported for failed calls"
        );
        let uncharged =
            |direction| metrics::counter!("tollgate_uncharged_tokens_total", "direction" => direction);
        Self {
            calls,
            charged: metrics::counter!("tollgate_charged_nano_credits_total"),
            overrun: metrics::counter!("tollgate_overrun_nano_credits_total"),
            estimated: metrics::counter!("tollgate_estimated_calls_total"),
            input: metrics::counter!("tollgate_tokens_total", "direction" => "input"),
            output: metrics::counter!("tollgate_tokens_total", "direction" => "output"),
            uncharged_input: uncharged("input"),
            uncharged_output: uncharged("output"),
        }
    }

    /// Creates handles that record nothing, for calls that are not charged.
    pub(crate) fn discarding() -> Self {
        Self {
            calls: Outcome::ALL.into_iter().map(|_| Counter::noop()).collect(),
            charged: Counter::noop(),
            overrun: Counter::noop(),
            estimated: Counter::noop(),
            input: Counter::noop(),
            output: Counter::noop(),
            uncharged_input: Counter::noop(),
            uncharged_output: Counter::noop(),
        }
    }

    pub(crate) fn record(&self, charge: &Charge) {
        self.calls[charge.outcome as usize].increment(1);
        self.charged
            .increment(charge.amount.nanos().max(0).cast_unsigned());
        self.overrun
            .increment(charge.overrun.nanos().max(0).cast_unsigned());
        self.estimated.increment(u64::from(charge.estimated));
        self.input.increment(charge.usage.total_input());
        self.output.increment(charge.usage.total_output());
    }

    pub(crate) fn record_uncharged(&self, reported: &Usage) {
        self.uncharged_input.increment(reported.total_input());
        self.uncharged_output.increment(reported.total_output());
    }

    /// Counts the tokens that an upstream consumed for typed decisions, on which the charge does
    /// not depend.
    pub(crate) fn decision_upstream(&self, provider: &str, usage: &Usage) {
        decision_tokens(provider, "upstream_input", usage.total_input());
        decision_tokens(provider, "upstream_output", usage.total_output());
    }

    /// Counts the charged input tokens of typed decisions.
    pub(crate) fn decision_charged(&self, provider: &str, tokens: u64) {
        decision_tokens(provider, "charged_input", tokens);
    }
}

fn decision_tokens(provider: &str, kind: &'static str, tokens: u64) {
    metrics::counter!(DECISION_TOKENS, "provider" => provider.to_owned(), "kind" => kind).increment(tokens);
}
