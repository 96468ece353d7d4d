//! Decisions: questions at the Gemini API, where the model answers them; else labels in `:generateContent`, by the likeliest
//! tokens where the model tells them, or by answers that are counted.

use async_trait::async_trait;
use tollgate_formats::decisions::Shape;
use tollgate_types::decide::{State, StateMediaKind};
use tollgate_upstream::{
    CallContext, DecideProvider, DecisionWay, LabelCall, LabelDraws, LabelReading, RelayAnswer, RelayCall,
    UpstreamError,
};

use super::adapter::Gemini;
use super::surface::Surface;
use crate::deciding::{ByText, Means, native, settled};

/// Where questions are taken (`POST /v1beta/decisions`).
const PATH: &str = "/decisions";
const SHAPE: Shape = Shape::Google;
/// How many of the likeliest tokens are told (ai.google.dev/api/generate-content, `logprobs`).
const LIKELIEST: usize = 20;
/// The most questions and options of a request.
const NATIVE: DecisionWay = DecisionWay::Native {
    questions: 128,
    options: 255,
    tools: false,
    abstain: false,
};

/// How its models are asked for labels.
pub(super) fn by_text() -> ByText {
    ByText::new(&StateMediaKind::ALL, LIKELIEST)
}

impl Gemini {
    fn takes_questions(&self, model: &str, state: &State) -> bool {
        self.surface == Surface::Gemini
            && native::carries(SHAPE, state)
            && self.deciding.memory().may_have(model, Means::Questions)
    }
}

#[async_trait]
impl DecideProvider for Gemini {
    fn decision_ways(&self, upstream_model: &str, state: &State) -> Vec<DecisionWay> {
        let native = self.takes_questions(upstream_model, state).then_some(NATIVE);
        let by_text = self.deciding.ways(upstream_model, state);
        native.into_iter().chain(by_text).collect()
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
        settled(self.deciding.memory(), model, Means::Questions, attempt, probed).await
    }

    async fn read_labels(
        &self,
        ctx: &CallContext,
        way: DecisionWay,
        call: &LabelCall,
    ) -> Result<Option<LabelReading>, UpstreamError> {
        match way {
            DecisionWay::TopLogprobs { .. } => self.deciding.read(self, ctx, call).await,
            _ => Ok(None),
        }
    }

    async fn draw_labels(
        &self,
        ctx: &CallContext,
        call: &LabelCall,
        number: u32,
    ) -> Result<Option<LabelDraws>, UpstreamError> {
        self.deciding.draw(self, ctx, call, number).await.map(Some)
    }
}
