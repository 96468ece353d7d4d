//! Speech of the simulator, synthesized by espeak-ng or as a tone, and transcripts. Simulated audio
//! contains its text, which is the transcript: lossless formats in the samples, files also in a
//! comment. The transcript of any other recording states only the duration; that of silence is
//! empty. The spoken text may contain a script, as may the prompt of a transcription.

mod buzz;
mod mark;
mod wav;

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures_util::stream;
use tokio::time::sleep;
use tollgate_media_tools::speech::SAMPLE_RATE;
use tollgate_media_tools::{Error, ProbeLimits, Program, Scratch, SpeechFormat, SpeechSpec, Tools};
use tollgate_types::ErrorCode;
use tollgate_upstream::{
    AudioContent, AudioFormat, CallContext, ContentStream, Segment, SpeechAnswer, SpeechCall, SpeechProvider,
    TranscribeProvider, Transcript, TranscriptionCall, UpstreamError, Word,
};

use super::grammar::{self, Cut, Script};
use super::ticket::{fault, hash, rejected};
use super::{Simulator, failure};
use wav::Recording;

/// Start of the comment in the audio file. The encoded text follows it.
const NOTE: &str = "Simulated by the built-in simulator of Tollgate; no model was used. Text: ";
/// Voices of espeak-ng that voice names are mapped to.
const VOICES: [&str; 8] = [
    "en-us", "en-gb+f3", "en-us+m3", "en-us+f2", "en-gb", "en-us+f4", "en-gb+m5", "en-us+m7",
];
/// Size of a chunk of streamed audio, in bytes.
const CHUNK_BYTES: usize = 4 << 10;
/// Maximum duration of a recording.
const MAX_RECORDING: Duration = Duration::from_secs(24 * 3_600);
/// Maximum number of characters that are spoken without espeak-ng.
const MAX_BUZZ_CHARS: usize = 20_000;
/// Number of characters after which a segment ends.
const MAX_SEGMENT_CHARS: usize = 80;

#[async_trait]
impl SpeechProvider for Simulator {
    async fn speak(&self, ctx: &CallContext, call: &SpeechCall) -> Result<SpeechAnswer, UpstreamError> {
        let (script, spoken_text) = script(&call.input, "input")?;
        play(&script, ctx).await?;
        let bytes = self.synthesize(call, spoken_text).await?;
        let in_chunks = script.cut.is_some() || !script.pace.is_zero();
        Ok(SpeechAnswer {
            audio: match in_chunks {
                true => AudioContent::Stream(chunks(&bytes, &script)),
                false => AudioContent::Whole(bytes),
            },
            usage: None,
        })
    }
}

#[async_trait]
impl TranscribeProvider for Simulator {
    async fn transcribe(
        &self,
        ctx: &CallContext,
        call: &TranscriptionCall,
    ) -> Result<Transcript, UpstreamError> {
        let (script, _) = script(call.prompt.as_deref().unwrap_or_default(), "prompt")?;
        play(&script, ctx).await?;
        if let Some(cut) = script.cut {
            tracing::debug!(?cut, "the script in the prompt cut the transcript");
            return Err(failure::requested(ErrorCode::UpstreamError));
        }
        let heard = self.listen(&call.audio.bytes).await?;
        let text = heard
            .text
            .unwrap_or_else(|| unknown(heard.duration.as_secs_f64()));
        Ok(timed(text, heard.duration))
    }
}

/// The text that a recording contains, if any, and its duration.
struct Heard {
    text: Option<String>,
    duration: Duration,
}

impl Simulator {
    /// Returns the audio file of a text. PCM and WAV need no program, other formats need ffmpeg.
    async fn synthesize(&self, call: &SpeechCall, text: String) -> Result<Bytes, UpstreamError> {
        if !matches!(call.format, AudioFormat::Pcm | AudioFormat::Wav) {
            self.tools.need(&[Program::Ffmpeg]).map_err(fault)?;
        }
        let note = format!("{NOTE}{}", URL_SAFE_NO_PAD.encode(&text));
        let spec = SpeechSpec {
            voice: voice(&call.voice),
            speed: call.speed.unwrap_or(1.0),
            format: format(call.format),
            note: Some(note.clone()),
        };
        let is_lossy = matches!(
            call.format,
            AudioFormat::Mp3 | AudioFormat::Opus | AudioFormat::Aac
        );
        if is_lossy && self.tools.can_speak() {
            let spoken = self.tools.speak(&text, &spec).await;
            return Ok(spoken.map_err(|error| rejected(error, "input"))?.bytes);
        }
        let mut samples = samples(&self.tools, &text, &call.voice, spec.speed).await?;
        let is_wav = call.format == AudioFormat::Wav;
        let file = compute(move || {
            mark::write(&mut samples, &text);
            match is_wav {
                true => wav::encode(&samples, &note),
                false => wav::raw(&samples),
            }
        });
        let file = file.await?;
        if matches!(call.format, AudioFormat::Pcm | AudioFormat::Wav) {
            return Ok(file.into());
        }
        let note = spec.note.as_deref();
        let encoded = self.tools.encode_samples(&file, spec.format, note).await;
        encoded.map_err(fault)
    }

