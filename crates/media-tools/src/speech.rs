//! Speech synthesis by espeak-ng. The text is passed on standard input, so that it is never parsed
//! as an option.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;

use crate::captions::Word;
use crate::error::{Error, Result};
use crate::probe::FORMATS;
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
/// Deviation of the speech rate that needs no stretch. espeak-ng rounds to whole words per minute.
const MAX_PACE_ERROR: f64 = 0.01;
/// Samples per second of espeak-ng.
const ESPEAK_RATE: u32 = 22_050;
/// Size of the header of a WAV file from espeak-ng, in bytes.
const WAV_HEADER_BYTES: usize = 44;
/// Maximum size of decoded samples, in bytes: 23 minutes at 24 kHz.
const MAX_DECODED_BYTES: u64 = 64 << 20;
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

    /// Encodes mono samples of 16 bits at [`SAMPLE_RATE`], given as little-endian bytes. FLAC, WAV
    /// and PCM contain them unchanged. Needs ffmpeg.
    pub async fn encode_samples(
        &self,
        samples: &[u8],
        format: SpeechFormat,
        note: Option<&str>,
    ) -> Result<Bytes> {
        let scratch = Scratch::make()?;
        let raw = scratch.file("samples");
        tokio::fs::write(&raw, samples).await?;
        let run = Run::new(Program::Ffmpeg, TIMEOUT)
            .args(["-f", "s16le", "-ar", &SAMPLE_RATE.to_string(), "-ac", "1"])
            .source(&raw);
        self.write_format(&scratch, run, "anull", (format, note)).await
    }

    /// Decodes the first channel of an audio file to little-endian samples of 16 bits, at the
    /// sample rate of the file. Samples after the first 64 MiB are omitted. Needs ffmpeg.
    pub async fn decode_samples(&self, path: &Path) -> Result<Vec<u8>> {
        let scratch = Scratch::make()?;
        let raw = scratch.file("samples");
        let run = Run::new(Program::Ffmpeg, TIMEOUT)
            .args(["-format_whitelist", FORMATS])
            .source(path)
            .args(["-map", "0:a:0", "-af", "pan=mono|c0=c0"])
            .args(SpeechFormat::Pcm.options())
            .args(["-fs", &MAX_DECODED_BYTES.to_string()])
            .file(&raw);
        self.run(run).await?;
        Ok(tokio::fs::read(&raw).await?)
    }

    /// Converts the synthesized WAV file to the requested format and speed. Raw samples need ffmpeg
    /// only for a speed that espeak-ng does not support.
    async fn encode(&self, scratch: &Scratch, spoken: &Path, spec: &SpeechSpec) -> Result<Speech> {
        let (_, stretch) = paces(spec.speed);
        let duration = self.samples(spoken).await?;
        if spec.format == SpeechFormat::Pcm && (stretch - 1.0).abs() < MAX_PACE_ERROR {
            let file = tokio::fs::read(spoken).await?;
            let resampled = tokio::task::spawn_blocking(move || resample(&file)).await;
            let bytes = resampled.map_err(|error| Error::UnexpectedOutput(error.to_string()))?;
            return Ok(Speech {
                bytes: bytes.into(),
                duration,
            });
        }
        let run = Run::new(Program::Ffmpeg, TIMEOUT)
            .args(["-f", "wav"])
            .source(spoken);
        let filter = format!("atempo={stretch:.6}");
        let target = (spec.format, spec.note.as_deref());
        Ok(Speech {
            bytes: self.write_format(scratch, run, &filter, target).await?,
            duration: duration.div_f64(stretch),
        })
    }

    /// Completes a run that has one input: writes the audio in this format and with this comment.
    async fn write_format(
        &self,
        scratch: &Scratch,
        run: Run,
        filter: &str,
        (format, note): (SpeechFormat, Option<&str>),
    ) -> Result<Bytes> {
        let (metadata, encoded) = (scratch.file("note"), scratch.file("encoded"));
        let rate = format.sample_rate().to_string();
        tokio::fs::write(&metadata, tags(note)).await?;
        let run = run
            .args(["-f", "ffmetadata"])
            .source(&metadata)
            .args(["-map", "0:a"])
            .args(["-af", filter, "-ar", &rate, "-ac", "1"])
            .args([
                "-map_metadata",
                "1",
                "-fflags",
                "+bitexact",
                "-flags:a",
                "+bitexact",
            ])
            .args(format.options())
            .file(&encoded);
        self.run(run).await?;
        Ok(tokio::fs::read(&encoded).await?.into())
    }

    /// Returns the duration of the synthesized audio, or [`Error::Input`] if the file contains no
    /// audio.
    async fn samples(&self, spoken: &Path) -> Result<Duration> {
        let length = tokio::fs::metadata(spoken)
            .await?
            .len()
            .saturating_sub(WAV_HEADER_BYTES as u64);
        match length {
            0 => Err(Error::Input("has no text that can be spoken".to_owned())),
            bytes => Ok(Duration::from_secs_f64(
                bytes as f64 / (2.0 * f64::from(ESPEAK_RATE)),
            )),
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

/// Returns the samples of a WAV file from espeak-ng at [`SAMPLE_RATE`], by cubic interpolation.
fn resample(file: &[u8]) -> Vec<u8> {
    let raw = file.get(WAV_HEADER_BYTES..).unwrap_or_default();
    let pairs = raw.chunks_exact(2).filter_map(|pair| pair.first_chunk());
    let samples: Vec<i16> = pairs.map(|pair| i16::from_le_bytes(*pair)).collect();
    let ratio = f64::from(ESPEAK_RATE) / f64::from(SAMPLE_RATE);
    let count = (samples.len() as f64 / ratio) as usize;
    let values = (0..count).map(|place| {
        let position = place as f64 * ratio;
        let (whole, part) = (position as usize, position.fract());
        let at = |offset: usize| {
            let sample = (whole + offset).checked_sub(1).and_then(|at| samples.get(at));
            sample.map_or(0.0, |sample| f64::from(*sample))
        };
        let [a, b, c, d] = [0, 1, 2, 3].map(at);
        let bend = c - a + part * (2.0 * a - 5.0 * b + 4.0 * c - d + part * (3.0 * (b - c) + d - a));
        (b + 0.5 * part * bend).round() as i16
    });
    values.flat_map(i16::to_le_bytes).collect()
}

#[cfg(test)]
mod tests;
