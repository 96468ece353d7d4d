//! Creates videos from still images: H.264 and AAC in MP4, with an exact size and duration. The
//! output is verified.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::image::{Dimensions, Encoding, Image};
use crate::probe::{FrameRate, Probe};
use crate::process::{PartialFile, Run};
use crate::scratch::Scratch;
use crate::tools::{Program, Tools};

/// Timeout of an encoding.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(900);
/// Maximum duration of a video.
const MAX_DURATION: Duration = Duration::from_secs(600);
/// Maximum number of pixels of a frame.
const MAX_FRAME_PIXELS: u64 = 4_096 * 2_304;
/// Maximum number of still images of a video.
const MAX_STILLS: usize = 60;
/// Change of the zoom factor while a still image is shown.
pub(crate) const ZOOM: f64 = 0.12;
/// Duration of a cross-fade between images, in seconds.
const CROSSFADE: f64 = 0.6;
/// Sample rate of audio, in hertz.
pub(crate) const SAMPLE_RATE: u32 = 48_000;
/// Maximum difference between the ends of audio and video.
const MAX_AUDIO_OFFSET: Duration = Duration::from_millis(50);
/// ffmpeg options for the video stream. The same frames produce the same bytes.
pub(crate) const VIDEO_ARGS: [&str; 10] = [
    "-c:v",
    "libx264",
    "-preset",
    "veryfast",
    "-crf",
    "21",
    "-profile:v",
    "high",
    "-pix_fmt",
    "yuv420p",
];
/// ffmpeg options for the MP4 file.
pub(crate) const MP4_ARGS: [&str; 12] = [
    "-map_metadata",
    "-1",
    "-map_chapters",
    "-1",
    "-fflags",
    "+bitexact",
    "-flags:v",
    "+bitexact",
    "-movflags",
    "+faststart",
    "-f",
    "mp4",
];
/// ffmpeg options for the audio stream.
pub(crate) const AUDIO_ARGS: [&str; 10] = [
    "-c:a",
    "aac",
    "-b:a",
    "160k",
    "-ar",
    "48000",
    "-ac",
    "2",
    "-flags:a",
    "+bitexact",
];

/// Specification of a video from still images.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VideoSpec {
    /// Frame size in pixels; both sides are even.
    pub size: Dimensions,
    /// Duration, rounded to whole frames.
    pub duration: Duration,
    /// Frames per second: 24 or 30.
    pub rate: u32,
    /// Number that selects a soft chord as audio; `None` for a video without audio.
    pub audio: Option<u64>,
    /// Image that is laid over all frames, scaled to the size of the video. Its transparent pixels
    /// show the images.
    pub banner: Option<Image>,
    /// Comment in the file's metadata; letters, digits and spaces only.
    pub note: Option<&'static str>,
}

impl VideoSpec {
    fn frame_rate(&self) -> FrameRate {
        FrameRate::per_second(self.rate)
    }

    fn frames(&self) -> u64 {
        self.frame_rate().count(self.duration)
    }

    /// Validates the specification for this number of images. Odd sides are rejected and not
    /// rounded, because a video has exactly the requested size.
    pub fn check(&self, stills: usize) -> Result<()> {
        let Dimensions { width, height } = self.size;
        if width % 2 == 1 || height % 2 == 1 {
            return Err(Error::Input(format!(
                "cannot be {width} by {height}: both sides must be even"
            )));
        }
        if width < 16 || height < 16 {
            return Err(Error::Input(format!(
                "cannot be {width} by {height}: both sides must be at least 16 pixels"
            )));
        }
        if self.size.pixels() > MAX_FRAME_PIXELS || self.duration > MAX_DURATION {
            return Err(Error::TooLarge(format!(
                "must have at most {MAX_FRAME_PIXELS} pixels and {} seconds",
                MAX_DURATION.as_secs()
            )));
        }
        if ![24, 30].contains(&self.rate) {
            return Err(Error::Input("must have 24 or 30 frames per second".to_owned()));
        }
        if self.duration.is_zero() || !(1..=MAX_STILLS).contains(&stills) {
            return Err(Error::Input(format!(
                "must have a duration above 0 and 1 to {MAX_STILLS} images"
            )));
        }
        Ok(())
    }
}

impl Tools {
    /// Creates a video from still images. All images are shown for the same time, with a slow zoom
    /// and cross-fades. The file exists at `place` only when it is complete.
    pub async fn make_video(&self, spec: &VideoSpec, stills: &[Image], place: &Path) -> Result<()> {
        spec.check(stills.len())?;
        let scratch = Scratch::make()?;
        let mut run = Run::new(Program::Ffmpeg, TIMEOUT);
        for (number, still) in stills.iter().enumerate() {
            let path = scratch.file(&format!("still-{number}.png"));
            tokio::fs::write(&path, still.covering(oversize(spec.size)).encode(Encoding::Png)?).await?;
            run = run.source(&path);
        }
        if let Some(banner) = &spec.banner {
            let path = scratch.file("banner.png");
            tokio::fs::write(&path, banner.resized(spec.size).encode(Encoding::Png)?).await?;
            run = run.source(&path);
        }
        run = run.args(["-filter_complex", &graph(spec, stills.len()), "-map", "[v]"]);
        if spec.audio.is_some() {
            run = run.args(["-map", "[a]"]).args(AUDIO_ARGS);
        }
        if let Some(note) = spec.note {
            run = run.args(["-metadata", &format!("comment={note}")]);
        }
        let frames = spec.frames();
        let unfinished = PartialFile::at(place);
        run = run.args(VIDEO_ARGS).args(MP4_ARGS).file(unfinished.part());
        self.run(run).await?;
        let expected = Expected {
            size: spec.size,
            frames,
            rate: spec.frame_rate(),
            has_audio: spec.audio.is_some(),
        };
        self.verify(unfinished.part(), expected).await?;
        unfinished.finish()
    }

