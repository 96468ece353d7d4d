//! Audio that the client sends, until it becomes an item.

use std::sync::Arc;

use tollgate_formats::openai_realtime::{AudioFormat, TurnDetection};
use tollgate_types::{Error, ErrorCode};

use super::memory::{MemoryShare, SessionMemory};
use crate::audio::{AudioEncoding, Resampler, pcm};
use crate::turns::semantic::max_wait_ms;
use crate::turns::{ServerVad, VadEvent, VadSettings};

/// Samples per second that the voice activity detector reads.
const DETECTOR_RATE: u32 = 16_000;
/// Maximum duration of audio that is not committed, in milliseconds.
const MAX_BUFFER_MS: u64 = 180_000;
/// Minimum duration of a commit, in milliseconds.
pub(crate) const MIN_COMMIT_MS: u64 = 100;
/// Audio before speech that a detecting session retains, in milliseconds: the maximum of
/// `prefix_padding_ms`, and the time in which the detector recognizes speech.
const RETAINED_MS: u64 = 6_000;

/// Uncommitted audio of a session.
pub(crate) struct InputBuffer {
    encoding: AudioEncoding,
    samples: Vec<i16>,
    /// Position of the first sample in the audio of the session, in samples.
    start: u64,
    detector: Option<Detector>,
    memory: Arc<SessionMemory>,
    share: MemoryShare,
    /// Number of samples whose duration [`InputBuffer::micros_of`] returned.
    received: usize,
    /// Id of the item that the audio becomes, once speech has started.
    pub(crate) item_id: Option<Arc<str>>,
}

struct Detector {
    vad: ServerVad,
    resampler: Option<Resampler>,
}

impl Detector {
    /// Examines samples of the session's rate.
    fn push(&mut self, samples: &[i16]) -> Vec<VadEvent> {
        let resampled = self.resampler.as_mut().map(|resampler| resampler.push(samples));
        self.vad.push(resampled.as_deref().unwrap_or(samples))
    }
}

impl InputBuffer {
    pub(crate) fn new(memory: Arc<SessionMemory>) -> Self {
        Self {
            encoding: AudioEncoding::Pcm16,
            samples: Vec::new(),
            start: 0,
            detector: None,
            share: memory.share(0),
            memory,
            received: 0,
            item_id: None,
        }
    }

    /// Applies the format and the turn detection of the session. A new format clears the audio. A
    /// new detector examines the uncommitted audio; returns what it found.
    pub(crate) fn configure(
        &mut self,
        format: AudioFormat,
        detection: Option<TurnDetection>,
    ) -> Vec<VadEvent> {
        let encoding = encoding_of(format);
        let is_new = encoding != self.encoding;
        if is_new {
            self.change_encoding(encoding);
        }
        let Some(detection) = detection else {
            self.detector = None;
            return Vec::new();
        };
        let settings = vad_settings(detection);
        if let Some(detector) = self.detector.as_mut().filter(|_| !is_new) {
            detector.vad.set_settings(settings);
            return Vec::new();
        }
        let start_ms = self.start.saturating_mul(1_000) / u64::from(encoding.sample_rate());
        let mut detector = Detector {
            vad: ServerVad::new(settings, start_ms),
            resampler: Resampler::new(encoding.sample_rate(), DETECTOR_RATE),
        };
        let events = detector.push(&self.samples);
        self.detector = Some(detector);
        events
    }

    fn change_encoding(&mut self, encoding: AudioEncoding) {
        let now_ms = self.now_ms();
        self.encoding = encoding;
        self.start = pcm::samples_in_ms(now_ms, encoding.sample_rate()) as u64;
        self.samples.clear();
        self.received = 0;
        self.measure();
    }

    /// Appends audio; returns what the detector found. Refuses half a sample, more than 180 s, and
    /// audio for which the process has no memory.
    pub(crate) fn append(&mut self, audio: &[u8], is_playing: bool) -> Result<Vec<VadEvent>, Error> {
        let Some(samples) = self.encoding.decode(audio) else {
            let message = "'audio' must contain whole 16-bit samples.";
            return Err(Error::new(ErrorCode::InvalidParameter, message).with_param("audio"));
        };
        self.check_size(audio.len())?;
        self.samples.extend_from_slice(&samples);
        let events = match &mut self.detector {
            Some(detector) => {
                detector.vad.set_output_playing(is_playing);
                detector.push(&samples)
            }
            None => Vec::new(),
        };
        if self
            .detector
            .as_ref()
            .is_some_and(|detector| !detector.vad.is_speaking())
            && events.is_empty()
        {
            self.retain(pcm::samples_in_ms(RETAINED_MS, self.encoding.sample_rate()));
        }
        self.measure();
        Ok(events)
    }

    /// Refuses audio of this size if it exceeds 180 s of uncommitted audio, or if the process has
    /// no memory for it.
    pub(crate) fn check_size(&self, bytes: usize) -> Result<(), Error> {
        let samples = bytes / self.encoding.bytes_per_sample();
        let max = pcm::samples_in_ms(MAX_BUFFER_MS, self.encoding.sample_rate());
        if self.detector.is_none() && self.samples.len() + samples > max {
            let message = "The buffer has 180 s of audio. Commit or clear it.";
            return Err(Error::new(ErrorCode::RequestTooLarge, message).with_param("audio"));
        }
        self.memory.check(samples * 2, "audio")
    }

