//! Capabilities that a deployment was found to lack. They are stored in memory: after a restart,
//! the gateway tries again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_upstream::{UpstreamError, UpstreamErrorKind};

/// Method of obtaining probabilities, which a deployment may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Capability {
    /// An endpoint that accepts questions.
    Questions,
    /// Log probabilities of given token ids.
    TokenIds,
    /// The server's own completion endpoint, with the top tokens.
    Completion,
    /// Log probabilities of the top tokens of a chat response.
    Logprobs,
}

impl Capability {
    /// Whether an error means that the deployment lacks the capability.
    pub(super) fn is_missing(self, error: &UpstreamError) -> bool {
        let names = |words: &[&str]| {
            let param = error.param.as_deref().unwrap_or_default();
            words.iter().any(|word| param.contains(word))
        };
        let is_rejected = error.kind == UpstreamErrorKind::Rejected;
        match self {
            // At this endpoint, a model that does not support decisions is unknown or rejected.
            Capability::Questions => {
                matches!(error.status, Some(404 | 405 | 501)) || (is_rejected && names(&["model"]))
            }
            Capability::TokenIds | Capability::Completion => {
                matches!(error.status, Some(404 | 405 | 501))
                    || (is_rejected && names(&["logprob", "n_probs"]))
            }
            Capability::Logprobs => is_rejected && names(&["logprob", "Logprob"]),
        }
    }
}

#[derive(Debug, Default)]
struct KnownModel {
    lacks: Vec<Capability>,
    /// Maximum number of top tokens, learned from a response with fewer than requested.
    max: Option<usize>,
}

/// Missing capabilities and limits, by model.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<HashMap<String, KnownModel>>);

impl Memory {
    fn models(&self) -> MutexGuard<'_, HashMap<String, KnownModel>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no attempt has shown that the model lacks the capability.
    pub(crate) fn may_have(&self, model: &str, capability: Capability) -> bool {
        let models = self.models();
        models
            .get(model)
            .is_none_or(|known| !known.lacks.contains(&capability))
    }

    /// Records that the model lacks the capability.
    pub(crate) fn lacks(&self, model: &str, capability: Capability) {
        let mut models = self.models();
        let known = models.entry(model.to_owned()).or_default();
        if !known.lacks.contains(&capability) {
            known.lacks.push(capability);
        }
    }

    /// Returns `asked`, limited to the number of top tokens that the model was found to return.
    pub(crate) fn max(&self, model: &str, asked: usize) -> usize {
        let models = self.models();
        let found = models.get(model).and_then(|known| known.max);
        found.map_or(asked, |max| max.min(asked))
    }

    /// Records that the model returned only `max` top tokens.
    pub(crate) fn set_max_logprobs(&self, model: &str, max: usize) {
        self.models().entry(model.to_owned()).or_default().max = Some(max);
    }
}
