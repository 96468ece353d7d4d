//! Moderation by a provider: one answer, no stream, nothing to pay.

use std::sync::Arc;

use tollgate_billing::Charge;
use tollgate_types::Usage;
use tollgate_types::moderate::ModerationAnswer;
use tollgate_upstream::{ModerationCall, UpstreamError};

use crate::Pipeline;
use crate::admit::Admission;
use crate::dispatch::Dispatched;
use crate::operation::Operation;
use crate::route::Route;

/// What was found, settled.
pub struct Moderated {
    /// The answer.
    pub answer: ModerationAnswer,
    /// What it cost: nothing, since no model reports what it consumed.
    pub charge: Charge,
}

impl Operation for ModerationCall {
    type Reply = ModerationAnswer;
    type Answer = Moderated;

    fn input(&self) -> &'static str {
        "input"
    }

    async fn attempt(
        pipeline: &Pipeline,
        admission: &Admission<Self>,
        route: &Route,
    ) -> Result<ModerationAnswer, UpstreamError> {
        let Some(moderations) = route.provider.moderations() else {
            return Err(UpstreamError::connect("the provider has no moderations"));
        };
        let mut call = admission.request.call.clone();
        call.upstream_model = route.candidate.upstream_model.clone();
        moderations.moderate(&pipeline.context(admission), &call).await
    }

    async fn deliver(
        pipeline: Arc<Pipeline>,
        admission: Admission<Self>,
        dispatched: Dispatched<ModerationAnswer>,
        left: bool,
    ) -> Moderated {
        let Dispatched { reply, provider } = dispatched;
        let charge = pipeline
            .settle_whole(admission, Some(Usage::ZERO), 0, provider, left)
            .await;
        Moderated {
            answer: reply,
            charge,
        }
    }
}
