//! `[research]`: settings of research jobs.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tollgate_storage::KindCap;

use super::ConfigError;

/// `[research]`: limits of research jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ResearchSection {
    /// Maximum number of running research jobs of an account, across all processes. Further jobs
    /// stay queued.
    pub per_account: u32,
    /// Maximum number of running research jobs of a process.
    pub max_running: u32,
}

impl Default for ResearchSection {
    fn default() -> Self {
        Self {
            per_account: 4,
            max_running: 100,
        }
    }
}

impl ResearchSection {
    /// Refuses limits with which no job would ever run.
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        let limits = [
            ("per_account", self.per_account),
            ("max_running", self.max_running),
        ];
        match limits.into_iter().find(|(_, limit)| *limit == 0) {
            Some((name, _)) => Err(ConfigError::new(format!("research.{name}"), "must be above 0")),
            None => Ok(()),
        }
    }

    /// Returns the limits for the workers that lease jobs.
    pub(super) fn cap(&self) -> KindCap {
        KindCap {
            kind: Arc::from(tollgate_inference::research::KIND),
            per_account: self.per_account,
            per_worker: self.max_running,
        }
    }
}
