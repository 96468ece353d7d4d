//! Content policy: checks prompts before they are sent to an upstream, and responses before they
//! are sent to the caller.
//!
//! Before a call, [`Policy::check_input`] rejects forbidden prompts. After the call, `whole`
//! censors complete responses, `stream` censors streamed ones, and `inspection` ends speech.
//! Without a policy, nothing is checked.

mod classify;
mod inspection;
mod moderate;
mod rules;
mod stream;
mod whole;
mod window;

use std::sync::Arc;

use tollgate_types::{Error, ErrorCode, RequestId};
use tollgate_upstream::UpstreamError;

pub use classify::{Classifier, OnError};
pub use inspection::OutputInspection;
pub use rules::{Rule, RuleError, RuleSpec};

/// Configured rules and classifiers; a reload replaces all of them.
#[derive(Debug, Default)]
pub struct Policy {
    /// Rules for prompts.
    pub input: Vec<Arc<Rule>>,
    /// Rules for responses.
    pub output: Vec<Arc<Rule>>,
    /// Classifier for prompts.
    pub input_classifier: Option<Arc<Classifier>>,
    /// Classifier for responses.
    pub output_classifier: Option<Arc<Classifier>>,
}

impl Policy {
    /// Whether responses are inspected.
    pub fn inspects_output(&self) -> bool {
        !self.output.is_empty() || self.output_classifier.is_some()
    }

    /// Whether prompts are inspected.
    pub fn inspects_input(&self) -> bool {
        !self.input.is_empty() || self.input_classifier.is_some()
    }

    /// Returns `content_policy_violation` if a text is forbidden. The error names neither the rule
    /// nor the text.
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

/// Returns the public error for a blocked prompt.
pub(crate) fn blocked() -> Error {
    let message =
        "The prompt was blocked by the content policy. Change the prompt; sending it again will not help.";
    Error::new(ErrorCode::ContentPolicyViolation, message)
}

/// Returns the error for a response that must be inspected but is not in the common form. It cannot
/// be checked, so it is not delivered.
fn not_common() -> UpstreamError {
    UpstreamError::protocol("an inspected response is not in the common form")
}
