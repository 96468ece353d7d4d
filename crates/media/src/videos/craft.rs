//! Films, as jobs make them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::{StreamExt, stream};
use serde::{Deserialize, Serialize};
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tollgate_catalog::Factor;
use tollgate_storage::blob::BlobContent;
use tollgate_storage::{Job, StorageError, StorageErrorKind};
use tollgate_studio::{Probe, Scratch};
use tollgate_types::{Error, MediaId, Unit, Usage};
use tollgate_upstream::{Size, UpstreamError, VideoCall, VideoTask};

use super::alike::area;
use crate::input;
use crate::making::{Craft, Got, Spoilt, Studio};
use crate::order::{Kept, Order};
use crate::shelf::{Facts, KEPT, MOST_BYTES};

/// The name of the kind.
pub(crate) const KIND: &str = "video.generation";

/// Bytes that are read at once.
const PIECE: usize = 256 << 10;

/// Films.
pub(crate) struct Films;

/// What is asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Wish {
    pub(crate) task: Task,
    pub(crate) mode: Option<String>,
    pub(crate) prompt: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) negative_prompt: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) image: Option<MediaId>,
    #[serde(default)]
    pub(crate) references: Vec<MediaId>,
    /// The film that it goes on with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<MediaId>,
    /// The size of that, which the whole has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) before_size: Option<(u32, u32)>,
    /// Whether the gateway puts the new part behind that, because the provider does not.
    #[serde(default)]
    pub(crate) is_joined: bool,
    pub(crate) duration: Duration,
    pub(crate) size: (u32, u32),
    pub(crate) aspect_ratio: String,
    pub(crate) resolution: String,
    pub(crate) audio: bool,
    pub(crate) seed: Option<u64>,
    /// What a second counts for, in millionths of a plain one.
    pub(crate) each: u64,
    /// The film that it is another version of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) remixed_from: Option<String>,
}

/// [`VideoTask`], as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Task {
    FromText,
    FromImage,
    FromReferences,
    Extend,
}

impl Task {
    /// The usual name of it as a mode.
    pub(super) fn mode(self) -> &'static str {
        match self {
            Task::FromText => "t2v",
            Task::FromImage | Task::Extend => "i2v",
            Task::FromReferences => "r2v",
        }
    }

    fn asked(self) -> VideoTask {
        match self {
            Task::FromText => VideoTask::FromText,
            Task::FromImage => VideoTask::FromImage,
            Task::FromReferences => VideoTask::FromReferences,
            Task::Extend => VideoTask::Extend,
        }
    }
}

impl Wish {
    /// The call, without what goes into it.
    pub(crate) fn call(&self) -> VideoCall {
        VideoCall {
            upstream_model: Arc::from(""),
            task: self.task.asked(),
            mode: self.mode.as_deref().map(Arc::from),
            prompt: self.prompt.clone(),
            negative_prompt: self.negative_prompt.clone(),
            image: None,
            references: Vec::new(),
            video: None,
            duration: self.duration,
            size: Size {
                width: self.size.0,
                height: self.size.1,
            },
            aspect_ratio: Arc::from(self.aspect_ratio.as_str()),
            resolution: Arc::from(self.resolution.as_str()),
            audio: self.audio,
            seed: self.seed,
        }
    }

    /// The fewest pixels of what is made: it may be a little smaller than was asked for, and where the provider has put it behind
    /// another film it is no larger than that.
    fn least_area(&self) -> u64 {
        let whole = self.before_size.filter(|_| !self.is_joined).map(area);
        area(self.size).min(whole.unwrap_or(u64::MAX)) * 4 / 5
    }

    /// The most that it can consume.
    pub(super) fn most(&self) -> Usage {
        Usage::ZERO.with(Unit::Video, self.counts(self.duration))
    }

    /// What so much of the film counts for; more than was asked for is not charged.
    fn counts(&self, duration: Duration) -> u64 {
        let micros = u64::try_from(duration.min(self.duration).as_micros()).unwrap_or(u64::MAX);
        Factor::from_millionths(self.each).of(micros)
    }
}

#[async_trait]
impl Craft for Films {
    type Wish = Wish;
    type Call = VideoCall;
    const KIND: &'static str = KIND;
    const PATIENCE: Duration = Duration::from_secs(300);
    const CEILING: Duration = Duration::from_secs(7_200);

    async fn call(
        &self,
        studio: &Studio,
        job: &Job,
        order: &Order<Wish>,
        _: u32,
    ) -> Result<VideoCall, Error> {
        let wish = &order.wish;
        let mut call = wish.call();
        if let Some(id) = wish.image {
            call.image = Some(input::kept(&studio.shelf, job.account, id).await?);
        }
        for id in &wish.references {
            call.references
                .push(input::kept(&studio.shelf, job.account, *id).await?);
        }
        if let Some(id) = wish.before.filter(|_| !wish.is_joined) {
            call.video = Some(input::kept(&studio.shelf, job.account, id).await?);
        }
        Ok(call)
    }

