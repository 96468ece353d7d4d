//! Quality checks of a finished video: black frames, frozen frames, silence and loudness.

use std::path::Path;
use std::time::Duration;

use crate::error::Result;
use crate::image::Dimensions;
use crate::probe::{FORMATS, FrameRate, Probe};
use crate::process::Run;
use crate::scratch::Scratch;
use crate::tools::{Program, Tools};
use crate::video::TIMEOUT;

/// Target loudness of videos, in tenths of LUFS (EBU R 128).
pub(crate) const LOUDNESS: i32 = -140;
/// Maximum deviation from the target loudness, in tenths of LUFS.
const TOLERANCE: i32 = 30;
/// Maximum duration of a black part of a video.
const MAX_BLACK: Duration = Duration::from_millis(500);
/// Maximum difference between the ends of audio and video.
const MAX_AUDIO_OFFSET: Duration = Duration::from_millis(50);
/// ffmpeg filters that detect black frames (0.1 s or more) and frozen frames (2 s or more).
const VIDEO_FILTERS: &str =
    "blackdetect=d=0.1:pix_th=0.06,freezedetect=n=-60dB:d=2,metadata=mode=print:file=seen.txt";
/// ffmpeg filters that measure the loudness and detect silence (1 s or more).
const AUDIO_FILTERS: &str =
    "ebur128=metadata=1,silencedetect=n=-45dB:d=1,ametadata=mode=print:file=heard.txt";

/// A part of a video, as start and end time.
type Span = (Duration, Duration);

/// Expected properties of a video.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutExpected {
    /// Frame size in pixels.
    pub size: Dimensions,
    /// Number of frames.
    pub frames: u64,
    /// Frames per second.
    pub rate: u32,
    /// Whether the video has audio, which must be audible.
    pub has_audio: bool,
}

/// Measured properties of a video.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// Streams and metadata of the file.
    pub probe: Probe,
    /// Integrated loudness in tenths of LUFS; `None` without audio, or if the audio is silent.
    pub loudness_lufs_tenths: Option<i32>,
    /// Black parts that are longer than half a second.
    pub black: Vec<Span>,
    /// Frozen parts of two seconds or more. They do not count as faults.
    pub frozen: Vec<Span>,
    /// Silent parts of one second or more.
    pub silent: Vec<Span>,
    expected: CutExpected,
}

impl Tools {
    /// Analyzes a whole video. Returns [`Error::Input`](crate::error::Error::Input) if the file is
    /// not a video.
    pub async fn inspect(&self, path: &Path, expected: &CutExpected) -> Result<Inspection> {
        let path = std::path::absolute(path)?;
        let probe = self.probe(&path).await?;
        let length = probe.video()?.duration;
        let scratch = Scratch::make()?;
        let mut run = Run::new(Program::Ffmpeg, TIMEOUT)
            .inside(scratch.path())
            .args(["-format_whitelist", FORMATS])
            .source(&path)
            .args(["-map", "0:V:0", "-vf", VIDEO_FILTERS, "-f", "null", "-"]);
        if probe.audio.is_some() {
            run = run.args(["-map", "0:a:0", "-af", AUDIO_FILTERS, "-f", "null", "-"]);
        }
        self.run(run).await?;
        let video_log = written(&scratch.file("seen.txt")).await?;
        let audio_log = written(&scratch.file("heard.txt")).await?;
        let mut black = spans(&video_log, "lavfi.black", length);
        black.retain(|(from, to)| *to - *from > MAX_BLACK);
        Ok(Inspection {
            loudness_lufs_tenths: loudness(&audio_log),
            black,
            frozen: spans(&video_log, "lavfi.freezedetect.freeze", length),
            silent: spans(&audio_log, "lavfi.silence", length),
            expected: *expected,
            probe,
        })
    }
}

