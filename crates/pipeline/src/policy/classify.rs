//! Content classification by an external classifier.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tollgate_types::moderate::{Category, Moderation, ModerationInput};
use tollgate_types::{Error, ErrorCode, RequestId, Retry};
use tollgate_upstream::{ModerationCall, ModerationProvider, UpstreamError};

use super::blocked;
use crate::admit::free_context;

/// Maximum size of a text to classify, in bytes; longer texts are split.
const MAX_PART_BYTES: usize = 16_000;
/// Maximum interval between classifications of a stream, in bytes. A classification may follow
/// earlier at the end of a sentence.
const MAX_STEP_BYTES: usize = 1_000;
/// Minimum interval between classifications at the end of a sentence, in bytes.
const MIN_STEP_BYTES: usize = 200;

/// Action when the classifier fails or times out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnError {
    /// Block the text.
    #[default]
    Refuse,
    /// Permit the text.
    Allow,
}

/// An external classifier with its thresholds.
pub struct Classifier {
    /// Provider of the classifier.
    pub port: Arc<dyn ModerationProvider>,
    /// The provider's name of the classifier model.
    pub model: Arc<str>,
    /// Minimum scores that forbid a text, by category. If empty, the flags of the classifier apply.
    pub thresholds: Vec<(String, f64)>,
    /// Timeout of one classification.
    pub timeout: Duration,
    /// Action when the classifier fails or times out.
    pub on_error: OnError,
}

impl fmt::Debug for Classifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Classifier")
            .field("model", &self.model)
            .field("thresholds", &self.thresholds)
            .finish_non_exhaustive()
    }
}

impl Classifier {
    /// Returns an error if a text is forbidden, or if it cannot be classified under
    /// [`OnError::Refuse`].
    pub(super) async fn check_input(&self, request: RequestId, texts: &[String]) -> Result<(), Error> {
        match self.any_forbidden(request, texts).await {
            Ok(false) => Ok(()),
            Ok(true) => Err(blocked()),
            Err(error) => {
                tracing::warn!(request.id = %request, %error, "the content classifier failed");
                match self.on_error {
                    OnError::Allow => Ok(()),
                    OnError::Refuse => Err(unchecked()),
                }
            }
        }
    }

    /// Whether a response is forbidden, or cannot be classified under [`OnError::Refuse`].
    pub(super) async fn forbids(&self, request: RequestId, texts: &[String]) -> bool {
        match self.any_forbidden(request, texts).await {
            Ok(forbids) => forbids,
            Err(error) => {
                tracing::warn!(request.id = %request, %error, "the content classifier failed");
                self.on_error == OnError::Refuse
            }
        }
    }

    /// Whether to classify a stream now. The last `unseen` bytes of `text` have not been
    /// classified. `is_last` is `true` if no text of the channel follows.
    pub(super) fn is_due(&self, text: &str, unseen: usize, is_last: bool) -> bool {
        let is_sentence = ends_sentence(text);
        unseen >= MAX_STEP_BYTES || (unseen >= MIN_STEP_BYTES && is_sentence) || (is_last && unseen > 0)
    }

    /// Like [`Self::is_due`], for a text that is not held back: it is classified earlier.
    pub(super) fn is_due_in_speech(&self, text: &str, unseen: usize, is_last: bool) -> bool {
        unseen >= MIN_STEP_BYTES || (unseen > 0 && (is_last || ends_sentence(text)))
    }

    /// Classifies inputs for the moderation endpoint, with the configured thresholds. Returns an
    /// error if the classifier fails, even under [`OnError::Allow`], because the result is the
    /// response itself.
    pub(super) async fn moderate(
        &self,
        request: RequestId,
        input: &ModerationInput,
    ) -> Result<Vec<Moderation>, Error> {
        let mut results = self.results(request, input.clone()).await.map_err(|error| {
            tracing::warn!(request.id = %request, %error, "the content classifier failed");
            unchecked()
        })?;
        for result in &mut results {
            for category in &mut result.categories {
                category.flagged = self.is_over_threshold(category);
            }
            result.flagged = self.forbidding_category(result).is_some();
        }
        Ok(results)
    }

    /// Whether one of the texts is forbidden.
    async fn any_forbidden(&self, request: RequestId, texts: &[String]) -> Result<bool, UpstreamError> {
        let parts: Vec<String> = texts.iter().flat_map(|text| split_parts(text)).collect();
        if parts.is_empty() {
            return Ok(false);
        }
        let results = self.results(request, ModerationInput::Texts(parts)).await?;
        let forbidding_category = results.iter().find_map(|result| self.forbidding_category(result));
        if let Some(category) = forbidding_category {
            tracing::info!(request.id = %request, category, "text blocked by the content classifier");
        }
        Ok(forbidding_category.is_some())
    }

    async fn results(
        &self,
        request: RequestId,
        input: ModerationInput,
    ) -> Result<Vec<Moderation>, UpstreamError> {
        let ctx = free_context(request, "content policy", self.timeout);
        let call = ModerationCall {
            upstream_model: self.model.clone(),
            input,
        };
        let answered = timeout(self.timeout, self.port.moderate(&ctx, &call)).await;
        let answer = answered.map_err(|_| UpstreamError::timeout("no result before the timeout"))??;
        Ok(answer.results)
    }

    /// Whether a category's score reaches its threshold.
    fn is_over_threshold(&self, category: &Category) -> bool {
        if self.thresholds.is_empty() {
            return category.flagged;
        }
        let threshold = self.thresholds.iter().find(|(name, _)| *name == category.name);
        threshold.is_some_and(|(_, min_score)| category.score >= *min_score)
    }

    /// Returns the first category that forbids a text.
    fn forbidding_category<'m>(&self, result: &'m Moderation) -> Option<&'m str> {
        match result
            .categories
            .iter()
            .find(|category| self.is_over_threshold(category))
        {
            Some(category) => Some(&category.name),
            None if self.thresholds.is_empty() && result.flagged => Some("flagged"),
            None => None,
        }
    }
}

fn ends_sentence(text: &str) -> bool {
    text.trim_end().ends_with(['.', '!', '?', '。', '！', '？']) || text.ends_with('\n')
}

/// Splits a text into parts of at most [`MAX_PART_BYTES`] bytes.
fn split_parts(text: &str) -> Vec<String> {
    let mut parts = Vec::with_capacity(1);
    let mut rest = text;
    while !rest.is_empty() {
        let (part, more) = rest.split_at(rest.floor_char_boundary(MAX_PART_BYTES));
        parts.push(part.to_owned());
        rest = more;
    }
    parts
}

/// Returns the public error for a text that could not be classified.
fn unchecked() -> Error {
    let message =
        "The request could not be checked against the content policy at the moment. Retry with backoff.";
    let retry = Retry::After(Duration::from_secs(5));
    Error::new(ErrorCode::Overloaded, message).with_retry(retry)
}
