//! End of a turn by its words: how long `semantic_vad` waits after 200 ms of silence.

use tollgate_formats::openai_realtime::Eagerness;

/// Probability that a turn has ended after a question or an exclamation.
const AFTER_QUESTION: f32 = 0.9;
/// Probability after a full stop.
const AFTER_SENTENCE: f32 = 0.7;
/// Probability after a comma, a dash, a conjunction or a filler.
const AFTER_HESITATION: f32 = 0.2;
/// Probability after other words.
const AFTER_WORD: f32 = 0.6;
/// Silence after which the probability is estimated.
const MIN_WAIT_MS: u64 = 200;

/// Marks of a sentence that continues.
const HESITATION_MARKS: [char; 12] = [',', ';', ':', '-', '–', '—', '…', '、', '，', '；', '：', '،'];

/// Words that do not end a sentence in English, German, French or Spanish: conjunctions, articles
/// and fillers.
const HESITATIONS: [&str; 58] = [
    "and", "or", "but", "because", "if", "when", "while", "although", "until", "than", "which", "the", "a",
    "an", "of", "with", "for", "um", "uh", "uhm", "umm", "er", "erm", "hmm", "und", "oder", "aber", "weil",
    "wenn", "dass", "denn", "sondern", "der", "das", "ein", "eine", "äh", "ähm", "öh", "hm", "et", "ou",
    "mais", "parce", "que", "donc", "si", "euh", "ben", "le", "la", "les", "y", "o", "pero", "porque",
    "pues", "este",
];
/// Returns the longest silence of a turn.
pub const fn max_wait_ms(eagerness: Eagerness) -> u64 {
    match eagerness {
        Eagerness::Low => 8_000,
        Eagerness::Medium | Eagerness::Auto => 4_000,
        Eagerness::High => 2_000,
    }
}

/// Estimates the probability that a turn has ended, from the end of its interim transcript.
pub fn finished_probability(text: &str) -> f32 {
    let text = text
        .trim_end()
        .trim_end_matches(['"', '\'', '”', '’', '»', '«', ')', ']']);
    let text = text.trim_end();
    match text.chars().next_back() {
        Some('?' | '!' | '？' | '！' | '؟') => AFTER_QUESTION,
        Some(mark) if HESITATION_MARKS.contains(&mark) || text.ends_with("..") => AFTER_HESITATION,
        Some('.' | '。' | '।') => AFTER_SENTENCE,
        _ if is_hesitation(text) => AFTER_HESITATION,
        _ => AFTER_WORD,
    }
}

/// Returns the silence that ends a turn: 200 ms if it has certainly ended, and the longest silence
/// if it certainly has not.
pub fn wait_ms(eagerness: Eagerness, finished_probability: f32) -> u64 {
    let doubt = 1.0 - finished_probability.clamp(0.0, 1.0);
    let range_ms = (max_wait_ms(eagerness) - MIN_WAIT_MS) as f32;
    MIN_WAIT_MS + (range_ms * doubt * doubt).round() as u64
}

fn is_hesitation(text: &str) -> bool {
    let last = text
        .rsplit(|c: char| !c.is_alphabetic())
        .next()
        .unwrap_or_default();
    HESITATIONS.contains(&last.to_lowercase().as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_follow_the_end_of_the_text() {
        for (text, expected) in [
            ("What time is it?", 0.9),
            ("Stop it! ", 0.9),
            ("Er sagte: „Halt!”", 0.9),
            ("你好吗？", 0.9),
            ("I am done.", 0.7),
            ("I said (twice).", 0.7),
            ("こんにちは。", 0.7),
            ("I mean...", 0.2),
            ("I mean…", 0.2),
            ("First,", 0.2),
            ("and then —", 0.2),
            ("I would like tea and", 0.2),
            ("So, UM", 0.2),
            ("ich möchte, äh", 0.2),
            ("je veux mais", 0.2),
            ("quiero ir pero", 0.2),
            ("call the band", 0.6),
            ("number 4", 0.6),
            ("", 0.6),
        ] {
            assert_eq!(finished_probability(text), expected, "{text}");
        }
    }

    #[test]
    fn waits_shrink_with_the_probability() {
        for (eagerness, probability, expected) in [
            (Eagerness::Low, 0.0, 8_000),
            (Eagerness::Medium, 0.0, 4_000),
            (Eagerness::Auto, 0.6, 808),
            (Eagerness::High, 0.9, 218),
            (Eagerness::High, 1.0, 200),
            (Eagerness::Low, 0.2, 5_192),
            (Eagerness::Low, 7.0, 200),
            (Eagerness::Low, f32::NAN, 200),
        ] {
            assert_eq!(
                wait_ms(eagerness, probability),
                expected,
                "{eagerness:?} {probability}"
            );
        }
    }
}
