//! Splits questions into items, each a choice among named options. A function question becomes a
//! choice of the function and one item per argument. Abstention becomes a separate yes-no item.

use serde_json::Value;
use tollgate_types::decide::{
    ANSWERABLE, Argument, ArgumentDecision, Decision, Level, Method, Question, QuestionKind, Verdict,
};

/// Minimum probability of a function whose arguments are determined.
const MIN_ARGUMENT_PROBABILITY: f64 = 0.05;
/// Name of the option for "no function".
const NO_FUNCTION: &str = "none";

/// A choice whose option probabilities are to be determined.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item {
    /// Index of the question that the item belongs to.
    pub(super) question: usize,
    pub(super) role: Role,
    pub(super) kind: ItemKind,
    /// Question text for the model.
    pub(super) asked: String,
    pub(super) options: Vec<ItemOption>,
}

/// Part that an item plays in its question.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Role {
    /// Choice that answers the question.
    Main,
    /// Choice whether the state suffices to answer the question.
    Abstain,
    /// Choice of the value of a function's argument.
    Argument { tool: usize, argument: Argument },
}

/// Answer scale of an item: yes or no, one of several options, or a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ItemKind {
    /// Yes or no, in this order.
    Noul,
    Choice,
    /// Levels, the lowest one first.
    Score,
}

/// An option: the name shown to the model, with an optional explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ItemOption {
    pub(super) name: String,
    pub(super) description: Option<String>,
}

impl ItemOption {
    fn new(name: impl Into<String>, description: Option<&str>) -> Self {
        Self {
            name: name.into(),
            description: description.map(str::to_owned),
        }
    }

    fn of_value(value: &Value) -> Self {
        let name = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        Self::new(name, None)
    }
}

/// Probabilities of an item's options, in their order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ItemResult {
    pub(super) probabilities: Vec<f64>,
    pub(super) method: Method,
}

/// Returns the first round of items: the main item of each question in `places`, and its abstain
/// item if `abstain` is set.
pub(super) fn first(questions: &[Question], places: &[usize]) -> Vec<Item> {
    let mut items = Vec::with_capacity(places.len());
    for place in places.iter().copied() {
        let question = &questions[place];
        items.push(main_item(place, question));
        if question.abstain {
            items.push(abstain_item(place, question));
        }
    }
    items
}

/// Returns the item that answers a question.
fn main_item(place: usize, question: &Question) -> Item {
    let (kind, options) = match &question.kind {
        QuestionKind::Noul { yes, no } => (
            ItemKind::Noul,
            vec![
                ItemOption::new("yes", yes.as_deref()),
                ItemOption::new("no", no.as_deref()),
            ],
        ),
        QuestionKind::Choice { options } => {
            let options = options.iter();
            let named = options.map(|option| ItemOption::new(option.name(), option.description.as_deref()));
            (ItemKind::Choice, named.collect())
        }
        QuestionKind::Score { levels } => {
            let named = |level: &Level| ItemOption::new(&*level.label, level.description.as_deref());
            (ItemKind::Score, levels.iter().map(named).collect())
        }
        QuestionKind::Tool { tools, required } => {
            let tools = tools.iter();
            let mut options: Vec<ItemOption> = tools
                .map(|tool| ItemOption::new(&*tool.name, tool.description.as_deref()))
                .collect();
            if !required {
                options.push(ItemOption::new(NO_FUNCTION, Some("No function is to be called.")));
            }
            (ItemKind::Choice, options)
        }
    };
    let mut asked = match &question.kind {
        QuestionKind::Tool { .. } => format!("{}\nWhich function is to be called?", question.instructions),
        _ => question.instructions.clone(),
    };
    if question.abstain {
        asked.push_str("\nAssume that the state has what is needed to answer.");
    }
    Item {
        question: place,
        role: Role::Main,
        kind,
        asked,
        options,
    }
}

