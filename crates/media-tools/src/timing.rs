//! Word timestamps of speech. They are measured for local synthesis, and estimated from the letters
//! for other audio.

use std::path::Path;
use std::time::Duration;

use crate::captions::{Word, ends_sentence, is_square};
use crate::error::{Error, Result};
use crate::probe::FORMATS;
use crate::process::Run;
use crate::scratch::Scratch;
use crate::tools::{Program, Tools};

/// Timeout of an analysis.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Sample rate of espeak-ng's output, in hertz.
const SPOKEN_RATE: usize = 22_050;
/// Number of samples of a measuring window: 5 ms.
const WINDOW: usize = SPOKEN_RATE / 200;
/// Minimum mean amplitude of audible speech, for a full scale of 32,768.
const VOICE_THRESHOLD: u64 = 40;
/// Divisor of the number of windows: at most one in this many audible windows may be ambiguous.
const UNCLEAR_WINDOWS: usize = 20;
/// Pause after a sentence, in letters.
const SENTENCE_END_LETTERS: u64 = 7;
/// Pause after a comma or a dash, in letters.
const COMMA_LETTERS: u64 = 4;
/// Fixed time for each word, in letters.
const WORD_LETTERS: u64 = 1;
/// Maximum number of letters of a word in scripts without blanks.
const LETTERS_PER_TOKEN: usize = 6;
/// Sample rate for the search of the audible part, in hertz.
const BOUNDS_RATE: usize = 8_000;
/// Number of samples of a window for that search: 10 ms.
const BOUNDS_WINDOW: usize = BOUNDS_RATE / 100;
/// Minimum mean amplitude of audio that is not silent, for a full scale of 32,768. For a sine, this
/// is about -45 dB.
const SILENCE_THRESHOLD: u64 = 120;

/// Splits a text into words. Unspoken marks, such as a dash, belong to the previous word. Text in
/// scripts without blanks is split at punctuation, or after a fixed number of letters.
pub(crate) fn tokens(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for part in text.split_whitespace().flat_map(parts) {
        match words.last_mut() {
            Some(last) if !part.chars().any(char::is_alphanumeric) => {
                last.push(' ');
                last.push_str(&part);
            }
            _ => words.push(part),
        }
    }
    words
}

fn parts(word: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for letter in word.chars() {
        let last = parts.last().map(String::as_str).unwrap_or_default();
        let is_full =
            last.chars().count() >= LETTERS_PER_TOKEN || last.ends_with(['。', '！', '？', '，', '、']);
        if is_full && is_square(letter) && letter.is_alphanumeric() {
            parts.push(String::new());
        }
        if let Some(last) = parts.last_mut() {
            last.push(letter);
        }
    }
    parts
}

/// Splits a text into words and estimates their timestamps from letters and punctuation, for voices
/// without word timestamps.
pub fn spread(text: &str, duration: Duration) -> Vec<Word> {
    divide(&tokens(text), duration)
}

fn divide(words: &[String], duration: Duration) -> Vec<Word> {
    let letters = |word: &String| word.chars().filter(|c| c.is_alphanumeric()).count() as u64 + WORD_LETTERS;
    let pause = |word: &String| match word {
        word if ends_sentence(word) => SENTENCE_END_LETTERS,
        word if word.ends_with([',', '-', '–', '—', '，', '、', '،']) => COMMA_LETTERS,
        _ => 0,
    };
    // No word follows the last one, so the pause after it is not counted.
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

/// Number of takes: one with all words audible, two with some words muted.
pub(crate) const TAKES: usize = 3;

/// Returns the text of a take. All takes have the same timing, because a volume command precedes
/// each word in every take. The second take mutes every other word, the third every other pair of
/// words. The takes in which a word is audible thus identify it among four consecutive words.
pub(crate) fn take(words: &[String], take: usize) -> String {
    let mut text = String::new();
    for (place, word) in words.iter().enumerate() {
        let is_silent = take > 0 && (place >> (take - 1)) & 1 == 1;
        let loudness = if is_silent { 0 } else { 100 };
        // Volume command of espeak-ng: CTRL+A, a number, `A`.
        text.push_str(&format!("\u{1}{loudness}A {word} "));
    }
    text
}

/// Finds the time of each word from the samples of the three takes. Returns `None` if the result is
/// ambiguous.
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
        if all < VOICE_THRESHOLD {
            continue;
        }
        windows += 1;
        let code = usize::from(first * 2 < all) + 2 * usize::from(second * 2 < all);
        // Inaudible words are skipped. A step backwards is an echo.
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
    if windows == 0 || unclear * UNCLEAR_WINDOWS > windows {
        return None;
    }
    Some(shared(words, &heard))
}

/// Returns the times of all words. Words without a measured time share the time of the preceding
/// measured word, in proportion to their letters. At the start of the text, they share the time
/// before the first measured word.
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
            // The first words of the text may be inaudible.
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

/// Returns the mean amplitude of each window of 16-bit samples.
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
    /// Returns the start and the end of the audible part of a recording, or of the whole recording
    /// if all of it is silent. Only the first ten minutes are examined.
    pub async fn silence_bounds(&self, path: &Path) -> Result<(Duration, Duration)> {
        let probe = self.probe(path).await?;
        let Some(audio) = probe.audio else {
            return Err(Error::Input("has no audio".to_owned()));
        };
        let scratch = Scratch::make()?;
        let raw = scratch.file("samples");
        let run = Run::new(Program::Ffmpeg, TIMEOUT)
            .args(["-format_whitelist", FORMATS])
            .source(path)
            .args(["-map", "0:a:0", "-t", "600", "-ac", "1"])
            .args(["-ar", &BOUNDS_RATE.to_string(), "-f", "s16le"])
            .file(&raw);
        self.run(run).await?;
        let loudness = mean_of_each(&tokio::fs::read(&raw).await?, BOUNDS_WINDOW);
        let is_heard = |loudness: &u64| *loudness >= SILENCE_THRESHOLD;
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
