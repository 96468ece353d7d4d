//! Test cases: a research request with the answers that its report should state.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::super::cases::BadLine;
use super::filters::Filters;

/// Member of a line with the expected answers, which is not sent.
const ANSWERS: &str = "answers";
/// Member of a line with the name of its group, which is not sent.
const GROUP: &str = "group";
/// Members that the evaluation itself needs.
const RESERVED: [&str; 4] = ["model", "sync", "wait", "stream"];
/// Maximum number of answers of a question.
const MAX_ANSWERS: usize = 32;

/// Format of a file with questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Request bodies with `answers`, one JSON object a line.
    Shipped,
    /// SimpleQA: CSV with the columns `problem` and `answer`.
    SimpleQa,
    /// FRAMES: TSV with the columns `Prompt` and `Answer`.
    Frames,
    /// DeepResearch Bench: JSON lines with `prompt`. Without answers, only the citations are
    /// checked.
    DeepResearchBench,
    /// BrowseComp: CSV with the encrypted columns `problem` and `answer`, and the column `canary`,
    /// from which their key is derived.
    BrowseComp,
}

/// A research question with its expected answers.
#[derive(Clone, Debug, PartialEq)]
pub struct ResearchCase {
    /// Line number in the file, from 1.
    pub line: usize,
    /// Group of the question, which is also scored separately.
    pub group: Option<String>,
    /// Answers that the report should state, each of them.
    pub answers: Vec<String>,
    /// Request body without the model.
    pub(super) body: Map<String, Value>,
    /// Filters of the request, which the sources must match.
    pub(super) filters: Filters,
}

/// Parses the questions of a file. Skips empty lines.
///
/// # Errors
///
/// Returns the first line that is invalid.
pub fn read(text: &str, format: Format) -> Result<Vec<ResearchCase>, BadLine> {
    let text = text.trim_start_matches('\u{feff}');
    match format {
        Format::Shipped => lines(text, shipped_line),
        Format::DeepResearchBench => lines(text, |line, text| {
            let object = object(text)?;
            let prompt = object.get("prompt").and_then(Value::as_str);
            let prompt = prompt.ok_or("'prompt' must be the question, as text")?;
            case(line, None, query(prompt), Vec::new())
        }),
        Format::SimpleQa => columns(text, b',', ["problem", "answer"], plain),
        Format::Frames => columns(text, b'\t', ["Prompt", "Answer"], plain),
        Format::BrowseComp => columns(
            text,
            b',',
            ["problem", "answer", "canary"],
            |[problem, answer, canary]| {
                let problem = decrypted("problem", problem, canary)?;
                Ok((problem, decrypted("answer", answer, canary)?))
            },
        ),
    }
}

/// Returns the questions about the built-in corpus `demo`: its planted facts, its contradictions,
/// and each contradiction again with a filter that permits one of its documents.
pub fn shipped() -> Vec<ResearchCase> {
    let mut cases = Vec::new();
    let mut add = |group: &str, body: Value, answers: Vec<String>| {
        let Value::Object(body) = body else { return };
        cases.extend(case(cases.len() + 1, Some(group.to_owned()), body, answers));
    };
    for fact in tollgate_corpus::facts() {
        add("facts", json!({"query": fact.question}), vec![fact.answer]);
    }
    let dates = tollgate_corpus::dates();
    for found in tollgate_corpus::contradictions() {
        let query = &found.question;
        let [(first, first_url), (second, second_url)] = &found.answers;
        add(
            "contradictions",
            json!({"query": query}),
            vec![first.clone(), second.clone()],
        );
        add(
            "site filters",
            json!({"query": query, "search_domain_filter": [format!("-{}", first_url.trim_start_matches("corpus://"))]}),
            vec![second.clone()],
        );
        let (Some(first_date), Some(second_date)) = (dates.get(first_url), dates.get(second_url)) else {
            continue;
        };
        let (answer, date) = match first_date < second_date {
            true => (second, second_date),
            false => (first, first_date),
        };
        add(
            "date filters",
            json!({"query": query, "search_after_date_filter": date}),
            vec![answer.clone()],
        );
    }
    cases
}

fn lines(
    text: &str,
    read: impl Fn(usize, &str) -> Result<ResearchCase, String>,
) -> Result<Vec<ResearchCase>, BadLine> {
    let filled = (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty());
    filled
        .map(|(line, text)| read(line, text).map_err(|what| BadLine { line, what }))
        .collect()
}

fn object(text: &str) -> Result<Map<String, Value>, String> {
    serde_json::from_str(text).map_err(|error| format!("not a JSON object: {error}"))
}

