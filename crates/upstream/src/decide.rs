//! Typed decisions by an upstream: a state and questions in, probabilities out. There are four
//! methods; a provider reports which of them a model supports.

use std::sync::Arc;

use async_trait::async_trait;
use tollgate_types::Usage;
use tollgate_types::decide::{Decision, DecisionSource, Question, State};

use crate::context::CallContext;
use crate::error::UpstreamError;

/// Method of obtaining probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecisionWay {
    /// The upstream accepts questions and returns probabilities.
    Native {
        /// Maximum questions per request.
        questions: usize,
        /// Maximum options per choice.
        options: usize,
        /// Whether it supports function questions; if not, they are sent as choices.
        tools: bool,
        /// Whether it supports `abstain`; if not, a separate question is sent.
        abstain: bool,
    },
    /// The upstream returns the probability of each label as the next token.
    Logits {
        /// Maximum labels per request.
        labels: usize,
    },
    /// The upstream returns the log probabilities of the most likely next tokens.
    TopLogprobs {
        /// Maximum tokens returned.
        max: usize,
    },
    /// Answers are sampled: the upstream returns one of the labels.
    Sampled {
        /// Maximum answers per request.
        max_answers: u32,
    },
}

impl DecisionWay {
    /// Source of the probabilities, as reported to the caller.
    pub const fn source(self) -> DecisionSource {
        match self {
            DecisionWay::Native { .. } => DecisionSource::Native,
            DecisionWay::Logits { .. } => DecisionSource::Logits,
            DecisionWay::TopLogprobs { .. } => DecisionSource::TopLogprobs,
            DecisionWay::Sampled { .. } => DecisionSource::Sampled,
        }
    }
}

/// Questions for an upstream that answers questions natively.
#[derive(Clone, Debug)]
pub struct RelayCall {
    /// The provider's name of the model.
    pub upstream_model: Arc<str>,
    /// State that the questions are about. Its media are data URLs.
    pub state: Arc<State>,
    /// Questions within the limits of [`DecisionWay::Native`].
    pub questions: Vec<Question>,
}

/// Answers to relayed questions.
#[derive(Debug)]
pub struct RelayAnswer {
    /// One decision for each question, in order.
    pub decisions: Vec<Decision>,
    /// Usage reported by the upstream.
    pub usage: Option<Usage>,
}

/// A question answered by a label: the state, then a text after which the label follows.
#[derive(Clone, Debug)]
pub struct LabelCall {
    /// The provider's name of the model.
    pub upstream_model: Arc<str>,
    /// State that the question is about. Its media are data URLs. It comes first, so that a
    /// provider's prompt cache serves all questions about it.
    pub state: Arc<State>,
    /// Instructions, each label with its option, and the answer format.
    pub question: Arc<str>,
    /// Allowed labels; none is a prefix of another.
    pub labels: Arc<[String]>,
    /// Sampling seed, for upstreams that support one.
    pub seed: u64,
}

/// Probabilities of the labels.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelReading {
    /// Natural logarithm of each label's probability among all tokens, in the order of the call;
    /// `None` if it was not returned. Spellings of a label (` A`, `a`) are summed.
    pub logprobs: Vec<Option<f64>>,
    /// Upper bound on the log probability of labels that were not returned.
    pub rest: Option<f64>,
    /// Number of requests sent to the model.
    pub requests: u32,
    /// Usage reported by the upstream.
    pub usage: Option<Usage>,
}

/// Size of one request for sampled answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// Number of answers, within the limit of [`DecisionWay::Sampled`].
    pub answers: u32,
    /// Maximum output tokens of each answer, reasoning included.
    pub max_tokens: u64,
}

/// Counts of sampled labels of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelDraws {
    /// Count of each label, in the order of the call. A server may return fewer answers than
    /// requested, never more.
    pub counts: Vec<u32>,
    /// Answers that match no label.
    pub others: u32,
    /// Answers among `others` that were still reasoning at the token limit.
    pub unfinished: u32,
    /// Usage reported by the upstream.
    pub usage: Option<Usage>,
}

impl LabelDraws {
    /// Number of answers, including those that match no label.
    pub fn answers(&self) -> u32 {
        self.counts.iter().sum::<u32>() + self.others
    }
}

/// Port for typed decisions.
#[async_trait]
pub trait DecideProvider: Send + Sync {
    /// Methods that this model supports for this state, best first; empty if none. Methods that the
    /// deployment was found not to support, or that do not accept the state's media, are left out.
    fn decision_ways(&self, upstream_model: &str, state: &State) -> Vec<DecisionWay>;

    /// Relays questions unchanged. `None` if the deployment turns out not to answer questions.
    async fn relay(&self, ctx: &CallContext, call: &RelayCall) -> Result<Option<RelayAnswer>, UpstreamError> {
        let _ = (ctx, call);
        Ok(None)
    }

    /// Up to `number` labels that are single tokens of the model.
    async fn labels(
        &self,
        ctx: &CallContext,
        upstream_model: &str,
        number: usize,
    ) -> Result<Vec<String>, UpstreamError> {
        let _ = (ctx, upstream_model);
        Ok(letters().take(number).collect())
    }

    /// Reads the probability of each label. `None` if the deployment turns out not to support
    /// `way`.
    async fn read_labels(
        &self,
        ctx: &CallContext,
        way: DecisionWay,
        call: &LabelCall,
    ) -> Result<Option<LabelReading>, UpstreamError> {
        let _ = (ctx, way, call);
        Ok(None)
    }

    /// Samples answers with one request. `None` if the deployment turns out not to support it.
    async fn draw_labels(
        &self,
        ctx: &CallContext,
        call: &LabelCall,
        draw: Draw,
    ) -> Result<Option<LabelDraws>, UpstreamError> {
        let _ = (ctx, call, draw);
        Ok(None)
    }
}

/// The letters A to Z, each a single token in every known vocabulary.
pub fn letters() -> impl Iterator<Item = String> {
    ('A'..='Z').map(String::from)
}
