//! Maximum cost of a report: the calls of the effort at their maximum sizes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tollgate_types::{Credits, Usage};

use super::effort::Caps;

/// Maximum input of a planner call, in bytes. A byte counts as a token.
pub(super) const PLANNER_INPUT: u64 = 96 << 10;
/// Maximum output of a planner call, in tokens.
pub(super) const PLANNER_OUTPUT: u64 = 4_096;
/// Maximum input of a reader call, in bytes.
pub(super) const READER_INPUT: u64 = 16 << 10;
/// Maximum output of a reader call, in tokens.
pub(super) const READER_OUTPUT: u64 = 1_024;
/// Maximum input of a writer call, in bytes.
pub(super) const WRITER_INPUT: u64 = 96 << 10;
/// Maximum input of a judge call, in bytes.
pub(super) const JUDGE_INPUT: u64 = 64 << 10;
/// Number of calls for each section: the section and one correction, or the judgements of both.
const CALLS_PER_SECTION: u64 = 2;

/// Group of calls with the same model and the same maximum size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    Plan,
    Search,
    Read,
    Write,
    Judge,
    /// The whole report, by a provider's own research model.
    Report,
}

impl Stage {
    pub(super) const ALL: [Stage; 6] = [
        Stage::Plan,
        Stage::Search,
        Stage::Read,
        Stage::Write,
        Stage::Judge,
        Stage::Report,
    ];

    /// Returns the name of the stage's parts of the usage row.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Stage::Plan => "plan",
            Stage::Search => "search",
            Stage::Read => "read",
            Stage::Write => "write",
            Stage::Judge => "judge",
            Stage::Report => "report",
        }
    }
}

/// Maximum of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CallBound {
    /// Maximum usage. The quantities of all input classes together are at most its input, and
    /// likewise for the output.
    pub(super) usage: Usage,
    /// Maximum size of the prompt in bytes, for calls with a prompt.
    pub(super) prompt_bytes: u64,
    pub(super) cost: Credits,
}

/// Maximum numbers and costs of the calls of a report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Bounds {
    pub(super) caps: Caps,
    pub(super) max_output_tokens: u64,
    /// Bound of one call of each stage of the report.
    pub(super) calls: BTreeMap<Stage, CallBound>,
}

impl Bounds {
    /// Returns the maximum of one call of a stage.
    pub(super) fn call(&self, stage: Stage) -> CallBound {
        self.calls.get(&stage).copied().unwrap_or_default()
    }

    /// Returns the maximum length of a section, in tokens.
    pub(super) fn section_tokens(&self) -> u64 {
        section_tokens(self.caps, self.max_output_tokens)
    }

    /// Returns the maximum number of calls of a stage. A plan, one reflection a round and the
    /// outline are calls of the planner.
    pub(super) fn count(&self, stage: Stage) -> u64 {
        let caps = self.caps;
        match stage {
            Stage::Plan => u64::from(caps.rounds) + 2,
            Stage::Report => 1,
            Stage::Search => caps.queries.into(),
            Stage::Read => caps.pages.into(),
            Stage::Write | Stage::Judge => u64::from(caps.sections) * CALLS_PER_SECTION,
        }
    }

    /// Returns the maximum cost of the report.
    pub(super) fn total(&self) -> Credits {
        Stage::ALL.into_iter().fold(Credits::ZERO, |sum, stage| {
            add(sum, times(self.call(stage).cost, self.count(stage)))
        })
    }

    /// Returns the maximum cost of the last calls: the outline, the sections and their judgements.
    pub(super) fn write_reserve(&self) -> Credits {
        let last = [Stage::Write, Stage::Judge].into_iter();
        last.fold(self.call(Stage::Plan).cost, |sum, stage| {
            add(sum, times(self.call(stage).cost, self.count(stage)))
        })
    }
}

/// Returns the maximum length of a section, in tokens.
pub(super) fn section_tokens(caps: Caps, max_output_tokens: u64) -> u64 {
    (max_output_tokens / u64::from(caps.sections.max(1))).max(1)
}

pub(super) fn add(sum: Credits, more: Credits) -> Credits {
    sum.checked_add(more).unwrap_or(Credits::MAX)
}

fn times(amount: Credits, count: u64) -> Credits {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    Credits::from_nanos(amount.nanos().saturating_mul(count))
}
