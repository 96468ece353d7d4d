//! The numbers of an answer, none of which is believed before it was looked at.

use serde_json::Value;
use tollgate_types::decide::{ArgumentDecision, FunctionTool, Question, QuestionKind, Verdict};

use crate::decisions::keys;
use crate::decisions::write::NO_TOOL;
use crate::error::Flaw;
use crate::json::{Node, Path};

/// How far a probability may be outside of its bounds.
const SLACK: f64 = 1e-6;

/// Reads an answer that is none of the general ones; `kind` is what it says it is.
pub(super) fn read(
    node: &Node<'_>,
    kind: Option<&str>,
    question: &Question,
    path: &Path<'_>,
) -> Result<Verdict, Flaw> {
    let kinds: &[&str] = match &question.kind {
        QuestionKind::Noul { .. } => &["noul", "predicate"],
        QuestionKind::Choice { .. } => &["choice"],
        QuestionKind::Score { .. } => &["score"],
        QuestionKind::Tool { .. } => &["tool"],
    };
    if kind.is_some_and(|kind| !kinds.contains(&kind)) {
        return Err(path.key("type").invalid("is not that of the question"));
    }
    match &question.kind {
        QuestionKind::Noul { .. } => {
            let name = if node.get("noul").is_some() {
                "noul"
            } else {
                "probability"
            };
            Ok(Verdict::Noul(probability(
                node.need(name, path)?,
                &path.key(name),
            )?))
        }
        QuestionKind::Choice { options } => {
            let values: Vec<Value> = options.iter().map(|option| option.value.clone()).collect();
            distribution(node, &keys::of_options(options), &values, path).map(Verdict::Choice)
        }
        QuestionKind::Score { levels } => {
            let keys: Vec<String> = (0..levels.len()).map(|place| place.to_string()).collect();
            let values: Vec<Value> = (0..levels.len()).map(Value::from).collect();
            distribution(node, &keys, &values, path).map(Verdict::Score)
        }
        QuestionKind::Tool { tools, required } => tool(node, tools, *required, path),
    }
}

fn tool(node: &Node<'_>, tools: &[FunctionTool], required: bool, path: &Path<'_>) -> Result<Verdict, Flaw> {
    let mut names: Vec<String> = tools.iter().map(|tool| tool.name.clone()).collect();
    if !required {
        names.push(NO_TOOL.to_owned());
    }
    let values: Vec<Value> = names.iter().cloned().map(Value::String).collect();
    let probabilities = distribution(node, &names, &values, path)?;
    let path = path.key("arguments");
    let said = node.get("arguments");
    let of_tool = |tool: &FunctionTool| match said.and_then(|said| said.get(&tool.name)) {
        Some(said) => arguments(said, tool, &path.key(&tool.name)),
        None => Ok(Vec::new()),
    };
    Ok(Verdict::Tool {
        probabilities,
        arguments: tools.iter().map(of_tool).collect::<Result<_, Flaw>>()?,
    })
}

fn arguments(node: &Node<'_>, tool: &FunctionTool, path: &Path<'_>) -> Result<Vec<ArgumentDecision>, Flaw> {
    let decided = tool.arguments().into_iter().filter_map(|argument| {
        let said = node.get(&argument.name)?;
        let keys = keys::of_values(&argument.values.iter().collect::<Vec<_>>());
        let read = distribution(said, &keys, &argument.values, &path.key(&argument.name));
        Some(read.map(|probabilities| ArgumentDecision {
            argument,
            probabilities,
        }))
    });
    decided.collect()
}

/// The `probabilities` of an answer in the order of what can be answered, which is told by `keys` in a map and by
/// `values` in a list.
fn distribution(
    node: &Node<'_>,
    keys: &[String],
    values: &[Value],
    path: &Path<'_>,
) -> Result<Vec<f64>, Flaw> {
    let found = node.need("probabilities", path)?;
    let path = path.key("probabilities");
    let count = match found {
        Node::Object(members) => members.len(),
        Node::List(items) => items.len(),
        _ => return Err(path.invalid("must be an object or an array")),
    };
    if count != keys.len() {
        return Err(path.invalid("must be as many as can be answered"));
    }
    let said = keys.iter().zip(values).enumerate();
    let read = said.map(|(place, (key, value))| {
        let number = match found {
            Node::List(items) => listed(items, place, value),
            _ => found.get(key),
        };
        let missing = || path.invalid("must have everything that can be answered");
        probability(number.ok_or_else(missing)?, &path)
    });
    normalised(read.collect::<Result<_, Flaw>>()?, &path)
}

/// The number that a list has for a value: its own, or the one at its place.
fn listed<'n, 'a>(items: &'n [Node<'a>], place: usize, value: &Value) -> Option<&'n Node<'a>> {
    let of_value = |item: &&Node<'a>| item.get("value").is_some_and(|found| found.to_value() == *value);
    match items.get(place)? {
        number @ Node::Number(_) => Some(number),
        _ => items.iter().find(of_value)?.get("probability"),
    }
}

/// A number that is a probability.
pub(super) fn probability(node: &Node<'_>, path: &Path<'_>) -> Result<f64, Flaw> {
    match node.as_f64() {
        Some(value) if (-SLACK..=1.0 + SLACK).contains(&value) => Ok(value.clamp(0.0, 1.0)),
        _ => Err(path.invalid("must be a probability")),
    }
}

/// Probabilities that sum to one, of some that do but for rounding: to the third digit, and each to the fourth.
fn normalised(mut probabilities: Vec<f64>, path: &Path<'_>) -> Result<Vec<f64>, Flaw> {
    let sum: f64 = probabilities.iter().sum();
    let rounding = 0.002 + 0.0001 * probabilities.len() as f64;
    if (sum - 1.0).abs() > rounding {
        return Err(path.invalid("must sum to one"));
    }
    for probability in &mut probabilities {
        *probability /= sum;
    }
    Ok(probabilities)
}
