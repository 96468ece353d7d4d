//! Embeddings: one answer, no stream, nothing but input to pay.

use std::sync::Arc;

use tollgate_billing::Charge;
use tollgate_upstream::{EmbedAnswer, EmbedCall, EmbedPayload, UpstreamError};

use crate::Pipeline;
use crate::admit::Admission;
use crate::dispatch::Dispatched;
use crate::operation::Operation;
use crate::route::Route;

/// The vectors, settled.
pub struct Embedded {
    /// The answer.
    pub payload: EmbedPayload,
    /// What it cost.
    pub charge: Charge,
}

impl Operation for EmbedCall {
    type Reply = EmbedAnswer;
    type Answer = Embedded;

    fn input(&self) -> &'static str {
        "input"
    }

    async fn attempt(
        pipeline: &Pipeline,
        admission: &Admission<Self>,
        route: &Route,
    ) -> Result<EmbedAnswer, UpstreamError> {
        let Some(embeddings) = route.provider.embeddings() else {
            return Err(UpstreamError::connect("the provider has no embeddings"));
        };
        let mut call = admission.request.call.clone();
        call.upstream_model = route.candidate.upstream_model.clone();
        embeddings.embed(&pipeline.context(admission), &call).await
    }

    async fn deliver(
        pipeline: Arc<Pipeline>,
        admission: Admission<Self>,
        dispatched: Dispatched<EmbedAnswer>,
        left: bool,
    ) -> Embedded {
        let Dispatched { reply, provider } = dispatched;
        let charge = pipeline
            .settle_whole(admission, reply.usage, reply.output_bytes, provider, left)
            .await;
        Embedded {
            payload: reply.payload,
            charge,
        }
    }
}
