//! Renders each scene of a video as a segment: a moving image or a part of a video, with captions
//! burned in. All segments have the same encoding, so that they can be concatenated without
//! re-encoding; they have no audio.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::Result;
use crate::image::{Dimensions, Encoding, Image};
use crate::probe::{FORMATS, FrameRate, Probe};
use crate::process::{PartialFile, Run};
use crate::scratch::Scratch;
use crate::tools::{Program, Tools};
use crate::video::{Expected, MP4_ARGS, SAMPLE_RATE, TIMEOUT, VIDEO_ARGS, VideoSpec, ZOOM, oversize};

/// Duration of a transition. It is rounded to whole frames.
const OVERLAP: Duration = Duration::from_millis(400);
/// Maximum time for which the last frame of a video is shown, if the video is shorter than its
/// scene. If more time is missing, the video loops.
const MAX_FREEZE: Duration = Duration::from_millis(500);
/// ffmpeg options that disable B-frames. The stored order is then the display order, so that a
/// copied part has exactly its frames.
pub(crate) const NO_B_FRAMES: [&str; 2] = ["-bf", "0"];

/// Camera motion over an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Motion {
    /// Zooms in on the center.
    In,
    /// Zooms out from the center.
    Out,
    /// Pans to the left.
    Left,
    /// Pans to the right.
    Right,
    /// Shows the image without motion.
    Still,
}

impl Motion {
    /// All motions, in declaration order.
    pub const ALL: [Motion; 5] = [
        Motion::In,
        Motion::Out,
        Motion::Left,
        Motion::Right,
        Motion::Still,
    ];

    /// Returns the name of the motion in requests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Motion::In => "in",
            Motion::Out => "out",
            Motion::Left => "left",
            Motion::Right => "right",
            Motion::Still => "still",
        }
    }

    /// Parses a motion name; `None` if it is unknown.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|motion| motion.as_str() == name)
    }

    /// Returns the ffmpeg expressions for the zoom and the left edge, over `frames` frames.
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

/// Specification of a scene.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SceneSpec {
    /// Frame size in pixels; both sides are even.
    pub size: Dimensions,
    /// Frames per second: 24 or 30.
    pub rate: u32,
    /// Duration of the scene, rounded to whole frames.
    pub duration: Duration,
    /// Camera motion over an image; ignored for videos.
    pub motion: Motion,
    /// Captions in the format of [`ass`](crate::captions::ass). Their times are relative to the
    /// start of the scene.
    pub captions: Option<String>,
    /// Image that is laid over all frames, scaled to the size of the video. Its transparent pixels
    /// show the scene.
    pub banner: Option<Image>,
}

impl SceneSpec {
    fn frame_rate(&self) -> FrameRate {
        FrameRate::per_second(self.rate)
    }

    /// Returns the number of frames of the scene.
    pub fn frames(&self) -> u64 {
        self.frame_rate().count(self.duration)
    }

    /// Validates the specification. Returns [`Error::Input`](crate::error::Error::Input) or
    /// [`Error::TooLarge`](crate::error::Error::TooLarge) with a description of the fault.
    pub fn check(&self) -> Result<()> {
        let video = VideoSpec {
            size: self.size,
            duration: self.duration,
            rate: self.rate,
            audio: None,
            banner: None,
            note: None,
        };
        video.check(1)
    }

    /// Returns the frames at which the segment can be split: the end of its first transition and
    /// the start of its last. `None` if the scene is too short for transitions.
    fn seams(&self) -> Option<[u64; 2]> {
        let (overlap, frames) = (overlap(self.rate), self.frames());
        (frames > 2 * overlap).then(|| [overlap, frames - overlap])
    }
}

/// Returns the number of frames of a transition.
pub(crate) fn overlap(rate: u32) -> u64 {
    FrameRate::per_second(rate).count(OVERLAP)
}

impl Tools {
    /// Renders an image as a segment. The image is cropped at the center to the aspect ratio of the
    /// video.
    pub async fn scene_from_image(&self, spec: &SceneSpec, image: &Image, place: &Path) -> Result<()> {
        spec.check()?;
        let scratch = Scratch::make()?;
        let size = match spec.motion {
            Motion::Still => spec.size,
            _ => oversize(spec.size),
        };
        let source = scratch.file("image.png");
        tokio::fs::write(&source, image.covering(size).encode(Encoding::Png)?).await?;
        let Dimensions { width, height } = spec.size;
        let (frames, rate) = (spec.frames(), spec.rate);
        let (near, left) = spec.motion.view(frames);
        let visual_filter = format!(
            "[0:v]zoompan=z='{near}':x='{left}':y='(ih-ih/zoom)/2':d={frames}:s={width}x{height}:fps={rate}"
        );
        let run = Run::new(Program::Ffmpeg, TIMEOUT).source(&source);
        self.scene(spec, run, &visual_filter, &scratch, place).await
    }

