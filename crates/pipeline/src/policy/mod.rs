//! The content policy: what may be sent to a model, and what of its answer may be shown.
//!
//! Before a call: [`Policy::check_input`], which refuses. After it: `whole` ends an answer that came at once, `stream`
//! one that comes piece by piece. Without a policy none of it is entered.

mod classify;
mod moderate;
mod rules;
mod stream;
mod whole;
mod window;

use std::sync::Arc;

use tollgate_types::{Error, ErrorCode, RequestId};
use tollgate_upstream::UpstreamError;

pub use classify::{Classifier, OnError};
pub use rules::{Rule, RuleError, RuleSpec};

/// What is configured; a reload replaces it as a whole.
#[derive(Debug, Default)]
pub struct Policy {
    /// Rules for what callers send.
    pub input: Vec<Arc<Rule>>,
    /// Rules for what models answer.
    pub output: Vec<Arc<Rule>>,
    /// Asked about what callers send.
    pub input_classifier: Option<Arc<Classifier>>,
    /// Asked about what models answer.
    pub output_classifier: Option<Arc<Classifier>>,
}

impl Policy {
    /// Whether answers are looked at.
    pub fn inspects_output(&self) -> bool {
        !self.output.is_empty() || self.output_classifier.is_some()
    }

    /// Whether what callers send is looked at.
    pub fn inspects_input(&self) -> bool {
        !self.input.is_empty() || self.input_classifier.is_some()
    }

    /// Refuses texts that must not be sent to a model. The caller is told neither which rule nor which text it was.
    pub async fn check_input(&self, request: RequestId, texts: &[String]) -> Result<(), Error> {
        let matching = |rule: &&Arc<Rule>| texts.iter().any(|text| rule.is_match(text));
        if let Some(rule) = self.input.iter().find(matching) {
            tracing::info!(request.id = %request, rule = %rule.name, "request blocked by the content policy");
            return Err(blocked());
        }
        match &self.input_classifier {
            Some(classifier) => classifier.check_input(request, texts).await,
            None => Ok(()),
        }
    }
}

/// What a caller is told whose prompt is not sent to a model.
pub(crate) fn blocked() -> Error {
    let message =
        "The prompt was blocked by the content policy. Change the prompt; sending it again will not help.";
    Error::new(ErrorCode::ContentPolicyViolation, message)
}

/// An adapter answers in the common form when it is told that its answer is inspected. What it says otherwise cannot be
/// looked at, and is not shown.
fn not_common() -> UpstreamError {
    UpstreamError::protocol("an answer that is inspected is not in the common form")
}
