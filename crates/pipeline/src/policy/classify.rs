//! A classifier elsewhere, asked through its port.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tollgate_types::moderate::{Category, Moderation, ModerationInput};
use tollgate_types::{Error, ErrorCode, RequestId, Retry};
use tollgate_upstream::{ModerationCall, ModerationProvider, UpstreamError};

use super::blocked;
use crate::admit::free_context;

/// Bytes of one text that is asked about; longer ones are asked about in parts.
const PART: usize = 16_000;
/// Of a stream, a classifier is asked about so many bytes at the most, or earlier at the end of a sentence.
const LONGEST_STEP: usize = 1_000;
/// The least that a sentence is asked about for.
const SHORTEST_STEP: usize = 200;

/// What happens when the classifier does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnError {
    /// What it was asked about is not let through.
    #[default]
    Refuse,
    /// It is let through.
    Allow,
}

/// A classifier and what its scores mean here.
pub struct Classifier {
    /// Where it is asked.
    pub port: Arc<dyn ModerationProvider>,
    /// Its model's name there.
    pub model: Arc<str>,
    /// From which score on a category forbids a text. Without any, what the classifier flags is forbidden.
    pub thresholds: Vec<(String, f64)>,
    /// How long it may take.
    pub timeout: Duration,
    /// What happens when it does not answer.
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
    /// Refuses texts that it forbids.
    pub(super) async fn check_input(&self, request: RequestId, texts: &[String]) -> Result<(), Error> {
        match self.ask(request, texts).await {
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

    /// Whether it forbids an answer.
    pub(super) async fn forbids(&self, request: RequestId, texts: &[String]) -> bool {
        match self.ask(request, texts).await {
            Ok(forbids) => forbids,
            Err(error) => {
                tracing::warn!(request.id = %request, %error, "the content classifier failed");
                self.on_error == OnError::Refuse
            }
        }
    }

    /// Whether it is time to ask about a stream of which `unseen` bytes at the end of `text` wait. `ends` says that
    /// nothing follows.
    pub(super) fn wants(&self, text: &str, unseen: usize, ends: bool) -> bool {
        let is_sentence =
            text.trim_end().ends_with(['.', '!', '?', '。', '！', '？']) || text.ends_with('\n');
        unseen >= LONGEST_STEP || (unseen >= SHORTEST_STEP && is_sentence) || (ends && unseen > 0)
    }

    /// What it finds, with what that means here. It is asked because a caller wants to know, so that it cannot be left out.
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
                category.flagged = self.counts(category);
            }
            result.flagged = self.forbidding(result).is_some();
        }
        Ok(results)
    }

    /// Whether one of the texts is forbidden.
    async fn ask(&self, request: RequestId, texts: &[String]) -> Result<bool, UpstreamError> {
        let parts: Vec<String> = texts.iter().flat_map(|text| in_parts(text)).collect();
        if parts.is_empty() {
            return Ok(false);
        }
        let results = self.results(request, ModerationInput::Texts(parts)).await?;
        let forbidding = results.iter().find_map(|result| self.forbidding(result));
        if let Some(category) = forbidding {
            tracing::info!(request.id = %request, category, "blocked by the content classifier");
        }
        Ok(forbidding.is_some())
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
        let answer = answered.map_err(|_| UpstreamError::timeout("no verdict in time"))??;
        Ok(answer.results)
    }

    /// Whether a category forbids.
    fn counts(&self, category: &Category) -> bool {
        if self.thresholds.is_empty() {
            return category.flagged;
        }
        let threshold = self.thresholds.iter().find(|(name, _)| *name == category.name);
        threshold.is_some_and(|(_, least)| category.score >= *least)
    }

    /// The category that forbids a text.
    fn forbidding<'m>(&self, result: &'m Moderation) -> Option<&'m str> {
        match result.categories.iter().find(|category| self.counts(category)) {
            Some(category) => Some(&category.name),
            None if self.thresholds.is_empty() && result.flagged => Some("flagged"),
            None => None,
        }
    }
}

/// A text in parts of at most [`PART`] bytes.
fn in_parts(text: &str) -> Vec<String> {
    let mut parts = Vec::with_capacity(1);
    let mut rest = text;
    while !rest.is_empty() {
        let (part, more) = rest.split_at(rest.floor_char_boundary(PART));
        parts.push(part.to_owned());
        rest = more;
    }
    parts
}

/// What a caller is told whose prompt could not be looked at.
fn unchecked() -> Error {
    let message =
        "The request could not be checked against the content policy at the moment. Retry with backoff.";
    let retry = Retry::After(Duration::from_secs(5));
    Error::new(ErrorCode::Overloaded, message).with_retry(retry)
}
