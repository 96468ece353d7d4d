//! What deployments were found not to have. It lasts as long as the process: a deployment that has learned something since
//! is asked for it after the next start.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tollgate_upstream::{UpstreamError, UpstreamErrorKind};

/// By what numbers are had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Means {
    /// An endpoint that takes questions.
    Questions,
    /// The probabilities of tokens that are named by their numbers.
    TokenIds,
    /// An endpoint of the server's own that tells the likeliest tokens.
    Completion,
    /// The probabilities of the likeliest tokens beside an answer.
    Logprobs,
}

impl Means {
    /// Whether an error says that a deployment does not have them.
    pub(super) fn is_lacking(self, error: &UpstreamError) -> bool {
        let names = |words: &[&str]| {
            let param = error.param.as_deref().unwrap_or_default();
            words.iter().any(|word| param.contains(word))
        };
        let is_rejected = error.kind == UpstreamErrorKind::Rejected;
        match self {
            // A model that decides nothing is unknown there, or not taken.
            Means::Questions => {
                matches!(error.status, Some(404 | 405 | 501)) || (is_rejected && names(&["model"]))
            }
            Means::TokenIds | Means::Completion => {
                matches!(error.status, Some(404 | 405 | 501))
                    || (is_rejected && names(&["logprob", "n_probs"]))
            }
            Means::Logprobs => is_rejected && names(&["logprob", "Logprob"]),
        }
    }
}

#[derive(Debug, Default)]
struct Known {
    lacks: Vec<Means>,
    /// How many of the likeliest tokens were told when more were asked for.
    most: Option<usize>,
}

/// What is known of each model of a provider.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<HashMap<String, Known>>);

impl Memory {
    fn models(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing is known that speaks against these means.
    pub(crate) fn may_have(&self, model: &str, means: Means) -> bool {
        let models = self.models();
        models
            .get(model)
            .is_none_or(|known| !known.lacks.contains(&means))
    }

    /// This model has not these means.
    pub(crate) fn lacks(&self, model: &str, means: Means) {
        let mut models = self.models();
        let known = models.entry(model.to_owned()).or_default();
        if !known.lacks.contains(&means) {
            known.lacks.push(means);
        }
    }

    /// How many of the likeliest tokens this model tells, of so many that may be asked for.
    pub(crate) fn most(&self, model: &str, asked: usize) -> usize {
        let models = self.models();
        let found = models.get(model).and_then(|known| known.most);
        found.map_or(asked, |most| most.min(asked))
    }

    /// This model told so many, although more were asked for.
    pub(crate) fn told_fewer(&self, model: &str, most: usize) {
        self.models().entry(model.to_owned()).or_default().most = Some(most);
    }
}
