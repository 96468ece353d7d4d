//! Typed decisions by an upstream: a state and questions in, probabilities out. There are four ways to them, and a
//! provider says which of them a model of its offers.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_types::Usage;
use tollgate_types::decide::{Decision, DecisionSource, Question, State};

use crate::context::CallContext;
use crate::error::UpstreamError;

/// A way to numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionWay {
    /// The upstream takes questions and answers with probabilities.
    Native {
        /// The most questions of a request.
        questions: usize,
        /// The most options of a choice.
        options: usize,
        /// Whether it knows the question of functions; otherwise it is asked as choices.
        tools: bool,
        /// Whether it knows `abstain`; otherwise that is asked as a question of its own.
        abstain: bool,
    },
    /// It tells how probable each label is to be the next token.
    Logits {
        /// The most labels of a request.
        labels: usize,
    },
    /// It tells how probable the likeliest next tokens are.
    TopLogprobs {
        /// How many of them.
        most: usize,
    },
    /// It answers with one of the labels, and may be asked again.
    Sampled {
        /// How many answers a request may ask for.
        at_once: u32,
    },
}

impl DecisionWay {
    /// What numbers that were obtained so are called.
    pub const fn source(self) -> DecisionSource {
        match self {
            DecisionWay::Native { .. } => DecisionSource::Native,
            DecisionWay::Logits { .. } => DecisionSource::Logits,
            DecisionWay::TopLogprobs { .. } => DecisionSource::TopLogprobs,
            DecisionWay::Sampled { .. } => DecisionSource::Sampled,
        }
    }
}

/// Questions for an upstream that takes questions.
#[derive(Clone, Debug)]
pub struct RelayCall {
    /// The model's name at the upstream.
    pub upstream_model: Arc<str>,
    /// What is decided about. Its media are data URLs.
    pub state: Arc<State>,
    /// No more of them, and no wider ones, than the way says; of its kinds.
    pub questions: Vec<Question>,
}

/// Its answers.
#[derive(Debug)]
pub struct RelayAnswer {
    /// One for each question, in their order.
    pub decisions: Vec<Decision>,
    /// What the upstream says it consumed.
    pub usage: Option<Usage>,
}

/// A question that a label answers: a state, then a text that ends where the label is to follow.
#[derive(Clone, Debug)]
pub struct LabelCall {
    /// The model's name at the upstream.
    pub upstream_model: Arc<str>,
    /// What is decided about. Its media are data URLs. It stands first, so that a provider's prefix cache serves all
    /// questions about it.
    pub state: Arc<State>,
    /// What is asked: instructions, each label with what it stands for, and how to answer.
    pub question: Arc<str>,
    /// What may be answered; no label begins as another does.
    pub labels: Arc<[String]>,
    /// Decides what is drawn, where the upstream takes a seed.
    pub seed: u64,
}

/// How probable labels are.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelReading {
    /// The natural logarithm of each label's probability among all tokens, in the order of the call; `None` where it was
    /// not told. Spellings of a label (` A`, `a`) are added up.
    pub logprobs: Vec<Option<f64>>,
    /// What is not told is at most so probable, as a logarithm.
    pub rest: Option<f64>,
    /// How many requests to the model that took.
    pub requests: u32,
}

/// How often each label was answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelDraws {
    /// In the order of the call.
    pub counts: Vec<u32>,
    /// Answers that were none of the labels.
    pub others: u32,
    /// How many requests to the model that took.
    pub requests: u32,
}

/// Decides.
#[async_trait]
pub trait DecideProvider: Send + Sync {
    /// How this model may be brought to numbers about this state, best first; none when it cannot be. What a deployment was
    /// found not to have is no longer among them, nor is a way that does not take the state's media.
    fn decision_ways(&self, upstream_model: &str, state: &State) -> Vec<DecisionWay>;

    /// Asks questions as they are. `None` when the deployment turns out not to take questions.
    async fn relay(&self, ctx: &CallContext, call: &RelayCall) -> Result<Option<RelayAnswer>, UpstreamError> {
        let _ = (ctx, call);
        Ok(None)
    }

    /// So many labels, each of which is one token of the model; fewer when there are not so many.
    async fn labels(
        &self,
        ctx: &CallContext,
        upstream_model: &str,
        number: usize,
    ) -> Result<Vec<String>, UpstreamError> {
        let _ = (ctx, upstream_model);
        Ok(letters().take(number).collect())
    }

    /// How probable each label is, in this way. `None` when the deployment turns out not to tell.
    async fn read_labels(
        &self,
        ctx: &CallContext,
        way: DecisionWay,
        call: &LabelCall,
    ) -> Result<Option<LabelReading>, UpstreamError> {
        let _ = (ctx, way, call);
        Ok(None)
    }

    /// So many answers, each drawn by itself.
    async fn draw_labels(
        &self,
        ctx: &CallContext,
        call: &LabelCall,
        number: u32,
    ) -> Result<Option<LabelDraws>, UpstreamError> {
        let _ = (ctx, call, number);
        Ok(None)
    }
}

/// The letters, which are a token each in every vocabulary.
pub fn letters() -> impl Iterator<Item = String> {
    ('A'..='Z').map(String::from)
}
