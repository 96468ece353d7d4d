//! Efforts of research: maximum numbers of rounds, queries, pages and sections, and the wall time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Effort of a research request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Effort {
    Minimal,
    Low,
    Medium,
    #[default]
    High,
}

impl Effort {
    pub(crate) const ALL: [Effort; 4] = [Effort::Minimal, Effort::Low, Effort::Medium, Effort::High];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Effort::Minimal => "minimal",
            Effort::Low => "low",
            Effort::Medium => "medium",
            Effort::High => "high",
        }
    }

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|effort| effort.as_str() == name)
    }

    /// Returns the caps of this effort.
    pub(crate) const fn caps(self) -> Caps {
        let (rounds, queries, pages, sections, wall_seconds) = match self {
            Effort::Minimal => (1, 3, 6, 3, 30),
            Effort::Low => (2, 8, 16, 5, 120),
            Effort::Medium => (4, 24, 48, 8, 360),
            Effort::High => (8, 64, 150, 12, 900),
        };
        Caps {
            rounds,
            queries,
            pages,
            sections,
            wall_seconds,
        }
    }
}

/// Maximum numbers of one report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Caps {
    pub(crate) rounds: u32,
    /// Queries of all rounds together.
    pub(crate) queries: u32,
    /// Pages of all rounds together.
    pub(crate) pages: u32,
    pub(crate) sections: u32,
    /// Time after which no further round starts, in seconds.
    pub(crate) wall_seconds: u64,
}

impl Caps {
    /// Returns the caps with at most these queries and pages.
    pub(crate) fn limited(self, queries: Option<u32>, pages: Option<u32>) -> Self {
        Self {
            queries: self.queries.min(queries.unwrap_or(u32::MAX)),
            pages: self.pages.min(pages.unwrap_or(u32::MAX)),
            ..self
        }
    }

    /// Returns the next smaller caps for a lower cost: fewer pages first, then fewer rounds with
    /// fewer queries, never below those of the minimal effort. `None` if nothing can be reduced.
    pub(crate) fn reduced(self) -> Option<Self> {
        let minimum = Effort::Minimal.caps();
        if self.pages > minimum.pages {
            let pages = (self.pages * 3 / 4).max(minimum.pages);
            return Some(Self { pages, ..self });
        }
        if self.rounds > minimum.rounds {
            let rounds = self.rounds - 1;
            let queries = (self.queries / self.rounds * rounds).max(minimum.queries.min(self.queries));
            return Some(Self {
                rounds,
                queries,
                ..self
            });
        }
        let smaller = Self {
            queries: self.queries.min(minimum.queries),
            sections: self.sections.min(minimum.sections),
            ..self
        };
        (smaller != self).then_some(smaller)
    }

    /// Returns the time after which no further round starts.
    pub(crate) const fn wall(self) -> Duration {
        Duration::from_secs(self.wall_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reduction_ends_at_the_minimal_effort() {
        for effort in Effort::ALL {
            let mut caps = effort.caps();
            let mut steps = 0;
            while let Some(smaller) = caps.reduced() {
                assert!(smaller.pages <= caps.pages && smaller.rounds <= caps.rounds);
                assert!(smaller.queries <= caps.queries && smaller.sections <= caps.sections);
                caps = smaller;
                steps += 1;
                assert!(steps < 100);
            }
            let minimum = Effort::Minimal.caps();
            assert_eq!(
                (caps.rounds, caps.queries, caps.pages, caps.sections),
                (minimum.rounds, minimum.queries, minimum.pages, minimum.sections),
                "{effort:?}"
            );
        }
        let few = Effort::High.caps().limited(Some(1), Some(2));
        let mut caps = few;
        while let Some(smaller) = caps.reduced() {
            caps = smaller;
        }
        assert_eq!((caps.queries, caps.pages), (1, 2));
    }
}