fn shipped_line(line: usize, text: &str) -> Result<ResearchCase, String> {
    let mut body = object(text)?;
    let group = match body.remove(GROUP) {
        None => None,
        Some(Value::String(group)) => Some(group),
        Some(_) => return Err("'group' must be a string".to_owned()),
    };
    let answers = match body.remove(ANSWERS) {
        None => Vec::new(),
        Some(answers) => serde_json::from_value(answers)
            .map_err(|_| "'answers' must be an array of texts that the report should state".to_owned())?,
    };
    if let Some(name) = RESERVED.iter().find(|name| body.contains_key(**name)) {
        return Err(format!("'{name}' must be omitted: the command sets it"));
    }
    if !body.contains_key("query") && !body.contains_key("messages") {
        return Err("'query' is missing: the question".to_owned());
    }
    case(line, group, body, answers)
}

/// Reads columns from a file with a header row. `read` returns the question and its answer from
/// their cells.
fn columns<const N: usize>(
    text: &str,
    delimiter: u8,
    names: [&str; N],
    read: impl Fn([&str; N]) -> Result<(String, String), String>,
) -> Result<Vec<ResearchCase>, BadLine> {
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .from_reader(text.as_bytes());
    let bad = |line: usize, what: String| BadLine { line, what };
    let header = reader
        .headers()
        .map_err(|error| bad(1, error.to_string()))?
        .clone();
    let places = names.map(|name| header.iter().position(|column| column.trim() == name));
    if let Some((name, _)) = names.iter().zip(places).find(|(_, place)| place.is_none()) {
        return Err(bad(1, format!("the header has no column '{name}'")));
    }
    let mut cases = Vec::new();
    for row in reader.records() {
        let row = row.map_err(|error| {
            let line = error.position().map_or(0, csv::Position::line);
            bad(usize::try_from(line).unwrap_or_default(), error.to_string())
        })?;
        let line = row.position().map_or(0, csv::Position::line);
        let line = usize::try_from(line).unwrap_or_default();
        let cells = places.map(|place| row.get(place.unwrap_or_default()).unwrap_or_default().trim());
        if let Some((name, _)) = names.iter().zip(cells).find(|(_, cell)| cell.is_empty()) {
            return Err(bad(line, format!("the column '{name}' is empty")));
        }
        let read =
            read(cells).and_then(|(question, answer)| case(line, None, query(&question), vec![answer]));
        cases.push(read.map_err(|what| bad(line, what))?);
    }
    Ok(cases)
}

fn plain([question, answer]: [&str; 2]) -> Result<(String, String), String> {
    Ok((question.to_owned(), answer.to_owned()))
}

/// Decrypts a cell of BrowseComp, which keeps questions and answers out of search indexes: base64
/// of the text, combined by XOR with the repeated SHA-256 digest of the canary.
fn decrypted(name: &str, cell: &str, canary: &str) -> Result<String, String> {
    let invalid = || format!("the column '{name}' is not encrypted with the key of the column 'canary'");
    let mut bytes = STANDARD.decode(cell).map_err(|_| invalid())?;
    let key = Sha256::digest(canary);
    for (byte, key) in bytes.iter_mut().zip(key.iter().cycle()) {
        *byte ^= key;
    }
    let text = String::from_utf8(bytes).map_err(|_| invalid())?;
    match text.trim() {
        "" => Err(format!("the column '{name}' is empty")),
        text => Ok(text.to_owned()),
    }
}

fn query(text: &str) -> Map<String, Value> {
    Map::from_iter([("query".to_owned(), json!(text))])
}

fn case(
    line: usize,
    group: Option<String>,
    body: Map<String, Value>,
    answers: Vec<String>,
) -> Result<ResearchCase, String> {
    if answers.len() > MAX_ANSWERS || answers.iter().any(|answer| answer.trim().is_empty()) {
        return Err(format!(
            "'answers' must be at most {MAX_ANSWERS} texts, none of them empty"
        ));
    }
    let filters = Filters::of(&body)?;
    Ok(ResearchCase {
        line,
        group,
        answers,
        body,
        filters,
    })
}

impl ResearchCase {
    /// Returns the question: the query, or the last message.
    pub fn question(&self) -> &str {
        let last = || {
            self.body
                .get("messages")?
                .as_array()?
                .last()?
                .get("content")?
                .as_str()
        };
        let query = self.body.get("query").and_then(Value::as_str);
        query.or_else(last).unwrap_or_default()
    }

    /// Returns the request body for a model. The effort applies to lines without one.
    pub(super) fn request(&self, model: &str, effort: Option<&str>) -> Value {
        let mut body = self.body.clone();
        body.insert("model".to_owned(), json!(model));
        if let Some(effort) = effort {
            body.entry("reasoning_effort").or_insert_with(|| json!(effort));
        }
        Value::Object(body)
    }
}

#[cfg(test)]
mod tests;
