//! When each word of a spoken text is heard: measured where this machine speaks, and divided by letters where others did.

use std::path::Path;
use std::time::Duration;

use crate::captions::{Word, ends_sentence, is_square};
use crate::error::{Error, Result};
use crate::probe::FORMATS;
use crate::process::Run;
use crate::scratch::Scratch;
use crate::tools::{Program, Tools};

/// How long listening may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// Samples in a second of what espeak-ng speaks.
const SPOKEN_RATE: usize = 22_050;
/// How finely it is listened to: 5 ms.
const WINDOW: usize = SPOKEN_RATE / 200;
/// The mean of what counts as heard, of 32,768.
const HEARD: u64 = 40;
/// Of so many windows one may be unclear.
const UNCLEAR: usize = 20;
/// How many letters' time the end of a sentence takes, and a comma.
const SENTENCE: u64 = 7;
const COMMA: u64 = 4;
/// What a word takes beside its letters.
const WORD: u64 = 1;
/// Letters without blanks that are read together.
const TOGETHER: usize = 6;
/// Samples in a second when the bounds of a sound are looked for, and how finely: 10 ms.
const BOUNDS_RATE: usize = 8_000;
const BOUNDS_WINDOW: usize = BOUNDS_RATE / 100;
/// The mean of what is no silence: about -45 dB of the loudest there can be.
const AUDIBLE: u64 = 120;

/// The words of a text. What is not spoken by itself, such as a dash, belongs to the word before it. Scripts without blanks
/// are cut at their marks, or after some letters.
pub(crate) fn tokens(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for piece in text.split_whitespace().flat_map(pieces) {
        match words.last_mut() {
            Some(last) if !piece.chars().any(char::is_alphanumeric) => {
                last.push(' ');
                last.push_str(&piece);
            }
            _ => words.push(piece),
        }
    }
    words
}

fn pieces(word: &str) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for letter in word.chars() {
        let last = pieces.last().map(String::as_str).unwrap_or_default();
        let is_full = last.chars().count() >= TOGETHER || last.ends_with(['。', '！', '？', '，', '、']);
        if is_full && is_square(letter) && letter.is_alphanumeric() {
            pieces.push(String::new());
        }
        if let Some(last) = pieces.last_mut() {
            last.push(letter);
        }
    }
    pieces
}

/// The words of a text with times that follow from their letters and marks: what there is for a voice that does not say when
/// it says what.
pub fn spread(text: &str, duration: Duration) -> Vec<Word> {
    divide(&tokens(text), duration)
}

fn divide(words: &[String], duration: Duration) -> Vec<Word> {
    let letters = |word: &String| word.chars().filter(|c| c.is_alphanumeric()).count() as u64 + WORD;
    let pause = |word: &String| match word {
        word if ends_sentence(word) => SENTENCE,
        word if word.ends_with([',', '-', '–', '—', '，', '、', '،']) => COMMA,
        _ => 0,
    };
    // Nothing comes after the last word, so its pause is not heard.
    let last = words.last().map(pause).unwrap_or_default();
    let all: u64 = words.iter().map(|word| letters(word) + pause(word)).sum::<u64>() - last;
    let at = |weight: u64| duration.mul_f64(weight.min(all) as f64 / all.max(1) as f64);
    let mut before = 0;
    let mut divided = Vec::with_capacity(words.len());
    for text in words {
        let (spoken, silent) = (letters(text), pause(text));
        divided.push(Word {
            text: text.clone(),
            from: at(before),
            to: at(before + spoken),
        });
        before += spoken + silent;
    }
    divided
}

/// How often words are spoken to learn when: with all of them heard, and twice with some of them silent.
pub(crate) const TAKES: usize = 3;

/// A text that espeak-ng speaks equally long in each take. Each word has a command of its loudness before it; in the second
/// take every other word is silent, in the third every other pair, so that what is heard in them says which of four
/// words that follow each other it is.
pub(crate) fn take(words: &[String], take: usize) -> String {
    let mut text = String::new();
    for (place, word) in words.iter().enumerate() {
        let is_silent = take > 0 && (place >> (take - 1)) & 1 == 1;
        let loudness = if is_silent { 0 } else { 100 };
        // A command of espeak-ng: CTRL+A, a number, what it is of.
        text.push_str(&format!("\u{1}{loudness}A {word} "));
    }
    text
}

