//! Decisions. The Gemini API has an endpoint for questions, which some models support. Other models
//! return labels with `:generateContent`, by the probabilities of the top tokens or by sampled
//! answers.

use async_trait::async_trait;
use tollgate_formats::decisions::Shape;
use tollgate_types::decide::{State, StateMediaKind};
use tollgate_upstream::{
    CallContext, DecideProvider, DecisionWay, Draw, LabelCall, LabelDraws, LabelReading, RelayAnswer,
    RelayCall, UpstreamError,
};

use super::adapter::Gemini;
use super::surface::Surface;
use crate::decisions::{Capability, TextLabels, attempt_outcome, native};

/// Path of the endpoint for questions (`POST /v1beta/decisions`).
const PATH: &str = "/decisions";
const SHAPE: Shape = Shape::Google;
/// Maximum number of top tokens (ai.google.dev/api/generate-content, `logprobs`).
const TOP_LOGPROBS: usize = 20;
/// Maximum numbers of questions and options of a request.
const NATIVE: DecisionWay = DecisionWay::Native {
    questions: 128,
    options: 255,
    tools: false,
    abstain: false,
};

/// Creates the encoder of label calls for Gemini's models.
pub(super) fn text_labels() -> TextLabels {
    TextLabels::new(&StateMediaKind::ALL, TOP_LOGPROBS)
}

impl Gemini {
    fn takes_questions(&self, model: &str, state: &State) -> bool {
        self.surface == Surface::Gemini
            && native::can_express(SHAPE, state)
            && self.decisions.memory().may_have(model, Capability::Questions)
    }
}

#[async_trait]
impl DecideProvider for Gemini {
    fn decision_ways(&self, upstream_model: &str, state: &State) -> Vec<DecisionWay> {
        let native = self.takes_questions(upstream_model, state).then_some(NATIVE);
        let text_labels = self.decisions.ways(upstream_model, state);
        native.into_iter().chain(text_labels).collect()
    }

    async fn relay(&self, ctx: &CallContext, call: &RelayCall) -> Result<Option<RelayAnswer>, UpstreamError> {
        let model = &call.upstream_model;
        if !self.takes_questions(model, &call.state) {
            return Ok(None);
        }
        let asked = |call: RelayCall| async move {
            let response = self.send(ctx, PATH, native::body(SHAPE, &call)?).await?;
            let answer = native::relayed(response, &self.http, SHAPE, &call.questions).await?;
            Ok(Some(answer))
        };
        let attempt = asked(call.clone()).await;
        let probed = asked(native::probe(call));
        attempt_outcome(
            self.decisions.memory(),
            model,
            Capability::Questions,
            attempt,
            probed,
        )
        .await
    }

    async fn read_labels(
        &self,
        ctx: &CallContext,
        way: DecisionWay,
        call: &LabelCall,
    ) -> Result<Option<LabelReading>, UpstreamError> {
        match way {
            DecisionWay::TopLogprobs { .. } => self.decisions.read(self, ctx, call).await,
            _ => Ok(None),
        }
    }

    async fn draw_labels(
        &self,
        ctx: &CallContext,
        call: &LabelCall,
        draw: Draw,
    ) -> Result<Option<LabelDraws>, UpstreamError> {
        self.decisions.draw(self, ctx, call, draw).await.map(Some)
    }
}