    /// Probes a video and checks that it has the expected properties.
    pub(crate) async fn verify(&self, path: &Path, expected: Expected) -> Result<Probe> {
        let probe = self.probe(path).await?;
        match expected.fault(&probe) {
            Some(fault) => Err(Error::UnexpectedOutput(fault)),
            None => Ok(probe),
        }
    }
}

/// Returns the size to which images are scaled before the zoom, so that the zoom is smooth.
pub(crate) fn oversize(size: Dimensions) -> Dimensions {
    Dimensions::new(size.width * 3 / 2 / 2 * 2, size.height * 3 / 2 / 2 * 2)
}

/// Returns the filter graph. It contains only numbers, and no text of the caller.
fn graph(spec: &VideoSpec, stills: usize) -> String {
    let Dimensions { width, height } = spec.size;
    let (frames, rate) = (spec.frames(), u64::from(spec.rate));
    let max = frames / (stills as u64 * 2);
    let fade = if stills > 1 {
        ((CROSSFADE * rate as f64) as u64).min(max)
    } else {
        0
    };
    // Two images are visible during a cross-fade.
    let each = (frames + fade * (stills as u64 - 1)).div_ceil(stills as u64);
    let mut graph = String::new();
    for still in 0..stills {
        let nearer = match still % 2 {
            0 => format!("1+{ZOOM}*on/{each}"),
            _ => format!("{}-{ZOOM}*on/{each}", 1.0 + ZOOM),
        };
        let _ = write!(
            graph,
            "[{still}:v]zoompan=z='{nearer}':x='(iw-iw/zoom)/2':y='(ih-ih/zoom)/2':d={each}:s={width}x{height}:\
             fps={rate},setsar=1,format=yuv420p,settb=1/{rate}[s{still}];"
        );
    }
    let mut last = "s0".to_owned();
    for still in 1..stills {
        let begins = (each - fade) * still as u64;
        let _ = match fade {
            0 => write!(graph, "[{last}][s{still}]concat=n=2[j{still}];"),
            _ => write!(
                graph,
                "[{last}][s{still}]xfade=transition=fade:duration={}:offset={}[j{still}];",
                fade as f64 / rate as f64,
                begins as f64 / rate as f64
            ),
        };
        last = format!("j{still}");
    }
    if spec.banner.is_some() {
        let _ = write!(
            graph,
            "[{last}][{stills}:v]overlay=format=auto,format=yuv420p[o];"
        );
        last = "o".to_owned();
    }
    let _ = write!(graph, "[{last}]trim=end_frame={frames}[v]");
    if let Some(choice) = spec.audio {
        let samples = frames * u64::from(SAMPLE_RATE) / rate;
        let _ = write!(graph, ";{}", chord(choice, samples));
    }
    graph
}

/// Frequencies of chords in hertz: a bass note and three voices.
const CHORDS: [[f64; 4]; 6] = [
    [110.00, 220.00, 277.18, 329.63],
    [98.00, 196.00, 246.94, 293.66],
    [130.81, 261.63, 311.13, 392.00],
    [87.31, 174.61, 220.00, 261.63],
    [146.83, 220.00, 293.66, 349.23],
    [116.54, 233.08, 293.66, 349.23],
];

/// Returns the ffmpeg expression of a chord with slowly varying volume and `samples` samples.
fn chord(choice: u64, samples: u64) -> String {
    let place = choice as usize % CHORDS.len();
    let voices = CHORDS.get(place).copied().unwrap_or_default();
    let side = |turn: f64| {
        let voices = (0..).zip(voices).map(|(voice, hertz)| {
            let swell = 0.11 + 0.05 * f64::from(voice);
            format!("(0.6+0.4*sin(2*PI*{swell}*t+{turn}+{voice}))*sin(2*PI*{hertz}*t)")
        });
        voices.collect::<Vec<String>>().join("+")
    };
    let seconds = samples as f64 / f64::from(SAMPLE_RATE);
    let fade = (seconds / 4.0).min(1.2);
    format!(
        "aevalsrc='0.07*({})|0.07*({})':s={SAMPLE_RATE}:d={},atrim=end_sample={samples},afade=t=in:d={fade},\
         afade=t=out:st={}:d={fade}[a]",
        side(0.0),
        side(1.3),
        seconds + 0.1,
        seconds - fade
    )
}

/// Expected properties of a rendered video.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) size: Dimensions,
    pub(crate) frames: u64,
    pub(crate) rate: FrameRate,
    pub(crate) has_audio: bool,
}

impl Expected {
    /// Returns the first difference from the expected properties; `None` if there is none, or if
    /// the file has no video stream.
    fn fault(&self, probe: &Probe) -> Option<String> {
        let video = probe.video.as_ref()?;
        let frame = self.rate.duration(1);
        let length = self.rate.duration(self.frames);
        if video.size != self.size {
            return Some(format!("the size is {:?}", video.size));
        }
        if video.frames.abs_diff(self.frames) > 1 || video.duration.abs_diff(length) > frame {
            return Some(format!("{} frames in {:?}", video.frames, video.duration));
        }
        match (&probe.audio, self.has_audio) {
            (Some(audio), true) if audio.duration.abs_diff(video.duration) > MAX_AUDIO_OFFSET => {
                Some(format!("the audio ends after {:?}", audio.duration))
            }
            (None, true) => Some("the output has no audio".to_owned()),
            (Some(_), false) => Some("the output has unexpected audio".to_owned()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
