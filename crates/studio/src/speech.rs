//! Texts that are spoken, by espeak-ng. The text goes in by standard input, so nothing in it is an option.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;

use crate::captions::Word;
use crate::error::{Error, Result};
use crate::process::Run;
use crate::scratch::Scratch;
use crate::timing;
use crate::tools::{Program, Tools};

/// How long speaking may take.
const PATIENCE: Duration = Duration::from_secs(300);
/// The most letters of one text.
const MOST_LETTERS: usize = 100_000;
/// The same where each word is timed: about twenty minutes.
const MOST_TIMED: usize = 20_000;
/// Words in a minute at the usual speed.
const USUAL_PACE: f64 = 165.0;
/// What espeak-ng can do; beyond that the sound is stretched.
const PACES: (f64, f64) = (80.0, 450.0);
/// Bytes of a WAV of espeak-ng before the samples.
const HEADER: usize = 44;
/// Samples in a second of everything but Opus, which has 48,000.
pub const SAMPLE_RATE: u32 = 24_000;

/// How speech is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpeechFormat {
    /// WAV, 16 bits.
    Wav,
    /// MP3.
    Mp3,
    /// Opus in Ogg.
    Opus,
    /// FLAC.
    Flac,
    /// AAC with ADTS headers.
    Aac,
    /// Samples of 16 bits, the lower byte first, without any header.
    Pcm,
}

impl SpeechFormat {
    /// Every format.
    pub const ALL: [SpeechFormat; 6] = [
        SpeechFormat::Wav,
        SpeechFormat::Mp3,
        SpeechFormat::Opus,
        SpeechFormat::Flac,
        SpeechFormat::Aac,
        SpeechFormat::Pcm,
    ];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            SpeechFormat::Wav => "wav",
            SpeechFormat::Mp3 => "mp3",
            SpeechFormat::Opus => "opus",
            SpeechFormat::Flac => "flac",
            SpeechFormat::Aac => "aac",
            SpeechFormat::Pcm => "pcm",
        }
    }

    /// Its media type.
    pub const fn mime_type(self) -> &'static str {
        match self {
            SpeechFormat::Wav => "audio/wav",
            SpeechFormat::Mp3 => "audio/mpeg",
            SpeechFormat::Opus => "audio/ogg",
            SpeechFormat::Flac => "audio/flac",
            SpeechFormat::Aac => "audio/aac",
            SpeechFormat::Pcm => "audio/pcm",
        }
    }

    const fn options(self) -> &'static [&'static str] {
        match self {
            SpeechFormat::Wav => &["-c:a", "pcm_s16le", "-f", "wav"],
            SpeechFormat::Mp3 => &["-c:a", "libmp3lame", "-b:a", "64k", "-f", "mp3"],
            SpeechFormat::Opus => &["-c:a", "libopus", "-b:a", "32k", "-f", "ogg"],
            SpeechFormat::Flac => &["-c:a", "flac", "-f", "flac"],
            // Its headers have no place for a note, so it stands before them.
            SpeechFormat::Aac => &["-c:a", "aac", "-b:a", "64k", "-write_id3v2", "1", "-f", "adts"],
            SpeechFormat::Pcm => &["-c:a", "pcm_s16le", "-f", "s16le"],
        }
    }

    const fn sample_rate(self) -> u32 {
        match self {
            SpeechFormat::Opus => 48_000,
            _ => SAMPLE_RATE,
        }
    }
}

/// How a text is to be spoken.
#[derive(Clone, Debug, PartialEq)]
pub struct SpeechSpec {
    /// A voice of espeak-ng, such as `en-us` or `de+f3`.
    pub voice: String,
    /// How fast: 1 is usual, from 0.25 to 4.
    pub speed: f64,
    /// How it is encoded.
    pub format: SpeechFormat,
    /// What the file says of itself, as its comment. Samples without a header say nothing.
    pub note: Option<String>,
}

impl SpeechSpec {
    /// American English at the usual speed.
    pub fn new(format: SpeechFormat) -> Self {
        Self {
            voice: "en-us".to_owned(),
            speed: 1.0,
            format,
            note: None,
        }
    }
}

/// What was spoken.
#[derive(Clone, Debug)]
pub struct Speech {
    /// The file.
    pub bytes: Bytes,
    /// How long it is.
    pub duration: Duration,
}

impl Tools {
    /// Speaks a text. `Input` when there is nothing to be spoken, or no such voice.
    pub async fn speak(&self, text: &str, spec: &SpeechSpec) -> Result<Speech> {
        let text = speakable(text)?;
        check(spec)?;
        let scratch = Scratch::make()?;
        let spoken = scratch.file("spoken.wav");
        self.say(text, spec, &spoken).await?;
        self.encode(&scratch, &spoken, spec).await
    }

