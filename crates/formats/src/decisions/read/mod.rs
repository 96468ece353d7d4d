//! From a caller's body to the common form.

mod address;
mod guidance;
mod kinds;
mod media;
mod questions;
mod state;
mod tools;

use tollgate_types::decide::{CalibrationChoice, DecideOptions};

use super::{Asked, Container, Dialect, FileKinds};
use crate::embeddings::IGNORED_HINTS;
use crate::error::{DecodeError, Flaw};
use crate::json::{MAX_NODES, Node, Path};

const MEMBERS: &[&str] = &["model", "state", "input", "questions", "options"];

/// Hints of these dialects beside those that clients send everywhere.
const HINTS: &[&str] = &["user", "session_id", "trace"];

/// Reads a request in whichever dialect. `input` instead of `state` is OpenAI's with a list of questions and Google's
/// with a map; what a question may be written like is the same in all of them.
///
/// A file whose part does not say what it is has no marker yet: when its content was looked at, the request is read again by
/// [`read_knowing`].
pub fn read(body: &[u8]) -> Result<Asked, DecodeError> {
    read_knowing(body, &FileKinds::new())
}

/// Reads a request when it is known what its files are.
pub fn read_knowing(body: &[u8], kinds: &FileKinds) -> Result<Asked, DecodeError> {
    Ok(request(Node::of_body(body, MAX_NODES)?, kinds)?)
}

fn request(mut body: Node<'_>, kinds: &FileKinds) -> Result<Asked, Flaw> {
    let top = &Path::TOP;
    body.closed_at(&[MEMBERS, HINTS, IGNORED_HINTS], top)?;
    let model = body.need("model", top)?.filled_at(&top.key("model"))?.to_owned();
    let asked = questions::read(body.need("questions", top)?, &top.key("questions"))?;
    let options = match body.get("options") {
        Some(options) => decide_options(options, &top.key("options"))?,
        None => DecideOptions::default(),
    };
    let (dialect, name) = match (body.get("state"), body.get("input"), asked.container) {
        (Some(_), Some(_), _) => return Err(top.key("input").invalid("cannot stand beside 'state'")),
        (Some(_), None, _) => (Dialect::Native, "state"),
        (None, Some(_), Container::List) => (Dialect::OpenAi, "input"),
        (None, Some(_), Container::Map) => (Dialect::Google, "input"),
        (None, None, _) => return Err(top.missing("state")),
    };
    // Google's clients write `models/ID`.
    let model = match (dialect, model.strip_prefix("models/")) {
        (Dialect::Google, Some(id)) if !id.is_empty() => id.to_owned(),
        _ => model,
    };
    let ignored = ignored(&body);
    let (state, files) = state::read(take(&mut body, name), dialect, kinds, &top.key(name))?;
    Ok(Asked {
        model,
        state,
        files,
        questions: asked.questions,
        options,
        dialect,
        container: asked.container,
        ignored,
        unnamed: asked.unnamed,
    })
}

fn ignored(body: &Node<'_>) -> Vec<String> {
    let Node::Object(members) = body else {
        return Vec::new();
    };
    let names = members.iter().map(|(name, _)| name.clone().into_owned());
    names.filter(|name| !MEMBERS.contains(&name.as_str())).collect()
}

/// The value of a member, which has none afterwards.
fn take<'a>(body: &mut Node<'a>, name: &str) -> Node<'a> {
    let Node::Object(members) = body else {
        return Node::Null;
    };
    let member = members.iter_mut().find(|(key, _)| *key == name);
    member.map_or(Node::Null, |(_, value)| std::mem::replace(value, Node::Null))
}

fn decide_options(node: &Node<'_>, path: &Path<'_>) -> Result<DecideOptions, Flaw> {
    node.closed_at(&[&["permutations", "calibration", "detail", "seed"]], path)?;
    let mut options = DecideOptions::default();
    if let Some(permutations) = node.get("permutations") {
        let permutations = permutations.whole_at(1..=8, &path.key("permutations"))?;
        options.permutations = u32::try_from(permutations).ok();
    }
    if let Some(calibration) = node.get("calibration") {
        let path = path.key("calibration");
        options.calibration = match calibration.filled_at(&path)? {
            "default" => CalibrationChoice::Newest,
            "none" => CalibrationChoice::None,
            profile => CalibrationChoice::Profile(questions::identifier(profile, &path)?),
        };
    }
    if let Some(detail) = node.get("detail") {
        // All that is known is always said, so that the full detail is the standard one.
        let word = detail.word_at(&["standard", "full", "fast"], &path.key("detail"))?;
        options.fast = word == "fast";
    }
    if let Some(seed) = node.get("seed") {
        options.seed = seed.whole_at(0..=i64::MAX as u64, &path.key("seed"))?;
    }
    Ok(options)
}