/// When each word is heard in these takes, of which each is samples as espeak-ng writes them. Nothing when they do not say.
pub(crate) fn listen(words: &[String], takes: &[Vec<u8>]) -> Option<Vec<Word>> {
    let [all, first, second] = takes else {
        return None;
    };
    if all.len() != first.len() || all.len() != second.len() {
        return None;
    }
    let mut heard: Vec<Option<(usize, usize)>> = vec![None; words.len()];
    let (mut place, mut unclear, mut windows) = (0, 0, 0);
    let loudness = |samples: &Vec<u8>| mean_of_each(samples, WINDOW);
    let (all, first, second) = (loudness(all), loudness(first), loudness(second));
    for (number, ((all, first), second)) in all.into_iter().zip(first).zip(second).enumerate() {
        if all < HEARD {
            continue;
        }
        windows += 1;
        let code = usize::from(first * 2 < all) + 2 * usize::from(second * 2 < all);
        // Words that have no sound of their own are skipped; what would go back is an echo.
        let step = (code + 4 - place % 4) % 4;
        if step == 3 || place + step >= words.len() {
            unclear += 1;
            continue;
        }
        place += step;
        let span = heard.get_mut(place)?;
        let (from, _) = span.unwrap_or((number, number));
        *span = Some((from, number + 1));
    }
    if windows == 0 || unclear * UNCLEAR > windows {
        return None;
    }
    Some(shared(words, &heard))
}

/// Words that are spoken in one with the word before them share its time by their letters.
fn shared(words: &[String], heard: &[Option<(usize, usize)>]) -> Vec<Word> {
    let moment = |window: usize| Duration::from_secs_f64((window * WINDOW) as f64 / SPOKEN_RATE as f64);
    let mut timed = Vec::with_capacity(words.len());
    let mut place = 0;
    while place < words.len() {
        let with = heard
            .iter()
            .skip(place + 1)
            .take_while(|span| span.is_none())
            .count();
        let together = words.get(place..=place + with).unwrap_or_default();
        let next = heard.get(place + with + 1).copied().flatten();
        let (from, to) = match heard.get(place).copied().flatten() {
            Some(span) => span,
            // The first words of all may be silent.
            None => (0, next.map_or(0, |(from, _)| from)),
        };
        let (from, to) = (moment(from), moment(to));
        for mut word in divide(together, to.saturating_sub(from)) {
            word.from += from;
            word.to += from;
            timed.push(word);
        }
        place += with + 1;
    }
    timed
}

/// How loud each window of samples of 16 bits is.
fn mean_of_each(samples: &[u8], window: usize) -> Vec<u64> {
    let size = |pair: &[u8]| match pair {
        [low, high] => u64::from(i16::from_le_bytes([*low, *high]).unsigned_abs()),
        _ => 0,
    };
    let windows = samples.chunks(window * 2);
    windows
        .map(|window| window.chunks_exact(2).map(size).sum::<u64>() / (window.len() as u64 / 2).max(1))
        .collect()
}

impl Tools {
    /// From when until when a recording is not silent. All of it, when all of it is. Looked at are its first ten minutes.
    pub async fn silence_bounds(&self, path: &Path) -> Result<(Duration, Duration)> {
        let probe = self.probe(path).await?;
        let Some(audio) = probe.audio else {
            return Err(Error::Input("has no sound".to_owned()));
        };
        let scratch = Scratch::make()?;
        let raw = scratch.file("samples");
        let run = Run::new(Program::Ffmpeg, PATIENCE)
            .args(["-format_whitelist", FORMATS])
            .source(path)
            .args(["-map", "0:a:0", "-t", "600", "-ac", "1"])
            .args(["-ar", &BOUNDS_RATE.to_string(), "-f", "s16le"])
            .file(&raw);
        self.run(run).await?;
        let loudness = mean_of_each(&tokio::fs::read(&raw).await?, BOUNDS_WINDOW);
        let is_heard = |loudness: &u64| *loudness >= AUDIBLE;
        let bounds = (
            loudness.iter().position(is_heard),
            loudness.iter().rposition(is_heard),
        );
        let (Some(first), Some(last)) = bounds else {
            return Ok((Duration::ZERO, audio.duration));
        };
        let moment = |window: usize| {
            Duration::from_secs_f64((window * BOUNDS_WINDOW) as f64 / BOUNDS_RATE as f64).min(audio.duration)
        };
        Ok((moment(first), moment(last + 1)))
    }
}

#[cfg(test)]
mod tests;
