//! Moderation by a provider: one response without streaming, free of charge.

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

/// Results of a settled moderation call.
pub struct Moderated {
    /// One result for each input.
    pub answer: ModerationAnswer,
    /// Settled cost: always zero.
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
            return Err(UpstreamError::connect("the provider does not support moderation"));
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
        let Dispatched { reply, target } = dispatched;
        let charge = pipeline
            .settle_whole(admission, Some(Usage::ZERO), 0, 0, target, left)
            .await;
        Moderated {
            answer: reply,
            charge,
        }
    }
}
