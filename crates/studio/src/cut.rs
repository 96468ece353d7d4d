//! One film of many segments, with voices, sounds and music. What is seen only once is copied; only where two scenes are seen
//! together is it encoded again. How long the film will be is known before.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::film::{Expected, FILE, PATIENCE, PICTURE, SOUND};
use crate::inspect::CutExpected;
use crate::picture::Dimensions;
use crate::probe::{FrameRate, Probe};
use crate::process::{Run, Unfinished};
use crate::scene::{IN_ORDER, absolute, exactly, overlap};
use crate::scratch::Scratch;
use crate::tools::{Program, Tools};

mod sound;

/// The most scenes of a film.
const MOST_SCENES: usize = 60;
/// The longest film.
const LONGEST: Duration = Duration::from_secs(600);
/// The most voices, and the most sounds.
const MOST_SOUNDS: usize = 60;
/// The loudest that something is played, where 1 is as it is.
const LOUDEST: f64 = 4.0;
/// How far music steps back at most, in decibels.
const DEEPEST: u32 = 40;

/// Who hears how much is done, in percent. It only grows.
pub type Progress<'a> = Option<&'a (dyn Fn(u8) + Send + Sync)>;

/// How a scene follows the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transition {
    /// At once.
    Cut,
    /// One becomes the other.
    Fade,
    /// It comes from the right and pushes the other out.
    SlideLeft,
    /// It is uncovered from the right.
    Wipe,
    /// It comes point by point.
    Dissolve,
}

impl Transition {
    /// Every transition.
    pub const ALL: [Transition; 5] = [
        Transition::Cut,
        Transition::Fade,
        Transition::SlideLeft,
        Transition::Wipe,
        Transition::Dissolve,
    ];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Transition::Cut => "cut",
            Transition::Fade => "fade",
            Transition::SlideLeft => "slide_left",
            Transition::Wipe => "wipe",
            Transition::Dissolve => "dissolve",
        }
    }

    /// The transition of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|transition| transition.as_str() == name)
    }

    /// What ffmpeg calls it; nothing for a cut.
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

/// A scene of a film.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutScene {
    /// Its segment, as [`scene`](crate::scene) makes them.
    pub segment: PathBuf,
    /// How many frames that has.
    pub frames: u64,
    /// How it follows the one before it; that of the first is none. Where one of the two is too short for more, it is cut.
    pub transition: Transition,
}

/// Something that is heard.
#[derive(Clone, Debug, PartialEq)]
pub struct Sound {
    /// Its file.
    pub path: PathBuf,
    /// When it begins, since the beginning of the film.
    pub at: Duration,
    /// After how long it is ended; nothing when it ends by itself.
    pub length: Option<Duration>,
    /// How loud, from 0 to 4, where 1 is as it is.
    pub volume: f64,
}

/// Music under a film.
#[derive(Clone, Debug, PartialEq)]
pub struct Music {
    /// Its file, at least as long as the film; after its end there is none.
    pub path: PathBuf,
    /// How loud, from 0 to 4, where 1 is as loud as the voices; 0.25 is usual.
    pub volume: f64,
    /// How far it and the sounds step back while somebody speaks, in decibels, from 0 to 40; 12 are usual.
    pub duck_db: u32,
}

/// A film that is to be put together.
#[derive(Clone, Debug, PartialEq)]
pub struct CutSpec {
    /// How large its segments are.
    pub size: Dimensions,
    /// Frames in a second, as its segments have.
    pub rate: u32,
    /// Its scenes, in order: 1 to 60.
    pub scenes: Vec<CutScene>,
    /// Who speaks. All voices together are made as loud as speech is.
    pub voices: Vec<Sound>,
    /// What else is heard, such as the sound of the films in its scenes.
    pub sounds: Vec<Sound>,
    /// What is played under it.
    pub music: Option<Music>,
    /// What the file says of itself, of letters, digits and spaces.
    pub note: Option<&'static str>,
}

impl CutSpec {
    fn frame_rate(&self) -> FrameRate {
        FrameRate::per_second(self.rate)
    }

