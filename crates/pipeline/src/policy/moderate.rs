//! Content policy as a moderation model: reports matches without enforcing them.

use std::sync::Arc;

use tollgate_types::moderate::{Category, Moderation, ModerationInput, ModerationPart};
use tollgate_types::{Error, RequestId};

use super::{Classifier, Policy, Rule};

impl Policy {
    /// Returns the matches of the rules and of the classifier for each input. Rules for prompts and
    /// rules for responses apply.
    pub async fn moderate(
        &self,
        request: RequestId,
        input: &ModerationInput,
    ) -> Result<Vec<Moderation>, Error> {
        let mut results: Vec<Moderation> = match input {
            ModerationInput::Texts(texts) => texts.iter().map(|text| self.by_rules(text)).collect(),
            ModerationInput::Parts(parts) => vec![self.by_rules(&text_of(parts))],
        };
        if let Some(classifier) = self.any_classifier() {
            let found = classifier.moderate(request, input).await?;
            for (result, found) in results.iter_mut().zip(found) {
                found
                    .categories
                    .into_iter()
                    .for_each(|category| add(result, category));
                result.flagged |= found.flagged;
            }
        }
        for result in &mut results {
            result.flagged |= result.categories.iter().any(|category| category.flagged);
        }
        Ok(results)
    }

    fn by_rules(&self, text: &str) -> Moderation {
        let mut found = Moderation::default();
        for rule in self.rules() {
            let flagged = rule.is_match(text);
            add(
                &mut found,
                Category {
                    name: rule.category.to_string(),
                    flagged,
                    score: if flagged { 1.0 } else { 0.0 },
                    applied_to: vec!["text".to_owned()],
                },
            );
        }
        found
    }

    /// Returns each rule once, even if it applies to both prompts and responses.
    fn rules(&self) -> impl Iterator<Item = &Rule> {
        let output_only = self
            .output
            .iter()
            .filter(|rule| !self.input.iter().any(|other| Arc::ptr_eq(other, rule)));
        self.input.iter().chain(output_only).map(|rule| &**rule)
    }

    fn any_classifier(&self) -> Option<&Classifier> {
        self.input_classifier
            .as_deref()
            .or(self.output_classifier.as_deref())
    }
}

/// Adds a category. If the category exists, the higher score applies.
fn add(result: &mut Moderation, category: Category) {
    let known = result
        .categories
        .iter_mut()
        .find(|known| known.name == category.name);
    match known {
        None => result.categories.push(category),
        Some(known) => {
            known.flagged |= category.flagged;
            known.score = known.score.max(category.score);
            let more = category.applied_to.into_iter();
            let more: Vec<String> = more.filter(|kind| !known.applied_to.contains(kind)).collect();
            known.applied_to.extend(more);
        }
    }
}

fn text_of(parts: &[ModerationPart]) -> String {
    let texts = parts.iter().filter_map(|part| match part {
        ModerationPart::Text(text) => Some(text.as_str()),
        ModerationPart::Image(_) => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}
