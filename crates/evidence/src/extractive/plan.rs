//! Plan of a research without a model.

use serde::{Deserialize, Serialize};

use crate::query::is_safe_token;
use crate::sentences::sentences;
use crate::text::{CharText, clean};
use crate::words::{is_stop_word, terms};

/// Maximum length of a query, in characters.
const MAX_QUERY_CHARS: usize = 200;

/// Maximum number of words of a query.
const MAX_QUERY_WORDS: usize = 16;

/// Maximum number of questions, and of queries.
const MAX_PARTS: usize = 12;

/// Maximum length of a question, in characters.
const MAX_QUESTION_CHARS: usize = 300;

/// Code points of the request that are read.
const MAX_REQUEST_CHARS: usize = 32_000;

/// Words that join the parts of a request.
const CONJUNCTIONS: &str = " and or und oder et ou y o as well also sowie ";

/// Words that join the sides of a comparison.
const COMPARISONS: [&str; 7] = [
    " vs. ",
    " vs ",
    " versus ",
    " compared to ",
    " compared with ",
    " gegenüber ",
    " or ",
];

/// Words that begin questions.
const QUESTION_WORDS: &str = " what who when where why how which whose is are was were do does did can has have \
    was wer wann wo warum wie welche welcher welches qui que quand où pourquoi comment quel quelle quels quelles \
    qué quién cuándo dónde cómo cuál cuáles cuánto ";

/// Words of a request that are about the report.
const REQUEST_WORDS: &str = " please tell explain describe compare comparison difference differences report \
    research summarize summarise overview write give find list vergleiche erkläre beschreibe unterschied ";

/// Questions and first queries of a research.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Parts of the request, at least one and at most 12. They are titles of sections.
    pub questions: Vec<String>,
    /// Key terms of the request and of its parts, at most 12 queries of at most 200 characters.
    /// Empty if the request has no key terms.
    pub queries: Vec<String>,
}

/// Returns the plan for a request. Sentences, lists, conjunctions and comparisons separate its
/// parts. Directives to the simulator, `[[sim …]]`, are ignored. Requests are read up to 32,000
/// characters.
pub fn plan(question: &str) -> Plan {
    let request: String = without_directives(question)
        .chars()
        .take(MAX_REQUEST_CHARS)
        .collect();
    let request = clean(&request);
    let mut questions: Vec<String> = Vec::new();
    for sentence in request_sentences(&request) {
        for part in parts(&sentence) {
            let part: String = part.chars().take(MAX_QUESTION_CHARS).collect();
            if !questions.contains(&part) && questions.len() < MAX_PARTS {
                questions.push(part);
            }
        }
    }
    if questions.is_empty() {
        questions.push(request.chars().take(MAX_QUESTION_CHARS).collect());
    }
    let queries = queries(&request, &questions);
    Plan { questions, queries }
}

/// Removes `[[sim …]]`.
fn without_directives(request: &str) -> String {
    let mut output = String::with_capacity(request.len());
    let mut rest = request;
    while let Some(start) = rest.find("[[sim") {
        let Some(end) = rest[start..].find("]]") else {
            break;
        };
        output.push_str(&rest[..start]);
        rest = &rest[start + end + 2..];
    }
    output.push_str(rest);
    output
}

/// Returns the sentences with key terms, on one line each.
fn request_sentences(request: &str) -> Vec<String> {
    let index = CharText::new(request);
    let spans = sentences(request);
    let texts = spans.iter().filter_map(|span| index.span(*span));
    let lines = texts.map(|text| text.split_whitespace().collect::<Vec<&str>>().join(" "));
    lines.filter(|line| !key_words(line).is_empty()).collect()
}

/// Returns the parts of a sentence: the sides of a comparison and the comparison, else the parts of
/// a list, else the sentence.
fn parts(sentence: &str) -> Vec<String> {
    if let Some((one, two)) = comparison(sentence) {
        return vec![sentence.to_owned(), one, two];
    }
    let parts = list_parts(sentence);
    let is_list = parts.len() > 1 && parts.iter().all(|part| key_words(part).len() >= 2);
    if is_list { parts } else { vec![sentence.to_owned()] }
}

/// Returns the sides of "X vs Y", "compare X and Y", "difference between X and Y".
fn comparison(sentence: &str) -> Option<(String, String)> {
    let lower = sentence.to_lowercase();
    // Lower case may change the length of other letters; the places would differ.
    if lower.len() != sentence.len() {
        return None;
    }
    let opening = ["between ", "zwischen ", "entre ", "compare ", "vergleiche "];
    let subject = opening
        .iter()
        .find_map(|word| lower.find(word).map(|at| at + word.len()));
    let joint = match subject {
        Some(start) => {
            let joints = [" and ", " und ", " et ", " y ", " with ", " mit ", " to "];
            joints
                .iter()
                .find_map(|word| lower[start..].find(word).map(|at| (start + at, word.len())))
        }
        None => COMPARISONS
            .iter()
            .filter(|word| **word != " or ")
            .find_map(|word| lower.find(word).map(|at| (at, word.len()))),
    };
    let (at, length) = joint?;
    let is_compared = [
        "difference",
        "compare",
        "vergleich",
        "unterschied",
        "différence",
        "diferencia",
    ];
    if subject.is_some() && !is_compared.iter().any(|word| lower.contains(word)) {
        return None;
    }
    let side = |text: &str| {
        text.trim_matches(|c: char| !c.is_alphanumeric() && c != '"')
            .to_owned()
    };
    let before = &sentence[subject.unwrap_or(0)..at];
    let after = sentence[at + length..]
        .split([',', ';', '?', ':'])
        .next()
        .unwrap_or_default();
    let (one, two) = (side(before), side(after));
    let is_named = |side: &str| !key_words(side).is_empty();
    (is_named(&one) && is_named(&two)).then_some((one, two))
}

