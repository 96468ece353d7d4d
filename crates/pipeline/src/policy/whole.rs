//! Content policy for complete responses.

use tollgate_types::RequestId;
use tollgate_types::generate::{Choice, FinishReason, GenerateResponse, Part};
use tollgate_upstream::{Payload, UpstreamError};

use super::{Policy, not_common};

impl Policy {
    /// Removes forbidden content: a choice with a match is emptied and ends with the finish reason
    /// `content_filter`.
    pub(crate) async fn censor(
        &self,
        request: RequestId,
        answer: &mut Payload<GenerateResponse>,
    ) -> Result<(), UpstreamError> {
        let Payload::Common(answer) = answer else {
            return Err(not_common());
        };
        for choice in &mut answer.choices {
            let texts = texts_of(choice);
            if self.forbids(request, &texts).await {
                choice.parts.clear();
                choice.tool_calls.clear();
                choice.logprobs = None;
                choice.stop_sequence = None;
                choice.extra.clear();
                choice.finish = FinishReason::ContentFilter;
            }
        }
        Ok(())
    }

    /// Whether one of the texts is forbidden.
    pub(crate) async fn forbids(&self, request: RequestId, texts: &[String]) -> bool {
        let matching = self
            .output
            .iter()
            .find(|rule| texts.iter().any(|text| rule.is_match(text)));
        if let Some(rule) = matching {
            tracing::info!(request.id = %request, rule = %rule.name, "response blocked by the content policy");
            return true;
        }
        match &self.output_classifier {
            Some(classifier) => classifier.forbids(request, texts).await,
            None => false,
        }
    }
}

/// Returns the texts of a choice: content and refusals in one text, reasoning in another, and the
/// arguments of each tool call.
fn texts_of(choice: &Choice) -> Vec<String> {
    let (mut content, mut thoughts) = (String::new(), String::new());
    for part in &choice.parts {
        match part {
            Part::Text(text) | Part::Refusal(text) => content.push_str(text),
            Part::Reasoning(reasoning) => thoughts.push_str(reasoning.text.as_deref().unwrap_or_default()),
            _ => {}
        }
    }
    let calls = choice.tool_calls.iter().map(|call| call.arguments.clone());
    let texts = [content, thoughts].into_iter().chain(calls);
    texts.filter(|text| !text.is_empty()).collect()
}