impl Inspection {
    /// Returns the faults of the video, one sentence each, for the log or the caller.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = self.video_faults();
        faults.extend(self.audio_faults());
        faults
    }

    fn video_faults(&self) -> Vec<String> {
        let expected = self.expected;
        let Some(video) = &self.probe.video else {
            return vec!["The output has no video stream.".to_owned()];
        };
        let rate = FrameRate::per_second(expected.rate);
        let length = rate.duration(expected.frames);
        let mut faults = Vec::new();
        if (video.codec.as_str(), video.pixel_format.as_str()) != ("h264", "yuv420p") {
            faults.push(format!(
                "The codec is {} with pixel format {} instead of h264 with yuv420p.",
                video.codec, video.pixel_format
            ));
        }
        if video.size != expected.size {
            let (actual, wanted) = (video.size, expected.size);
            faults.push(format!(
                "The size is {} by {} instead of {} by {}.",
                actual.width, actual.height, wanted.width, wanted.height
            ));
        }
        if video.frames.abs_diff(expected.frames) > 1 || video.duration.abs_diff(length) > rate.duration(1) {
            faults.push(format!(
                "The output has {} frames in {:?} instead of {} in {length:?}.",
                video.frames, video.duration, expected.frames
            ));
        }
        for (from, to) in &self.black {
            let (from, to) = (from.as_secs_f64(), to.as_secs_f64());
            faults.push(format!("The video is black from {from:.1} s to {to:.1} s."));
        }
        faults
    }

    fn audio_faults(&self) -> Vec<String> {
        let audio = match (&self.probe.audio, self.expected.has_audio) {
            (Some(audio), true) => audio,
            (None, true) => return vec!["The output has no audio.".to_owned()],
            (Some(_), false) => return vec!["The output has unexpected audio.".to_owned()],
            (None, false) => return Vec::new(),
        };
        let mut faults = Vec::new();
        let length = self.probe.video.as_ref().map(|video| video.duration);
        if length.is_some_and(|length| audio.duration.abs_diff(length) > MAX_AUDIO_OFFSET) {
            faults.push(format!(
                "The audio ends after {:?}, not at the end of the video.",
                audio.duration
            ));
        }
        match self.loudness_lufs_tenths {
            None => faults.push("The audio is silent.".to_owned()),
            Some(tenths) if (tenths - LOUDNESS).abs() > TOLERANCE => {
                let (actual, target) = (f64::from(tenths) / 10.0, f64::from(LOUDNESS) / 10.0);
                faults.push(format!(
                    "The loudness is {actual:.1} LUFS instead of {target:.1} LUFS."
                ));
            }
            Some(_) => {}
        }
        faults
    }
}

/// Returns the content of a filter's output file; empty if the filter wrote no file.
pub(crate) async fn written(path: &Path) -> Result<String> {
    match tokio::fs::read(path).await {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the last loudness that ebur128 wrote, in tenths of LUFS; `None` if all audio is silent.
pub(crate) fn loudness(written: &str) -> Option<i32> {
    /// Value that ebur128 writes for silence, and for audio that is too short to measure.
    const SILENCE: f64 = -69.0;
    let last = values(written, "lavfi.r128.I").last()?;
    (last > SILENCE).then_some((last * 10.0).round() as i32)
}

/// Returns the parts between a filter's start and end keys. A part without an end extends to the
/// end of the video.
fn spans(written: &str, key: &str, length: Duration) -> Vec<Span> {
    let moments = |end: &str| {
        let key = format!("{key}_{end}");
        let moments =
            values(written, &key).map(|seconds| Duration::try_from_secs_f64(seconds).unwrap_or_default());
        moments
            .map(|moment| moment.min(length))
            .collect::<Vec<Duration>>()
    };
    let ends = moments("end").into_iter().chain([length]);
    let spans = moments("start").into_iter().zip(ends);
    spans.filter(|(from, to)| from < to).collect()
}

/// Returns the values of a key, in the order of the lines.
fn values<'a>(written: &'a str, key: &'a str) -> impl Iterator<Item = f64> + 'a {
    written.lines().filter_map(move |line| {
        let (found, value) = line.split_once('=')?;
        (found == key).then_some(value.parse().ok()?)
    })
}

#[cfg(test)]
mod tests;
