//! Streams and metadata of a video or audio file, as ffprobe reads them. File names and declared
//! media types are not trusted.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::image::Dimensions;
use crate::process::Run;
use crate::tools::{Program, Tools};

/// Timeout of a probe.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Accepted containers. Playlists and similar formats are excluded, because they refer to other
/// files.
pub(crate) const FORMATS: &str = "mov,matroska,wav,mp3,flac,ogg,aac";

/// Limits of an accepted file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeLimits {
    /// Maximum duration of the file.
    pub max_duration: Duration,
    /// Maximum number of pixels of a frame.
    pub max_pixels: u64,
    /// Maximum number of streams.
    pub max_streams: usize,
}

impl Default for ProbeLimits {
    fn default() -> Self {
        Self {
            max_duration: Duration::from_secs(3_600),
            max_pixels: 8_192 * 4_320,
            max_streams: 16,
        }
    }
}

/// Frame rate as a fraction: frames per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRate {
    /// Numerator: frames in `seconds` seconds.
    pub frames: u32,
    /// Denominator: seconds of `frames` frames.
    pub seconds: u32,
}

impl FrameRate {
    /// Creates a frame rate with a whole number of frames per second.
    pub const fn per_second(frames: u32) -> Self {
        Self { frames, seconds: 1 }
    }

    /// Returns the number of frames in this duration, rounded; at least 1.
    pub fn count(self, duration: Duration) -> u64 {
        let frames = duration.as_secs_f64() * f64::from(self.frames) / f64::from(self.seconds.max(1));
        frames.round().max(1.0) as u64
    }

    /// Returns the duration of this number of frames.
    pub fn duration(self, frames: u64) -> Duration {
        let micros =
            u128::from(frames) * u128::from(self.seconds) * 1_000_000 / u128::from(self.frames.max(1));
        Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
    }

    fn parse(text: &str) -> Option<Self> {
        let (frames, seconds) = text.split_once('/')?;
        let rate = Self {
            frames: frames.parse().ok()?,
            seconds: seconds.parse().ok()?,
        };
        (rate.frames > 0 && rate.seconds > 0).then_some(rate)
    }
}

/// The video stream of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VideoStream {
    /// Name of the codec in ffprobe, such as `h264`.
    pub codec: String,
    /// Frame size in pixels, after rotation.
    pub size: Dimensions,
    /// Number of frames, counted from the file's packets.
    pub frames: u64,
    /// Frame rate of the stream.
    pub frame_rate: FrameRate,
    /// Pixel format, such as `yuv420p`.
    pub pixel_format: String,
    /// Duration of the stream.
    pub duration: Duration,
}

/// The audio stream of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AudioStream {
    /// Name of the codec in ffprobe, such as `aac`.
    pub codec: String,
    /// Sample rate in hertz.
    pub sample_rate: u32,
    /// Number of channels.
    pub channels: u32,
    /// Duration of the stream.
    pub duration: Duration,
}

/// Streams and metadata of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Names of the container format, such as `mov,mp4,m4a,3gp,3g2,mj2`.
    pub format: String,
    /// Duration of the file.
    pub duration: Duration,
    /// First video stream, if any; cover images are ignored.
    pub video: Option<VideoStream>,
    /// First audio stream, if any.
    pub audio: Option<AudioStream>,
    /// Comment in the metadata of the file.
    pub comment: Option<String>,
}

impl Probe {
    /// Returns the video stream, or [`Error::Input`] if the file has none.
    pub fn video(&self) -> Result<&VideoStream> {
        self.video
            .as_ref()
            .ok_or_else(|| Error::Input("has no video stream".to_owned()))
    }
}

impl Tools {
    /// Probes a file within the default limits. Returns the same errors as
    /// [`probe_within`](Self::probe_within).
    pub async fn probe(&self, path: &Path) -> Result<Probe> {
        self.probe_within(path, ProbeLimits::default()).await
    }

    /// Probes a file. Returns [`Error::Input`] if the file is not a video or audio file, or if it
    /// is truncated. Returns [`Error::TooLarge`] beyond the limits.
    pub async fn probe_within(&self, path: &Path, limits: ProbeLimits) -> Result<Probe> {
        if tokio::fs::metadata(path).await?.len() == 0 {
            return Err(Error::Input("is empty".to_owned()));
        }
        let run = Run::new(Program::Ffprobe, TIMEOUT)
            .args(["-format_whitelist", FORMATS])
            .args(["-show_format", "-show_streams", "-count_packets", "-of", "json"])
            .source(path);
        let printed = self.run(run).await.map_err(|error| match error {
            Error::Failed(Program::Ffprobe, detail) => {
                tracing::debug!(detail, "ffprobe rejected a file");
                Error::Input("is not a readable video or audio file".to_owned())
            }
            error => error,
        })?;
        let report: Report = serde_json::from_slice(&printed)
            .map_err(|error| Error::Failed(Program::Ffprobe, format!("unexpected output: {error}")))?;
        report.read(limits)
    }
}

/// Output of ffprobe, reduced to the fields that this module uses.
#[derive(Deserialize)]
struct Report {
    #[serde(default)]
    streams: Vec<Stream>,
    format: Format,
}

#[derive(Deserialize)]
struct Format {
    format_name: String,
    duration: Option<String>,
    #[serde(default)]
    tags: Tags,
}

#[derive(Default, Deserialize)]
struct Tags {
    #[serde(alias = "COMMENT")]
    comment: Option<String>,
}

