//! Assembles one video from segments, with voices, clips and music. Only the transitions are
//! encoded again; all other frames are copied. The duration is known before the video is assembled.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::image::Dimensions;
use crate::inspect::CutExpected;
use crate::probe::{FrameRate, Probe};
use crate::process::{PartialFile, Run};
use crate::scene::{NO_B_FRAMES, absolute, exactly, overlap};
use crate::scratch::Scratch;
use crate::tools::{Program, Tools};
use crate::video::{AUDIO_ARGS, Expected, MP4_ARGS, TIMEOUT, VIDEO_ARGS};

mod audio;

/// Maximum number of scenes of a video.
const MAX_SCENES: usize = 60;
/// Maximum duration of a video.
const MAX_DURATION: Duration = Duration::from_secs(600);
/// Maximum number of voices, and maximum number of audio clips.
const MAX_CLIPS: usize = 60;
/// Maximum volume; 1 leaves the volume unchanged.
const MAX_VOLUME: f64 = 4.0;
/// Maximum ducking of music, in decibels.
const MAX_DUCK_DB: u32 = 40;

/// Callback for the progress in percent. The value never decreases.
pub type Progress<'a> = Option<&'a (dyn Fn(u8) + Send + Sync)>;

/// Transition from the previous scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transition {
    /// Immediate change without overlap.
    Cut,
    /// Cross-fade between the scenes.
    Fade,
    /// The scene enters from the right and pushes the previous one out.
    SlideLeft,
    /// The scene is uncovered from the right.
    Wipe,
    /// The scene appears pixel by pixel.
    Dissolve,
}

impl Transition {
    /// All transitions, in declaration order.
    pub const ALL: [Transition; 5] = [
        Transition::Cut,
        Transition::Fade,
        Transition::SlideLeft,
        Transition::Wipe,
        Transition::Dissolve,
    ];

    /// Returns the name of the transition in requests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Transition::Cut => "cut",
            Transition::Fade => "fade",
            Transition::SlideLeft => "slide_left",
            Transition::Wipe => "wipe",
            Transition::Dissolve => "dissolve",
        }
    }

    /// Parses a transition name; `None` if it is unknown.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|transition| transition.as_str() == name)
    }

    /// Returns the name of the ffmpeg `xfade` transition; `None` for a cut.
    const fn filter(self) -> Option<&'static str> {
        match self {
            Transition::Cut => None,
            Transition::Fade => Some("fade"),
            Transition::SlideLeft => Some("slideleft"),
            Transition::Wipe => Some("wipeleft"),
            Transition::Dissolve => Some("dissolve"),
        }
    }
}

/// A scene of the video to assemble: its segment and its transition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutScene {
    /// Path of the segment, rendered by the functions of [`scene`](crate::scene).
    pub segment: PathBuf,
    /// Number of frames of the segment.
    pub frames: u64,
    /// Transition from the previous scene; ignored for the first scene. If one of the two scenes is
    /// too short for the transition, the transition is replaced by a cut.
    pub transition: Transition,
}

/// An audio clip and its position in the video.
#[derive(Clone, Debug, PartialEq)]
pub struct AudioClip {
    /// Path of the audio file.
    pub path: PathBuf,
    /// Start time, from the start of the video.
    pub at: Duration,
    /// Maximum duration; `None` plays the clip to its end.
    pub length: Option<Duration>,
    /// Volume from 0 to 4; 1 leaves it unchanged.
    pub volume: f64,
}

/// Background music of a video.
#[derive(Clone, Debug, PartialEq)]
pub struct Music {
    /// Path of the audio file. If the file is shorter than the video, the rest of the video has no
    /// music.
    pub path: PathBuf,
    /// Volume from 0 to 4; 1 is the loudness of the voices. A typical value is 0.25.
    pub volume: f64,
    /// Ducking: attenuation of music and clips during speech, in decibels, 0 to 40. A typical value
    /// is 12.
    pub duck_db: u32,
}

/// Specification of a video to assemble.
#[derive(Clone, Debug, PartialEq)]
pub struct CutSpec {
    /// Frame size of the segments.
    pub size: Dimensions,
    /// Frame rate of the segments: 24 or 30 frames per second.
    pub rate: u32,
    /// Scenes in their order: 1 to 60.
    pub scenes: Vec<CutScene>,
    /// Voices. They are mixed into one track, which is normalized to the loudness of speech.
    pub voices: Vec<AudioClip>,
    /// Other audio clips, such as the audio of a scene's video.
    pub clips: Vec<AudioClip>,
    /// Background music; `None` for a video without music.
    pub music: Option<Music>,
    /// Comment in the file's metadata; letters, digits and spaces only.
    pub note: Option<&'static str>,
}

impl CutSpec {
    fn frame_rate(&self) -> FrameRate {
        FrameRate::per_second(self.rate)
    }

    /// Returns the number of frames of the video: the frames of its scenes, less the overlaps.
    pub fn frames(&self) -> u64 {
        self.starts().last().copied().unwrap_or_default()
            + self.scenes.last().map(|scene| scene.frames).unwrap_or_default()
    }

