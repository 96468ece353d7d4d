//! The operation-specific part of a call. Routes, limits, holds, retries and settlement are common
//! to all operations.

use std::sync::Arc;

use tollgate_upstream::UpstreamError;

use crate::Pipeline;
use crate::admit::Admission;
use crate::dispatch::{Dispatched, Failure};
use crate::route::Route;
use crate::run_to_completion::Caller;
use crate::structured::Structure;

/// A response that is ready for delivery, and its structure if the gateway enforced a schema.
pub(crate) type Completed<R> = Result<(Dispatched<R>, Option<Structure>), Failure>;

/// An operation, identified by the type of its upstream call. The stages are monomorphized for each
/// operation.
pub(crate) trait Operation: Sized + Send + Sync + 'static {
    /// Reply of an upstream.
    type Reply: Send;
    /// Response for the caller.
    type Answer: Send + 'static;

    /// Returns the name of the request parameter that contains the model's input.
    fn input(&self) -> &'static str;

    /// Whether the caller's request has the top-level parameter of this path. By default, `true`.
    fn has_param(&self, path: &str) -> bool {
        let _ = path;
        true
    }

    /// Sends the call to one candidate (stage 3). Called once for each attempt.
    fn attempt(
        pipeline: &Pipeline,
        admission: &Admission<Self>,
        route: &Route,
    ) -> impl Future<Output = Result<Self::Reply, UpstreamError>> + Send;

    /// Processes the reply before delivery, for example to enforce a schema. By default, returns it
    /// unchanged.
    fn complete(
        pipeline: &Pipeline,
        admission: &mut Admission<Self>,
        caller: &Caller,
        dispatched: Dispatched<Self::Reply>,
    ) -> impl Future<Output = Completed<Self::Reply>> + Send {
        let _ = (pipeline, admission, caller);
        async { Ok((dispatched, None)) }
    }

    /// Meters, settles and delivers the reply (stages 4 and 5). `left` is `true` if the caller has
    /// disconnected.
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
