//! Results and events of jobs as their owners see them. Each kind of job has its own view.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use tollgate_storage::{Job, JobEvent};
use tollgate_types::{Error, Timestamp, Unit, Usage};

/// Result of a job as its owner sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct JobResult {
    /// The result, in the format of the job's kind.
    pub body: Value,
    /// Earliest time at which a URL in the result expires.
    pub expires_at: Option<Timestamp>,
}

/// View of the jobs of one kind.
#[async_trait]
pub trait JobView: Send + Sync {
    /// Returns the kind of the jobs, as stored.
    fn kind(&self) -> &'static str;

    /// Returns the result of a job that has ended; `None` if it has none. URLs begin with the base
    /// URL `origin`.
    async fn result(&self, origin: &str, job: &Job) -> Result<Option<JobResult>, Error>;

    /// Returns the members of an event. The default is the body as JSON, for kinds that store it
    /// unencrypted.
    fn event(&self, _: &Job, event: &JobEvent) -> Value {
        serde_json::from_slice(&event.body).unwrap_or_default()
    }
}

/// Views by the kind of the job.
#[derive(Clone, Default)]
pub struct JobViews(HashMap<&'static str, Arc<dyn JobView>>);

impl JobViews {
    /// Creates a table of these views.
    pub fn new(views: impl IntoIterator<Item = Arc<dyn JobView>>) -> Self {
        Self(views.into_iter().map(|view| (view.kind(), view)).collect())
    }

    /// Returns the view of a job; `None` for kinds whose results have their own endpoints.
    pub fn of(&self, job: &Job) -> Option<&dyn JobView> {
        self.0.get(&*job.terms.kind).map(|view| &**view)
    }
}

/// Returns the quantities as images, seconds, characters, searches and tokens. The field names are
/// those of the account's usage report.
pub fn quantities(usage: &Usage) -> Value {
    let quantities = usage.iter().map(|(unit, quantity)| match unit {
        Unit::Image => ("images".to_owned(), plain(quantity)),
        Unit::Video => ("video_seconds".to_owned(), plain(quantity)),
        Unit::Audio => ("audio_seconds".to_owned(), plain(quantity)),
        Unit::Search => ("searches".to_owned(), plain(quantity)),
        Unit::Character => ("characters".to_owned(), quantity.into()),
        token => (format!("{}_tokens", token.as_str()), quantity.into()),
    });
    Value::Object(quantities.collect())
}

/// Converts millionths to a JSON number: an integer if there is no fraction.
fn plain(millionths: u64) -> Value {
    match millionths % 1_000_000 {
        0 => (millionths / 1_000_000).into(),
        _ => (millionths as f64 / 1e6).into(),
    }
}