    /// Renders the start of a video as a segment. The video is cropped at the center to the aspect
    /// ratio of the scene. If it is shorter than the scene, its last frame is shown for up to half
    /// a second, or the video loops. Returns [`Error::Input`](crate::error::Error::Input) if the
    /// file is not a video.
    pub async fn scene_from_video(&self, spec: &SceneSpec, video: &Path, place: &Path) -> Result<()> {
        spec.check()?;
        let video = absolute(video)?;
        let length = self.probe(&video).await?.video()?.duration;
        let wanted = spec.frame_rate().duration(spec.frames());
        let again = match wanted.saturating_sub(length) > MAX_FREEZE {
            true => wanted.as_millis() / length.as_millis().max(1),
            false => 0,
        };
        let Dimensions { width, height } = spec.size;
        let visual_filter = format!(
            "[0:V:0]setpts=PTS-STARTPTS,fps={},scale={width}:{height}:force_original_aspect_ratio=increase:\
             force_divisible_by=2,crop={width}:{height},tpad=stop_mode=clone:stop_duration=1",
            spec.rate
        );
        let run = Run::new(Program::Ffmpeg, TIMEOUT)
            .args(["-stream_loop", &again.to_string()])
            .args(["-format_whitelist", FORMATS])
            .source(&video);
        self.scene(spec, run, &visual_filter, &Scratch::make()?, place)
            .await
    }

    /// Encodes a scene with its captions and its banner.
    async fn scene(
        &self,
        spec: &SceneSpec,
        mut run: Run,
        visual_filter: &str,
        scratch: &Scratch,
        place: &Path,
    ) -> Result<()> {
        let (frames, rate) = (spec.frames(), spec.rate);
        let mut graph = format!("{visual_filter},setsar=1,format=yuv420p,setpts=N/({rate}*TB)");
        if let Some(captions) = &spec.captions {
            // The filter graph contains only names of files in the scratch folder, and no text of
            // the caller.
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
        let unfinished = PartialFile::at(&absolute(place)?);
        run = run
            .inside(scratch.path())
            .args(["-filter_complex", &graph, "-map", "[v]"])
            .args(["-r", &rate.to_string()])
            .args(NO_B_FRAMES);
        if let Some([first, second]) = spec.seams() {
            let frames = format!("expr:eq(n,{first})+eq(n,{second})");
            run = run.args(["-force_key_frames", &frames]);
        }
        self.run(run.args(VIDEO_ARGS).args(MP4_ARGS).file(unfinished.part()))
            .await?;
        let expected = Expected {
            size: spec.size,
            frames,
            rate: spec.frame_rate(),
            has_audio: false,
        };
        let probe = self.verify(unfinished.part(), expected).await?;
        exactly(&probe, frames)?;
        unfinished.finish()
    }

    /// Writes the first ten minutes of a video's audio as WAV. Returns the duration of the audio,
    /// or `None` if the video has none. Returns [`Error::Input`](crate::error::Error::Input) if the
    /// file is not a video or audio file.
    pub async fn extract_audio(&self, video: &Path, place: &Path) -> Result<Option<Duration>> {
        if self.probe(video).await?.audio.is_none() {
            return Ok(None);
        }
        let unfinished = PartialFile::at(place);
        // The start is filled with silence if the audio starts later than the video.
        let run = Run::new(Program::Ffmpeg, TIMEOUT)
            .args(["-format_whitelist", FORMATS])
            .source(video)
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

/// Returns an error if a segment has a wrong number of frames, because the next segment would then
/// start at a wrong time.
pub(crate) fn exactly(probe: &Probe, frames: u64) -> Result<()> {
    let found = probe.video.as_ref().map_or(0, |video| video.frames);
    match found == frames {
        true => Ok(()),
        false => Err(crate::error::Error::UnexpectedOutput(format!(
            "the output has {found} frames instead of {frames}"
        ))),
    }
}

/// Makes a path absolute, without resolving symbolic links.
pub(crate) fn absolute(path: &Path) -> Result<PathBuf> {
    Ok(std::path::absolute(path)?)
}

#[cfg(test)]
mod tests;
