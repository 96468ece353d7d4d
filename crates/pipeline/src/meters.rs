//! Metrics of the pipeline. Handles are made once: a look-up by name at every request would cost more than the count.

use metrics::Counter;
use tollgate_billing::Charge;
use tollgate_types::usage::Outcome;

/// Handles.
pub(crate) struct Meters {
    calls: Vec<Counter>,
    charged: Counter,
    overrun: Counter,
    estimated: Counter,
    input: Counter,
    output: Counter,
}

impl Meters {
    pub(crate) fn new() -> Self {
        let calls = Outcome::ALL
            .into_iter()
            .map(|outcome| metrics::counter!("tollgate_calls_total", "outcome" => outcome.as_str()))
            .collect();
        metrics::describe_counter!("tollgate_calls_total", "Calls that ended, by outcome");
        metrics::describe_counter!("tollgate_charged_nano_credits_total", "What callers paid");
        metrics::describe_counter!(
            "tollgate_overrun_nano_credits_total",
            "What calls cost beyond their hold"
        );
        metrics::describe_counter!(
            "tollgate_estimated_calls_total",
            "Calls charged without a report of the upstream"
        );
        metrics::describe_counter!("tollgate_tokens_total", "Tokens of settled calls");
        Self {
            calls,
            charged: metrics::counter!("tollgate_charged_nano_credits_total"),
            overrun: metrics::counter!("tollgate_overrun_nano_credits_total"),
            estimated: metrics::counter!("tollgate_estimated_calls_total"),
            input: metrics::counter!("tollgate_tokens_total", "direction" => "input"),
            output: metrics::counter!("tollgate_tokens_total", "direction" => "output"),
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
}
