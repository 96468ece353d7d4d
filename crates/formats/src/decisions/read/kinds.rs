//! Decoding of yes-or-no questions, choices and scores.

use serde_json::Value;
use tollgate_types::decide::{ChoiceOption, LEVELS, Level, OPTIONS, QuestionKind};

use super::guidance;
use crate::error::BoxedError;
use crate::json::{Node, Path};

/// Members of a yes-or-no question.
pub(super) const NOUL: &[&str] = &["criteria"];
/// Members that may hold the options of a choice; exactly one is allowed.
pub(super) const CHOICE: &[&str] = &["criteria", "choices", "options"];
/// Members that may hold the levels of a score; exactly one is allowed.
pub(super) const SCORE: &[&str] = &["criteria", "levels"];

/// Reads a yes-or-no question. System One names the meanings `true` and `false`, Google
/// `true_description` and `false_description`.
pub(super) fn noul(node: &Node<'_>, path: &Path<'_>) -> Result<QuestionKind, BoxedError> {
    const YES: [&str; 2] = ["true", "true_description"];
    const NO: [&str; 2] = ["false", "false_description"];
    let (mut yes, mut no) = (None, None);
    if let Some(criteria) = node.get("criteria") {
        let path = path.key("criteria");
        criteria.check_keys(&[&YES, &NO], &path)?;
        for (names, meaning) in [(YES, &mut yes), (NO, &mut no)] {
            if let Some((name, node)) = one_of(criteria, &names, &path)? {
                *meaning = guidance::optional(node, &path.key(name))?;
            }
        }
    }
    Ok(QuestionKind::Noul { yes, no })
}

/// Reads a choice. Its options are a map from value to meaning, or a list of values with optional
/// descriptions.
pub(super) fn choice(node: &Node<'_>, path: &Path<'_>) -> Result<QuestionKind, BoxedError> {
    let Some((name, node)) = one_of(node, CHOICE, path)? else {
        return Err(path.missing("criteria"));
    };
    let path = path.key(name);
    let found = match node {
        Node::Object(members) => members.len(),
        Node::List(items) => items.len(),
        _ => return Err(path.invalid("must be an object or an array of options")),
    };
    if !OPTIONS.contains(&found) {
        let (min, max) = (OPTIONS.start(), OPTIONS.end());
        return Err(path.invalid(format_args!("must have {min} to {max} options")));
    }
    let mut options: Vec<ChoiceOption> = Vec::with_capacity(found);
    let mut add = |option: ChoiceOption, path: &Path<'_>| {
        if options.iter().any(|earlier| earlier.value == option.value) {
            return Err(path.invalid("is a duplicate of an earlier option"));
        }
        options.push(option);
        Ok(())
    };
    if let Node::Object(members) = node {
        for (key, meaning) in members {
            let option = ChoiceOption {
                value: value(&Node::Text(key.clone()), &path.key(key))?,
                description: guidance::optional(meaning, &path.key(key))?,
            };
            add(option, &path.key(key))?;
        }
    } else {
        for (place, item) in node.list_at(&path)?.iter().enumerate() {
            let path = path.index(place as u32);
            add(listed_option(item, &path)?, &path)?;
        }
    }
    Ok(QuestionKind::Choice { options })
}

fn listed_option(node: &Node<'_>, path: &Path<'_>) -> Result<ChoiceOption, BoxedError> {
    if !matches!(node, Node::Object(_)) {
        return Ok(ChoiceOption {
            value: value(node, path)?,
            description: None,
        });
    }
    node.check_keys(&[&["value", "description"]], path)?;
    Ok(ChoiceOption {
        value: value(node.need("value", path)?, &path.key("value"))?,
        description: description(node, path)?,
    })
}

fn value(node: &Node<'_>, path: &Path<'_>) -> Result<Value, BoxedError> {
    match node {
        Node::Text(text) if text.trim().is_empty() => Err(path.invalid("must not be empty")),
        Node::Text(_) | Node::Bool(_) => Ok(node.to_value()),
        _ => Err(path.invalid("must be a string or a boolean")),
    }
}

/// Reads a score. Its levels are a list of labels with optional descriptions, in ascending order.
pub(super) fn score(node: &Node<'_>, path: &Path<'_>) -> Result<QuestionKind, BoxedError> {
    let Some((name, node)) = one_of(node, SCORE, path)? else {
        return Err(path.missing("criteria"));
    };
    let path = path.key(name);
    let items = node.list_at(&path)?;
    if !LEVELS.contains(&items.len()) {
        let (min, max) = (LEVELS.start(), LEVELS.end());
        return Err(path.invalid(format_args!("must have {min} to {max} levels")));
    }
    let levels = items.iter().enumerate();
    let levels = levels.map(|(place, item)| level(item, &path.index(place as u32)));
    Ok(QuestionKind::Score {
        levels: levels.collect::<Result<_, BoxedError>>()?,
    })
}

fn level(node: &Node<'_>, path: &Path<'_>) -> Result<Level, BoxedError> {
    // In System One, a level can be an object without a label.
    let Some(label) = node.get("label") else {
        return Ok(Level {
            label: guidance::required(node, path)?,
            description: None,
        });
    };
    node.check_keys(&[&["label", "description"]], path)?;
    Ok(Level {
        label: label.non_empty_at(&path.key("label"))?.to_owned(),
        description: description(node, path)?,
    })
}

fn description(node: &Node<'_>, path: &Path<'_>) -> Result<Option<String>, BoxedError> {
    match node.get("description") {
        Some(description) => guidance::optional(description, &path.key("description")),
        None => Ok(None),
    }
}

/// Returns the member among `names` that is present, with its name; `None` if all are missing.
/// Fails if several are present.
fn one_of<'n, 'a>(
    node: &'n Node<'a>,
    names: &[&'static str],
    path: &Path<'_>,
) -> Result<Option<(&'static str, &'n Node<'a>)>, BoxedError> {
    let mut found = names.iter().filter_map(|name| Some((*name, node.get(name)?)));
    let first = found.next();
    if let (Some((first, _)), Some((second, _))) = (first, found.next()) {
        return Err(path
            .key(second)
            .invalid(format_args!("cannot be combined with '{first}'")));
    }
    Ok(first)
}
