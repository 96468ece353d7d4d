//! Decoding of a caller's body to the common form.

mod address;
mod guidance;
mod kinds;
mod media;
mod questions;
mod state;
mod tools;

pub(crate) use address::is_base64;
use tollgate_types::decide::{CalibrationChoice, DecideOptions};

use super::{Container, DecisionRequest, Dialect, FileKinds};
use crate::embeddings::IGNORED_HINTS;
use crate::error::{BoxedError, DecodeError};
use crate::json::{MAX_NODES, Node, Path};

const MEMBERS: &[&str] = &["model", "state", "input", "questions", "options"];

/// Ignored members of these dialects, in addition to those of other formats.
const HINTS: &[&str] = &["user", "session_id", "trace"];

/// Decodes a request in any dialect. `input` instead of `state` identifies OpenAI's dialect if the
/// questions are a list, and Google's if they are a map. Questions have the same syntax in all
/// dialects.
///
/// A file whose part does not declare its kind has the provisional marker `[image 0]`: the caller
/// detects the kind from the content and calls [`read_with_kinds`].
pub fn read(body: &[u8]) -> Result<DecisionRequest, DecodeError> {
    read_with_kinds(body, &FileKinds::new())
}

/// Like [`read()`], but with the detected kinds of the uploaded files.
pub fn read_with_kinds(body: &[u8], kinds: &FileKinds) -> Result<DecisionRequest, DecodeError> {
    Ok(request(Node::of_body(body, MAX_NODES)?, kinds)?)
}

fn request(mut body: Node<'_>, kinds: &FileKinds) -> Result<DecisionRequest, BoxedError> {
    let top = &Path::TOP;
    body.check_keys(&[MEMBERS, HINTS, IGNORED_HINTS], top)?;
    let model = body
        .need("model", top)?
        .non_empty_at(&top.key("model"))?
        .to_owned();
    let parsed = questions::read(body.need("questions", top)?, &top.key("questions"))?;
    let options = match body.get("options") {
        Some(options) => decide_options(options, &top.key("options"))?,
        None => DecideOptions::default(),
    };
    let (dialect, name) = match (body.get("state"), body.get("input"), parsed.container) {
        (Some(_), Some(_), _) => return Err(top.key("input").invalid("cannot be combined with 'state'")),
        (Some(_), None, _) => (Dialect::Native, "state"),
        (None, Some(_), Container::List) => (Dialect::OpenAi, "input"),
        (None, Some(_), Container::Map) => (Dialect::Google, "input"),
        (None, None, _) => return Err(top.missing("state")),
    };
    // Google's clients send `models/ID`.
    let model = match (dialect, model.strip_prefix("models/")) {
        (Dialect::Google, Some(id)) if !id.is_empty() => id.to_owned(),
        _ => model,
    };
    let ignored = ignored(&body);
    let (state, files) = state::read(take(&mut body, name), dialect, kinds, &top.key(name))?;
    Ok(DecisionRequest {
        model,
        state,
        files,
        questions: parsed.questions,
        options,
        dialect,
        container: parsed.container,
        ignored,
        unnamed: parsed.unnamed,
    })
}

fn ignored(body: &Node<'_>) -> Vec<String> {
    let Node::Object(members) = body else {
        return Vec::new();
    };
    let names = members.iter().map(|(name, _)| name.clone().into_owned());
    names.filter(|name| !MEMBERS.contains(&name.as_str())).collect()
}

/// Returns the value of a member and replaces it with null.
fn take<'a>(body: &mut Node<'a>, name: &str) -> Node<'a> {
    let Node::Object(members) = body else {
        return Node::Null;
    };
    let member = members.iter_mut().find(|(key, _)| *key == name);
    member.map_or(Node::Null, |(_, value)| std::mem::replace(value, Node::Null))
}

fn decide_options(node: &Node<'_>, path: &Path<'_>) -> Result<DecideOptions, BoxedError> {
    node.check_keys(&[&["permutations", "calibration", "detail", "seed"]], path)?;
    let mut options = DecideOptions::default();
    if let Some(permutations) = node.get("permutations") {
        let permutations = permutations.integer_at(1..=8, &path.key("permutations"))?;
        options.permutations = u32::try_from(permutations).ok();
    }
    if let Some(calibration) = node.get("calibration") {
        let path = path.key("calibration");
        options.calibration = match calibration.non_empty_at(&path)? {
            "default" => CalibrationChoice::Newest,
            "none" => CalibrationChoice::None,
            profile => CalibrationChoice::Profile(questions::identifier(profile, &path)?),
        };
    }
    if let Some(detail) = node.get("detail") {
        // The response always has full detail, so `full` has the same effect as `standard`.
        let word = detail.word_at(&["standard", "full", "fast"], &path.key("detail"))?;
        options.fast = word == "fast";
    }
    if let Some(seed) = node.get("seed") {
        options.seed = seed.integer_at(0..=i64::MAX as u64, &path.key("seed"))?;
    }
    Ok(options)
}
