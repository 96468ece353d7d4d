//! Extracts single frames of a video as images.

use std::path::Path;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::image::{Dimensions, Encoding, Image};
use crate::probe::FORMATS;
use crate::process::Run;
use crate::scratch::Scratch;
use crate::tools::{Program, Tools};

/// Timeout of a frame extraction.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Duration of the part at the end of a video in which the last frame is searched first. If this
/// part contains no frame, or if the file is at most twice as long, the whole video is decoded.
const LAST_SECONDS: Duration = Duration::from_secs(1);
/// JPEG quality of thumbnails and contact sheets, from 1 to 100.
const QUALITY: u8 = 82;

/// ffmpeg options for uncompressed frames with three bytes per pixel.
const RAW: [&str; 8] = [
    "-an", "-sn", "-f", "image2", "-c:v", "rawvideo", "-pix_fmt", "rgb24",
];

impl Tools {
    /// Returns the last frame of a video as PNG.
    pub async fn last_frame(&self, path: &Path) -> Result<Vec<u8>> {
        self.last_image(path).await?.encode(Encoding::Png)
    }

    /// Returns the frame at a time as JPEG, or the last frame if the video is shorter. The image is
    /// at most `max_width` pixels wide.
    pub async fn thumbnail(&self, path: &Path, at: Duration, max_width: u32) -> Result<Vec<u8>> {
        let size = self.probe(path).await?.video()?.size;
        let moment = format!("{:.3}", at.as_secs_f64());
        let seek = match at.is_zero() {
            true => Vec::new(),
            false => vec!["-ss".to_owned(), moment],
        };
        let found = self.frame(path, &seek, &["-frames:v", "1"], size).await?;
        let image = match found {
            Some(image) => image,
            None => self.last_image(path).await?,
        };
        let wide = max_width.clamp(1, size.width);
        let high = u64::from(size.height) * u64::from(wide) / u64::from(size.width.max(1));
        let high = u32::try_from(high).unwrap_or(size.height).max(1);
        image
            .resized(Dimensions::new(wide, high))
            .encode(Encoding::Jpeg(QUALITY))
    }

    /// Returns the first frame of a video as JPEG, in the size of the video.
    pub async fn first_frame(&self, path: &Path) -> Result<Vec<u8>> {
        self.thumbnail(path, Duration::ZERO, u32::MAX).await
    }

    /// Returns evenly spaced frames as a grid in one JPEG. Each frame is `wide` (16 to 1024) pixels
    /// wide. The grid has 1 to 12 columns and rows.
    pub async fn contact_sheet(&self, path: &Path, columns: u32, rows: u32, wide: u32) -> Result<Vec<u8>> {
        if !(1..=12).contains(&columns) || !(1..=12).contains(&rows) || !(16..=1_024).contains(&wide) {
            return Err(Error::Input(
                "must have 1 to 12 columns and rows, and frames 16 to 1024 pixels wide".to_owned(),
            ));
        }
        let probe = self.probe(path).await?;
        let size = probe.video()?.size;
        let high = u64::from(size.height) * u64::from(wide) / u64::from(size.width.max(1));
        let high = u32::try_from(high).unwrap_or(wide).clamp(1, 4 * wide);
        let duration = probe.video()?.duration.as_secs_f64().max(0.001);
        let rate = f64::from(columns * rows) / duration;
        // Selects a frame from the middle of each interval.
        let tiles = format!("fps={rate:.6}:round=near,scale={wide}:{high},setsar=1,tile={columns}x{rows}");
        let options = ["-vf", tiles.as_str(), "-frames:v", "1"];
        let sheet = Dimensions::new(columns * wide, rows * high);
        let image = self.frame(path, &[], &options, sheet).await?;
        let image =
            image.ok_or_else(|| Error::UnexpectedOutput("the contact sheet is missing".to_owned()))?;
        image.encode(Encoding::Jpeg(QUALITY))
    }

    async fn last_image(&self, path: &Path) -> Result<Image> {
        let probe = self.probe(path).await?;
        let size = probe.video()?.size;
        // Each frame overwrites the previous one.
        let options = ["-update", "1"];
        if probe.duration > LAST_SECONDS * 2 {
            let seek = ["-sseof".to_owned(), format!("-{}", LAST_SECONDS.as_secs())];
            if let Some(image) = self.frame(path, &seek, &options, size).await? {
                return Ok(image);
            }
        }
        let image = self.frame(path, &[], &options, size).await?;
        image.ok_or_else(|| Error::Input("has no readable frame".to_owned()))
    }

    /// Returns the frame that ffmpeg writes with these options; `None` if ffmpeg writes none.
    async fn frame(
        &self,
        path: &Path,
        seek: &[String],
        options: &[&str],
        size: Dimensions,
    ) -> Result<Option<Image>> {
        let scratch = Scratch::make()?;
        let raw = scratch.file("frame");
        let run = Run::new(Program::Ffmpeg, TIMEOUT)
            .args(["-format_whitelist", FORMATS])
            .args(seek)
            .source(path)
            .args(["-map", "0:V:0"])
            .args(options)
            .args(RAW)
            .file(&raw);
        self.run(run).await?;
        match tokio::fs::read(&raw).await {
            Ok(bytes) => Image::from_rgb(size, &bytes)
                .map(Some)
                .ok_or_else(|| Error::Input("has frames that differ from the declared size".to_owned())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests;