/// Returns the item whether the state suffices to answer a question.
fn abstain_item(place: usize, question: &Question) -> Item {
    let asked = format!(
        "Does the state have the information that is needed to answer the following question?\n{}",
        question.instructions
    );
    let options = vec![
        ItemOption::new(ANSWERABLE[0], Some("The needed information is present.")),
        ItemOption::new(ANSWERABLE[1], Some("Some of the needed information is missing.")),
    ];
    Item {
        question: place,
        role: Role::Abstain,
        kind: ItemKind::Noul,
        asked,
        options,
    }
}

/// Returns the second round of items: the arguments of functions whose probability in the first
/// round is at least [`MIN_ARGUMENT_PROBABILITY`].
pub(super) fn second(questions: &[Question], found: Vec<(&Item, &ItemResult)>) -> Vec<Item> {
    let mut items = Vec::new();
    for (item, found) in found {
        let question = &questions[item.question];
        let (QuestionKind::Tool { tools, .. }, Role::Main) = (&question.kind, &item.role) else {
            continue;
        };
        for (place, (tool, probability)) in tools.iter().zip(&found.probabilities).enumerate() {
            if *probability < MIN_ARGUMENT_PROBABILITY {
                continue;
            }
            for argument in tool.arguments() {
                items.push(argument_item(
                    item.question,
                    question,
                    place,
                    &tool.name,
                    argument,
                ));
            }
        }
    }
    items
}

fn argument_item(question: usize, asked: &Question, tool: usize, name: &str, argument: Argument) -> Item {
    let suffix = match &argument.description {
        Some(description) => format!(" ({description})"),
        None => String::new(),
    };
    Item {
        question,
        kind: ItemKind::Choice,
        asked: format!(
            "{}\nThe function {name} is called. What is its argument {}{suffix}?",
            asked.instructions, argument.name
        ),
        options: argument.values.iter().map(ItemOption::of_value).collect(),
        role: Role::Argument { tool, argument },
    }
}

/// Combines the results of a question's items into a decision. A refusal by the model becomes
/// [`Verdict::Refused`]. `Err` is the error of its main or abstain item.
pub(super) fn decision<E>(
    question: &Question,
    found: Vec<(Item, Result<Option<ItemResult>, E>)>,
) -> Result<Decision, E> {
    let mut method: Option<Method> = None;
    let mut verdict = None;
    let mut abstain = None;
    let mut arguments = match &question.kind {
        QuestionKind::Tool { tools, .. } => vec![Vec::new(); tools.len()],
        _ => Vec::new(),
    };
    for (item, found) in found {
        let found = match (found, &item.role) {
            (Ok(Some(found)), _) => found,
            // A missing argument does not invalidate the answer, which omits the argument.
            (Ok(None) | Err(_), Role::Argument { .. }) => continue,
            (Ok(None), Role::Main | Role::Abstain) => {
                return Ok(Decision {
                    verdict: Verdict::Refused,
                    abstain: None,
                    method: None,
                });
            }
            (Err(error), Role::Main | Role::Abstain) => return Err(error),
        };
        method = Some(match method {
            Some(method) => method.and(&found.method),
            None => found.method,
        });
        match item.role {
            Role::Main => verdict = Some(found.probabilities),
            Role::Abstain => abstain = found.probabilities.get(1).copied(),
            Role::Argument { tool, argument } => arguments[tool].push(ArgumentDecision {
                argument,
                probabilities: found.probabilities,
            }),
        }
    }
    let probabilities = verdict.unwrap_or_default();
    let verdict = match &question.kind {
        QuestionKind::Noul { .. } => Verdict::Noul(probabilities.first().copied().unwrap_or_default()),
        QuestionKind::Choice { .. } => Verdict::Choice(probabilities),
        QuestionKind::Score { .. } => Verdict::Score(probabilities),
        QuestionKind::Tool { .. } => Verdict::Tool {
            probabilities,
            arguments,
        },
    };
    Ok(Decision {
        verdict,
        abstain,
        method,
    })
}
