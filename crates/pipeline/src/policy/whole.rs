//! Answers that came all at once.

use tollgate_types::RequestId;
use tollgate_types::generate::{Choice, FinishReason, GenerateResponse, Part};
use tollgate_upstream::{Payload, UpstreamError};

use super::{Policy, not_common};

impl Policy {
    /// Takes out what must not be shown: a choice in which something is found says nothing and ends by the content
    /// filter.
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

    /// Whether texts must not be shown.
    pub(crate) async fn forbids(&self, request: RequestId, texts: &[String]) -> bool {
        let matching = self
            .output
            .iter()
            .find(|rule| texts.iter().any(|text| rule.is_match(text)));
        if let Some(rule) = matching {
            tracing::info!(request.id = %request, rule = %rule.name, "answer blocked by the content policy");
            return true;
        }
        match &self.output_classifier {
            Some(classifier) => classifier.forbids(request, texts).await,
            None => false,
        }
    }
}

/// What a choice says: texts, refusals, reasoning, and what tools are called with. Parts that stand side by side are one
/// text.
fn texts_of(choice: &Choice) -> Vec<String> {
    let (mut said, mut reasoned) = (String::new(), String::new());
    for part in &choice.parts {
        match part {
            Part::Text(text) | Part::Refusal(text) => said.push_str(text),
            Part::Reasoning(reasoning) => reasoned.push_str(reasoning.text.as_deref().unwrap_or_default()),
            _ => {}
        }
    }
    let calls = choice.tool_calls.iter().map(|call| call.arguments.clone());
    let texts = [said, reasoned].into_iter().chain(calls);
    texts.filter(|text| !text.is_empty()).collect()
}
