//! Questions: a list, each with a name of its own or none, or a map by name.

use tollgate_types::decide::{MAX_QUESTIONS, Question, QuestionKind};

use super::super::Container;
use super::{guidance, kinds, tools};
use crate::error::Flaw;
use crate::json::{Node, Path};

/// The most characters of a name.
const MAX_NAME: usize = 64;

const TYPES: &[&str] = &["noul", "predicate", "choice", "score", "tool"];

/// The questions of a request.
pub(super) struct Questions {
    pub(super) questions: Vec<Question>,
    pub(super) container: Container,
    /// Places of those whose ids were made up.
    pub(super) unnamed: Vec<usize>,
}

pub(super) fn read(node: &Node<'_>, path: &Path<'_>) -> Result<Questions, Flaw> {
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
        _ => Err(path.invalid("must be an array of questions, or an object with each by its name")),
    }
}

fn list(items: &[Node<'_>], path: &Path<'_>) -> Result<Questions, Flaw> {
    let mut questions: Vec<Question> = Vec::with_capacity(items.len());
    let mut unnamed = Vec::new();
    for (place, node) in items.iter().enumerate() {
        let path = path.index(place as u32);
        node.object_at(&path)?;
        let id = match (node.get("id"), node.get("name")) {
            (Some(_), Some(_)) => return Err(path.key("name").invalid("cannot stand beside 'id'")),
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

fn name(node: &Node<'_>, earlier: &[Question], path: &Path<'_>) -> Result<String, Flaw> {
    let name = identifier(node.text_at(path)?, path)?;
    match earlier.iter().any(|question| question.id == name) {
        true => Err(path.invalid("is the name of an earlier question; give each its own")),
        false => Ok(name),
    }
}

/// A name that is short and visible.
pub(super) fn identifier(text: &str, path: &Path<'_>) -> Result<String, Flaw> {
    let is_fine =
        !text.trim().is_empty() && text.chars().count() <= MAX_NAME && !text.chars().any(char::is_control);
    match is_fine {
        true => Ok(text.to_owned()),
        false => Err(path.invalid(format_args!(
            "must have a name of 1 to {MAX_NAME} characters, none of them a control character"
        ))),
    }
}

/// A question; `names` are the members that may say what it is called.
fn question(node: &Node<'_>, id: String, names: &[&str], path: &Path<'_>) -> Result<Question, Flaw> {
    node.object_at(path)?;
    let kind = node.need("type", path)?.word_at(TYPES, &path.key("type"))?;
    let own: &[&str] = match kind {
        "choice" => kinds::CHOICE,
        "score" => kinds::SCORE,
        "tool" => tools::MEMBERS,
        _ => kinds::NOUL,
    };
    node.closed_at(&[&["type", "instructions", "abstain"], names, own], path)?;
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
        let rule = "is for yes or no, choices and scores; a tool question has 'tool_choice'";
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