#[derive(Deserialize)]
struct Stream {
    codec_type: Option<String>,
    codec_name: Option<String>,
    width: Option<u32>,
    height: Option<u32>,
    pix_fmt: Option<String>,
    avg_frame_rate: Option<String>,
    r_frame_rate: Option<String>,
    nb_frames: Option<String>,
    nb_read_packets: Option<String>,
    duration: Option<String>,
    sample_rate: Option<String>,
    channels: Option<u32>,
    #[serde(default)]
    disposition: Disposition,
    #[serde(default)]
    side_data_list: Vec<SideData>,
    #[serde(default)]
    tags: Tags,
}

#[derive(Default, Deserialize)]
struct Disposition {
    #[serde(default)]
    attached_pic: u8,
}

#[derive(Deserialize)]
struct SideData {
    rotation: Option<f64>,
}

impl Report {
    fn read(&self, limits: ProbeLimits) -> Result<Probe> {
        if self.streams.len() > limits.max_streams {
            return Err(Error::TooLarge(format!(
                "has more than {} streams",
                limits.max_streams
            )));
        }
        let of_type = |name: &str| {
            let mut streams = self.streams.iter();
            streams.find(|one| one.codec_type.as_deref() == Some(name) && one.disposition.attached_pic == 0)
        };
        let whole = self.format.duration.as_deref().and_then(seconds);
        let video = of_type("video")
            .map(|stream| stream.video(whole, limits))
            .transpose()?;
        let audio = of_type("audio").map(|stream| stream.audio(whole)).transpose()?;
        let lengths = [
            whole,
            video.as_ref().map(|video| video.duration),
            audio.as_ref().map(|audio| audio.duration),
        ];
        let Some(duration) = lengths
            .into_iter()
            .flatten()
            .max()
            .filter(|length| !length.is_zero())
        else {
            return Err(Error::Input("does not declare its duration".to_owned()));
        };
        if video.is_none() && audio.is_none() {
            return Err(Error::Input("has neither video nor audio".to_owned()));
        }
        if duration > limits.max_duration {
            return Err(Error::TooLarge(format!(
                "is longer than {} seconds",
                limits.max_duration.as_secs()
            )));
        }
        Ok(Probe {
            format: self.format.format_name.clone(),
            duration,
            video,
            audio,
            comment: self.comment(),
        })
    }

    /// Returns the comment of the file; in some containers it belongs to a stream.
    fn comment(&self) -> Option<String> {
        let of_streams = self.streams.iter().map(|stream| &stream.tags);
        let mut tags = std::iter::once(&self.format.tags).chain(of_streams);
        tags.find_map(|tags| tags.comment.clone())
    }
}

impl Stream {
    fn video(&self, whole: Option<Duration>, limits: ProbeLimits) -> Result<VideoStream> {
        let (Some(width), Some(height)) = (self.width, self.height) else {
            return Err(Error::Input("does not declare the size of its frames".to_owned()));
        };
        let size = match self.is_turned() {
            true => Dimensions::new(height, width),
            false => Dimensions::new(width, height),
        };
        if size.pixels() == 0 {
            return Err(Error::Input("has frames with a width or height of 0".to_owned()));
        }
        if size.pixels() > limits.max_pixels {
            return Err(Error::TooLarge(format!(
                "has frames of more than {} pixels",
                limits.max_pixels
            )));
        }
        let frames = self.counted()?;
        let rates = [&self.avg_frame_rate, &self.r_frame_rate];
        let rate = rates
            .into_iter()
            .flatten()
            .find_map(|rate| FrameRate::parse(rate));
        let frame_rate = rate.ok_or_else(|| Error::Input("does not declare its frame rate".to_owned()))?;
        let stated = self.duration.as_deref().and_then(seconds).or(whole);
        Ok(VideoStream {
            codec: self.codec_name.clone().unwrap_or_default(),
            size,
            frames,
            frame_rate,
            pixel_format: self.pix_fmt.clone().unwrap_or_default(),
            duration: stated.unwrap_or(frame_rate.duration(frames)),
        })
    }

    /// Returns the number of frames. Returns an error if the file has less than half of the
    /// declared frames, because it is then truncated.
    fn counted(&self) -> Result<u64> {
        let number = |text: &Option<String>| text.as_deref().and_then(|text| text.parse::<u64>().ok());
        let counted = number(&self.nb_read_packets).unwrap_or_default();
        if counted == 0 {
            return Err(Error::Input("has no frames".to_owned()));
        }
        match number(&self.nb_frames) {
            // An edit list may omit some of the declared frames.
            Some(stated) if counted < stated / 2 => Err(Error::Input(format!(
                "is truncated: it declares {stated} frames and has {counted}"
            ))),
            _ => Ok(counted),
        }
    }

    fn audio(&self, whole: Option<Duration>) -> Result<AudioStream> {
        let rate = self.sample_rate.as_deref().and_then(|rate| rate.parse().ok());
        let (Some(sample_rate), Some(channels)) = (rate, self.channels.filter(|channels| *channels > 0))
        else {
            return Err(Error::Input("has unreadable audio".to_owned()));
        };
        if self.nb_read_packets.as_deref().unwrap_or("0") == "0" {
            return Err(Error::Input("has audio without samples".to_owned()));
        }
        Ok(AudioStream {
            codec: self.codec_name.clone().unwrap_or_default(),
            sample_rate,
            channels,
            duration: self
                .duration
                .as_deref()
                .and_then(seconds)
                .or(whole)
                .unwrap_or_default(),
        })
    }

    fn is_turned(&self) -> bool {
        let turns = self.side_data_list.iter().filter_map(|data| data.rotation);
        turns
            .into_iter()
            .any(|turn| (turn.abs() % 180.0 - 90.0).abs() < 1.0)
    }
}

fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.parse().ok()?).ok()
}

#[cfg(test)]
mod tests;
