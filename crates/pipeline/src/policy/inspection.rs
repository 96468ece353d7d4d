//! Content policy for a text that is delivered during its generation, such as the transcript of
//! speech. Nothing is held back; a forbidden text ends immediately.

use std::sync::Arc;

use tollgate_types::RequestId;

use super::Policy;
use super::rules::{MAX_HELD_BACK_BYTES, Rule};
use super::window::CONTEXT;

/// Inspection of the output of one response.
pub struct OutputInspection {
    policy: Arc<Policy>,
    request: RequestId,
    /// End of the output, with the context of the parts that are not inspected yet.
    text: String,
    /// Size of the end of `text` that has not been classified, in bytes.
    unseen: usize,
    /// Whether earlier output was removed from the front of `text`.
    is_cut: bool,
}

impl OutputInspection {
    pub(crate) const fn new(policy: Arc<Policy>, request: RequestId) -> Self {
        Self {
            policy,
            request,
            text: String::new(),
            unseen: 0,
            is_cut: false,
        }
    }

    /// Appends output. Returns whether the policy forbids it. The classifier runs at the end of a
    /// sentence, or of a few unfinished ones.
    pub async fn forbids(&mut self, output: &str) -> bool {
        let before = self.text.len();
        self.text.push_str(output);
        self.unseen += output.len();
        let is_forbidden = self.matches_rule(before) || self.classify(false).await;
        self.cut();
        is_forbidden
    }

    /// Whether the policy forbids the output that has not been classified, when no output follows.
    pub async fn forbids_rest(&mut self) -> bool {
        self.classify(true).await
    }

    /// Whether a rule matches text that ends after byte `before`, or there because of what follows.
    fn matches_rule(&self, before: usize) -> bool {
        // The character before the first one is unknown, so a match at the start could violate a
        // word boundary.
        let from = match self.is_cut {
            true => self.text.chars().next().map_or(0, char::len_utf8),
            false => 0,
        };
        let after = before.saturating_sub(1);
        let matching = |rule: &&Arc<Rule>| rule.first(&self.text, from, after).is_some();
        let rule = self.policy.output.iter().find(matching);
        if let Some(rule) = rule {
            tracing::info!(request.id = %self.request, rule = %rule.name, "response blocked by the content policy");
        }
        rule.is_some()
    }

    async fn classify(&mut self, is_last: bool) -> bool {
        let Some(classifier) = &self.policy.output_classifier else {
            return false;
        };
        if !classifier.is_due_in_speech(&self.text, self.unseen, is_last) {
            return false;
        }
        self.unseen = 0;
        classifier
            .forbids(self.request, std::slice::from_ref(&self.text))
            .await
    }