    /// Speaks a text and says when each of its words is heard. That is measured: the text is spoken three times, each time
    /// with other words silent. For a voice that does not keep time it follows from the letters. There are little longer
    /// pauses than in what [`speak`](Self::speak) says. Errors are the same; a text has at most 20,000 letters.
    pub async fn speak_timed(&self, text: &str, spec: &SpeechSpec) -> Result<(Speech, Vec<Word>)> {
        let text = speakable(text)?;
        check(spec)?;
        if text.chars().count() > MOST_TIMED {
            return Err(Error::TooLarge(format!("has more than {MOST_TIMED} letters")));
        }
        let words = timing::tokens(&text);
        let scratch = Scratch::make()?;
        let place = |take: usize| scratch.file(&format!("take-{take}.wav"));
        let mut takes = Vec::new();
        for take in 0..timing::TAKES {
            self.say(timing::take(&words, take), spec, &place(take)).await?;
            let mut samples = tokio::fs::read(place(take)).await?;
            samples.drain(..HEADER.min(samples.len()));
            takes.push(samples);
        }
        let speech = self.encode(&scratch, &place(0), spec).await?;
        let Some(mut heard) = timing::listen(&words, &takes) else {
            tracing::debug!(voice = spec.voice, "a voice does not say when it says what");
            let spread = timing::spread(&text, speech.duration);
            return Ok((speech, spread));
        };
        let (_, stretch) = paces(spec.speed);
        for word in &mut heard {
            word.from = word.from.div_f64(stretch).min(speech.duration);
            word.to = word.to.div_f64(stretch).min(speech.duration);
        }
        Ok((speech, heard))
    }

    /// Lets espeak-ng speak into a file.
    async fn say(&self, text: String, spec: &SpeechSpec, spoken: &Path) -> Result<()> {
        let (pace, _) = paces(spec.speed);
        let run = Run::new(Program::Espeak, PATIENCE)
            .args([
                "--stdin",
                "-b",
                "1",
                "-v",
                &spec.voice,
                "-s",
                &pace.to_string(),
                "-w",
            ])
            .file(spoken)
            .input(text.into());
        self.run(run).await.map_err(|error| match error {
            Error::Failed(Program::Espeak, detail) if detail.contains("voice does not exist") => {
                Error::Input(format!("has no voice `{}`", spec.voice))
            }
            error => error,
        })?;
        Ok(())
    }

    /// Encodes what was spoken.
    async fn encode(&self, scratch: &Scratch, spoken: &Path, spec: &SpeechSpec) -> Result<Speech> {
        let (_, stretch) = paces(spec.speed);
        let (note, encoded) = (scratch.file("note"), scratch.file("encoded"));
        let rate = spec.format.sample_rate().to_string();
        tokio::fs::write(&note, tags(spec.note.as_deref())).await?;
        let run = Run::new(Program::Ffmpeg, PATIENCE)
            .args(["-f", "wav"])
            .source(spoken)
            .args(["-f", "ffmetadata"])
            .source(&note)
            .args(["-map", "0:a"])
            .args(["-af", &format!("atempo={stretch:.6}"), "-ar", &rate, "-ac", "1"])
            .args([
                "-map_metadata",
                "1",
                "-fflags",
                "+bitexact",
                "-flags:a",
                "+bitexact",
            ])
            .args(spec.format.options())
            .file(&encoded);
        self.run(run).await?;
        let samples = self.samples(spoken).await?;
        Ok(Speech {
            bytes: tokio::fs::read(&encoded).await?.into(),
            duration: samples.div_f64(stretch),
        })
    }

    /// How long what was spoken is. Silence of no length is an error: a text of marks alone is spoken as nothing.
    async fn samples(&self, spoken: &Path) -> Result<Duration> {
        /// Bytes in a second of 22,050 samples.
        const SECOND: f64 = 44_100.0;
        let length = tokio::fs::metadata(spoken)
            .await?
            .len()
            .saturating_sub(HEADER as u64);
        match length {
            0 => Err(Error::Input("has nothing that can be spoken".to_owned())),
            bytes => Ok(Duration::from_secs_f64(bytes as f64 / SECOND)),
        }
    }
}

/// The text without what would command the speaker.
fn speakable(text: &str) -> Result<String> {
    if text.chars().count() > MOST_LETTERS {
        return Err(Error::TooLarge(format!("has more than {MOST_LETTERS} letters")));
    }
    let plain: String = text
        .chars()
        .filter(|c| !c.is_control() || c.is_whitespace())
        .collect();
    // Two of them would begin phonemes.
    let plain = plain.replace("[[", "[ [");
    match plain.chars().any(char::is_alphanumeric) {
        true => Ok(plain),
        false => Err(Error::Input("has nothing that can be spoken".to_owned())),
    }
}

/// What a file says of itself, as ffmpeg reads it from another. No note is an option of a program.
fn tags(note: Option<&str>) -> String {
    let mut tags = ";FFMETADATA1\n".to_owned();
    if let Some(note) = note {
        tags.push_str("comment=");
        for letter in note.chars().filter(|letter| *letter != '\0') {
            if matches!(letter, '=' | ';' | '#' | '\\' | '\n') {
                tags.push('\\');
            }
            tags.push(letter);
        }
        tags.push('\n');
    }
    tags
}

fn check(spec: &SpeechSpec) -> Result<()> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '+';
    let voice = &spec.voice;
    if voice.is_empty() || voice.len() > 40 || voice.starts_with(['-', '+']) || !voice.chars().all(is_name) {
        return Err(Error::Input("has no voice of this name".to_owned()));
    }
    if !(0.25..=4.0).contains(&spec.speed) {
        return Err(Error::Input("has a speed from 0.25 to 4".to_owned()));
    }
    Ok(())
}

/// Words in a minute, and how the sound is stretched besides.
fn paces(speed: f64) -> (u32, f64) {
    let wanted = USUAL_PACE * speed;
    let (slowest, fastest) = PACES;
    let pace = wanted.clamp(slowest, fastest).round();
    (pace as u32, wanted / pace)
}

#[cfg(test)]
mod tests;
