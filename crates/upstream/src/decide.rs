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
        /// Maximum number of questions per request.
        questions: usize,
        /// Maximum number of options per choice.
        options: usize,
        /// Whether the upstream supports function questions; if not, the gateway sends them as
        /// choices.
        tools: bool,
        /// Whether the upstream supports `abstain`; if not, the gateway sends a separate question.
        abstain: bool,
    },
    /// The upstream returns the probability of each label as the next token.
    Logits {
        /// Maximum number of labels per request.
        labels: usize,
    },
    /// The upstream returns the log probabilities of the most likely next tokens.
    TopLogprobs {
        /// Maximum number of tokens returned per position.
        max: usize,
    },
    /// Answers are sampled: the upstream returns one of the labels.
    Sampled {
        /// Maximum number of answers per request.
        max_answers: u32,
    },
}

impl DecisionWay {
    /// Returns the source of the probabilities, as reported to the caller.
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
    /// One decision for each question, in the order of the call.
    pub decisions: Vec<Decision>,
    /// Usage reported by the upstream.
    pub usage: Option<Usage>,
}

/// A question answered by a label: the state, then a text after which the label follows.
#[derive(Clone, Debug)]
pub struct LabelCall {
    /// The provider's name of the model.
    pub upstream_model: Arc<str>,
    /// State that the question is about. Its media are data URLs. The state precedes the question,
    /// so that a provider's prompt cache serves all questions about it.
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
    /// `None` for a label that was not returned. The probabilities of all spellings of a label
    /// (`A`, ` A`, `a`) are summed.
    pub logprobs: Vec<Option<f64>>,
    /// Upper bound on the log probability of each label that was not returned; `None` if there is
    /// no bound.
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
    /// Maximum number of output tokens of each answer, including reasoning.
    pub max_tokens: u64,
}

/// Counts of sampled labels of one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LabelDraws {
    /// Count of each label, in the order of the call. A server may return fewer answers than
    /// requested, never more.
    pub counts: Vec<u32>,
    /// Number of answers that match no label.
    pub others: u32,
    /// Number of answers among `others` that were still reasoning at the token limit.
    pub unfinished: u32,
    /// Usage reported by the upstream.
    pub usage: Option<Usage>,
}

impl LabelDraws {
    /// Returns the number of answers, including those that match no label.
    pub fn answers(&self) -> u32 {
        self.counts.iter().sum::<u32>() + self.others
    }
}

/// Port for typed decisions.
#[async_trait]
pub trait DecideProvider: Send + Sync {
    /// Returns the methods that this model supports for this state, best first; empty if none.
    /// Excludes methods that the deployment was found not to support, and methods that do not
    /// accept the state's media.
    fn decision_ways(&self, upstream_model: &str, state: &State) -> Vec<DecisionWay>;

    /// Relays questions unchanged. Returns `None` if the deployment turns out not to answer
    /// questions.
    async fn relay(&self, ctx: &CallContext, call: &RelayCall) -> Result<Option<RelayAnswer>, UpstreamError> {
        let _ = (ctx, call);
        Ok(None)
    }

    /// Returns up to `number` labels that are single tokens of the model.
    async fn labels(
        &self,
        ctx: &CallContext,
        upstream_model: &str,
        number: usize,
    ) -> Result<Vec<String>, UpstreamError> {
        let _ = (ctx, upstream_model);
        Ok(letters().take(number).collect())
    }

    /// Reads the probability of each label. Returns `None` if the deployment turns out not to
    /// support `way`.
    async fn read_labels(
        &self,
        ctx: &CallContext,
        way: DecisionWay,
        call: &LabelCall,
    ) -> Result<Option<LabelReading>, UpstreamError> {
        let _ = (ctx, way, call);
        Ok(None)
    }

    /// Samples answers with one request. Returns `None` if the deployment turns out not to support
    /// sampling.
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

/// Returns the letters A to Z, each a single token in every known vocabulary.
pub fn letters() -> impl Iterator<Item = String> {
    ('A'..='Z').map(String::from)
}
