//! What may be answered: yes or no, options, levels.

use serde_json::Value;
use tollgate_types::decide::{ChoiceOption, LEVELS, Level, OPTIONS, QuestionKind};

use super::guidance;
use crate::error::Flaw;
use crate::json::{Node, Path};

/// Members of a yes or no.
pub(super) const NOUL: &[&str] = &["criteria"];
/// Members that have the options of a choice; one of them.
pub(super) const CHOICE: &[&str] = &["criteria", "choices", "options"];
/// Members that have the levels of a score; one of them.
pub(super) const SCORE: &[&str] = &["criteria", "levels"];

/// System One says `true` and `false`, Google `true_description` and `false_description`.
pub(super) fn noul(node: &Node<'_>, path: &Path<'_>) -> Result<QuestionKind, Flaw> {
    const YES: [&str; 2] = ["true", "true_description"];
    const NO: [&str; 2] = ["false", "false_description"];
    let (mut yes, mut no) = (None, None);
    if let Some(criteria) = node.get("criteria") {
        let path = path.key("criteria");
        criteria.closed_at(&[&YES, &NO], &path)?;
        for (names, meaning) in [(YES, &mut yes), (NO, &mut no)] {
            if let Some((name, node)) = one_of(criteria, &names, &path)? {
                *meaning = guidance::optional(node, &path.key(name))?;
            }
        }
    }
    Ok(QuestionKind::Noul { yes, no })
}

/// Options are a map to what each means, or a list of values, with a description or without.
pub(super) fn choice(node: &Node<'_>, path: &Path<'_>) -> Result<QuestionKind, Flaw> {
    let Some((name, node)) = one_of(node, CHOICE, path)? else {
        return Err(path.missing("criteria"));
    };
    let path = path.key(name);
    let found = match node {
        Node::Object(members) => members.len(),
        Node::List(items) => items.len(),
        _ => return Err(path.invalid("must be an object of options or an array of them")),
    };
    if !OPTIONS.contains(&found) {
        let (least, most) = (OPTIONS.start(), OPTIONS.end());
        return Err(path.invalid(format_args!("must have {least} to {most} options")));
    }
    let mut options: Vec<ChoiceOption> = Vec::with_capacity(found);
    let mut add = |option: ChoiceOption, path: &Path<'_>| {
        if options.iter().any(|earlier| earlier.value == option.value) {
            return Err(path.invalid("is an option that stands there already"));
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

fn listed_option(node: &Node<'_>, path: &Path<'_>) -> Result<ChoiceOption, Flaw> {
    if !matches!(node, Node::Object(_)) {
        return Ok(ChoiceOption {
            value: value(node, path)?,
            description: None,
        });
    }
    node.closed_at(&[&["value", "description"]], path)?;
    Ok(ChoiceOption {
        value: value(node.need("value", path)?, &path.key("value"))?,
        description: description(node, path)?,
    })
}

fn value(node: &Node<'_>, path: &Path<'_>) -> Result<Value, Flaw> {
    match node {
        Node::Text(text) if text.trim().is_empty() => Err(path.invalid("must be an option with a name")),
        Node::Text(_) | Node::Bool(_) => Ok(node.to_value()),
        _ => Err(path.invalid("must be a string or a boolean")),
    }
}

/// Levels are a list, the lowest one first, of labels with a description or without.
pub(super) fn score(node: &Node<'_>, path: &Path<'_>) -> Result<QuestionKind, Flaw> {
    let Some((name, node)) = one_of(node, SCORE, path)? else {
        return Err(path.missing("criteria"));
    };
    let path = path.key(name);
    let items = node.list_at(&path)?;
    if !LEVELS.contains(&items.len()) {
        let (least, most) = (LEVELS.start(), LEVELS.end());
        return Err(path.invalid(format_args!("must have {least} to {most} levels")));
    }
    let levels = items.iter().enumerate();
    let levels = levels.map(|(place, item)| level(item, &path.index(place as u32)));
    Ok(QuestionKind::Score {
        levels: levels.collect::<Result<_, Flaw>>()?,
    })
}

fn level(node: &Node<'_>, path: &Path<'_>) -> Result<Level, Flaw> {
    // Of System One, a level can be any object, which has no label.
    let Some(label) = node.get("label") else {
        return Ok(Level {
            label: guidance::required(node, path)?,
            description: None,
        });
    };
    node.closed_at(&[&["label", "description"]], path)?;
    Ok(Level {
        label: label.filled_at(&path.key("label"))?.to_owned(),
        description: description(node, path)?,
    })
}

fn description(node: &Node<'_>, path: &Path<'_>) -> Result<Option<String>, Flaw> {
    match node.get("description") {
        Some(description) => guidance::optional(description, &path.key("description")),
        None => Ok(None),
    }
}

/// The one of these members that is there.
fn one_of<'n, 'a>(
    node: &'n Node<'a>,
    names: &[&'static str],
    path: &Path<'_>,
) -> Result<Option<(&'static str, &'n Node<'a>)>, Flaw> {
    let mut found = names.iter().filter_map(|name| Some((*name, node.get(name)?)));
    let first = found.next();
    if let (Some((first, _)), Some((second, _))) = (first, found.next()) {
        return Err(path
            .key(second)
            .invalid(format_args!("cannot stand beside '{first}'")));
    }
    Ok(first)
}
