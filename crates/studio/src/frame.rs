//! Single pictures out of a film.

use std::path::Path;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::picture::{Dimensions, Encoding, Picture};
use crate::probe::FORMATS;
use crate::process::Run;
use crate::scratch::Scratch;
use crate::tools::{Program, Tools};

/// How long looking for a frame may take.
const PATIENCE: Duration = Duration::from_secs(120);
/// How much of the end is looked at for the last frame, before all of it is.
const END: Duration = Duration::from_secs(1);
/// The quality of small pictures.
const QUALITY: u8 = 82;

/// What is asked of ffmpeg for frames without loss and without an encoder: three bytes for each pixel.
const RAW: [&str; 8] = [
    "-an", "-sn", "-f", "image2", "-c:v", "rawvideo", "-pix_fmt", "rgb24",
];

impl Tools {
    /// The last frame of a film, as PNG.
    pub async fn last_frame(&self, path: &Path) -> Result<Vec<u8>> {
        self.last_picture(path).await?.encode(Encoding::Png)
    }

    /// The frame at a moment of a film, or its last one when it is over by then, as a JPEG that is at most so wide.
    pub async fn thumbnail(&self, path: &Path, at: Duration, most_wide: u32) -> Result<Vec<u8>> {
        let size = self.probe(path).await?.film()?.size;
        let moment = format!("{:.3}", at.as_secs_f64());
        let seek = match at.is_zero() {
            true => Vec::new(),
            false => vec!["-ss".to_owned(), moment],
        };
        let found = self.frame(path, &seek, &["-frames:v", "1"], size).await?;
        let picture = match found {
            Some(picture) => picture,
            None => self.last_picture(path).await?,
        };
        let wide = most_wide.clamp(1, size.width);
        let high = u64::from(size.height) * u64::from(wide) / u64::from(size.width.max(1));
        let high = u32::try_from(high).unwrap_or(size.height).max(1);
        picture
            .resized(Dimensions::new(wide, high))
            .encode(Encoding::Jpeg(QUALITY))
    }

    /// The first frame of a film, as a JPEG of its size.
    pub async fn first_frame(&self, path: &Path) -> Result<Vec<u8>> {
        self.thumbnail(path, Duration::ZERO, u32::MAX).await
    }

    /// Frames of a film at even distances, row by row in one JPEG. Each is so wide; there are 1 to 12 columns and rows.
    pub async fn contact_sheet(&self, path: &Path, columns: u32, rows: u32, wide: u32) -> Result<Vec<u8>> {
        if !(1..=12).contains(&columns) || !(1..=12).contains(&rows) || !(16..=1_024).contains(&wide) {
            return Err(Error::Input(
                "has 1 to 12 columns and rows, each 16 to 1024 wide".to_owned(),
            ));
        }
        let probe = self.probe(path).await?;
        let size = probe.film()?.size;
        let high = u64::from(size.height) * u64::from(wide) / u64::from(size.width.max(1));
        let high = u32::try_from(high).unwrap_or(wide).clamp(1, 4 * wide);
        let duration = probe.film()?.duration.as_secs_f64().max(0.001);
        let rate = f64::from(columns * rows) / duration;
        // A frame from the middle of each part.
        let tiles = format!("fps={rate:.6}:round=near,scale={wide}:{high},setsar=1,tile={columns}x{rows}");
        let options = ["-vf", tiles.as_str(), "-frames:v", "1"];
        let sheet = Dimensions::new(columns * wide, rows * high);
        let picture = self.frame(path, &[], &options, sheet).await?;
        let picture = picture.ok_or_else(|| Error::Unfit("there is no sheet".to_owned()))?;
        picture.encode(Encoding::Jpeg(QUALITY))
    }

    async fn last_picture(&self, path: &Path) -> Result<Picture> {
        let probe = self.probe(path).await?;
        let size = probe.film()?.size;
        // Each frame takes the place of the one before.
        let options = ["-update", "1"];
        if probe.duration > END * 2 {
            let seek = ["-sseof".to_owned(), format!("-{}", END.as_secs())];
            if let Some(picture) = self.frame(path, &seek, &options, size).await? {
                return Ok(picture);
            }
        }
        let picture = self.frame(path, &[], &options, size).await?;
        picture.ok_or_else(|| Error::Input("has no frame that can be read".to_owned()))
    }

    /// The frame that ffmpeg writes with these options; nothing when it writes none.
    async fn frame(
        &self,
        path: &Path,
        seek: &[String],
        options: &[&str],
        size: Dimensions,
    ) -> Result<Option<Picture>> {
        let scratch = Scratch::make()?;
        let raw = scratch.file("frame");
        let run = Run::new(Program::Ffmpeg, PATIENCE)
            .args(["-format_whitelist", FORMATS])
            .args(seek)
            .source(path)
            .args(["-map", "0:V:0"])
            .args(options)
            .args(RAW)
            .file(&raw);
        self.run(run).await?;
        match tokio::fs::read(&raw).await {
            Ok(bytes) => Picture::from_rgb(size, &bytes)
                .map(Some)
                .ok_or_else(|| Error::Input("has frames of another size than it says".to_owned())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests;
