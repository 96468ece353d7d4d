//! What the stages must know of an operation. Everything else about a call is the same for all of them: routes, limits,
//! holds, retries, who owns the call, and how it is settled.

use std::sync::Arc;

use tollgate_upstream::UpstreamError;

use crate::Pipeline;
use crate::admit::Admission;
use crate::dispatch::{Dispatched, Failure};
use crate::owned::Caller;
use crate::route::Route;
use crate::structured::Structure;

/// An answer that can be delivered, and how it got its shape if the gateway had to see to it.
pub(crate) type Completed<R> = Result<(Dispatched<R>, Option<Structure>), Failure>;

/// An operation, named by the call that an upstream gets. The stages are compiled for each; nothing is looked up while a
/// call runs.
pub(crate) trait Operation: Sized + Send + Sync + 'static {
    /// What an upstream answers with.
    type Reply: Send;
    /// What the caller gets.
    type Answer: Send + 'static;

    /// The parameter that carries what the model reads.
    fn input(&self) -> &'static str;

    /// Stage 3 at one candidate: called once for each attempt.
    fn attempt(
        pipeline: &Pipeline,
        admission: &Admission<Self>,
        route: &Route,
    ) -> impl Future<Output = Result<Self::Reply, UpstreamError>> + Send;

    /// What an answer has to go through before it is delivered; most go through nothing.
    fn complete(
        pipeline: &Pipeline,
        admission: &mut Admission<Self>,
        caller: &Caller,
        dispatched: Dispatched<Self::Reply>,
    ) -> impl Future<Output = Completed<Self::Reply>> + Send {
        let _ = (pipeline, admission, caller);
        async { Ok((dispatched, None)) }
    }

    /// Stages 4 and 5 of a call that an upstream answers; `left` says whether its caller has left.
    fn deliver(
        pipeline: Arc<Pipeline>,
        admission: Admission<Self>,
        dispatched: Dispatched<Self::Reply>,
        left: bool,
    ) -> impl Future<Output = Self::Answer> + Send;
}
