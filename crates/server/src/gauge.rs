//! Looks into media with the programs of the studio.

use async_trait::async_trait;
use bytes::Bytes;
use tollgate_studio::{Error, Probe, Scratch, Tools, picture};
use tollgate_upstream::{FetchError, Gauge, Measure, MediaKind};

/// What a file is called that is looked at.
const INPUT: &str = "input";

/// Looks into media with what is installed. Where nothing is, sounds and films are believed.
pub struct StudioGauge {
    tools: Tools,
}

impl StudioGauge {
    /// With these programs.
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
impl Gauge for StudioGauge {
    async fn measure(&self, kind: MediaKind, bytes: &Bytes) -> Result<Measure, FetchError> {
        if kind == MediaKind::Image {
            let size = picture::dimensions(bytes).map_err(refusal)?;
            return Ok(Measure::Picture {
                width: size.width,
                height: size.height,
            });
        }
        let Some(probe) = self.probe(bytes).await.map_err(refusal)? else {
            return Ok(Measure::Unknown);
        };
        let has_sound = probe.audio.is_some();
        match (kind, probe.video, probe.audio) {
            (MediaKind::Video, Some(film), _) => Ok(Measure::Film {
                duration: film.duration,
                has_sound,
            }),
            (MediaKind::Audio, _, Some(sound)) => Ok(Measure::Sound(sound.duration)),
            _ => Err(FetchError::WrongType),
        }
    }
}

fn refusal(error: Error) -> FetchError {
    match error {
        Error::TooLarge(_) => FetchError::TooLarge,
        error => {
            tracing::info!(%error, "what a caller sends cannot be read");
            FetchError::WrongType
        }
    }
}
