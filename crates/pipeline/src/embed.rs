//! Embeddings: one response without streaming, charged by input only.

use std::sync::Arc;

use tollgate_billing::Charge;
use tollgate_upstream::{EmbedAnswer, EmbedCall, EmbedPayload, UpstreamError};

use crate::Pipeline;
use crate::admit::Admission;
use crate::dispatch::Dispatched;
use crate::operation::{Operation, names_param};
use crate::route::Route;

/// Embeddings of a settled call.
pub struct Embedded {
    /// Vectors in the caller's format or in the common form.
    pub payload: EmbedPayload,
    /// Settled cost, computed from the input tokens only.
    pub charge: Charge,
}

impl Operation for EmbedCall {
    type Reply = EmbedAnswer;
    type Answer = Embedded;

    fn input(&self) -> &'static str {
        "input"
    }

    fn has_param(&self, path: &str) -> bool {
        names_param(&self.body, path)
    }

    async fn attempt(
        pipeline: &Pipeline,
        admission: &Admission<Self>,
        route: &Route,
    ) -> Result<EmbedAnswer, UpstreamError> {
        let Some(embeddings) = route.provider.embeddings() else {
            return Err(UpstreamError::connect("the provider does not support embeddings"));
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
        let Dispatched { reply, target } = dispatched;
        let charge = pipeline
            .settle_whole(admission, reply.usage, 0, reply.output_bytes, target, left)
            .await;
        Embedded {
            payload: reply.payload,
            charge,
        }
    }
}
