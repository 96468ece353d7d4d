//! Texts that are encoded within a passage.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

/// Minimum length of a run of base64, in characters.
const MIN_BASE64: usize = 24;
/// Minimum length of a run of hexadecimal digits.
const MIN_HEX: usize = 40;
/// Minimum number of percent-encoded bytes.
const MIN_PERCENT: usize = 4;
/// Parts of words that most instructions contain.
const STEMS: [&str; 4] = ["ignore", "instruct", "prompt", "assistant"];

/// Padding and the bits after the last byte do not matter.
const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const STANDARD: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, LENIENT);
const URL_SAFE: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, LENIENT);

/// Returns the decoded texts of a passage. The time is proportional to its length.
pub(super) fn decoded(passage: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let is_code = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '/' | '=' | '-' | '_');
    for run in passage.split(|c| !is_code(c)) {
        if run.len() >= MIN_HEX && run.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            texts.extend(from_hex(run));
        } else if run.len() >= MIN_BASE64 {
            let decoded = STANDARD.decode(run).or_else(|_| URL_SAFE.decode(run));
            texts.extend(decoded.ok().and_then(text));
        }
    }
    texts.extend(from_percent(passage));
    let lower = passage.to_ascii_lowercase();
    let has = |stem: String| lower.contains(&stem);
    if STEMS.iter().any(|stem| has(stem.chars().map(rot13).collect())) {
        texts.push(passage.chars().map(rot13).collect());
    }
    if STEMS.iter().any(|stem| has(stem.chars().rev().collect())) {
        texts.push(passage.chars().rev().collect());
    }
    texts
}

/// Returns bytes as a text, if they are one.
fn text(bytes: Vec<u8>) -> Option<String> {
    let text = String::from_utf8(bytes).ok()?;
    let is_readable = text.chars().all(|c| !c.is_control() || c.is_whitespace());
    is_readable.then_some(text)
}

fn from_hex(digits: &str) -> Option<String> {
    let pairs = digits.as_bytes().chunks_exact(2);
    let bytes = pairs.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
    text(bytes.collect::<Option<Vec<u8>>>()?)
}

fn from_percent(passage: &str) -> Option<String> {
    let (mut bytes, mut count) = (Vec::with_capacity(passage.len()), 0);
    let mut rest = passage.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let code = tail.get(..2).filter(|_| first == b'%');
        let code = code.and_then(|code| u8::from_str_radix(str::from_utf8(code).ok()?, 16).ok());
        count += usize::from(code.is_some());
        bytes.push(code.unwrap_or(first));
        rest = match code {
            Some(_) => tail.get(2..).unwrap_or_default(),
            None => tail,
        };
    }
    (count >= MIN_PERCENT).then(|| String::from_utf8_lossy(&bytes).into_owned())
}

fn rot13(c: char) -> char {
    let shifted = |base: u8| char::from((c as u8 - base + 13) % 26 + base);
    match c {
        'a'..='z' => shifted(b'a'),
        'A'..='Z' => shifted(b'A'),
        c => c,
    }
}
