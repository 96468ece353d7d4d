//! Scenes of a film, each a segment of its own: a picture that moves or a part of a film, with its captions drawn in. All
//! segments are encoded in one way, so that what is cut together is copied; they have no sound.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::Result;
use crate::film::{Expected, FILE, FilmSpec, PATIENCE, PICTURE, SAMPLE_RATE, ZOOM, oversize};
use crate::picture::{Dimensions, Encoding, Picture};
use crate::probe::{FORMATS, FrameRate, Probe};
use crate::process::{Run, Unfinished};
use crate::scratch::Scratch;
use crate::tools::{Program, Tools};

/// How long a scene turns into the next one, where it does; the nearest whole number of frames is.
const OVERLAP: Duration = Duration::from_millis(400);
/// A film that ends earlier than its scene by this or less stands still; a shorter one begins again.
const STILL: Duration = Duration::from_millis(500);
/// Frames are in the order in which they are seen, so that a copy of a part has as many as were meant.
pub(crate) const IN_ORDER: [&str; 2] = ["-bf", "0"];

/// How the view of a picture moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Motion {
    /// It comes nearer.
    In,
    /// It goes away.
    Out,
    /// It goes to the left.
    Left,
    /// It goes to the right.
    Right,
    /// It stands still.
    Still,
}

impl Motion {
    /// Every motion.
    pub const ALL: [Motion; 5] = [
        Motion::In,
        Motion::Out,
        Motion::Left,
        Motion::Right,
        Motion::Still,
    ];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Motion::In => "in",
            Motion::Out => "out",
            Motion::Left => "left",
            Motion::Right => "right",
            Motion::Still => "still",
        }
    }

    /// The motion of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|motion| motion.as_str() == name)
    }

    /// How near the view is and where it begins from the left, in so many frames.
    fn view(self, frames: u64) -> (String, String) {
        let centre = || "(iw-iw/zoom)/2".to_owned();
        let near = 1.0 + ZOOM;
        match self {
            Motion::In => (format!("1+{ZOOM}*on/{frames}"), centre()),
            Motion::Out => (format!("{near}-{ZOOM}*on/{frames}"), centre()),
            Motion::Left => (format!("{near}"), format!("(iw-iw/zoom)*(1-on/{frames})")),
            Motion::Right => (format!("{near}"), format!("(iw-iw/zoom)*on/{frames}")),
            Motion::Still => ("1".to_owned(), centre()),
        }
    }
}

/// A scene that is to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SceneSpec {
    /// How large; both sides are even.
    pub size: Dimensions,
    /// Frames in a second: 24 or 30.
    pub rate: u32,
    /// How long; the nearest whole number of frames is.
    pub duration: Duration,
    /// How the view of a picture moves. Films move by themselves.
    pub motion: Motion,
    /// What [`ass`](crate::captions::ass) wrote, with times since the beginning of the scene.
    pub captions: Option<String>,
    /// What stands still before everything, in the size of the film; what is see-through in it is left out.
    pub banner: Option<Picture>,
}

impl SceneSpec {
    fn frame_rate(&self) -> FrameRate {
        FrameRate::per_second(self.rate)
    }

    /// How many frames it has.
    pub fn frames(&self) -> u64 {
        self.frame_rate().count(self.duration)
    }

    /// Refuses what is not made.
    pub fn check(&self) -> Result<()> {
        let film = FilmSpec {
            size: self.size,
            duration: self.duration,
            rate: self.rate,
            sound: None,
            banner: None,
            note: None,
        };
        film.check(1)
    }

    /// Where a segment can be taken apart: where transitions end and begin.
    fn seams(&self) -> Option<[u64; 2]> {
        let (overlap, frames) = (overlap(self.rate), self.frames());
        (frames > 2 * overlap).then(|| [overlap, frames - overlap])
    }
}

/// How many frames two scenes are seen together while one turns into the other.
pub(crate) fn overlap(rate: u32) -> u64 {
    FrameRate::per_second(rate).count(OVERLAP)
}

impl Tools {
    /// Makes a segment of a picture, of which the middle in the proportions of the film is seen.
    pub async fn scene_from_picture(&self, spec: &SceneSpec, picture: &Picture, place: &Path) -> Result<()> {
        spec.check()?;
        let scratch = Scratch::make()?;
        let size = match spec.motion {
            Motion::Still => spec.size,
            _ => oversize(spec.size),
        };
        let source = scratch.file("picture.png");
        tokio::fs::write(&source, picture.covering(size).encode(Encoding::Png)?).await?;
        let Dimensions { width, height } = spec.size;
        let (frames, rate) = (spec.frames(), spec.rate);
        let (near, left) = spec.motion.view(frames);
        let seen = format!(
            "[0:v]zoompan=z='{near}':x='{left}':y='(ih-ih/zoom)/2':d={frames}:s={width}x{height}:fps={rate}"
        );
        let run = Run::new(Program::Ffmpeg, PATIENCE).source(&source);
        self.scene(spec, run, &seen, &scratch, place).await
    }

