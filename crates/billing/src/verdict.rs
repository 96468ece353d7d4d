//! The charge table of docs/money.md: the usage that a call is charged for, by its end and by the
//! usage that the upstream reported.

use tollgate_types::usage::Outcome;
use tollgate_types::{Unit, Usage};

use crate::quote::{Demand, estimated_usage, output_tokens};

/// End of a call, as observed by the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The response is complete.
    Complete,
    /// The caller disconnected; the upstream's response was read to its end.
    CallerGoneDrained,
    /// The caller disconnected and the upstream request was closed.
    CallerGoneCut,
    /// The gateway ended the response at its cap and closed the upstream request.
    Stopped,
    /// The upstream failed.
    UpstreamError,
    /// The upstream timed out.
    Timeout,
}

/// Usage evidence of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evidence {
    /// Usage reported by the upstream; `None` if it reported none, which differs from zero.
    pub reported: Option<Usage>,
    /// Output bytes received from the upstream.
    pub output_bytes: u64,
    /// Number of stream events with output. Servers send at least one token in each.
    pub output_events: u64,
}

impl Evidence {
    /// Returns the estimated number of output tokens of a stream that was cut before its final
    /// usage report.
    fn output_so_far(&self) -> u64 {
        output_tokens(self.output_bytes).max(self.output_events)
    }
}

/// Charged usage of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Charged consumption, by unit.
    pub usage: Usage,
    /// Whether the gateway estimated the usage.
    pub estimated: bool,
    /// Outcome of the usage row.
    pub outcome: Outcome,
}

/// Returns the charged usage of a call. A call whose upstream failed costs nothing, even after
/// output or a usage report. Any other call costs the reported usage, even without output; a cut
/// response costs at least the output that arrived. Without a report, the usage is estimated. If
/// text arrived, a report without output tokens is completed.
pub fn verdict(ending: Ending, evidence: &Evidence, demand: &Demand) -> Verdict {
    let outcome = match ending {
        Ending::Complete | Ending::Stopped => Outcome::Ok,
        Ending::CallerGoneDrained | Ending::CallerGoneCut => Outcome::ClientGone,
        Ending::UpstreamError => Outcome::UpstreamError,
        Ending::Timeout => Outcome::Timeout,
    };
    let is_text = !demand.is_input_only() && demand.made.is_zero();
    let is_cut = match ending {
        Ending::Stopped => true,
        Ending::CallerGoneCut => is_text,
        _ => false,
    };
    let has_text = is_text && evidence.output_bytes > 0;
    match evidence.reported {
        _ if ending.is_upstream_failure() => Verdict {
            usage: Usage::ZERO,
            estimated: false,
            outcome,
        },
        // The response was cut: the upstream may have generated more output than it reported.
        Some(usage) if is_cut => Verdict {
            usage: with_output(usage, evidence.output_so_far()),
            estimated: usage.total_output() < evidence.output_so_far(),
            outcome,
        },
        // Text arrived, so that a report without output tokens is wrong.
        Some(usage) if has_text && usage.total_output() == 0 => Verdict {
            usage: match usage.is_zero() {
                true => estimated_usage(demand, evidence.output_bytes),
                false => with_output(usage, output_tokens(evidence.output_bytes)),
            },
            estimated: true,
            outcome,
        },
        Some(usage) => Verdict {
            usage,
            estimated: false,
            outcome,
        },
        None if is_cut => Verdict {
            usage: with_output(
                estimated_usage(demand, evidence.output_bytes),
                evidence.output_so_far(),
            ),
            estimated: true,
            outcome,
        },
        None => Verdict {
            usage: estimated_usage(demand, evidence.output_bytes),
            estimated: true,
            outcome,
        },
    }
}

impl Ending {
    /// Whether the call failed at its upstream, so that it costs nothing.
    pub fn is_upstream_failure(self) -> bool {
        matches!(self, Ending::UpstreamError | Ending::Timeout)
    }
}

