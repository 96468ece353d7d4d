//! Decoding of an upstream's answers: a map by question id, or a list in the order of the
//! questions.

use tollgate_types::decide::{Decision, DecisionSource, Method, Question, Verdict};
use tollgate_types::usage::MAX_QUANTITY;
use tollgate_types::{Error, ErrorCode, Unit, Usage};

use super::{Shape, verdict};
use crate::error::{BoxedError, DecodeError};
use crate::json::{MAX_NODES, Node, Path};

/// Reads the answers to these questions, in the order of the questions, and the reported usage.
/// Accepts either container, with or without Cloudflare's envelope `{"result":…,"success":…}`.
///
/// A refused or failed question has a verdict of that kind. If Google blocked the prompt, all
/// questions are refused. If an answer is missing or of a wrong type, or if probabilities are
/// impossible, the function returns an error and no answers.
pub fn answers(
    shape: Shape,
    body: &[u8],
    questions: &[Question],
) -> Result<(Vec<Decision>, Option<Usage>), DecodeError> {
    let body = Node::of_body(body, MAX_NODES)?;
    let body = unwrap_envelope(&body)?;
    let decisions = match body.get("answers") {
        Some(answers) => each(answers, questions)?,
        None if shape == Shape::Google && is_blocked(body) => questions
            .iter()
            .map(|_| decision(Verdict::Refused, None))
            .collect(),
        None => return Err(DecodeError::missing("answers")),
    };
    Ok((decisions, body.get("usage").and_then(usage)))
}

/// Removes Cloudflare's envelope, if present. Fails if `success` is false.
fn unwrap_envelope<'n, 'a>(body: &'n Node<'a>) -> Result<&'n Node<'a>, BoxedError> {
    body.object_at(&Path::TOP)?;
    if body.get("success") == Some(&Node::Bool(false)) {
        return Err(Path::TOP.key("success").invalid("is false"));
    }
    let is_inside = body.get("answers").is_none();
    let inside = body.get("result").filter(|_| is_inside);
    Ok(inside.unwrap_or(body))
}

fn is_blocked(body: &Node<'_>) -> bool {
    let feedback = body.get("prompt_feedback");
    feedback.is_some_and(|feedback| feedback.get("block_reason").is_some())
}

fn each(answers: &Node<'_>, questions: &[Question]) -> Result<Vec<Decision>, BoxedError> {
    let path = Path::TOP.key("answers");
    if let Node::Object(_) = answers {
        let read = questions.iter().map(|question| {
            let found = answers.need(&question.id, &path)?;
            answer(found, question, &path.key(&question.id))
        });
        return read.collect();
    }
    let items = answers.list_at(&path)?;
    if items.len() != questions.len() {
        return Err(path.invalid("must have one answer per question"));
    }
    let read = items.iter().zip(questions).enumerate();
    let read = read.map(|(place, (item, question))| {
        let path = path.index(place as u32);
        let name = item
            .get("name")
            .or_else(|| item.get("id"))
            .and_then(Node::as_text);
        match name {
            Some(name) if name != question.id => Err(path.invalid("has the name of another question")),
            _ => answer(item, question, &path),
        }
    });
    read.collect()
}

fn answer(node: &Node<'_>, question: &Question, path: &Path<'_>) -> Result<Decision, BoxedError> {
    node.object_at(path)?;
    let verdict = match node.get("type").and_then(Node::as_text) {
        Some("refusal") => Verdict::Refused,
        Some("error") => Verdict::Failed(failure(node, question)),
        kind => verdict::read(node, kind, question, path)?,
    };
    let abstain = match node.get("abstain") {
        Some(abstain) if question.abstain => Some(verdict::probability(abstain, &path.key("abstain"))?),
        _ => None,
    };
    Ok(decision(verdict, abstain))
}

fn decision(verdict: Verdict, abstain: Option<f64>) -> Decision {
    let has_numbers = !matches!(verdict, Verdict::Refused | Verdict::Failed(_));
    let method = Method {
        source: DecisionSource::Native,
        permutations: 0,
        mass: None,
        calls: 1,
        calibrated: None,
    };
    Decision {
        verdict,
        abstain,
        method: has_numbers.then_some(method),
    }
}

/// Returns the error of one question. The upstream's message is only logged, because it may name
/// the upstream.
fn failure(node: &Node<'_>, question: &Question) -> Error {
    let message = "The question could not be answered. Retry it; if the error persists, rephrase it.";
    let message_text = node.get("error").and_then(|error| error.get("message"));
    let message_text = message_text.and_then(Node::as_text).unwrap_or("no message");
    Error::new(ErrorCode::UpstreamError, message)
        .with_param(&question.param)
        .with_source(message_text.chars().take(400).collect::<String>())
}

/// Reads a usage report with any of the known member names; `None` without a plausible input count.
fn usage(node: &Node<'_>) -> Option<Usage> {
    let details = node.get("input_tokens_details");
    let detail = |name: &str| details.and_then(|details| count(details, name));
    let first = |names: &[&str]| names.iter().find_map(|name| count(node, name));
    let input = first(&["input_tokens", "total_input_tokens", "prompt_tokens"])?;
    let read = detail("cached_tokens")
        .or(count(node, "total_cached_tokens"))
        .unwrap_or(0);
    let read = read.min(input);
    let written = detail("cache_write_tokens").unwrap_or(0).min(input - read);
    let output = first(&["output_tokens", "total_output_tokens", "completion_tokens"]).unwrap_or(0);
    let usage = Usage::tokens(input - read - written, output)
        .with(Unit::CacheRead, read)
        .with(Unit::CacheWrite, written);
    Some(usage)
}

fn count(node: &Node<'_>, name: &str) -> Option<u64> {
    let value = node.get(name)?.as_f64()?;
    let is_plausible = (0.0..=MAX_QUANTITY as f64).contains(&value) && value.fract() == 0.0;
    is_plausible.then_some(value as u64)
}