    /// Returns the duration of the video.
    pub fn duration(&self) -> Duration {
        self.frame_rate().duration(self.frames())
    }

    /// Returns the index of the first frame of each scene.
    pub fn starts(&self) -> Vec<u64> {
        let mut start = 0;
        let mut starts = Vec::with_capacity(self.scenes.len());
        for (place, scene) in self.scenes.iter().enumerate() {
            start -= self.overlap_before(place).min(start);
            starts.push(start);
            start += scene.frames;
        }
        starts
    }

    /// Whether the video has voices, clips or music.
    pub fn has_audio(&self) -> bool {
        !self.voices.is_empty() || !self.clips.is_empty() || self.music.is_some()
    }

    /// Returns the expected properties of the video, for [`inspect`](Tools::inspect).
    pub fn expected(&self) -> CutExpected {
        CutExpected {
            size: self.size,
            frames: self.frames(),
            rate: self.rate,
            has_audio: self.has_audio(),
        }
    }

    /// Returns the effective ffmpeg transition from the previous scene; `None` for a cut.
    fn transition(&self, place: usize) -> Option<&'static str> {
        let long = |place: usize| {
            let scene = self.scenes.get(place);
            scene.is_some_and(|scene| scene.frames > 2 * overlap(self.rate))
        };
        let before = place.checked_sub(1)?;
        let filter = self.scenes.get(place)?.transition.filter()?;
        (long(before) && long(place)).then_some(filter)
    }

    /// Returns the number of frames of a scene that overlap with the previous scene.
    fn overlap_before(&self, place: usize) -> u64 {
        self.transition(place).map_or(0, |_| overlap(self.rate))
    }

    /// Validates the specification. Returns [`Error::Input`] or [`Error::TooLarge`] with a
    /// description of the fault.
    pub fn check(&self) -> Result<()> {
        let input = |what: String| Err(Error::Input(what));
        if !(1..=MAX_SCENES).contains(&self.scenes.len()) {
            return input(format!("must have 1 to {MAX_SCENES} scenes"));
        }
        if ![24, 30].contains(&self.rate) {
            return input("must have 24 or 30 frames per second".to_owned());
        }
        if self.scenes.iter().any(|scene| scene.frames == 0) {
            return input("has a scene without frames".to_owned());
        }
        if self.duration() > MAX_DURATION {
            return Err(Error::TooLarge(format!(
                "must be at most {} seconds long",
                MAX_DURATION.as_secs()
            )));
        }
        if self.voices.len() > MAX_CLIPS || self.clips.len() > MAX_CLIPS {
            return Err(Error::TooLarge(format!(
                "must have at most {MAX_CLIPS} voices and {MAX_CLIPS} audio clips"
            )));
        }
        let volumes = self.voices.iter().chain(&self.clips).map(|clip| clip.volume);
        let volumes = volumes.chain(self.music.as_ref().map(|music| music.volume));
        if volumes
            .into_iter()
            .any(|volume| !(0.0..=MAX_VOLUME).contains(&volume))
        {
            return input(format!("must have volumes from 0 to {MAX_VOLUME}"));
        }
        let moments = self.voices.iter().chain(&self.clips);
        if moments.into_iter().any(|clip| clip.at > MAX_DURATION) {
            let seconds = MAX_DURATION.as_secs();
            return input(format!(
                "has a voice or audio clip that starts after {seconds} seconds"
            ));
        }
        if self
            .music
            .as_ref()
            .is_some_and(|music| music.duck_db > MAX_DUCK_DB)
        {
            return input(format!("must lower the music by at most {MAX_DUCK_DB} decibels"));
        }
        Ok(())
    }
}

