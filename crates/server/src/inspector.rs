//! Measures media with the installed media programs.

use async_trait::async_trait;
use bytes::Bytes;
use tollgate_media_tools::{Error, Probe, Scratch, Tools, image};
use tollgate_upstream::{FetchError, MediaInspector, MediaKind, MediaProperties};

/// Name of the temporary file that is measured.
const INPUT: &str = "input";

/// [`MediaInspector`] that measures media with the installed programs. Without these programs, the
/// properties of audio and video are unknown.
pub struct StudioInspector {
    tools: Tools,
}

impl StudioInspector {
    /// Creates an inspector that uses these programs.
    pub fn new(tools: Tools) -> Self {
        Self { tools }
    }

    async fn probe(&self, bytes: &Bytes) -> Result<Option<Probe>, Error> {
        let scratch = Scratch::make()?;
        let file = scratch.file(INPUT);
        tokio::fs::write(&file, bytes).await?;
        match self.tools.probe(&file).await {
            Ok(probe) => Ok(Some(probe)),
            Err(Error::Missing(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl MediaInspector for StudioInspector {
    async fn measure(&self, kind: MediaKind, bytes: &Bytes) -> Result<MediaProperties, FetchError> {
        if kind == MediaKind::Image {
            let size = image::dimensions(bytes).map_err(refusal)?;
            return Ok(MediaProperties::Image {
                width: size.width,
                height: size.height,
            });
        }
        let Some(probe) = self.probe(bytes).await.map_err(refusal)? else {
            return Ok(MediaProperties::Unknown);
        };
        let has_audio = probe.audio.is_some();
        match (kind, probe.video, probe.audio) {
            (MediaKind::Video, Some(video), _) => Ok(MediaProperties::Video {
                duration: video.duration,
                has_audio,
            }),
            (MediaKind::Audio, _, Some(audio)) => Ok(MediaProperties::Audio(audio.duration)),
            _ => Err(FetchError::WrongType),
        }
    }
}

fn refusal(error: Error) -> FetchError {
    match error {
        Error::TooLarge(_) => FetchError::TooLarge,
        error => {
            tracing::info!(%error, "cannot read the media in a request");
            FetchError::WrongType
        }
    }
}
