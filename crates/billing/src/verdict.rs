//! The one table of what is charged when (docs/money.md shows it), for every format and modality of text.

use tollgate_types::usage::Outcome;
use tollgate_types::{Unit, Usage};

use crate::quote::{Demand, estimated_usage, output_tokens};

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The answer is complete.
    Complete,
    /// The caller left; the upstream's answer was read to its end.
    CallerGoneDrained,
    /// The caller left and the upstream was cut off.
    CallerGoneCut,
    /// The gateway ended the answer at its cap and cut the upstream off.
    Stopped,
    /// The upstream failed.
    UpstreamError,
    /// The upstream was silent for too long.
    Timeout,
}

/// What is known about the consumption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// What the upstream reported. `None` is not zero.
    pub reported: Option<Usage>,
    /// Bytes of output that arrived from the upstream.
    pub output_bytes: u64,
}

/// What is charged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What was consumed, as far as it is charged.
    pub usage: Usage,
    /// Whether the gateway counted it.
    pub estimated: bool,
    /// What the usage row says.
    pub outcome: Outcome,
}

/// Decides what is charged. An answer without output, and a failure of the upstream before it reported usage, cost
/// nothing; a report by the upstream is the truth; an estimate is made only where the caller had output, or left, and
/// no report came.
pub fn verdict(ending: Ending, evidence: &Evidence, demand: &Demand) -> Verdict {
    let outcome = match ending {
        Ending::Complete | Ending::Stopped => Outcome::Ok,
        Ending::CallerGoneDrained | Ending::CallerGoneCut => Outcome::ClientGone,
        Ending::UpstreamError => Outcome::UpstreamError,
        Ending::Timeout => Outcome::Timeout,
    };
    let failed = matches!(ending, Ending::UpstreamError | Ending::Timeout);
    let no_output =
        evidence.output_bytes == 0 && evidence.reported.is_none_or(|usage| usage.total_output() == 0);
    match evidence.reported {
        _ if no_output => nothing(outcome),
        // It had not come to its end: more may have arrived than it had reported.
        Some(usage) if ending == Ending::Stopped => Verdict {
            usage: with_output(usage, output_tokens(evidence.output_bytes)),
            estimated: usage.total_output() < output_tokens(evidence.output_bytes),
            outcome,
        },
        Some(usage) => Verdict {
            usage,
            estimated: false,
            outcome,
        },
        None if failed => nothing(outcome),
        None => Verdict {
            usage: estimated_usage(demand, evidence.output_bytes),
            estimated: true,
            outcome,
        },
    }
}

/// The usage with at least so much output.
fn with_output(usage: Usage, least: u64) -> Usage {
    let missing = least.saturating_sub(usage.total_output());
    usage.with(Unit::Output, usage.get(Unit::Output).saturating_add(missing))
}

fn nothing(outcome: Outcome) -> Verdict {
    Verdict {
        usage: Usage::ZERO,
        estimated: false,
        outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEMAND: Demand = Demand {
        text_bytes: 400,
        tokens: 0,
        messages: 1,
        media_bytes: 0,
        images: 0,
        max_tokens: None,
        reasoning_budget: 0,
        n: 1,
        caches_for_an_hour: false,
        made: Usage::ZERO,
    };

    #[test]
    fn the_table() {
        let reported = Some(Usage::tokens(90, 25));
        let estimated = Usage::tokens(100, 10);
        let known = Evidence {
            reported,
            output_bytes: 40,
        };
        let unknown = Evidence {
            reported: None,
            output_bytes: 40,
        };
        let silent = Evidence {
            reported: None,
            output_bytes: 0,
        };
        let empty = Evidence {
            reported: Some(Usage::tokens(90, 0)),
            output_bytes: 0,
        };
        let zero = Evidence {
            reported: Some(Usage::ZERO),
            output_bytes: 40,
        };
        // ending, usage known, usage unknown
        let table = [
            (Ending::Complete, Outcome::Ok, estimated),
            (Ending::CallerGoneDrained, Outcome::ClientGone, estimated),
            (Ending::CallerGoneCut, Outcome::ClientGone, estimated),
            (Ending::Stopped, Outcome::Ok, estimated),
            (Ending::UpstreamError, Outcome::UpstreamError, Usage::ZERO),
            (Ending::Timeout, Outcome::Timeout, Usage::ZERO),
        ];
        for (ending, outcome, when_unknown) in table {
            let is = |evidence: &Evidence, usage: Usage, estimated: bool| {
                assert_eq!(
                    verdict(ending, evidence, &DEMAND),
                    Verdict {
                        usage,
                        estimated,
                        outcome
                    },
                    "{ending:?} {evidence:?}"
                );
            };
            is(&known, Usage::tokens(90, 25), false);
            is(&unknown, when_unknown, !when_unknown.is_zero());
            is(&silent, Usage::ZERO, false);
            is(&empty, Usage::ZERO, false);
            // A report of zero is a report: it is not replaced by an estimate.
            if ending != Ending::Stopped {
                is(&zero, Usage::ZERO, false);
            }
        }
    }

    #[test]
    fn what_is_no_token_is_estimated_as_it_was_asked_for() {
        let demand = Demand {
            made: Usage::ZERO.with(Unit::Character, 12),
            ..DEMAND
        };
        let unknown = Evidence {
            reported: None,
            output_bytes: 40,
        };
        let found = verdict(Ending::Complete, &unknown, &demand);
        let expected = Usage::tokens(100, 10).with(Unit::Character, 12);
        assert_eq!((found.usage, found.estimated), (expected, true));
        let failed = verdict(Ending::UpstreamError, &unknown, &demand);
        assert_eq!(failed.usage, Usage::ZERO);
    }

    #[test]
    fn a_stopped_answer_has_at_least_what_arrived() {
        let early = Usage::tokens(90, 1).with(Unit::CacheRead, 7);
        for (reported, output_bytes, usage, estimated) in [
            (early, 40, Usage::tokens(90, 10).with(Unit::CacheRead, 7), true),
            (Usage::tokens(90, 10), 40, Usage::tokens(90, 10), false),
            (Usage::tokens(90, 25), 40, Usage::tokens(90, 25), false),
        ] {
            let evidence = Evidence {
                reported: Some(reported),
                output_bytes,
            };
            let expected = Verdict {
                usage,
                estimated,
                outcome: Outcome::Ok,
            };
            assert_eq!(
                verdict(Ending::Stopped, &evidence, &DEMAND),
                expected,
                "{reported:?}"
            );
        }
    }
}
