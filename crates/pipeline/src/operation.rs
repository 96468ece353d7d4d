//! The operation-specific part of a call. Routes, limits, holds, retries, call ownership and
//! settlement are common to all operations.

use std::sync::Arc;

use tollgate_upstream::UpstreamError;

use crate::Pipeline;
use crate::admit::Admission;
use crate::dispatch::{Dispatched, Failure};
use crate::route::Route;
use crate::run_to_completion::Caller;
use crate::structured::Structure;

/// An answer ready for delivery, and its structure if the gateway enforced a schema.
pub(crate) type Completed<R> = Result<(Dispatched<R>, Option<Structure>), Failure>;

/// An operation, identified by the type of its upstream call. The stages are monomorphized per
/// operation; there is no dynamic lookup.
pub(crate) trait Operation: Sized + Send + Sync + 'static {
    /// Reply of an upstream.
    type Reply: Send;
    /// Answer for the caller.
    type Answer: Send + 'static;

    /// The parameter that carries the model's input.
    fn input(&self) -> &'static str;

    /// Whether the caller's request has the top-level parameter of this path.
    fn has_param(&self, path: &str) -> bool {
        let _ = path;
        true
    }

    /// Stage 3 at one candidate: called once for each attempt.
    fn attempt(
        pipeline: &Pipeline,
        admission: &Admission<Self>,
        route: &Route,
    ) -> impl Future<Output = Result<Self::Reply, UpstreamError>> + Send;

    /// Post-processing before delivery, such as schema enforcement; none by default.
    fn complete(
        pipeline: &Pipeline,
        admission: &mut Admission<Self>,
        caller: &Caller,
        dispatched: Dispatched<Self::Reply>,
    ) -> impl Future<Output = Completed<Self::Reply>> + Send {
        let _ = (pipeline, admission, caller);
        async { Ok((dispatched, None)) }
    }

    /// Stages 4 and 5 of an answered call. `left` is true if its caller has left.
    fn deliver(
        pipeline: Arc<Pipeline>,
        admission: Admission<Self>,
        dispatched: Dispatched<Self::Reply>,
        left: bool,
    ) -> impl Future<Output = Self::Answer> + Send;
}

/// Whether a JSON object has the top-level parameter of a path such as `messages[0].content`.
pub(crate) fn names_param(body: &[u8], path: &str) -> bool {
    let first = path.split(['.', '[']).next().unwrap_or_default();
    let request: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    request.get(first).is_some()
}