    /// How many frames the film has: those of its scenes, less those where two are seen together.
    pub fn frames(&self) -> u64 {
        self.starts().last().copied().unwrap_or_default()
            + self.scenes.last().map(|scene| scene.frames).unwrap_or_default()
    }

    /// How long the film is.
    pub fn duration(&self) -> Duration {
        self.frame_rate().duration(self.frames())
    }

    /// With which frame each scene begins to be seen.
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

    /// Whether it is heard.
    pub fn has_sound(&self) -> bool {
        !self.voices.is_empty() || !self.sounds.is_empty() || self.music.is_some()
    }

    /// What it is to be, for [`inspect`](Tools::inspect).
    pub fn expected(&self) -> CutExpected {
        CutExpected {
            size: self.size,
            frames: self.frames(),
            rate: self.rate,
            has_sound: self.has_sound(),
        }
    }

    /// How a scene really follows the one before it.
    fn transition(&self, place: usize) -> Option<&'static str> {
        let long = |place: usize| {
            let scene = self.scenes.get(place);
            scene.is_some_and(|scene| scene.frames > 2 * overlap(self.rate))
        };
        let before = place.checked_sub(1)?;
        let filter = self.scenes.get(place)?.transition.filter()?;
        (long(before) && long(place)).then_some(filter)
    }

    /// How many frames a scene is seen together with the one before it.
    fn overlap_before(&self, place: usize) -> u64 {
        self.transition(place).map_or(0, |_| overlap(self.rate))
    }

    /// Refuses what is not put together.
    pub fn check(&self) -> Result<()> {
        let input = |what: String| Err(Error::Input(what));
        if !(1..=MOST_SCENES).contains(&self.scenes.len()) {
            return input(format!("has 1 to {MOST_SCENES} scenes"));
        }
        if ![24, 30].contains(&self.rate) {
            return input("has 24 or 30 frames in a second".to_owned());
        }
        if self.scenes.iter().any(|scene| scene.frames == 0) {
            return input("has a scene without frames".to_owned());
        }
        if self.duration() > LONGEST {
            return Err(Error::TooLarge(format!(
                "is at most {} seconds long",
                LONGEST.as_secs()
            )));
        }
        if self.voices.len() > MOST_SOUNDS || self.sounds.len() > MOST_SOUNDS {
            return Err(Error::TooLarge(format!(
                "has at most {MOST_SOUNDS} voices and {MOST_SOUNDS} sounds"
            )));
        }
        let volumes = self.voices.iter().chain(&self.sounds).map(|sound| sound.volume);
        let volumes = volumes.chain(self.music.as_ref().map(|music| music.volume));
        if volumes
            .into_iter()
            .any(|volume| !(0.0..=LOUDEST).contains(&volume))
        {
            return input(format!("has volumes from 0 to {LOUDEST}"));
        }
        let moments = self.voices.iter().chain(&self.sounds);
        if moments.into_iter().any(|sound| sound.at > LONGEST) {
            return input("has a sound that begins after its end".to_owned());
        }
        if self.music.as_ref().is_some_and(|music| music.duck_db > DEEPEST) {
            return input(format!("has music that steps back by at most {DEEPEST} decibels"));
        }
        Ok(())
    }
}

