//! Films out of still pictures: H.264 and AAC in MP4, of an exact size and length. What a program wrote is looked at before
//! it is believed.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::picture::{Dimensions, Encoding, Picture};
use crate::probe::{FrameRate, Probe};
use crate::process::{Run, Unfinished};
use crate::scratch::Scratch;
use crate::tools::{Program, Tools};

/// How long making a film may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(900);
/// The longest film.
const LONGEST: Duration = Duration::from_secs(600);
/// The most pixels of a frame.
const MOST_PIXELS: u64 = 4_096 * 2_304;
/// How many pictures a film is made of.
const MOST_STILLS: usize = 60;
/// How far the picture comes nearer in a film.
pub(crate) const ZOOM: f64 = 0.12;
/// How long one picture turns into the next.
const CROSSFADE: f64 = 0.6;
/// Samples of sound in a second.
pub(crate) const SAMPLE_RATE: u32 = 48_000;
/// How far sound and picture may end apart.
const APART: Duration = Duration::from_millis(50);
/// How pictures that move are encoded. The same pictures are the same bytes.
pub(crate) const PICTURE: [&str; 10] = [
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
/// How a film is written.
pub(crate) const FILE: [&str; 12] = [
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
/// How sound is.
pub(crate) const SOUND: [&str; 10] = [
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

/// A film that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilmSpec {
    /// How large; both sides are even.
    pub size: Dimensions,
    /// How long; the nearest whole number of frames is.
    pub duration: Duration,
    /// Frames in a second: 24 or 30.
    pub rate: u32,
    /// A soft chord that this number chooses; no sound when it is nothing.
    pub sound: Option<u64>,
    /// What stands still before the pictures, in the size of the film; what is see-through in it is left out.
    pub banner: Option<Picture>,
    /// What the file says of itself, of letters, digits and spaces.
    pub note: Option<&'static str>,
}

impl FilmSpec {
    fn frame_rate(&self) -> FrameRate {
        FrameRate::per_second(self.rate)
    }

    fn frames(&self) -> u64 {
        self.frame_rate().count(self.duration)
    }

    /// Refuses what is not made. Odd sides are refused and not rounded: a film is as large as was asked for, or is not made.
    pub fn check(&self, stills: usize) -> Result<()> {
        let Dimensions { width, height } = self.size;
        if width % 2 == 1 || height % 2 == 1 {
            return Err(Error::Input(format!(
                "cannot be {width} by {height}: both must be even"
            )));
        }
        if width < 16 || height < 16 {
            return Err(Error::Input(format!(
                "cannot be {width} by {height}: both must be at least 16"
            )));
        }
        if self.size.pixels() > MOST_PIXELS || self.duration > LONGEST {
            return Err(Error::TooLarge(format!(
                "has at most {MOST_PIXELS} pixels and {} seconds",
                LONGEST.as_secs()
            )));
        }
        if ![24, 30].contains(&self.rate) {
            return Err(Error::Input("has 24 or 30 frames in a second".to_owned()));
        }
        if self.duration.is_zero() || !(1..=MOST_STILLS).contains(&stills) {
            return Err(Error::Input(format!(
                "needs a length and 1 to {MOST_STILLS} pictures"
            )));
        }
        Ok(())
    }
}

impl Tools {
    /// Makes a film of still pictures, each as long as the others, that come slowly nearer and turn into each other. It is
    /// at its place when it is whole, and not before.
    pub async fn make_film(&self, spec: &FilmSpec, stills: &[Picture], place: &Path) -> Result<()> {
        spec.check(stills.len())?;
        let scratch = Scratch::make()?;
        let mut run = Run::new(Program::Ffmpeg, PATIENCE);
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
        if spec.sound.is_some() {
            run = run.args(["-map", "[a]"]).args(SOUND);
        }
        if let Some(note) = spec.note {
            run = run.args(["-metadata", &format!("comment={note}")]);
        }
        let frames = spec.frames();
        let unfinished = Unfinished::at(place);
        run = run.args(PICTURE).args(FILE).file(unfinished.part());
        self.run(run).await?;
        let expected = Expected {
            size: spec.size,
            frames,
            rate: spec.frame_rate(),
            has_sound: spec.sound.is_some(),
        };
        self.verify(unfinished.part(), expected).await?;
        unfinished.finish()
    }

    /// Looks whether a film is what it was to be.
    pub(crate) async fn verify(&self, path: &Path, expected: Expected) -> Result<Probe> {
        let probe = self.probe(path).await?;
        match expected.fault(&probe) {
            Some(fault) => Err(Error::Unfit(fault)),
            None => Ok(probe),
        }
    }
}

/// Pictures are made larger first, so that coming nearer is smooth.
pub(crate) fn oversize(size: Dimensions) -> Dimensions {
    Dimensions::new(size.width * 3 / 2 / 2 * 2, size.height * 3 / 2 / 2 * 2)
}

/// The filter graph. It is made of numbers alone.
fn graph(spec: &FilmSpec, stills: usize) -> String {
    let Dimensions { width, height } = spec.size;
    let (frames, rate) = (spec.frames(), u64::from(spec.rate));
    let most = frames / (stills as u64 * 2);
    let fade = if stills > 1 {
        ((CROSSFADE * rate as f64) as u64).min(most)
    } else {
        0
    };
    // Where two overlap, both are seen.
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
    if let Some(choice) = spec.sound {
        let samples = frames * u64::from(SAMPLE_RATE) / rate;
        let _ = write!(graph, ";{}", chord(choice, samples));
    }
    graph
}

/// Chords in hertz, each of three voices and a low one.
const CHORDS: [[f64; 4]; 6] = [
    [110.00, 220.00, 277.18, 329.63],
    [98.00, 196.00, 246.94, 293.66],
    [130.81, 261.63, 311.13, 392.00],
    [87.31, 174.61, 220.00, 261.63],
    [146.83, 220.00, 293.66, 349.23],
    [116.54, 233.08, 293.66, 349.23],
];

/// A soft chord that swells and sinks, so many samples long.
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

/// What a film is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    pub(crate) size: Dimensions,
    pub(crate) frames: u64,
    pub(crate) rate: FrameRate,
    pub(crate) has_sound: bool,
}

impl Expected {
    /// What is wrong, if anything is.
    fn fault(&self, probe: &Probe) -> Option<String> {
        let video = probe.video.as_ref()?;
        let frame = self.rate.duration(1);
        let length = self.rate.duration(self.frames);
        if video.size != self.size {
            return Some(format!("its size is {:?}", video.size));
        }
        if video.frames.abs_diff(self.frames) > 1 || video.duration.abs_diff(length) > frame {
            return Some(format!("it has {} frames in {:?}", video.frames, video.duration));
        }
        match (&probe.audio, self.has_sound) {
            (Some(audio), true) if audio.duration.abs_diff(video.duration) > APART => {
                Some(format!("its sound ends after {:?}", audio.duration))
            }
            (None, true) => Some("it has no sound".to_owned()),
            (Some(_), false) => Some("it has sound".to_owned()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