    /// Removes output that is no context of later matches and classifications.
    fn cut(&mut self) {
        // A classifier has at most its minimum step to read, which is less.
        let context = CONTEXT + MAX_HELD_BACK_BYTES;
        let cut = self
            .text
            .floor_char_boundary(self.text.len().saturating_sub(context));
        if cut > 0 {
            self.text.drain(..cut);
            self.is_cut = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::Duration;

    use async_trait::async_trait;
    use tollgate_types::moderate::{Moderation, ModerationAnswer, ModerationInput};
    use tollgate_upstream::{CallContext, ModerationCall, ModerationProvider, UpstreamError};

    use super::super::{Classifier, OnError, RuleSpec};
    use super::*;

    fn inspection(classifier: Option<Arc<Classifier>>) -> OutputInspection {
        let spec = RuleSpec {
            name: "words".to_owned(),
            category: "words".to_owned(),
            words: vec!["forbidden".to_owned(), "quite bad".to_owned()],
            patterns: vec![r"\bends\b ".to_owned()],
        };
        let policy = Policy {
            output: vec![Arc::new(Rule::compile(&spec).unwrap())],
            output_classifier: classifier,
            ..Policy::default()
        };
        OutputInspection::new(Arc::new(policy), RequestId::from_u128(1))
    }

    /// Returns the number of fragments after which the output is forbidden.
    async fn forbidden_after(fragments: &[&str]) -> Option<usize> {
        let mut inspection = inspection(None);
        for (index, fragment) in fragments.iter().enumerate() {
            if inspection.forbids(fragment).await {
                return Some(index + 1);
            }
            assert!(inspection.text.len() <= CONTEXT + MAX_HELD_BACK_BYTES + 4);
        }
        None
    }

    #[tokio::test]
    async fn matches_are_found_in_any_fragments() {
        let text = "Well, this is forbidden here, wörtlich.";
        for at in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
            assert!(
                forbidden_after(&[&text[..at], &text[at..]]).await.is_some(),
                "{at}"
            );
        }
        assert_eq!(forbidden_after(&["it is quite", " \n", "bad"]).await, Some(3));
        assert_eq!(forbidden_after(&["it ends", " ", "here"]).await, Some(2));
        assert_eq!(forbidden_after(&["un", "forbidden", ""]).await, None);
        assert_eq!(forbidden_after(&[""]).await, None);
    }

    #[tokio::test]
    async fn long_outputs_are_inspected_with_bounded_memory() {
        let mut fragments = vec!["and so ön "; 2_000];
        assert_eq!(forbidden_after(&fragments).await, None);
        // The output is cut between the letters of words.
        let letters: Vec<String> = "unforbidden ".repeat(500).chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        assert_eq!(forbidden_after(&letters).await, None);
        fragments.push("forbidden");
        assert_eq!(forbidden_after(&fragments).await, Some(2_001));
    }

    /// A classifier that records the texts and flags those with `violent`.
    #[derive(Default)]
    struct Recorder(Mutex<Vec<String>>);

    #[async_trait]
    impl ModerationProvider for Recorder {
        async fn moderate(
            &self,
            _: &CallContext,
            call: &ModerationCall,
        ) -> Result<ModerationAnswer, UpstreamError> {
            let ModerationInput::Texts(texts) = &call.input else {
                return Err(UpstreamError::protocol("texts only"));
            };
            self.0.lock().unwrap().extend(texts.iter().cloned());
            let results = texts.iter().map(|text| Moderation {
                flagged: text.contains("violent"),
                categories: Vec::new(),
            });
            Ok(ModerationAnswer {
                id: String::new(),
                results: results.collect(),
            })
        }
    }

    fn classified(recorder: &Arc<Recorder>) -> OutputInspection {
        inspection(Some(Arc::new(Classifier {
            port: recorder.clone(),
            model: "judge-1".into(),
            thresholds: Vec::new(),
            timeout: Duration::from_secs(5),
            on_error: OnError::Refuse,
        })))
    }

    #[tokio::test]
    async fn sentences_are_classified_once() {
        let recorder = Arc::new(Recorder::default());
        let mut inspection = classified(&recorder);
        for word in "One two three. Four five six. Seven".split_inclusive(' ') {
            assert!(!inspection.forbids(word).await);
        }
        assert!(!inspection.forbids_rest().await);
        assert!(!inspection.forbids_rest().await);
        let texts = recorder.0.lock().unwrap().clone();
        assert_eq!(
            texts,
            [
                "One two three. ",
                "One two three. Four five six. ",
                "One two three. Four five six. Seven"
            ]
        );
    }

    #[tokio::test]
    async fn unfinished_sentences_are_classified_in_steps() {
        let recorder = Arc::new(Recorder::default());
        let mut inspection = classified(&recorder);
        for _ in 0..2_000 {
            assert!(!inspection.forbids("word ").await);
        }
        let sizes: Vec<usize> = recorder.0.lock().unwrap().iter().map(String::len).collect();
        assert_eq!(sizes.len(), 50, "each 200 bytes");
        assert!(
            sizes
                .iter()
                .all(|size| *size <= CONTEXT + MAX_HELD_BACK_BYTES + 200)
        );
        assert!(!inspection.forbids("a violent").await, "not due");
        assert!(inspection.forbids_rest().await);
    }
}