impl Tools {
    /// Puts a film together: H.264 and, when anything is heard, AAC of -14 LUFS, exactly [`CutSpec::frames`] long. `Input`
    /// when a segment is not what the specification says of it, or a sound is none.
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
            let parts = self.take_apart(spec, number, &scratch).await?;
            if let (Some(end), Some(beginning)) = (&end_before, &parts.beginning) {
                let name = format!("turn-{number}.mp4");
                self.turn(spec, number, [end, beginning], &scratch.file(&name))
                    .await?;
                list.push_str(&format!("file {name}\n"));
            }
            list.push_str(&format!("file {}\n", parts.middle));
            end_before = parts.end.map(|name| scratch.file(&name));
        }
        tell(50);
        let listed = scratch.file("list.txt");
        tokio::fs::write(&listed, list).await?;
        let mix = match spec.has_sound() {
            true => Some(self.mix(spec, &scratch).await?),
            false => None,
        };
        tell(85);
        let mut run = Run::new(Program::Ffmpeg, PATIENCE)
            .inside(scratch.path())
            .args(["-f", "concat", "-safe", "1", "-format_whitelist", "concat,mov"])
            .source(&listed);
        if let Some(mix) = &mix {
            run = run.source(&mix.path);
        }
        run = run.args(["-map", "0:v:0"]);
        if let Some(mix) = &mix {
            let last = ["-map", "1:a:0", "-af", mix.last.as_str()];
            run = run.args(last).args(SOUND);
        }
        if let Some(note) = spec.note {
            run = run.args(["-metadata", &format!("comment={note}")]);
        }
        // Frames follow each other in equal steps, whatever the segments say of their ends.
        let steps = format!("setts=ts=N/({}*TB)", spec.rate);
        let unfinished = Unfinished::at(&absolute(place)?);
        run = run
            .args(["-c:v", "copy", "-bsf:v", &steps])
            .args(FILE)
            .file(unfinished.part());
        self.run(run).await?;
        tell(97);
        let frames = spec.frames();
        let expected = Expected {
            size: spec.size,
            frames,
            rate: spec.frame_rate(),
            has_sound: spec.has_sound(),
        };
        let probe = self.verify(unfinished.part(), expected).await?;
        exactly(&probe, frames)?;
        unfinished.finish()?;
        tell(100);
        Ok(probe)
    }

    /// Copies the parts of a scene into files of their own: what is seen with the scene before it, with the scene after it,
    /// and by itself.
    async fn take_apart(&self, spec: &CutSpec, number: usize, scratch: &Scratch) -> Result<Parts> {
        let Some(scene) = spec.scenes.get(number) else {
            return Err(Error::Unfit("there is no such scene".to_owned()));
        };
        let segment = absolute(&scene.segment)?;
        let probe = self.probe(&segment).await?;
        let video = probe.film()?;
        if (video.size, video.frames) != (spec.size, scene.frames) || video.codec != "h264" {
            return Err(Error::Input(format!(
                "has a scene {} that is no segment of this size and length",
                number + 1
            )));
        }
        let seams = [spec.overlap_before(number), spec.overlap_before(number + 1)];
        let frames = match seams {
            [0, 0] => {
                let middle = format!("scene-{number}.mp4");
                tokio::fs::symlink(&segment, scratch.file(&middle)).await?;
                return Ok(Parts {
                    beginning: None,
                    middle,
                    end: None,
                });
            }
            [0, after] => format!("{}", scene.frames - after),
            [before, 0] => format!("{before}"),
            [before, after] => format!("{before},{}", scene.frames - after),
        };
        let run = Run::new(Program::Ffmpeg, PATIENCE)
            .inside(scratch.path())
            .source(&segment)
            .args(["-map", "0:v:0", "-c", "copy", "-f", "segment"])
            .args(["-segment_frames", &frames, "-reset_timestamps", "1"])
            .args(["-segment_format", "mp4"])
            .file(format!("scene-{number}-%d.mp4"));
        self.run(run).await?;
        let mut names = (0..3).map(|part| format!("scene-{number}-{part}.mp4"));
        let beginning = (seams[0] > 0).then(|| names.next()).flatten();
        let middle = names.next().unwrap_or_default();
        let end = (seams[1] > 0).then(|| names.next()).flatten();
        let beginning = beginning.map(|name| scratch.file(&name));
        Ok(Parts {
            beginning,
            middle,
            end,
        })
    }

    /// Encodes how one scene turns into the next one.
    async fn turn(&self, spec: &CutSpec, number: usize, scenes: [&PathBuf; 2], place: &Path) -> Result<()> {
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
        let mut run = Run::new(Program::Ffmpeg, PATIENCE);
        for scene in scenes {
            run = run.source(scene);
        }
        let run = run
            .args(["-filter_complex", &graph, "-map", "[v]"])
            .args(["-r", &rate.to_string()])
            .args(IN_ORDER)
            .args(PICTURE)
            .args(FILE)
            .file(place);
        self.run(run).await?;
        exactly(&self.probe(place).await?, frames)
    }
}

/// The files of a scene.
struct Parts {
    beginning: Option<PathBuf>,
    /// By its name in the scratch folder.
    middle: String,
    end: Option<String>,
}

#[cfg(test)]
mod tests;
