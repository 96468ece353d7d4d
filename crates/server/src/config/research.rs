//! `[research]`: models and limits of research.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tollgate_catalog::ResearchEntry;
use tollgate_storage::KindCap;

use super::ConfigError;

/// `[research]`: models, sources and limits of research jobs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ResearchSection {
    /// Chat model that plans, assesses the notes and outlines reports; the writer if omitted.
    pub planner: Option<String>,
    /// Chat model that takes notes from pages; the writer if omitted.
    pub reader: Option<String>,
    /// Chat model that writes the sections. Without it, `tollgate/research` does not exist.
    pub writer: Option<String>,
    /// Model that decides whether the quotes support a statement; none if omitted.
    pub judge: Option<String>,
    /// Default sources: `web`, and `corpus/NAME` for a document collection. All configured ones if
    /// omitted.
    pub sources: Option<Vec<String>>,
    /// Whether the rules of robots.txt apply to pages.
    pub robots: RobotsSetting,
    /// Maximum number of running research jobs of an account, across all processes. Further jobs
    /// stay queued.
    pub per_account: u32,
    /// Maximum number of running research jobs of a process.
    pub max_running: u32,
}

/// Handling of the rules of robots.txt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RobotsSetting {
    /// Pages that the rules disallow are skipped.
    Obey,
    /// The rules are not read, for search over the operator's own sites.
    Ignore,
}

impl Default for ResearchSection {
    fn default() -> Self {
        Self {
            planner: None,
            reader: None,
            writer: None,
            judge: None,
            sources: None,
            robots: RobotsSetting::Obey,
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

    /// Returns the roles and sources of research models that do not set their own.
    pub(crate) fn roles(&self) -> ResearchEntry {
        ResearchEntry {
            planner: self.planner.clone(),
            reader: self.reader.clone(),
            writer: self.writer.clone(),
            judge: self.judge.clone(),
            sources: self.sources.clone(),
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
