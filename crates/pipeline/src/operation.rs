//! What the stages must know of an operation. Everything else about a call is the same for all of them: routes, limits,
//! holds, retries, who owns the call, and how it is settled.

use std::time::Duration;

use tokio::sync::oneshot;
use tollgate_types::Error;
use tollgate_upstream::UpstreamError;

use crate::Pipeline;
use crate::admit::Admission;
use crate::dispatch::Dispatched;
use crate::route::Route;
use crate::run::Served;

/// An operation, named by the call that an upstream gets. The stages are compiled for each; nothing is looked up while a
/// call runs.
pub(crate) trait Operation: Sized + Send + Sync + 'static {
    /// The parameter that carries what the model reads.
    const INPUT: &'static str;
    /// What an upstream answers with.
    type Reply: Send;
    /// What the caller gets.
    type Answer: Send + 'static;

    /// Stage 3 at one candidate: called once for each attempt.
    fn attempt(
        pipeline: &Pipeline,
        admission: &Admission<Self>,
        route: &Route,
    ) -> impl Future<Output = Result<Self::Reply, UpstreamError>> + Send;

    /// Stages 4 and 5 of a call that an upstream answers.
    fn deliver(
        pipeline: &Pipeline,
        admission: Admission<Self>,
        dispatched: Dispatched<Self::Reply>,
        waiting: Waiting<Self::Answer>,
    ) -> impl Future<Output = ()> + Send;
}

/// A caller that waits for its answer, unless it left.
pub(crate) struct Waiting<A> {
    pub(crate) answer: oneshot::Sender<Result<Served<A>, Error>>,
    /// Whether it is known to have left.
    pub(crate) left: bool,
    /// How long the upstream took.
    pub(crate) upstream_wait: Duration,
}

impl<A> Waiting<A> {
    /// Gives it the answer; whether it is there to take it.
    pub(crate) fn serve(self, answer: A) -> bool {
        let served = Served {
            answer,
            upstream_wait: self.upstream_wait,
        };
        self.answer.send(Ok(served)).is_ok() && !self.left
    }
}