    /// Returns the duration of audio with this size, in microseconds. The durations of successive
    /// parts add up to the duration of the whole.
    pub(crate) fn micros_of(&mut self, bytes: usize) -> u64 {
        let rate = self.encoding.sample_rate();
        let samples = bytes / self.encoding.bytes_per_sample();
        let before = pcm::duration_us(self.received, rate);
        self.received += samples;
        pcm::duration_us(self.received, rate) - before
    }

    /// Returns the duration of the uncommitted audio in milliseconds.
    pub(crate) fn buffered_ms(&self) -> u64 {
        pcm::duration_us(self.samples.len(), self.encoding.sample_rate()) / 1_000
    }

    /// Takes all audio, for a commit by the client.
    pub(crate) fn take_all(&mut self) -> (Vec<i16>, u32) {
        self.take_until(usize::MAX)
    }

    /// Takes the audio of a turn: what precedes the position `end_ms` in the audio of the session.
    pub(crate) fn take_turn(&mut self, end_ms: u64) -> (Vec<i16>, u32) {
        let count = self.index_of(end_ms);
        self.take_until(count)
    }

    /// Returns a copy of the audio of the running turn.
    pub(crate) fn peek(&self) -> (Vec<i16>, u32) {
        self.after(0)
    }

    /// Returns a copy of the audio after the first `skipped` samples.
    pub(crate) fn after(&self, skipped: usize) -> (Vec<i16>, u32) {
        let rest = self.samples.get(skipped..).unwrap_or_default();
        (rest.to_vec(), self.encoding.sample_rate())
    }

    /// Drops the audio before the position `start_ms`, where a turn begins.
    pub(crate) fn begin_turn(&mut self, start_ms: u64) {
        let index = self.index_of(start_ms);
        self.drop_first(index);
    }

    /// Drops all audio.
    pub(crate) fn clear(&mut self) {
        let _ = self.take_until(usize::MAX);
        self.item_id = None;
    }

    /// Tells the detector that a reply has been played, after which silence can time out.
    pub(crate) fn arm_idle(&mut self) {
        if let Some(detector) = &mut self.detector {
            detector.vad.arm_idle();
        }
    }

    /// Ends the wait for a silence that times out, because a response begins.
    pub(crate) fn disarm_idle(&mut self) {
        if let Some(detector) = &mut self.detector {
            detector.vad.disarm_idle();
        }
    }

    /// Sets the silence that ends the running turn.
    pub(crate) fn set_silence_ms(&mut self, silence_ms: u64) {
        if let Some(detector) = &mut self.detector {
            detector.vad.set_silence_duration_ms(silence_ms);
        }
    }

    /// Returns the memory of the session's audio.
    pub(crate) fn memory(&self) -> &Arc<SessionMemory> {
        &self.memory
    }

    fn take_until(&mut self, count: usize) -> (Vec<i16>, u32) {
        let count = count.min(self.samples.len());
        let rest = self.samples.split_off(count);
        let taken = std::mem::replace(&mut self.samples, rest);
        self.start += taken.len() as u64;
        if let Some(detector) = &mut self.detector
            && self.samples.is_empty()
        {
            detector.vad.end_turn();
        }
        self.measure();
        (taken, self.encoding.sample_rate())
    }

    fn retain(&mut self, max_samples: usize) {
        let extra = self.samples.len().saturating_sub(max_samples);
        self.drop_first(extra);
    }

    fn drop_first(&mut self, count: usize) {
        let count = count.min(self.samples.len());
        self.samples.drain(..count);
        self.start += count as u64;
        self.measure();
    }

    /// Returns the index of the sample at a position of the session's audio.
    fn index_of(&self, at_ms: u64) -> usize {
        let position = pcm::samples_in_ms(at_ms, self.encoding.sample_rate()) as u64;
        usize::try_from(position.saturating_sub(self.start)).unwrap_or(usize::MAX)
    }

    fn now_ms(&self) -> u64 {
        let samples = self.start + self.samples.len() as u64;
        samples.saturating_mul(1_000) / u64::from(self.encoding.sample_rate())
    }

    fn measure(&mut self) {
        self.share.set(self.samples.len() * 2);
    }
}

/// Returns the encoding of an audio format.
pub(crate) const fn encoding_of(format: AudioFormat) -> AudioEncoding {
    match format {
        AudioFormat::Pcm => AudioEncoding::Pcm16,
        AudioFormat::Pcmu => AudioEncoding::MuLaw,
        AudioFormat::Pcma => AudioEncoding::ALaw,
    }
}

fn vad_settings(detection: TurnDetection) -> VadSettings {
    match detection {
        #[expect(clippy::cast_possible_truncation, reason = "the threshold is 0 to 1")]
        TurnDetection::Server {
            threshold,
            prefix_padding_ms,
            silence_duration_ms,
            idle_timeout_ms,
            ..
        } => VadSettings {
            threshold: threshold as f32,
            prefix_padding_ms: prefix_padding_ms.into(),
            silence_duration_ms: silence_duration_ms.into(),
            idle_timeout_ms: idle_timeout_ms.map(u64::from),
        },
        TurnDetection::Semantic { eagerness, .. } => VadSettings {
            silence_duration_ms: max_wait_ms(eagerness),
            ..VadSettings::default()
        },
    }
}
