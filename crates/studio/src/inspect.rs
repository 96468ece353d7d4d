//! What a finished film is like, seen and heard: whether it is black or silent where it should not be, and how loud it is.

use std::path::Path;
use std::time::Duration;

use crate::error::Result;
use crate::film::PATIENCE;
use crate::picture::Dimensions;
use crate::probe::{FORMATS, FrameRate, Probe};
use crate::process::Run;
use crate::scratch::Scratch;
use crate::tools::{Program, Tools};

/// The loudness films are made with, in tenths of LUFS (EBU R 128).
pub(crate) const LOUDNESS: i32 = -140;
/// How far from that a film may be.
const TOLERANCE: i32 = 30;
/// Longer than this nothing is black.
const BLACK: Duration = Duration::from_millis(500);
/// How far sound and picture may end apart.
const APART: Duration = Duration::from_millis(50);
/// What is looked at: black for any time, still for two seconds.
const SEEN: &str = "blackdetect=d=0.1:pix_th=0.06,freezedetect=n=-60dB:d=2,metadata=mode=print:file=seen.txt";
/// What is listened to: how loud it is, and silence for a second.
const HEARD: &str = "ebur128=metadata=1,silencedetect=n=-45dB:d=1,ametadata=mode=print:file=heard.txt";

/// A part of a film: from when until when.
type Span = (Duration, Duration);

/// What a film is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutExpected {
    /// How large.
    pub size: Dimensions,
    /// How many frames it has.
    pub frames: u64,
    /// Frames in a second.
    pub rate: u32,
    /// Whether it has sound, which is heard.
    pub has_sound: bool,
}

/// What a film is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// What is in its file.
    pub probe: Probe,
    /// How loud it is over all, in tenths of LUFS; nothing without sound, or when it is silent.
    pub loudness_lufs_tenths: Option<i32>,
    /// When it is black, for more than half a second.
    pub black: Vec<Span>,
    /// When it stands still, for two seconds and more. That is no fault.
    pub frozen: Vec<Span>,
    /// When it is silent, for a second and more.
    pub silent: Vec<Span>,
    expected: CutExpected,
}

impl Tools {
    /// Looks at a film from its beginning to its end. `Input` when it is none.
    pub async fn inspect(&self, path: &Path, expected: &CutExpected) -> Result<Inspection> {
        let path = std::path::absolute(path)?;
        let probe = self.probe(&path).await?;
        let length = probe.film()?.duration;
        let scratch = Scratch::make()?;
        let mut run = Run::new(Program::Ffmpeg, PATIENCE)
            .inside(scratch.path())
            .args(["-format_whitelist", FORMATS])
            .source(&path)
            .args(["-map", "0:V:0", "-vf", SEEN, "-f", "null", "-"]);
        if probe.audio.is_some() {
            run = run.args(["-map", "0:a:0", "-af", HEARD, "-f", "null", "-"]);
        }
        self.run(run).await?;
        let seen = written(&scratch.file("seen.txt")).await?;
        let heard = written(&scratch.file("heard.txt")).await?;
        let mut black = spans(&seen, "lavfi.black", length);
        black.retain(|(from, to)| *to - *from > BLACK);
        Ok(Inspection {
            loudness_lufs_tenths: loudness(&heard),
            black,
            frozen: spans(&seen, "lavfi.freezedetect.freeze", length),
            silent: spans(&heard, "lavfi.silence", length),
            expected: *expected,
            probe,
        })
    }
}

impl Inspection {
    /// What is wrong with it, a sentence each, for the log or for whoever made it.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = self.faults_of_picture();
        faults.extend(self.faults_of_sound());
        faults
    }

    fn faults_of_picture(&self) -> Vec<String> {
        let expected = self.expected;
        let Some(video) = &self.probe.video else {
            return vec!["It has no moving picture.".to_owned()];
        };
        let rate = FrameRate::per_second(expected.rate);
        let length = rate.duration(expected.frames);
        let mut faults = Vec::new();
        if (video.codec.as_str(), video.pixel_format.as_str()) != ("h264", "yuv420p") {
            faults.push(format!("It is {} of {}.", video.codec, video.pixel_format));
        }
        if video.size != expected.size {
            let Dimensions { width, height } = video.size;
            faults.push(format!("It is {width} by {height}."));
        }
        if video.frames.abs_diff(expected.frames) > 1 || video.duration.abs_diff(length) > rate.duration(1) {
            faults.push(format!(
                "It has {} frames in {:?} instead of {} in {length:?}.",
                video.frames, video.duration, expected.frames
            ));
        }
        for (from, to) in &self.black {
            let (from, to) = (from.as_secs_f64(), to.as_secs_f64());
            faults.push(format!("It is black from {from:.1} s to {to:.1} s."));
        }
        faults
    }

    fn faults_of_sound(&self) -> Vec<String> {
        let audio = match (&self.probe.audio, self.expected.has_sound) {
            (Some(audio), true) => audio,
            (None, true) => return vec!["It has no sound.".to_owned()],
            (Some(_), false) => return vec!["It has sound.".to_owned()],
            (None, false) => return Vec::new(),
        };
        let mut faults = Vec::new();
        let length = self.probe.video.as_ref().map(|video| video.duration);
        if length.is_some_and(|length| audio.duration.abs_diff(length) > APART) {
            faults.push(format!("Its sound ends after {:?}.", audio.duration));
        }
        match self.loudness_lufs_tenths {
            None => faults.push("It is silent.".to_owned()),
            Some(tenths) if (tenths - LOUDNESS).abs() > TOLERANCE => {
                faults.push(format!("Its loudness is {:.1} LUFS.", f64::from(tenths) / 10.0));
            }
            Some(_) => {}
        }
        faults
    }
}

/// What a filter wrote; nothing when it had nothing to write.
pub(crate) async fn written(path: &Path) -> Result<String> {
    match tokio::fs::read(path).await {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error.into()),
    }
}

/// The loudness that ebur128 wrote at last, in tenths of LUFS; nothing when there is only silence.
pub(crate) fn loudness(written: &str) -> Option<i32> {
    /// What it says of silence, and of what is too short to have a loudness.
    const SILENCE: f64 = -69.0;
    let last = values(written, "lavfi.r128.I").last()?;
    (last > SILENCE).then_some((last * 10.0).round() as i32)
}

/// From when until when something was, by the two keys that its filter writes. What does not end goes on to the end.
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

/// What was written of a key, in order.
fn values<'a>(written: &'a str, key: &'a str) -> impl Iterator<Item = f64> + 'a {
    written.lines().filter_map(move |line| {
        let (found, value) = line.split_once('=')?;
        (found == key).then_some(value.parse().ok()?)
    })
}

#[cfg(test)]
mod tests;