    /// Makes a segment of the beginning of a film, of which the middle in the proportions of the scene is seen. Where the
    /// film is over it begins again, or stands still when that is for half a second at most. `Input` when it is no film.
    pub async fn scene_from_film(&self, spec: &SceneSpec, film: &Path, place: &Path) -> Result<()> {
        spec.check()?;
        let film = absolute(film)?;
        let length = self.probe(&film).await?.film()?.duration;
        let wanted = spec.frame_rate().duration(spec.frames());
        let again = match wanted.saturating_sub(length) > STILL {
            true => wanted.as_millis() / length.as_millis().max(1),
            false => 0,
        };
        let Dimensions { width, height } = spec.size;
        let seen = format!(
            "[0:V:0]setpts=PTS-STARTPTS,fps={},scale={width}:{height}:force_original_aspect_ratio=increase:\
             force_divisible_by=2,crop={width}:{height},tpad=stop_mode=clone:stop_duration=1",
            spec.rate
        );
        let run = Run::new(Program::Ffmpeg, PATIENCE)
            .args(["-stream_loop", &again.to_string()])
            .args(["-format_whitelist", FORMATS])
            .source(&film);
        self.scene(spec, run, &seen, &Scratch::make()?, place).await
    }

    /// Encodes what is seen, with what is drawn over it.
    async fn scene(
        &self,
        spec: &SceneSpec,
        mut run: Run,
        seen: &str,
        scratch: &Scratch,
        place: &Path,
    ) -> Result<()> {
        let (frames, rate) = (spec.frames(), spec.rate);
        let mut graph = format!("{seen},setsar=1,format=yuv420p,setpts=N/({rate}*TB)");
        if let Some(captions) = &spec.captions {
            // By names of files in the scratch folder: nothing of them is in the graph.
            let fonts = scratch.file("fonts");
            let font = absolute(self.font()?)?;
            tokio::fs::create_dir(&fonts).await?;
            tokio::fs::symlink(font, fonts.join("captions.ttf")).await?;
            tokio::fs::write(scratch.file("captions.ass"), captions).await?;
            graph.push_str(",ass=f=captions.ass:fontsdir=fonts");
        }
        if let Some(banner) = &spec.banner {
            let path = scratch.file("banner.png");
            tokio::fs::write(&path, banner.resized(spec.size).encode(Encoding::Png)?).await?;
            run = run.source(&path);
            graph.push_str("[seen];[seen][1:v]overlay=format=auto,format=yuv420p");
        }
        graph.push_str(&format!(",trim=end_frame={frames}[v]"));
        let unfinished = Unfinished::at(&absolute(place)?);
        run = run
            .inside(scratch.path())
            .args(["-filter_complex", &graph, "-map", "[v]"])
            .args(["-r", &rate.to_string()])
            .args(IN_ORDER);
        if let Some([first, second]) = spec.seams() {
            let frames = format!("expr:eq(n,{first})+eq(n,{second})");
            run = run.args(["-force_key_frames", &frames]);
        }
        self.run(run.args(PICTURE).args(FILE).file(unfinished.part()))
            .await?;
        let expected = Expected {
            size: spec.size,
            frames,
            rate: spec.frame_rate(),
            has_sound: false,
        };
        let probe = self.verify(unfinished.part(), expected).await?;
        exactly(&probe, frames)?;
        unfinished.finish()
    }

    /// Takes the sound of a film, as a WAV, and says how long it is; nothing when it has none. `Input` when it is no film
    /// and no recording.
    pub async fn sound_of(&self, film: &Path, place: &Path) -> Result<Option<Duration>> {
        if self.probe(film).await?.audio.is_none() {
            return Ok(None);
        }
        let unfinished = Unfinished::at(place);
        // Silence stands where the sound begins later than the picture.
        let run = Run::new(Program::Ffmpeg, PATIENCE)
            .args(["-format_whitelist", FORMATS])
            .source(film)
            .args(["-map", "0:a:0", "-t", "600"])
            .args(["-af", &format!("aresample={SAMPLE_RATE}:async=1:first_pts=0")])
            .args(["-ac", "2", "-map_metadata", "-1", "-fflags", "+bitexact"])
            .args(["-c:a", "pcm_s16le", "-f", "wav"])
            .file(unfinished.part());
        self.run(run).await?;
        let length = self.probe(unfinished.part()).await?.duration;
        unfinished.finish()?;
        Ok(Some(length))
    }
}

/// Refuses a segment that has a frame too many or too few: the next one would begin at another time.
pub(crate) fn exactly(probe: &Probe, frames: u64) -> Result<()> {
    match probe.video.as_ref().map(|video| video.frames) {
        Some(found) if found == frames => Ok(()),
        found => Err(crate::error::Error::Unfit(format!(
            "it has {found:?} frames instead of {frames}"
        ))),
    }
}

/// Where something is, from anywhere.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf> {
    Ok(std::path::absolute(path)?)
}

#[cfg(test)]
mod tests;
