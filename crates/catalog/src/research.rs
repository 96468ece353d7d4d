//! Models and sources of a research model that the gateway's engine executes.

use serde::{Deserialize, Serialize};

/// Provider name of the research models that the gateway executes.
pub const GATEWAY: &str = "tollgate";
/// Name of the engine with models at the provider [`GATEWAY`].
pub const ENGINE: &str = "engine";

/// Settings `research` of a model, and the shared ones of `[research]`: a model of the catalog for
/// each role, and the sources to search.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ResearchEntry {
    /// Chat model that plans, assesses the notes and outlines the report; the writer if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planner: Option<String>,
    /// Chat model that takes notes from pages; the writer if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reader: Option<String>,
    /// Chat model that writes the sections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writer: Option<String>,
    /// Model that decides whether the quotes support a statement; none if omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// Default sources: `web`, and `corpus/NAME` for a document collection. All configured ones if
    /// omitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sources: Option<Vec<String>>,
}

/// Maximum consumption of a report that a provider's own research model writes. The hold pays for
/// it; the gateway bears a higher consumption.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReportLimits {
    /// Input tokens of all calls together, with the pages that the model reads.
    pub max_input: u64,
    /// Output tokens, including reasoning.
    pub max_output: u64,
    /// Number of searches.
    pub max_searches: u64,
}

/// Roles of a research model, with the defaults applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResearchRoles {
    /// Chat model that plans, assesses the notes and outlines the report.
    pub planner: String,
    /// Chat model that takes notes from pages.
    pub reader: String,
    /// Chat model that writes the sections.
    pub writer: String,
    /// Model that decides whether the quotes support a statement.
    pub judge: Option<String>,
    /// Default sources; all configured ones if `None`.
    pub sources: Option<Vec<String>>,
}

impl ResearchEntry {
    /// Returns the roles of a model with these settings; `None` if neither they nor `defaults`
    /// name a writer.
    pub fn roles(&self, defaults: &ResearchEntry) -> Option<ResearchRoles> {
        let writer = self.writer.clone().or_else(|| defaults.writer.clone())?;
        let role = |own: &Option<String>, shared: &Option<String>| {
            own.clone()
                .or_else(|| shared.clone())
                .unwrap_or_else(|| writer.clone())
        };
        Some(ResearchRoles {
            planner: role(&self.planner, &defaults.planner),
            reader: role(&self.reader, &defaults.reader),
            judge: self.judge.clone().or_else(|| defaults.judge.clone()),
            sources: self.sources.clone().or_else(|| defaults.sources.clone()),
            writer,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_fall_back_to_the_shared_ones_and_to_the_writer() {
        let own = ResearchEntry {
            reader: Some("acme/small".to_owned()),
            ..ResearchEntry::default()
        };
        assert_eq!(own.roles(&ResearchEntry::default()), None);
        let defaults = ResearchEntry {
            writer: Some("acme/large".to_owned()),
            judge: Some("acme/decide".to_owned()),
            ..ResearchEntry::default()
        };
        let roles = own.roles(&defaults).unwrap();
        assert_eq!(
            (
                &*roles.planner,
                &*roles.reader,
                &*roles.writer,
                roles.judge.as_deref()
            ),
            ("acme/large", "acme/small", "acme/large", Some("acme/decide"))
        );
    }
}