impl Tools {
    /// Assembles a video: H.264, AAC at -14 LUFS if there is audio, and exactly [`CutSpec::frames`]
    /// frames. Returns [`Error::Input`] if a segment does not match the specification, or if a clip
    /// has no audio.
    pub async fn assemble(&self, spec: &CutSpec, place: &Path, progress: Progress<'_>) -> Result<Probe> {
        spec.check()?;
        let tell = |percent: usize| {
            if let Some(progress) = progress {
                progress(u8::try_from(percent.min(100)).unwrap_or(100));
            }
        };
        let scratch = Scratch::make()?;
        let mut list = "ffconcat version 1.0\n".to_owned();
        let scenes = spec.scenes.len();
        let mut end_before = None;
        for number in 0..scenes {
            tell(number * 50 / scenes);
            let parts = self.split_scene(spec, number, &scratch).await?;
            if let (Some(end), Some(start_part)) = (&end_before, &parts.start_part) {
                let name = format!("turn-{number}.mp4");
                self.encode_transition(spec, number, [end, start_part], &scratch.file(&name))
                    .await?;
                list.push_str(&format!("file {name}\n"));
            }
            list.push_str(&format!("file {}\n", parts.middle));
            end_before = parts.end.map(|name| scratch.file(&name));
        }
        tell(50);
        let listed = scratch.file("list.txt");
        tokio::fs::write(&listed, list).await?;
        let mix = match spec.has_audio() {
            true => Some(self.mix(spec, &scratch).await?),
            false => None,
        };
        tell(85);
        let mut run = Run::new(Program::Ffmpeg, TIMEOUT)
            .inside(scratch.path())
            .args(["-f", "concat", "-safe", "1", "-format_whitelist", "concat,mov"])
            .source(&listed);
        if let Some(mix) = &mix {
            run = run.source(&mix.path);
        }
        run = run.args(["-map", "0:v:0"]);
        if let Some(mix) = &mix {
            let last = ["-map", "1:a:0", "-af", mix.last.as_str()];
            run = run.args(last).args(AUDIO_ARGS);
        }
        if let Some(note) = spec.note {
            run = run.args(["-metadata", &format!("comment={note}")]);
        }
        // Sets equal intervals between frames, regardless of the end times of the segments.
        let steps = format!("setts=ts=N/({}*TB)", spec.rate);
        let unfinished = PartialFile::at(&absolute(place)?);
        run = run
            .args(["-c:v", "copy", "-bsf:v", &steps])
            .args(MP4_ARGS)
            .file(unfinished.part());
        self.run(run).await?;
        tell(97);
        let frames = spec.frames();
        let expected = Expected {
            size: spec.size,
            frames,
            rate: spec.frame_rate(),
            has_audio: spec.has_audio(),
        };
        let probe = self.verify(unfinished.part(), expected).await?;
        exactly(&probe, frames)?;
        unfinished.finish()?;
        tell(100);
        Ok(probe)
    }

    /// Splits a scene into separate files without encoding: the overlaps at both ends, and the
    /// middle.
    async fn split_scene(&self, spec: &CutSpec, number: usize, scratch: &Scratch) -> Result<Parts> {
        let Some(scene) = spec.scenes.get(number) else {
            return Err(Error::UnexpectedOutput("the scene does not exist".to_owned()));
        };
        let segment = absolute(&scene.segment)?;
        let probe = self.probe(&segment).await?;
        let video = probe.video()?;
        if (video.size, video.frames) != (spec.size, scene.frames) || video.codec != "h264" {
            return Err(Error::Input(format!(
                "has a segment for scene {} with a wrong size, number of frames or codec",
                number + 1
            )));
        }
        let seams = [spec.overlap_before(number), spec.overlap_before(number + 1)];
        let frames = match seams {
            [0, 0] => {
                let middle = format!("scene-{number}.mp4");
                tokio::fs::symlink(&segment, scratch.file(&middle)).await?;
                return Ok(Parts {
                    start_part: None,
                    middle,
                    end: None,
                });
            }
            [0, after] => format!("{}", scene.frames - after),
            [before, 0] => format!("{before}"),
            [before, after] => format!("{before},{}", scene.frames - after),
        };
        let run = Run::new(Program::Ffmpeg, TIMEOUT)
            .inside(scratch.path())
            .source(&segment)
            .args(["-map", "0:v:0", "-c", "copy", "-f", "segment"])
            .args(["-segment_frames", &frames, "-reset_timestamps", "1"])
            .args(["-segment_format", "mp4"])
            .file(format!("scene-{number}-%d.mp4"));
        self.run(run).await?;
        let mut names = (0..3).map(|part| format!("scene-{number}-{part}.mp4"));
        let start_part = (seams[0] > 0).then(|| names.next()).flatten();
        let middle = names.next().unwrap_or_default();
        let end = (seams[1] > 0).then(|| names.next()).flatten();
        let start_part = start_part.map(|name| scratch.file(&name));
        Ok(Parts {
            start_part,
            middle,
            end,
        })
    }

    /// Encodes the transition between two scenes. Returns an error if the result does not have
    /// exactly the frames of the overlap.
    async fn encode_transition(
        &self,
        spec: &CutSpec,
        number: usize,
        scenes: [&PathBuf; 2],
        place: &Path,
    ) -> Result<()> {
        let (frames, rate) = (overlap(spec.rate), spec.rate);
        let name = spec.transition(number).unwrap_or("fade");
        let time =
            |input: usize| format!("[{input}:v]setpts=N/({rate}*TB),settb=1/{rate},setsar=1[s{input}]");
        let graph = format!(
            "{};{};[s0][s1]xfade=transition={name}:duration={:.6}:offset=0,format=yuv420p,trim=end_frame={frames}[v]",
            time(0),
            time(1),
            frames as f64 / f64::from(rate)
        );
        let mut run = Run::new(Program::Ffmpeg, TIMEOUT);
        for scene in scenes {
            run = run.source(scene);
        }
        let run = run
            .args(["-filter_complex", &graph, "-map", "[v]"])
            .args(["-r", &rate.to_string()])
            .args(NO_B_FRAMES)
            .args(VIDEO_ARGS)
            .args(MP4_ARGS)
            .file(place);
        self.run(run).await?;
        exactly(&self.probe(place).await?, frames)
    }
}

/// Files of the parts of a split scene.
struct Parts {
    start_part: Option<PathBuf>,
    /// Name of the file in the scratch folder.
    middle: String,
    end: Option<String>,
}

#[cfg(test)]
mod tests;
