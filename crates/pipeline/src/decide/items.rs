//! What every question comes down to: a choice among named options. A question of functions is one of their names, and then
//! one for each argument; whether a state has what is needed is a yes or no of its own.

use serde_json::Value;
use tollgate_types::decide::{
    ANSWERABLE, Argument, ArgumentDecision, Decision, Level, Method, Question, QuestionKind, Verdict,
};

/// A function that is less probable has its arguments left out.
const PROBABLE: f64 = 0.05;
/// What is chosen where no function is.
const NO_FUNCTION: &str = "none";

/// A choice that is to be made into probabilities.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Item {
    /// The place of its question.
    pub(super) question: usize,
    pub(super) role: Role,
    pub(super) kind: ItemKind,
    /// What is asked.
    pub(super) asked: String,
    pub(super) options: Vec<ItemOption>,
}

/// What an item is of its question.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Role {
    /// The answer.
    Main,
    /// Whether it can be answered.
    Abstain,
    /// An argument of one of its functions.
    Argument { tool: usize, argument: Argument },
}

/// What kind of choice it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ItemKind {
    /// Yes or no, in this order.
    Noul,
    Choice,
    /// Levels, the lowest one first.
    Score,
}

/// Something to choose.
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

/// How probable an item's options are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Found {
    pub(super) probabilities: Vec<f64>,
    pub(super) method: Method,
}

/// The items of these questions that are asked first: of each its answer, and whether it can be answered where `abstain` says so.
pub(super) fn first(questions: &[Question], places: &[usize]) -> Vec<Item> {
    let mut items = Vec::with_capacity(places.len());
    for place in places.iter().copied() {
        let question = &questions[place];
        items.push(main(place, question));
        if question.abstain {
            items.push(companion(place, question));
        }
    }
    items
}

/// The answer of a question.
fn main(place: usize, question: &Question) -> Item {
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

/// Whether a question can be answered at all.
fn companion(place: usize, question: &Question) -> Item {
    let asked = format!(
        "Does the state have the information that is needed to answer the following question?\n{}",
        question.instructions
    );
    let options = vec![
        ItemOption::new(ANSWERABLE[0], Some("What is needed is there.")),
        ItemOption::new(ANSWERABLE[1], Some("Something that is needed is missing.")),
    ];
    Item {
        question: place,
        role: Role::Abstain,
        kind: ItemKind::Noul,
        asked,
        options,
    }
}

/// The items that are asked once it is known how probable the functions are: the arguments of the probable ones.
pub(super) fn second(questions: &[Question], found: Vec<(&Item, &Found)>) -> Vec<Item> {
    let mut items = Vec::new();
    for (item, found) in found {
        let question = &questions[item.question];
        let (QuestionKind::Tool { tools, .. }, Role::Main) = (&question.kind, &item.role) else {
            continue;
        };
        for (place, (tool, probability)) in tools.iter().zip(&found.probabilities).enumerate() {
            if *probability < PROBABLE {
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
    let said = match &argument.description {
        Some(description) => format!(" ({description})"),
        None => String::new(),
    };
    Item {
        question,
        kind: ItemKind::Choice,
        asked: format!(
            "{}\nThe function {name} is called. What is its argument {}{said}?",
            asked.instructions, argument.name
        ),
        options: argument.values.iter().map(ItemOption::of_value).collect(),
        role: Role::Argument { tool, argument },
    }
}

/// The answer to a question of what was found of its items: nothing where the model would not answer. `Err` holds why its answer was
/// not found.
pub(super) fn decision<E>(
    question: &Question,
    found: Vec<(Item, Result<Option<Found>, E>)>,
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
            // What is missing beside an answer does not take the answer away, but is not made up either.
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
