//! Decoding of questions: a list with optional names, or a map with names as keys.

use tollgate_types::decide::{MAX_QUESTIONS, Question, QuestionKind};

use super::super::Container;
use super::{guidance, kinds, tools};
use crate::error::BoxedError;
use crate::json::{Node, Path};

/// Maximum number of characters of a name.
const MAX_NAME: usize = 64;

const TYPES: &[&str] = &["noul", "predicate", "choice", "score", "tool"];

/// The parsed questions of a request.
pub(super) struct Questions {
    pub(super) questions: Vec<Question>,
    pub(super) container: Container,
    /// Indices of the questions with generated ids.
    pub(super) unnamed: Vec<usize>,
}

pub(super) fn read(node: &Node<'_>, path: &Path<'_>) -> Result<Questions, BoxedError> {
    let count = |found: usize| match (1..=MAX_QUESTIONS).contains(&found) {
        true => Ok(()),
        false => Err(path.invalid(format_args!("must have 1 to {MAX_QUESTIONS} questions"))),
    };
    match node {
        Node::List(items) => {
            count(items.len())?;
            list(items, path)
        }
        Node::Object(members) => {
            count(members.len())?;
            let mut questions: Vec<Question> = Vec::with_capacity(members.len());
            for (key, node) in members {
                let id = identifier(key, &path.key(key))?;
                if questions.iter().any(|earlier| earlier.id == id) {
                    return Err(path.duplicate(key));
                }
                questions.push(question(node, id, &[], &path.key(key))?);
            }
            Ok(Questions {
                questions,
                container: Container::Map,
                unnamed: Vec::new(),
            })
        }
        _ => Err(path.invalid("must be an array of questions, or an object that maps names to questions")),
    }
}

fn list(items: &[Node<'_>], path: &Path<'_>) -> Result<Questions, BoxedError> {
    let mut questions: Vec<Question> = Vec::with_capacity(items.len());
    let mut unnamed = Vec::new();
    for (place, node) in items.iter().enumerate() {
        let path = path.index(place as u32);
        node.object_at(&path)?;
        let id = match (node.get("id"), node.get("name")) {
            (Some(_), Some(_)) => return Err(path.key("name").invalid("cannot be combined with 'id'")),
            (None, None) => {
                unnamed.push(place);
                String::new()
            }
            (Some(id), None) => name(id, &questions, &path.key("id"))?,
            (None, Some(id)) => name(id, &questions, &path.key("name"))?,
        };
        questions.push(question(node, id, &["id", "name"], &path)?);
    }
    for place in &unnamed {
        let mut id = place.to_string();
        while questions.iter().any(|question| question.id == id) {
            id.insert(0, '#');
        }
        questions[*place].id = id;
    }
    Ok(Questions {
        questions,
        container: Container::List,
        unnamed,
    })
}

fn name(node: &Node<'_>, earlier: &[Question], path: &Path<'_>) -> Result<String, BoxedError> {
    let name = identifier(node.text_at(path)?, path)?;
    match earlier.iter().any(|question| question.id == name) {
        true => Err(path.invalid("is the name of an earlier question; use a unique name for each")),
        false => Ok(name),
    }
}

/// Validates a name: at most [`MAX_NAME`] characters, not blank, and without control characters.
pub(super) fn identifier(text: &str, path: &Path<'_>) -> Result<String, BoxedError> {
    let is_valid =
        !text.trim().is_empty() && text.chars().count() <= MAX_NAME && !text.chars().any(char::is_control);
    match is_valid {
        true => Ok(text.to_owned()),
        false => Err(path.invalid(format_args!(
            "is not a valid name: use 1 to {MAX_NAME} characters, not blank and without control characters"
        ))),
    }
}

/// Reads a question; `names` are the members that may hold its name.
fn question(node: &Node<'_>, id: String, names: &[&str], path: &Path<'_>) -> Result<Question, BoxedError> {
    node.object_at(path)?;
    let kind = node.need("type", path)?.word_at(TYPES, &path.key("type"))?;
    let own: &[&str] = match kind {
        "choice" => kinds::CHOICE,
        "score" => kinds::SCORE,
        "tool" => tools::MEMBERS,
        _ => kinds::NOUL,
    };
    node.check_keys(&[&["type", "instructions", "abstain"], names, own], path)?;
    let instructions = node.need("instructions", path)?;
    let instructions = guidance::required(instructions, &path.key("instructions"))?;
    let abstain = match node.get("abstain") {
        Some(abstain) => abstain.flag_at(&path.key("abstain"))?,
        None => false,
    };
    let kind = match kind {
        "choice" => kinds::choice(node, path)?,
        "score" => kinds::score(node, path)?,
        "tool" => tools::read(node, path)?,
        _ => kinds::noul(node, path)?,
    };
    if abstain && matches!(kind, QuestionKind::Tool { .. }) {
        let rule = "is not supported for a tool question; use 'tool_choice'";
        return Err(path.key("abstain").invalid(rule));
    }
    Ok(Question {
        id,
        param: path.to_string(),
        instructions,
        kind,
        abstain,
    })
}
