//! Speech synthesis by espeak-ng. The text is passed on standard input, so that it is never parsed
//! as an option.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;

use crate::captions::Word;
use crate::error::{Error, Result};
use crate::process::Run;
use crate::scratch::Scratch;
use crate::timing;
use crate::tools::{Program, Tools};

/// Timeout of a synthesis.
const TIMEOUT: Duration = Duration::from_secs(300);
/// Maximum length of a text, in characters.
const MAX_CHARS: usize = 100_000;
/// Maximum length of a text with word timestamps, in characters: about twenty minutes of speech.
const MAX_TIMED_CHARS: usize = 20_000;
/// Words per minute at speed 1.
const DEFAULT_WORDS_PER_MINUTE: f64 = 165.0;
/// Supported speech rates of espeak-ng, in words per minute. For other rates, ffmpeg stretches the
/// audio.
const WORDS_PER_MINUTE_RANGE: (f64, f64) = (80.0, 450.0);
/// Size of the header of a WAV file from espeak-ng, in bytes.
const WAV_HEADER_BYTES: usize = 44;
/// Samples per second of every format except Opus, which uses 48,000.
pub const SAMPLE_RATE: u32 = 24_000;

/// File format of synthesized speech.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpeechFormat {
    /// WAV, 16 bits per sample.
    Wav,
    /// MP3 at 64 kbit/s.
    Mp3,
    /// Opus in an Ogg container.
    Opus,
    /// FLAC, which is lossless.
    Flac,
    /// AAC with ADTS headers.
    Aac,
    /// Raw 16-bit little-endian samples without a header.
    Pcm,
}

impl SpeechFormat {
    /// All formats, in declaration order.
    pub const ALL: [SpeechFormat; 6] = [
        SpeechFormat::Wav,
        SpeechFormat::Mp3,
        SpeechFormat::Opus,
        SpeechFormat::Flac,
        SpeechFormat::Aac,
        SpeechFormat::Pcm,
    ];

    /// Returns the name of the format in requests.
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

    /// Returns the media type, such as `audio/wav`.
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
            // ADTS has no field for a comment, so an ID3 tag is written before it.
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

/// Parameters of a synthesis.
#[derive(Clone, Debug, PartialEq)]
pub struct SpeechSpec {
    /// Name of an espeak-ng voice, such as `en-us` or `de+f3`.
    pub voice: String,
    /// Speed from 0.25 to 4; 1 is normal speed.
    pub speed: f64,
    /// File format of the speech.
    pub format: SpeechFormat,
    /// Comment in the file's metadata. Raw samples have no metadata.
    pub note: Option<String>,
}

impl SpeechSpec {
    /// Returns the parameters of American English at normal speed.
    pub fn new(format: SpeechFormat) -> Self {
        Self {
            voice: "en-us".to_owned(),
            speed: 1.0,
            format,
            note: None,
        }
    }
}

/// A synthesized file and the duration of its audio.
#[derive(Clone, Debug)]
pub struct Speech {
    /// Content of the file.
    pub bytes: Bytes,
    /// Duration of the audio.
    pub duration: Duration,
}

impl Tools {
    /// Synthesizes a text. Returns [`Error::Input`] if the text has nothing to speak, if the voice
    /// does not exist, or if the speed is out of range. Returns [`Error::TooLarge`] for more than
    /// 100,000 characters.
    pub async fn speak(&self, text: &str, spec: &SpeechSpec) -> Result<Speech> {
        let text = speakable(text)?;
        check(spec)?;
        let scratch = Scratch::make()?;
        let spoken = scratch.file("spoken.wav");
        self.say(text, spec, &spoken).await?;
        self.encode(&scratch, &spoken, spec).await
    }