/// Divides a sentence at semicolons, commas and conjunctions outside quotation marks.
fn list_parts(sentence: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut is_quoted = false;
    for word in sentence.split(' ') {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        let starts_part = !is_quoted && CONJUNCTIONS.contains(&format!(" {bare} ")) && !bare.is_empty();
        is_quoted ^= word.matches(['"', '“', '”', '„']).count() % 2 == 1;
        let last = parts.len() - 1;
        if starts_part {
            parts.push(String::new());
            continue;
        }
        if !parts[last].is_empty() {
            parts[last].push(' ');
        }
        parts[last].push_str(word);
        if !is_quoted && word.ends_with([',', ';']) {
            parts.push(String::new());
        }
    }
    let trimmed = parts
        .iter()
        .map(|part| part.trim().trim_end_matches([',', ';']).to_owned());
    merge_short(trimmed.filter(|part| !part.is_empty()).collect())
}

/// Joins parts that cannot be questions to the part before: without a question word at the start
/// and with only one key word.
fn merge_short(parts: Vec<String>) -> Vec<String> {
    let mut merged: Vec<String> = Vec::new();
    for part in parts {
        let first = part.split(' ').next().unwrap_or_default().to_lowercase();
        let is_question = QUESTION_WORDS.contains(&format!(" {first} "));
        let is_short = !is_question && key_words(&part).len() < 2;
        match merged
            .last_mut()
            .filter(|last| is_short || key_words(last).len() < 2)
        {
            Some(last) => last.push_str(&format!(", {part}")),
            None => merged.push(part),
        }
    }
    merged
}

/// Returns the words of a text that describe its subject, in their order and without repetition.
fn key_words(text: &str) -> Vec<&str> {
    let mut words: Vec<&str> = Vec::new();
    for token in text.split_whitespace() {
        let word = token.trim_matches(|c: char| !c.is_alphanumeric());
        let lower = word.to_lowercase();
        let is_general = is_stop_word(&lower) || REQUEST_WORDS.contains(&format!(" {lower} "));
        let is_key = !word.is_empty() && !is_general && !terms(word).is_empty() && is_safe_token(token);
        if is_key && !words.contains(&word) {
            words.push(word);
        }
        if words.len() == MAX_QUERY_WORDS {
            break;
        }
    }
    words
}

fn queries(request: &str, questions: &[String]) -> Vec<String> {
    let subject = names(request);
    let mut queries: Vec<String> = Vec::new();
    let mut add = |words: &[&str]| {
        let query = query(words);
        if !query.is_empty() && !queries.contains(&query) && queries.len() < MAX_PARTS {
            queries.push(query);
        }
    };
    add(&key_words(request));
    for question in questions {
        let mut words = key_words(question);
        // A later part may refer to a name of an earlier one.
        let missing = subject
            .iter()
            .filter(|name| !words.contains(*name))
            .copied()
            .take(3);
        let missing: Vec<&str> = missing.collect();
        let is_comparison = questions
            .first()
            .is_some_and(|first| first != question && first.contains(question.as_str()));
        if !is_comparison && names(question).is_empty() {
            words.extend(missing);
        }
        add(&words);
    }
    queries
}

fn query(words: &[&str]) -> String {
    let mut query = String::new();
    let mut chars = 0;
    for word in words.iter().take(MAX_QUERY_WORDS) {
        let length = word.chars().count() + usize::from(chars > 0);
        if chars + length > MAX_QUERY_CHARS {
            // An unspaced text is one long word.
            let rest = MAX_QUERY_CHARS - chars;
            query.extend(word.chars().take(if chars == 0 { rest } else { 0 }));
            break;
        }
        if chars > 0 {
            query.push(' ');
        }
        query.push_str(word);
        chars += length;
    }
    query
}

/// Returns the key words with a capital letter that do not begin a sentence, and those with digits.
fn names(text: &str) -> Vec<&str> {
    let first = text.split_whitespace().next().unwrap_or_default();
    let is_name = |word: &&str| {
        let is_first = first.contains(*word);
        let has_digit = word.contains(|c: char| c.is_ascii_digit());
        has_digit || (!is_first && word.starts_with(char::is_uppercase))
    };
    key_words(text).into_iter().filter(is_name).collect()
}