    async fn keep(
        &self,
        studio: &Studio,
        job: &Job,
        order: &Order<Wish>,
        content: Got,
    ) -> Result<Kept, Spoilt> {
        let wish = &order.wish;
        let scratch = Scratch::make().map_err(file)?;
        let made = scratch.file("made.mp4");
        write(content, &made).await?;
        let mime_type = mime_of(&made).await?;
        let probe = look(studio, &made).await?;
        let (size, duration) = match &probe {
            Some(probe) => measured(probe)?,
            None => (wish.size, wish.duration),
        };
        if area(size) < wish.least_area() {
            return Err(Spoilt::Wrong(format!(
                "a film of {}x{}, which is too small",
                size.0, size.1
            )));
        }
        // Without the programs for films, what a provider has made of one is taken as it is.
        let before = wish.before.filter(|_| wish.is_joined || probe.is_some());
        let (place, size, whole, new) = match before {
            None => (made, size, duration, duration),
            Some(before) => {
                let first = scratch.file("before.mp4");
                let kept = input::kept(&studio.shelf, job.account, before).await;
                let kept = kept.map_err(|error| Spoilt::Wrong(error.to_string()))?;
                write(Got::Whole(kept.bytes), &first).await?;
                let new = match wish.is_joined {
                    true => None,
                    false => {
                        let (_, earlier) = measured(&studio.tools.probe(&first).await.map_err(unfit)?)?;
                        behind(duration, earlier, wish.duration)
                    }
                };
                if let Some(new) = new {
                    (made, size, duration, new)
                } else {
                    let joined = scratch.file("joined.mp4");
                    studio.tools.join(&first, &made, &joined).await.map_err(unfit)?;
                    let probe = studio.tools.probe(&joined).await.map_err(unfit)?;
                    let (size, whole) = measured(&probe)?;
                    (joined, size, whole, duration)
                }
            }
        };
        let facts = Facts {
            mime_type: mime_type.to_owned(),
            width: Some(size.0),
            height: Some(size.1),
            duration: Some(whole),
        };
        let content = read(&place).await?;
        let source = job.terms.id.as_u128();
        let kept = studio.shelf.keep(job.account, content, facts, source, KEPT).await;
        let media = kept.map_err(Spoilt::Storage)?;
        let micros = |duration: Duration| u64::try_from(duration.as_micros()).ok();
        Ok(Kept {
            media: media.id,
            mime_type: media.mime_type,
            width: size.0,
            height: size.1,
            duration: micros(whole),
            made: micros(new),
            revised_prompt: None,
        })
    }

    fn made(&self, wish: &Wish, kept: &[Kept], withheld: u32) -> Usage {
        let made = kept
            .iter()
            .filter_map(|kept| kept.made)
            .map(Duration::from_micros);
        let withheld = std::iter::repeat_n(wish.duration, withheld as usize);
        let counted = made.chain(withheld).map(|duration| wish.counts(duration));
        Usage::ZERO.with(Unit::Video, counted.fold(0, u64::saturating_add))
    }

    fn is_inline(&self, _: &Wish) -> bool {
        false
    }
}

/// What is in a film; nothing where the program that says it is not installed.
async fn look(studio: &Studio, path: &Path) -> Result<Option<Probe>, Spoilt> {
    match studio.tools.probe(path).await {
        Ok(probe) => Ok(Some(probe)),
        Err(tollgate_studio::Error::Missing(_)) => Ok(None),
        Err(error) => Err(unfit(error)),
    }
}

/// How much is new of what a provider has made that goes on with a film, if it has made both together and not the new part alone:
/// it is nearer to that length.
fn behind(made: Duration, earlier: Duration, asked: Duration) -> Option<Duration> {
    let has_both = made.abs_diff(earlier + asked) < made.abs_diff(asked);
    has_both.then(|| made.saturating_sub(earlier))
}

fn measured(probe: &Probe) -> Result<((u32, u32), Duration), Spoilt> {
    let film = probe.film().map_err(unfit)?;
    Ok(((film.size.width, film.size.height), film.duration))
}

fn unfit(error: tollgate_studio::Error) -> Spoilt {
    match error {
        tollgate_studio::Error::File(error) => file(error),
        other => Spoilt::Wrong(other.to_string()),
    }
}

fn file(error: impl std::fmt::Display) -> Spoilt {
    Spoilt::Storage(StorageError::new(
        StorageErrorKind::Unavailable,
        error.to_string(),
    ))
}

/// Writes what comes to a file.
pub(crate) async fn write(content: Got, path: &Path) -> Result<(), Spoilt> {
    let mut stream = match content {
        Got::Whole(bytes) => Box::pin(stream::once(async move { Ok(bytes) })),
        Got::Stream(stream) => stream,
    };
    let mut place = File::create(path).await.map_err(file)?;
    let mut length = 0;
    while let Some(part) = stream.next().await {
        let part = part.map_err(Spoilt::Missing)?;
        length += part.len() as u64;
        if length > MOST_BYTES {
            return Err(Spoilt::Missing(UpstreamError::protocol("a film is too large")));
        }
        place.write_all(&part).await.map_err(file)?;
    }
    place.flush().await.map_err(file)
}

/// What a film is, as its bytes begin.
async fn mime_of(path: &Path) -> Result<&'static str, Spoilt> {
    let mut head = [0; 12];
    let mut film = File::open(path).await.map_err(file)?;
    let is_long_enough = film.read_exact(&mut head).await.is_ok();
    match &head {
        [_, _, _, _, b'f', b't', b'y', b'p', ..] if is_long_enough => Ok("video/mp4"),
        [0x1a, 0x45, 0xdf, 0xa3, ..] if is_long_enough => Ok("video/webm"),
        _ => Err(Spoilt::Wrong("no film".to_owned())),
    }
}

/// A file as content.
pub(crate) async fn read(path: &Path) -> Result<BlobContent, Spoilt> {
    let film = File::open(path).await.map_err(file)?;
    Ok(Box::pin(stream::unfold(Some(film), async |film| {
        let mut film = film?;
        let mut piece = vec![0; PIECE];
        match film.read(&mut piece).await {
            Ok(0) => None,
            Ok(length) => {
                piece.truncate(length);
                Some((Ok(piece.into()), Some(film)))
            }
            Err(error) => {
                let error = StorageError::new(StorageErrorKind::Unavailable, error.to_string());
                Some((Err(error), None))
            }
        }
    })))
}
