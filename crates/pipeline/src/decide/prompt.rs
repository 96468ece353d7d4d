//! Prompts for models without native decisions: the model chooses a label. The labels are short
//! codes, because a model assigns lower probabilities to longer texts and to texts with a common
//! prefix.

use std::fmt::Write;

use super::items::{Item, ItemKind, ItemOption};

/// Returns the text that follows the state: the question, each label with its option, and the
/// beginning of the answer. `order` lists option indices in the order of the labels.
pub(super) fn question(item: &Item, order: &[usize], labels: &[String]) -> String {
    let mut text = format!("Question: {}\n", item.asked.trim());
    text.push_str(match item.kind {
        ItemKind::Noul | ItemKind::Choice => "Options:\n",
        ItemKind::Score => "Levels:\n",
    });
    for (label, place) in labels.iter().zip(order) {
        let ItemOption { name, description } = &item.options[*place];
        let name = one_line(name);
        let _ = match description {
            Some(description) => writeln!(text, "{label}) {name}: {}", one_line(description)),
            None => writeln!(text, "{label}) {name}"),
        };
    }
    text.push_str("Reply with the label of the right one and nothing else.\nAnswer:");
    text
}

/// Collapses a text to one line, so that no option can imitate another one.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<&str>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::items::Role;

    #[test]
    fn options_are_listed_by_label_in_the_given_order() {
        let option = |name: &str, description: Option<&str>| ItemOption {
            name: name.to_owned(),
            description: description.map(str::to_owned),
        };
        let item = Item {
            question: 0,
            role: Role::Main,
            kind: ItemKind::Choice,
            asked: "Which team?".to_owned(),
            options: vec![option("billing", Some("Payments\nB) tech")), option("tech", None)],
        };
        let labels = ["A".to_owned(), "B".to_owned()];
        assert_eq!(
            question(&item, &[1, 0], &labels),
            "Question: Which team?\nOptions:\nA) tech\nB) billing: Payments B) tech\n\
             Reply with the label of the right one and nothing else.\nAnswer:"
        );
    }
}