    async fn listen(&self, audio: &Bytes) -> Result<Heard, UpstreamError> {
        let file = audio.clone();
        let heard = compute(move || {
            let recording = Recording::parse(&file)?;
            let comment = recording.comment.as_deref();
            Some(Heard {
                text: text_of(&recording.samples).or_else(|| text_of_comment(comment?)),
                duration: recording.duration,
            })
        });
        match heard.await?.filter(|heard| heard.duration <= MAX_RECORDING) {
            Some(heard) => Ok(heard),
            None => self.probe(audio).await,
        }
    }

    /// Reads a recording of any format with ffprobe. If ffmpeg is installed, the samples of
    /// lossless formats are decoded.
    async fn probe(&self, audio: &Bytes) -> Result<Heard, UpstreamError> {
        let scratch = Scratch::make().map_err(fault)?;
        let place = scratch.file("recording");
        let written = tokio::fs::write(&place, audio).await;
        written.map_err(|error| fault(error.into()))?;
        let limits = ProbeLimits {
            max_duration: MAX_RECORDING,
            ..ProbeLimits::default()
        };
        let probe = self.tools.probe_within(&place, limits).await;
        let probe = probe.map_err(|error| rejected(error, "file"))?;
        let is_lossless = probe
            .audio
            .as_ref()
            .is_some_and(|audio| matches!(&*audio.codec, "flac" | "alac") || audio.codec.starts_with("pcm_"));
        let mut text = None;
        if is_lossless && self.tools.has(Program::Ffmpeg) {
            text = self.decode(&place).await?;
        }
        Ok(Heard {
            text: text.or_else(|| text_of_comment(probe.comment.as_deref()?)),
            duration: probe.audio.map_or(probe.duration, |audio| audio.duration),
        })
    }

    /// Returns the text in the samples of a file, or `None` if they cannot be decoded.
    async fn decode(&self, place: &Path) -> Result<Option<String>, UpstreamError> {
        match self.tools.decode_samples(place).await {
            Ok(raw) => compute(move || text_of(&wav::samples(&raw))).await,
            Err(error) => {
                tracing::debug!(%error, "cannot decode a recording");
                Ok(None)
            }
        }
    }
}

/// Returns the samples of a text at 24 kHz. They are a tone if a program is missing.
async fn samples(tools: &Tools, text: &str, voice_name: &str, speed: f64) -> Result<Vec<i16>, UpstreamError> {
    let spec = SpeechSpec {
        voice: voice(voice_name),
        speed,
        format: SpeechFormat::Pcm,
        note: None,
    };
    match tools.speak(text, &spec).await {
        Ok(spoken) => return Ok(wav::samples(&spoken.bytes)),
        Err(Error::Missing(_)) => {}
        Err(error) => return Err(rejected(error, "input")),
    }
    if text.chars().count() > MAX_BUZZ_CHARS {
        let error = Error::TooLarge(format!("has more than {MAX_BUZZ_CHARS} characters"));
        return Err(rejected(error, "input"));
    }
    let (text, voice) = (text.to_owned(), voice_hash(voice_name));
    let samples = compute(move || buzz::samples(&text, speed, voice)).await?;
    if samples.is_empty() {
        let error = Error::Input("has no text that can be spoken".to_owned());
        return Err(rejected(error, "input"));
    }
    Ok(samples)
}

/// Returns a text as raw samples that contain it; none if it has no letter or digit.
pub(super) async fn utter(
    tools: &Tools,
    text: String,
    voice_name: &str,
    speed: f64,
) -> Result<Vec<u8>, UpstreamError> {
    if !text.chars().any(char::is_alphanumeric) {
        return Ok(Vec::new());
    }
    let mut samples = samples(tools, &text, voice_name, speed).await?;
    compute(move || {
        mark::write(&mut samples, &text);
        wav::raw(&samples)
    })
    .await
}

/// Returns the transcript of raw samples at 24 kHz.
pub(super) async fn transcript(raw: Bytes) -> Result<String, UpstreamError> {
    compute(move || {
        let samples = wav::samples(&raw);
        text_of(&samples).unwrap_or_else(|| unknown(samples.len() as f64 / f64::from(SAMPLE_RATE)))
    })
    .await
}

/// Returns the transcript of a recording that does not contain its text.
fn unknown(seconds: f64) -> String {
    format!("[simulated transcription of {seconds:.1} s of audio]")
}

/// Runs CPU-bound work outside the async runtime.
async fn compute<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, UpstreamError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| UpstreamError::protocol(error.to_string()))
}

/// Returns the text in the samples: an empty text for silence, and `None` for other audio.
fn text_of(samples: &[i16]) -> Option<String> {
    let texts = mark::read(samples);
    // The end of a text whose start is missing leaves ones in silence.
    let is_silent = || samples.iter().all(|sample| matches!(sample, 0 | 1));
    (!texts.is_empty() || is_silent()).then(|| texts.join(" "))
}