    /// Synthesizes a text and measures the time of each word. espeak-ng speaks the text three
    /// times: once completely, and twice with different words muted. If the takes do not determine
    /// the times, the timestamps are estimated from the letters. Pauses are slightly shorter than
    /// in [`speak`](Self::speak). The errors are those of `speak`; additionally, a text with more
    /// than 20,000 characters is too large.
    pub async fn speak_timed(&self, text: &str, spec: &SpeechSpec) -> Result<(Speech, Vec<Word>)> {
        let text = speakable(text)?;
        check(spec)?;
        if text.chars().count() > MAX_TIMED_CHARS {
            return Err(Error::TooLarge(format!(
                "has more than {MAX_TIMED_CHARS} characters"
            )));
        }
        let words = timing::tokens(&text);
        let scratch = Scratch::make()?;
        let place = |take: usize| scratch.file(&format!("take-{take}.wav"));
        let mut takes = Vec::new();
        for take in 0..timing::TAKES {
            self.say(timing::take(&words, take), spec, &place(take)).await?;
            let mut samples = tokio::fs::read(place(take)).await?;
            samples.drain(..WAV_HEADER_BYTES.min(samples.len()));
            takes.push(samples);
        }
        let speech = self.encode(&scratch, &place(0), spec).await?;
        let Some(mut heard) = timing::listen(&words, &takes) else {
            tracing::debug!(
                voice = spec.voice,
                "cannot measure the word timestamps of a voice"
            );
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

    /// Runs espeak-ng, which writes a WAV file.
    async fn say(&self, text: String, spec: &SpeechSpec, spoken: &Path) -> Result<()> {
        let (pace, _) = paces(spec.speed);
        let run = Run::new(Program::Espeak, TIMEOUT)
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
                Error::Input(format!("names the unknown voice '{}'", spec.voice))
            }
            error => error,
        })?;
        Ok(())
    }

    /// Converts the synthesized WAV file to the requested format and speed.
    async fn encode(&self, scratch: &Scratch, spoken: &Path, spec: &SpeechSpec) -> Result<Speech> {
        let (_, stretch) = paces(spec.speed);
        let (note, encoded) = (scratch.file("note"), scratch.file("encoded"));
        let rate = spec.format.sample_rate().to_string();
        tokio::fs::write(&note, tags(spec.note.as_deref())).await?;
        let run = Run::new(Program::Ffmpeg, TIMEOUT)
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

    /// Returns the duration of the synthesized audio, or [`Error::Input`] if the file contains no
    /// audio.
    async fn samples(&self, spoken: &Path) -> Result<Duration> {
        /// Bytes per second: 22,050 samples of 2 bytes each.
        const SECOND: f64 = 44_100.0;
        let length = tokio::fs::metadata(spoken)
            .await?
            .len()
            .saturating_sub(WAV_HEADER_BYTES as u64);
        match length {
            0 => Err(Error::Input("has no text that can be spoken".to_owned())),
            bytes => Ok(Duration::from_secs_f64(bytes as f64 / SECOND)),
        }
    }
}

/// Returns the text without control characters, and with phoneme input disabled. Returns an error
/// if the text is too long or has neither letters nor digits.
fn speakable(text: &str) -> Result<String> {
    if text.chars().count() > MAX_CHARS {
        return Err(Error::TooLarge(format!("has more than {MAX_CHARS} characters")));
    }
    let plain: String = text
        .chars()
        .filter(|c| !c.is_control() || c.is_whitespace())
        .collect();
    // `[[` would start a phoneme input of espeak-ng.
    let plain = plain.replace("[[", "[ [");
    match plain.chars().any(char::is_alphanumeric) {
        true => Ok(plain),
        false => Err(Error::Input("has no text that can be spoken".to_owned())),
    }
}

/// Returns an ffmpeg metadata file with the comment. The comment is thus never an argument.
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
        return Err(Error::Input("has an invalid voice name".to_owned()));
    }
    if !(0.25..=4.0).contains(&spec.speed) {
        return Err(Error::Input("must have a speed from 0.25 to 4".to_owned()));
    }
    Ok(())
}

/// Returns the words per minute for espeak-ng, and the stretch factor with which ffmpeg reaches the
/// requested speed.
fn paces(speed: f64) -> (u32, f64) {
    let wanted = DEFAULT_WORDS_PER_MINUTE * speed;
    let (slowest, fastest) = WORDS_PER_MINUTE_RANGE;
    let pace = wanted.clamp(slowest, fastest).round();
    (pace as u32, wanted / pace)
}

#[cfg(test)]
mod tests;
