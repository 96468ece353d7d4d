//! Research as operators see it. There are no sources in a process without a server.

use std::sync::{Arc, OnceLock};

use tollgate_corpus::Corpus;
use tollgate_inference::research::{KIND, Research, WebBackend};
use tollgate_operations::ResearchSource;
use tollgate_operations::research::{SearchView, SourcesView};
use tollgate_types::{Timestamp, Unit};
use tollgate_upstream::SearchBackend;

use crate::corpora;

/// Reader of the research of this process, for the commands of operators.
#[derive(Default)]
pub struct ResearchStatus {
    served: OnceLock<(Arc<Research>, Vec<Corpus>)>,
}

impl ResearchStatus {
    /// Sets the research and the corpora of the server. Only the first call has an effect.
    pub fn watch(&self, research: &Arc<Research>, corpora: &[Corpus]) {
        let _ = self.served.set((research.clone(), corpora.to_vec()));
    }
}

impl ResearchSource for ResearchStatus {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn sources(&self) -> SourcesView {
        let Some((research, corpora)) = self.served.get() else {
            return SourcesView::default();
        };
        SourcesView {
            search: research.web.iter().map(search).collect(),
            corpora: corpora.iter().map(corpora::view).collect(),
        }
    }
}

fn search(web: &WebBackend) -> SearchView {
    let report = web.backend.report();
    SearchView {
        name: web.backend.name().to_owned(),
        kind: web.kind.to_owned(),
        price: web.prices.per_million(Unit::Search),
        breaker: report.breaker.as_str().to_owned(),
        failures_in_a_row: report.failures_in_a_row,
        retry_in_ms: u64::try_from(report.retry_in.as_millis()).unwrap_or(u64::MAX),
        last_error: report.last_error.as_ref().map(|last| last.what.clone()),
        last_error_at: report.last_error.map(|last| Timestamp::to_rfc3339(last.at)),
    }
}
