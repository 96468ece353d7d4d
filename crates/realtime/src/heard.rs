//! Words of a spoken item that its listener has heard. Times are microseconds; the caller gives
//! the time of day.

#[cfg(test)]
mod tests;

/// A word with its start and end in seconds from the first sample of its chunk.
pub type TimedWord = (String, f64, f64);

/// Estimated speech duration per character, of a chunk whose audio is still incomplete: 15
/// characters per second.
const US_PER_CHAR: u64 = 66_667;

/// The spoken text of an item with the duration of its audio, in order of delivery.
#[derive(Clone, Debug, Default)]
pub struct Heard {
    text: String,
    chunks: Vec<Chunk>,
}

/// Text that was synthesized in one call.
#[derive(Clone, Debug)]
struct Chunk {
    /// Start of the text in the item's text, in bytes.
    start: usize,
    /// Duration of the audio that was delivered.
    duration_us: u64,
    /// Whether all audio of the chunk was delivered.
    is_complete: bool,
    /// Times by the speech model. Empty: estimated.
    words: Vec<Word>,
}

/// A word of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    /// End in the item's text, in bytes, with the punctuation after the word.
    end: usize,
    /// Time after the chunk's first sample at which half of the word was played.
    heard_us: u64,
}

impl Heard {
    /// Appends a chunk whose audio was delivered completely, with the model's times of its words.
    #[cfg(test)]
    pub fn add(&mut self, text: &str, duration_us: u64, words: Option<&[TimedWord]>) {
        self.begin(text);
        self.extend(duration_us);
        self.end(words);
    }

    /// Appends a chunk whose audio is about to be delivered. The chunk before it is complete.
    pub fn begin(&mut self, text: &str) {
        self.end(None);
        self.chunks.push(Chunk {
            start: self.text.len(),
            duration_us: 0,
            is_complete: false,
            words: Vec::new(),
        });
        self.text.push_str(text);
    }

    /// Appends text to the last chunk, whose audio may follow later.
    pub fn append(&mut self, text: &str) {
        if self.chunks.is_empty() {
            self.begin("");
        }
        self.text.push_str(text);
    }

    /// Adds delivered audio to the last chunk. Without a chunk, the audio has no words.
    pub fn extend(&mut self, duration_us: u64) {
        if self.chunks.is_empty() {
            self.begin("");
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.duration_us += duration_us;
        }
    }

    /// Completes the last chunk. Times that do not match the chunk's text are ignored: words are
    /// then estimated by their letters.
    pub fn end(&mut self, words: Option<&[TimedWord]>) {
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.is_complete = true;
            if let Some(words) = words {
                chunk.words = align(&self.text, chunk.start, words).unwrap_or_default();
            }
        }
    }

    /// Returns the transcript of all chunks.
    #[cfg(test)]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the duration of the delivered audio.
    pub fn total_us(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.duration_us).sum()
    }

    /// Returns the text up to the last word that was played by half or more.
    pub fn heard_text(&self, played_us: u64) -> &str {
        let (mut end, mut left_us) = (0, played_us);
        for (index, chunk) in self.chunks.iter().enumerate() {
            let chunk_end = self
                .chunks
                .get(index + 1)
                .map_or(self.text.len(), |next| next.start);
            if chunk.is_complete && left_us >= chunk.duration_us {
                (end, left_us) = (chunk_end, left_us - chunk.duration_us);
                continue;
            }
            let heard_us = left_us.min(chunk.duration_us);
            let words = self.words(chunk, chunk_end);
            let heard = words.iter().take_while(|word| word.heard_us <= heard_us).last();
            end = heard.map_or(end, |word| word.end);
            break;
        }
        self.text.get(..end).unwrap_or_default()
    }

    /// Returns the words of a chunk, with times that are estimated if the model gave none.
    fn words(&self, chunk: &Chunk, chunk_end: usize) -> Vec<Word> {
        if !chunk.words.is_empty() {
            return chunk.words.clone();
        }
        let text = self.text.get(chunk.start..chunk_end).unwrap_or_default();
        let total = letters(text).max(1);
        let estimate_us = if chunk.is_complete { 0 } else { total * US_PER_CHAR };
        let duration_us = chunk.duration_us.max(estimate_us);
        let mut before = 0;
        let word = |(start, word): (usize, &str)| {
            let count = letters(word);
            before += count;
            let half = (2 * before - count) * duration_us / (2 * total);
            let end = chunk.start + start + word.len();
            Word {
                end,
                heard_us: half.max(1),
            }
        };
        word_indices(text).map(word).collect()
    }
}

/// Returns the letters and digits of a text.
fn letters(text: &str) -> u64 {
    text.chars().filter(|c| c.is_alphanumeric()).count() as u64
}

/// Returns the words between white space with their byte offsets.
fn word_indices(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut offset = 0;
    text.split_inclusive(char::is_whitespace).filter_map(move |part| {
        let start = offset;
        offset += part.len();
        let word = part.trim_end();
        (!word.is_empty()).then_some((start, word))
    })
}

/// Finds the words of a model in the text from a byte offset, in order. Returns `None` if one is
/// missing.
fn align(text: &str, start: usize, words: &[TimedWord]) -> Option<Vec<Word>> {
    let mut found: Vec<Word> = Vec::with_capacity(words.len());
    let mut offset = start;
    for (word, from, to) in words {
        let rest = text.get(offset..)?;
        let word = word.trim();
        let word_end = offset + rest.find(word)? + word.len();
        let after = text.get(word_end..)?;
        let end = word_end + after.find(char::is_whitespace).unwrap_or(after.len());
        // Half of a word such as `it's` that the model times in two parts ends with the first part.
        let heard_us = ((from + to) / 2.0 * 1e6) as u64;
        found.push(Word { end, heard_us });
        offset = word_end;
    }
    Some(found)
}

/// Estimate of the audio of an item that its listener has heard: playback runs in real time from
/// the first delivery and pauses whenever all delivered audio is played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Playback {
    delivered_us: u64,
    /// Time at which all delivered audio is played.
    end_us: u64,
}

impl Playback {
    /// Records audio that was sent at a time.
    pub fn deliver(&mut self, now_us: u64, duration_us: u64) {
        self.delivered_us += duration_us;
        self.end_us = self.end_us.max(now_us) + duration_us;
    }

    /// Returns the duration of the audio that was sent.
    pub const fn delivered_us(&self) -> u64 {
        self.delivered_us
    }

    /// Returns the duration of the audio that was played, which never exceeds the delivered one.
    pub const fn played_us(&self, now_us: u64) -> u64 {
        self.delivered_us
            .saturating_sub(self.end_us.saturating_sub(now_us))
    }

    /// Returns whether delivered audio is still being played.
    pub const fn is_playing(&self, now_us: u64) -> bool {
        now_us < self.end_us
    }
}
