//! Concatenation of two videos.

use std::path::Path;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::image::Dimensions;
use crate::probe::{FORMATS, FrameRate, Probe};
use crate::process::{PartialFile, Run};
use crate::tools::{Program, Tools};
use crate::video::{AUDIO_ARGS, Expected, MP4_ARGS, SAMPLE_RATE, TIMEOUT, VIDEO_ARGS};

/// Time for which the end of the first video's audio overlaps the start of the second video's
/// audio, in seconds; at most half of the shorter video.
const CROSSFADE_SECONDS: f64 = 0.25;

impl Tools {
    /// Joins two videos. The result has the size and the frame rate of the first video, and the
    /// total duration of both. The result has audio if at least one of the videos has audio; a part
    /// without audio is silent. The audio of both parts stays in sync: for the crossfade, the first
    /// audio is extended by its reversed end. Returns [`Error::Input`] if a side of the first video
    /// is odd, and [`Error::TooLarge`] if the first video has more than 120 frames per second.
    pub async fn join(&self, first: &Path, second: &Path, place: &Path) -> Result<()> {
        let (one, two) = (self.probe(first).await?, self.probe(second).await?);
        let plan = Plan::new(&one, &two)?;
        let unfinished = PartialFile::at(place);
        let mut run = Run::new(Program::Ffmpeg, TIMEOUT);
        for path in [first, second] {
            run = run.args(["-format_whitelist", FORMATS]).source(path);
        }
        run = run.args(["-filter_complex", &plan.graph(), "-map", "[v]"]);
        if plan.has_audio() {
            run = run.args(["-map", "[a]"]).args(AUDIO_ARGS);
        }
        let expected = plan.expected();
        run = run.args(VIDEO_ARGS).args(MP4_ARGS).file(unfinished.part());
        self.run(run).await?;
        self.verify(unfinished.part(), expected).await?;
        unfinished.finish()
    }
}

/// Parameters of a join: size, frame rate, frames and audio tracks.
struct Plan {
    size: Dimensions,
    rate: FrameRate,
    frames: [u64; 2],
    has_audio_tracks: [bool; 2],
}

impl Plan {
    fn new(one: &Probe, two: &Probe) -> Result<Self> {
        let (first, second) = (one.video()?, two.video()?);
        let Dimensions { width, height } = first.size;
        if width % 2 == 1 || height % 2 == 1 {
            return Err(Error::Input(format!(
                "cannot be {width} by {height}: both sides must be even"
            )));
        }
        let rate = first.frame_rate;
        if rate.frames / rate.seconds > 120 {
            return Err(Error::TooLarge("has more than 120 frames per second".to_owned()));
        }
        Ok(Self {
            size: first.size,
            rate,
            frames: [rate.count(first.duration), rate.count(second.duration)],
            has_audio_tracks: [one.audio.is_some(), two.audio.is_some()],
        })
    }

    fn has_audio(&self) -> bool {
        self.has_audio_tracks.contains(&true)
    }

    fn expected(&self) -> Expected {
        Expected {
            size: self.size,
            frames: self.frames.iter().sum(),
            rate: self.rate,
            has_audio: self.has_audio(),
        }
    }

    /// Returns the filter graph. It contains only numbers, and no text of the caller.
    fn graph(&self) -> String {
        let Dimensions { width, height } = self.size;
        let FrameRate { frames, seconds } = self.rate;
        let mut parts = Vec::new();
        for (video, count) in self.frames.into_iter().enumerate() {
            // The last frame of a stream that is shorter than declared is repeated.
            parts.push(format!(
                "[{video}:V:0]setpts=PTS-STARTPTS,fps={frames}/{seconds},\
                 scale={width}:{height}:force_original_aspect_ratio=decrease:force_divisible_by=2,\
                 pad={width}:{height}:(ow-iw)/2:(oh-ih)/2,setsar=1,format=yuv420p,\
                 tpad=stop_mode=clone:stop_duration=3,trim=end_frame={count},setpts=PTS-STARTPTS[v{video}]"
            ));
        }
        parts.push("[v0][v1]concat=n=2:v=1:a=0[v]".to_owned());
        if self.has_audio() {
            parts.extend(self.audio_filters());
        }
        parts.join(";")
    }

    fn audio_filters(&self) -> Vec<String> {
        let samples = |frames| {
            let seconds = self.rate.duration(frames).as_secs_f64();
            (seconds * f64::from(SAMPLE_RATE)).round() as u64
        };
        let [first, second] = self.frames.map(samples);
        let fade = ((CROSSFADE_SECONDS * f64::from(SAMPLE_RATE)) as u64)
            .min(first / 2)
            .min(second / 2)
            .max(1);
        let mut parts = Vec::new();
        for (video, (length, is_present)) in
            [first, second].into_iter().zip(self.has_audio_tracks).enumerate()
        {
            let source = match is_present {
                true => {
                    format!("[{video}:a:0]asetpts=PTS-STARTPTS,aresample={SAMPLE_RATE}:async=1:first_pts=0")
                }
                false => format!("anullsrc=r={SAMPLE_RATE}:cl=stereo"),
            };
            parts.push(format!(
                "{source},aformat=sample_fmts=fltp:sample_rates={SAMPLE_RATE}:channel_layouts=stereo,\
                 apad=whole_len={length},atrim=end_sample={length},asetpts=PTS-STARTPTS[a{video}]"
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

/// Returns the duration of the joined video. Returns an error if the videos cannot be joined.
pub fn joined_duration(one: &Probe, two: &Probe) -> Result<Duration> {
    let plan = Plan::new(one, two)?;
    Ok(plan.rate.duration(plan.frames.iter().sum()))
}

#[cfg(test)]
mod tests;
