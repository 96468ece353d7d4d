//! Maximum cost of a report: the calls of the effort at their maximum sizes.

use tollgate_billing::{Item, Step, StepItem};
use tollgate_types::{Credits, Prices, Unit, Usage};

use super::effort::Caps;

/// Maximum input of a planner call, in bytes. A byte counts as a token.
pub(super) const PLANNER_INPUT: u64 = 96 << 10;
/// Maximum output of a planner call, in tokens.
const PLANNER_OUTPUT: u64 = 4_096;
/// Maximum input of a reader call, in bytes.
pub(super) const READER_INPUT: u64 = 16 << 10;
/// Maximum output of a reader call, in tokens.
const READER_OUTPUT: u64 = 1_024;
/// Maximum input of a writer call, in bytes.
pub(super) const WRITER_INPUT: u64 = 96 << 10;
/// Number of calls for each section: the section and one rewrite.
const CALLS_PER_SECTION: u64 = 2;
/// Quantity of one search query.
const QUERY: u64 = 1_000_000;

/// Group of calls with the same maximum size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Plan,
    Search,
    Read,
    Write,
}

impl Stage {
    pub(super) const ALL: [Stage; 4] = [Stage::Plan, Stage::Search, Stage::Read, Stage::Write];

    /// Returns the name of the stage's part of the usage row.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Stage::Plan => "plan",
            Stage::Search => "search",
            Stage::Read => "read",
            Stage::Write => "write",
        }
    }
}

/// Prices and sizes of a report, from which its maximum cost follows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds<'p> {
    pub(super) prices: &'p Prices,
    pub(super) caps: Caps,
    /// Number of backends that each query is sent to.
    pub(super) backends: u32,
    pub(super) max_output_tokens: u64,
}

impl Bounds<'_> {
    /// Returns the maximum usage of one call of a stage.
    pub(super) fn call(&self, stage: Stage) -> Usage {
        match stage {
            Stage::Plan => Usage::tokens(PLANNER_INPUT, PLANNER_OUTPUT),
            Stage::Search => Usage::ZERO.with(Unit::Search, QUERY * u64::from(self.backends)),
            Stage::Read => Usage::tokens(READER_INPUT, READER_OUTPUT),
            Stage::Write => Usage::tokens(WRITER_INPUT, self.section_tokens()),
        }
    }

    /// Returns the maximum output of a section, in tokens.
    pub(super) fn section_tokens(&self) -> u64 {
        (self.max_output_tokens / u64::from(self.caps.sections.max(1))).max(1)
    }

    /// Returns the maximum cost of one call of a stage.
    pub(super) fn cost(&self, stage: Stage) -> Credits {
        self.prices.cost(&self.call(stage))
    }

    /// Returns the maximum number of calls of a stage. A plan, one reflection a round and the
    /// outline are calls of the planner.
    fn count(&self, stage: Stage) -> u64 {
        let caps = self.caps;
        match stage {
            Stage::Plan => u64::from(caps.rounds) + 2,
            Stage::Search => caps.queries.into(),
            Stage::Read => caps.pages.into(),
            Stage::Write => u64::from(caps.sections) * CALLS_PER_SECTION,
        }
    }

    /// Returns the maximum cost of the report.
    pub(super) fn total(&self) -> Credits {
        Stage::ALL.into_iter().fold(Credits::ZERO, |sum, stage| {
            add(sum, times(self.cost(stage), self.count(stage)))
        })
    }

    /// Returns the maximum cost of the last calls: the outline and the sections.
    pub(super) fn write_reserve(&self) -> Credits {
        add(
            self.cost(Stage::Plan),
            times(self.cost(Stage::Write), self.count(Stage::Write)),
        )
    }

    /// Returns the caps whose maximum cost is at most `max_cost`; the least possible cost if there
    /// are none.
    pub(super) fn fit(mut self, max_cost: Option<Credits>) -> Result<Caps, Credits> {
        let Some(max_cost) = max_cost else {
            return Ok(self.caps);
        };
        while self.total() > max_cost {
            self.caps = self.caps.reduced().ok_or_else(|| self.total())?;
        }
        Ok(self.caps)
    }

    /// Returns the items of a quote.
    pub(super) fn items(&self, model: &str) -> Vec<StepItem> {
        let stages = Stage::ALL.into_iter();
        let items = stages.flat_map(|stage| {
            let (usage, count) = (self.call(stage), self.count(stage));
            let quantities: Vec<(Unit, u64)> = usage.iter().collect();
            quantities
                .into_iter()
                .map(move |(unit, quantity)| (stage, unit, quantity * count))
        });
        items
            .map(|(stage, unit, quantity)| StepItem {
                step: Some(Step {
                    name: stage.as_str().to_owned(),
                    model: model.to_owned(),
                }),
                item: Item {
                    unit,
                    quantity,
                    price: self.prices.per_million(unit),
                },
            })
            .collect()
    }
}

fn add(sum: Credits, more: Credits) -> Credits {
    sum.checked_add(more).unwrap_or(Credits::MAX)
}

fn times(amount: Credits, count: u64) -> Credits {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    Credits::from_nanos(amount.nanos().saturating_mul(count))
}
