//! What is known about a request while it is served.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::FromRequestParts;
use http::HeaderValue;
use http::request::Parts;
use tollgate_storage::Decision;
use tollgate_types::{AccountId, Credits, Error, RequestId, Timestamp};

use crate::error::ApiError;
use crate::family::Family;
use crate::max_cost::MaxCost;

/// One request. Handlers note what the answer's headers and the log should say.
#[derive(Debug)]
pub struct RequestContext {
    /// Its id, always ours.
    pub id: RequestId,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// Where it comes from, as far as trusted proxies say.
    pub peer: IpAddr,
    /// Whose clients it comes from.
    pub family: Family,
    /// What it may cost.
    pub max_cost: MaxCost,
    pub(crate) id_header: HeaderValue,
    pub(crate) started_micros: u64,
    /// How long its body may take before it must keep up a pace.
    pub(crate) body_time: Duration,
    notes: Mutex<Notes>,
}

/// What handlers have noted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Notes {
    pub(crate) account: Option<AccountId>,
    pub(crate) requests: Option<Decision>,
    pub(crate) tokens: Option<Decision>,
    pub(crate) upstream_wait: Option<Duration>,
    pub(crate) cost: Option<Credits>,
    pub(crate) ignored: Option<String>,
    pub(crate) structure: Option<&'static str>,
}

impl RequestContext {
    pub(crate) fn new(
        id: RequestId,
        accepted_at: Timestamp,
        started_micros: u64,
        peer: IpAddr,
        family: Family,
        max_cost: MaxCost,
        body_time: Duration,
    ) -> Option<Self> {
        let id_header = HeaderValue::from_maybe_shared(bytes::Bytes::from(id.to_string())).ok()?;
        Some(Self {
            id,
            accepted_at,
            peer,
            family,
            max_cost,
            id_header,
            started_micros,
            body_time,
            notes: Mutex::default(),
        })
    }

    /// A request that was accepted before and whose connection is gone. Nobody reads what is noted of it.
    pub fn of_accepted(id: RequestId, accepted_at: Timestamp, max_cost: Option<Credits>) -> Self {
        Self {
            id,
            accepted_at,
            peer: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            family: Family::Common,
            max_cost: max_cost.map_or(MaxCost::Unsaid, MaxCost::Most),
            id_header: HeaderValue::from_static(""),
            started_micros: 0,
            body_time: Duration::MAX,
            notes: Mutex::default(),
        }
    }

    pub(crate) fn note(&self, change: impl FnOnce(&mut Notes)) {
        change(&mut self.notes.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// What was noted. The answer is there, so nothing is noted any more.
    pub(crate) fn take_notes(&self) -> Notes {
        std::mem::take(&mut self.notes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Notes how long the upstream took; the rest of the time is the gateway's own.
    pub fn note_upstream_wait(&self, wait: Duration) {
        self.note(|notes| notes.upstream_wait = Some(wait));
    }

    /// Notes what the call cost, for `x-tollgate-cost`.
    pub fn note_cost(&self, cost: Credits) {
        self.note(|notes| notes.cost = Some(cost));
    }

    /// Notes how the answer got its shape, for `x-tollgate-structured`.
    pub fn note_structure(&self, how: Option<&'static str>) {
        if how.is_some() {
            self.note(|notes| notes.structure = how);
        }
    }

    /// Notes the window of tokens, for the limit headers.
    pub fn note_tokens(&self, decision: Decision) {
        self.note(|notes| notes.tokens = Some(decision));
    }

    /// Notes hints of the request that were dropped, for `x-tollgate-ignored`.
    pub fn note_ignored(&self, fields: &[&str]) {
        for field in fields {
            self.note(|notes| {
                let names = notes.ignored.get_or_insert_default();
                if names.split(',').any(|name| name == *field) {
                    return;
                }
                if !names.is_empty() {
                    names.push(',');
                }
                names.push_str(field);
            });
        }
    }
}

/// Extracts the context that the shell put there.
#[derive(Clone, Debug)]
pub struct Context(pub Arc<RequestContext>);

impl<S: Send + Sync> FromRequestParts<S> for Context {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        context_of(parts).map(Context)
    }
}

pub(crate) fn context_of(parts: &Parts) -> Result<Arc<RequestContext>, ApiError> {
    let found = parts.extensions.get::<Arc<RequestContext>>().cloned();
    found.ok_or_else(|| ApiError(Error::internal("the request did not pass the shell")))
}
