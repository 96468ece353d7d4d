//! Two films, one after the other.

use std::path::Path;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::film::{Expected, FILE, PATIENCE, PICTURE, SAMPLE_RATE, SOUND};
use crate::picture::Dimensions;
use crate::probe::{FORMATS, FrameRate, Probe};
use crate::process::{Run, Unfinished};
use crate::tools::{Program, Tools};

/// How long the sound of the first goes on under the beginning of the second.
const CROSSFADE: f64 = 0.25;

impl Tools {
    /// Makes one film of two, with the size and the rate of the first and exactly as long as both. It has sound when one of
    /// them has: where the other is silent there is silence. The sound of each stays with its picture; that of the first
    /// goes on, played backwards, while that of the second sets in. A first film with an odd side is refused.
    pub async fn join(&self, first: &Path, second: &Path, place: &Path) -> Result<()> {
        let (one, two) = (self.probe(first).await?, self.probe(second).await?);
        let plan = Plan::new(&one, &two)?;
        let unfinished = Unfinished::at(place);
        let mut run = Run::new(Program::Ffmpeg, PATIENCE);
        for path in [first, second] {
            run = run.args(["-format_whitelist", FORMATS]).source(path);
        }
        run = run.args(["-filter_complex", &plan.graph(), "-map", "[v]"]);
        if plan.has_sound() {
            run = run.args(["-map", "[a]"]).args(SOUND);
        }
        let expected = plan.expected();
        run = run.args(PICTURE).args(FILE).file(unfinished.part());
        self.run(run).await?;
        self.verify(unfinished.part(), expected).await?;
        unfinished.finish()
    }
}

/// How two films become one.
struct Plan {
    size: Dimensions,
    rate: FrameRate,
    frames: [u64; 2],
    sounds: [bool; 2],
}

impl Plan {
    fn new(one: &Probe, two: &Probe) -> Result<Self> {
        let (first, second) = (one.film()?, two.film()?);
        let Dimensions { width, height } = first.size;
        if width % 2 == 1 || height % 2 == 1 {
            return Err(Error::Input(format!(
                "cannot be {width} by {height}: both must be even"
            )));
        }
        let rate = first.frame_rate;
        if rate.frames / rate.seconds > 120 {
            return Err(Error::TooLarge("has more than 120 frames in a second".to_owned()));
        }
        Ok(Self {
            size: first.size,
            rate,
            frames: [rate.count(first.duration), rate.count(second.duration)],
            sounds: [one.audio.is_some(), two.audio.is_some()],
        })
    }

    fn has_sound(&self) -> bool {
        self.sounds.contains(&true)
    }

    fn expected(&self) -> Expected {
        Expected {
            size: self.size,
            frames: self.frames.iter().sum(),
            rate: self.rate,
            has_sound: self.has_sound(),
        }
    }

    /// The filter graph. It is made of numbers alone.
    fn graph(&self) -> String {
        let Dimensions { width, height } = self.size;
        let FrameRate { frames, seconds } = self.rate;
        let mut parts = Vec::new();
        for (film, count) in self.frames.into_iter().enumerate() {
            // What ends early stands still for the rest of its time.
            parts.push(format!(
                "[{film}:V:0]setpts=PTS-STARTPTS,fps={frames}/{seconds},\
                 scale={width}:{height}:force_original_aspect_ratio=decrease:force_divisible_by=2,\
                 pad={width}:{height}:(ow-iw)/2:(oh-ih)/2,setsar=1,format=yuv420p,\
                 tpad=stop_mode=clone:stop_duration=3,trim=end_frame={count},setpts=PTS-STARTPTS[v{film}]"
            ));
        }
        parts.push("[v0][v1]concat=n=2:v=1:a=0[v]".to_owned());
        if self.has_sound() {
            parts.extend(self.sound());
        }
        parts.join(";")
    }

    fn sound(&self) -> Vec<String> {
        let samples = |frames| {
            let seconds = self.rate.duration(frames).as_secs_f64();
            (seconds * f64::from(SAMPLE_RATE)).round() as u64
        };
        let [first, second] = self.frames.map(samples);
        let fade = ((CROSSFADE * f64::from(SAMPLE_RATE)) as u64)
            .min(first / 2)
            .min(second / 2)
            .max(1);
        let mut parts = Vec::new();
        for (film, (length, is_there)) in [first, second].into_iter().zip(self.sounds).enumerate() {
            let source = match is_there {
                true => {
                    format!("[{film}:a:0]asetpts=PTS-STARTPTS,aresample={SAMPLE_RATE}:async=1:first_pts=0")
                }
                false => format!("anullsrc=r={SAMPLE_RATE}:cl=stereo"),
            };
            parts.push(format!(
                "{source},aformat=sample_fmts=fltp:sample_rates={SAMPLE_RATE}:channel_layouts=stereo,\
                 apad=whole_len={length},atrim=end_sample={length},asetpts=PTS-STARTPTS[a{film}]"
            ));
        }
        parts.push("[a0]asplit[head][rest]".to_owned());
        parts.push(format!(
            "[rest]atrim=start_sample={},asetpts=PTS-STARTPTS,areverse[tail]",
            first - fade
        ));
        parts.push("[head][tail]concat=n=2:v=0:a=1[longer]".to_owned());
        parts.push(format!("[longer][a1]acrossfade=ns={fade}:c1=tri:c2=tri[a]"));
        parts
    }
}

/// How long a join of these two is.
pub fn joined_duration(one: &Probe, two: &Probe) -> Result<Duration> {
    let plan = Plan::new(one, two)?;
    Ok(plan.rate.duration(plan.frames.iter().sum()))
}

#[cfg(test)]
mod tests;