/// Returns the text in the comment of a simulated file.
fn text_of_comment(comment: &str) -> Option<String> {
    let packed = comment.strip_prefix(NOTE)?;
    let text = URL_SAFE_NO_PAD.decode(packed.trim()).ok()?;
    String::from_utf8(text).ok()
}

/// Splits a text into its script and the rest.
fn script(text: &str, param: &str) -> Result<(Script, String), UpstreamError> {
    grammar::read(text).map_err(|wrong| UpstreamError {
        param: Some(param.to_owned()),
        ..failure::simulated(ErrorCode::InvalidParameter, wrong)
    })
}

async fn play(script: &Script, ctx: &CallContext) -> Result<(), UpstreamError> {
    if script.delay >= ctx.header_timeout {
        sleep(ctx.header_timeout).await;
        return Err(failure::requested(ErrorCode::UpstreamTimeout));
    }
    if !script.delay.is_zero() {
        sleep(script.delay).await;
    }
    match (script.error, script.cut) {
        (Some(code), None) => Err(failure::requested(code)),
        _ => Ok(()),
    }
}

/// Streams the audio in chunks, with the delays and the cut of the script.
fn chunks(audio: &Bytes, script: &Script) -> ContentStream {
    let starts = (0..audio.len()).step_by(CHUNK_BYTES);
    let whole: Vec<Bytes> = starts
        .map(|start| audio.slice(start..audio.len().min(start + CHUNK_BYTES)))
        .collect();
    let sent_count = match script.cut {
        None => whole.len(),
        Some(Cut::After(count)) => usize::try_from(count).unwrap_or(usize::MAX),
        Some(Cut::BeforeUsage | Cut::BeforeEnd) => whole.len().saturating_sub(1),
    };
    let code = script.error.unwrap_or(ErrorCode::UpstreamError);
    let cut = script.cut.map(|_| Err(failure::requested(code)));
    let items: Vec<Result<Bytes, UpstreamError>> =
        whole.into_iter().take(sent_count).map(Ok).chain(cut).collect();
    let pace = script.pace;
    Box::pin(stream::unfold(
        (items.into_iter(), true),
        move |(mut items, is_first)| async move {
            let next = items.next()?;
            if !is_first && !pace.is_zero() {
                sleep(pace).await;
            }
            Some((next, (items, false)))
        },
    ))
}

fn format(format: AudioFormat) -> SpeechFormat {
    match format {
        AudioFormat::Mp3 => SpeechFormat::Mp3,
        AudioFormat::Opus => SpeechFormat::Opus,
        AudioFormat::Aac => SpeechFormat::Aac,
        AudioFormat::Flac => SpeechFormat::Flac,
        AudioFormat::Wav => SpeechFormat::Wav,
        AudioFormat::Pcm => SpeechFormat::Pcm,
    }
}

/// Returns the voice of espeak-ng for a name. Every name is mapped to a fixed voice.
fn voice(name: &str) -> String {
    let place = voice_hash(name) % VOICES.len() as u64;
    let voice = usize::try_from(place).ok().and_then(|place| VOICES.get(place));
    voice.copied().unwrap_or("en-us").to_owned()
}

fn voice_hash(name: &str) -> u64 {
    hash(&[name.to_lowercase().as_bytes()])
}

/// Returns the transcript with timestamps. The duration of a word is proportional to its number of
/// characters.
fn timed(text: String, duration: Duration) -> Transcript {
    let seconds = duration.as_secs_f64();
    let total: usize = text.split_whitespace().map(|word| word.chars().count()).sum();
    let at = |letters: usize| seconds * letters as f64 / total.max(1) as f64;
    let mut before = 0;
    let words = text.split_whitespace().map(|word| {
        let start = at(before);
        before += word.chars().count();
        Word {
            word: word.to_owned(),
            start,
            end: at(before),
        }
    });
    let words: Vec<Word> = words.collect();
    Transcript {
        segments: segments(&words),
        language: Some("english".to_owned()),
        duration: Some(duration),
        words,
        usage: None,
        text,
    }
}

/// Splits words into sentences, and long sentences into parts.
fn segments(words: &[Word]) -> Vec<Segment> {
    let mut segments: Vec<Segment> = Vec::new();
    let mut begins = true;
    for word in words {
        match segments.last_mut().filter(|_| !begins) {
            Some(segment) => {
                segment.text.push(' ');
                segment.text.push_str(&word.word);
                segment.end = word.end;
            }
            None => segments.push(Segment {
                start: word.start,
                end: word.end,
                text: word.word.clone(),
                compression_ratio: 1.0,
                ..Segment::default()
            }),
        }
        let letters = segments.last().map_or(0, |segment| segment.text.chars().count());
        begins = word.word.ends_with(['.', '!', '?']) || letters >= MAX_SEGMENT_CHARS;
    }
    segments
}

#[cfg(test)]
mod tests;