/// Returns the usage with at least `min_output` output tokens.
fn with_output(usage: Usage, min_output: u64) -> Usage {
    let missing = min_output.saturating_sub(usage.total_output());
    usage.with(Unit::Output, usage.get(Unit::Output).saturating_add(missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEMAND: Demand = Demand {
        text_bytes: 400,
        tokens: 0,
        messages: 1,
        inputs: 1,
        media_bytes: 0,
        images: 0,
        max_tokens: None,
        reasoning_budget: 0,
        n: 1,
        caches_for_an_hour: false,
        made: Usage::ZERO,
    };

    #[test]
    fn verdicts_match_the_table() {
        let reported = Some(Usage::tokens(90, 25));
        let estimated = Usage::tokens(100, 10);
        let known = Evidence {
            reported,
            output_bytes: 40,
            ..Evidence::default()
        };
        let unknown = Evidence {
            reported: None,
            output_bytes: 40,
            ..Evidence::default()
        };
        let silent = Evidence {
            reported: None,
            output_bytes: 0,
            ..Evidence::default()
        };
        let empty = Evidence {
            reported: Some(Usage::tokens(90, 0)),
            output_bytes: 0,
            ..Evidence::default()
        };
        let zero = Evidence {
            reported: Some(Usage::ZERO),
            output_bytes: 40,
            ..Evidence::default()
        };
        let input_alone = Usage::tokens(100, 0);
        for (ending, outcome) in [
            (Ending::Complete, Outcome::Ok),
            (Ending::CallerGoneDrained, Outcome::ClientGone),
            (Ending::CallerGoneCut, Outcome::ClientGone),
            (Ending::Stopped, Outcome::Ok),
            (Ending::UpstreamError, Outcome::UpstreamError),
            (Ending::Timeout, Outcome::Timeout),
        ] {
            let is = |evidence: &Evidence, usage: Usage, estimated: bool| {
                let (usage, estimated) = match outcome {
                    // A failed call costs nothing, even if its usage is known.
                    Outcome::UpstreamError | Outcome::Timeout => (Usage::ZERO, false),
                    _ => (usage, estimated),
                };
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
            is(&unknown, estimated, true);
            is(&silent, input_alone, true);
            is(&empty, Usage::tokens(90, 0), false);
            // If text arrived, a report of zero is replaced by an estimate; after a cut, only its
            // output is estimated.
            if ending != Ending::Stopped {
                let usage = match ending {
                    Ending::CallerGoneCut => Usage::tokens(0, 10),
                    _ => estimated,
                };
                is(&zero, usage, true);
            }
        }
    }

    #[test]
    fn a_report_without_output_is_completed_where_text_arrived() {
        let no_output = Some(Usage::tokens(90, 0));
        let vectors = Demand {
            max_tokens: Some(0),
            ..DEMAND
        };
        for (demand, reported, output_bytes, usage, estimated) in [
            (DEMAND, no_output, 40, Usage::tokens(90, 10), true),
            (
                DEMAND,
                Some(Usage::tokens(90, 1)),
                40,
                Usage::tokens(90, 1),
                false,
            ),
            (DEMAND, no_output, 0, Usage::tokens(90, 0), false),
            // The bytes of vectors do not count as output.
            (vectors, no_output, 40, Usage::tokens(90, 0), false),
            (vectors, Some(Usage::ZERO), 40, Usage::ZERO, false),
        ] {
            let evidence = Evidence {
                reported,
                output_bytes,
                ..Evidence::default()
            };
            let found = verdict(Ending::Complete, &evidence, &demand);
            assert_eq!((found.usage, found.estimated), (usage, estimated), "{reported:?}");
        }
    }

    #[test]
    fn non_token_usage_is_estimated_as_requested() {
        let demand = Demand {
            made: Usage::ZERO.with(Unit::Character, 12),
            ..DEMAND
        };
        let unknown = Evidence {
            reported: None,
            output_bytes: 40,
            ..Evidence::default()
        };
        let found = verdict(Ending::Complete, &unknown, &demand);
        let expected = Usage::tokens(100, 10).with(Unit::Character, 12);
        assert_eq!((found.usage, found.estimated), (expected, true));
        let failed = verdict(Ending::UpstreamError, &unknown, &demand);
        assert_eq!(failed.usage, Usage::ZERO);
    }

    #[test]
    fn a_cut_stream_has_a_token_for_each_event() {
        for (ending, reported, output) in [
            (Ending::CallerGoneCut, None, 30),
            (Ending::CallerGoneCut, Some(Usage::tokens(100, 1)), 30),
            (Ending::Stopped, None, 30),
            (Ending::Complete, None, 10),
            (Ending::Complete, Some(Usage::tokens(100, 25)), 25),
        ] {
            let evidence = Evidence {
                reported,
                output_bytes: 40,
                output_events: 30,
            };
            let found = verdict(ending, &evidence, &DEMAND);
            assert_eq!(found.usage, Usage::tokens(100, output), "{ending:?} {reported:?}");
        }
    }

    #[test]
    fn cut_answers_charge_no_less_than_the_received_output() {
        let early = Usage::tokens(90, 1).with(Unit::CacheRead, 7);
        for (reported, output_bytes, usage, estimated) in [
            (early, 40, Usage::tokens(90, 10).with(Unit::CacheRead, 7), true),
            (Usage::tokens(90, 10), 40, Usage::tokens(90, 10), false),
            (Usage::tokens(90, 25), 40, Usage::tokens(90, 25), false),
        ] {
            let evidence = Evidence {
                reported: Some(reported),
                output_bytes,
                ..Evidence::default()
            };
            for (ending, outcome) in [
                (Ending::Stopped, Outcome::Ok),
                (Ending::CallerGoneCut, Outcome::ClientGone),
            ] {
                let expected = Verdict {
                    usage,
                    estimated,
                    outcome,
                };
                assert_eq!(verdict(ending, &evidence, &DEMAND), expected, "{reported:?}");
            }
        }
    }
}
