//! Pictures, as jobs make them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};
use tollgate_storage::{Job, blob};
use tollgate_studio::picture::{self, Encoding, Picture};
use tollgate_types::{Error, MediaId, Unit, Usage};
use tollgate_upstream::{ImageCall, ImageFormat, ImageTask, Size, UpstreamError};

use crate::input;
use crate::making::{Craft, Got, Spoilt, Studio};
use crate::order::{Kept, Order};
use crate::shelf::{Facts, KEPT};

/// The name of the kind.
pub(crate) const KIND: &str = "image.generation";

/// The most bytes of a picture that a provider may send.
const MOST_BYTES: usize = 64 << 20;

/// Pictures.
pub(crate) struct Pictures;

/// What is asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Wish {
    pub(crate) task: Task,
    pub(crate) prompt: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) negative_prompt: Option<String>,
    #[serde(default)]
    pub(crate) images: Vec<MediaId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mask: Option<MediaId>,
    pub(crate) set: bool,
    pub(crate) size: Option<(u32, u32)>,
    pub(crate) aspect_ratio: Option<String>,
    pub(crate) resolution: Option<String>,
    pub(crate) quality: Option<String>,
    pub(crate) format: Option<Format>,
    pub(crate) seed: Option<u64>,
    pub(crate) inline: bool,
    /// What one picture counts for, in millionths of a plain one.
    pub(crate) each: u64,
}

/// [`ImageTask`], as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Task {
    Generate,
    Edit,
    Inpaint,
    Vary,
}

/// [`ImageFormat`], as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Format {
    Png,
    Jpeg,
    Webp,
}

impl From<ImageFormat> for Format {
    fn from(format: ImageFormat) -> Self {
        match format {
            ImageFormat::Png => Format::Png,
            ImageFormat::Jpeg => Format::Jpeg,
            ImageFormat::Webp => Format::Webp,
        }
    }
}

impl Format {
    fn asked(self) -> ImageFormat {
        match self {
            Format::Png => ImageFormat::Png,
            Format::Jpeg => ImageFormat::Jpeg,
            Format::Webp => ImageFormat::Webp,
        }
    }

    fn encoding(self) -> Encoding {
        match self {
            Format::Png => Encoding::Png,
            Format::Jpeg => Encoding::Jpeg(picture::USUAL_QUALITY),
            Format::Webp => Encoding::Webp,
        }
    }
}

impl Wish {
    /// The call, without what goes into it.
    pub(crate) fn call(&self, count: u32) -> ImageCall {
        let text = |text: &Option<String>| text.as_deref().map(Arc::from);
        ImageCall {
            upstream_model: Arc::from(""),
            task: match self.task {
                Task::Generate => ImageTask::Generate,
                Task::Edit => ImageTask::Edit,
                Task::Inpaint => ImageTask::Inpaint,
                Task::Vary => ImageTask::Vary,
            },
            prompt: self.prompt.clone(),
            negative_prompt: self.negative_prompt.clone(),
            images: Vec::new(),
            mask: None,
            count,
            set: self.set,
            size: self.size.map(|(width, height)| Size { width, height }),
            aspect_ratio: text(&self.aspect_ratio),
            resolution: text(&self.resolution),
            quality: text(&self.quality),
            format: self.format.map(Format::asked),
            seed: self.seed,
        }
    }
}

#[async_trait]
impl Craft for Pictures {
    type Wish = Wish;
    type Call = ImageCall;
    const KIND: &'static str = KIND;
    const PATIENCE: Duration = Duration::from_secs(600);
    const CEILING: Duration = Duration::from_secs(1_800);

    async fn call(
        &self,
        studio: &Studio,
        job: &Job,
        order: &Order<Wish>,
        count: u32,
    ) -> Result<ImageCall, Error> {
        let wish = &order.wish;
        let mut call = wish.call(count);
        for id in &wish.images {
            call.images
                .push(input::kept(&studio.shelf, job.account, *id).await?);
        }
        if let Some(id) = wish.mask {
            call.mask = Some(input::kept(&studio.shelf, job.account, id).await?);
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
        let bytes = all(content).await?;
        let (format, asked) = (order.wish.format, order.wish.size);
        let (bytes, facts) = tokio::task::spawn_blocking(move || finish(bytes, format, asked))
            .await
            .map_err(|error| Spoilt::Wrong(error.to_string()))??;
        let source = job.terms.id.as_u128();
        let kept = studio
            .shelf
            .keep(job.account, blob::whole(bytes), facts.clone(), source, KEPT);
        let media = kept.await.map_err(Spoilt::Storage)?;
        Ok(Kept {
            media: media.id,
            mime_type: facts.mime_type,
            width: facts.width.unwrap_or_default(),
            height: facts.height.unwrap_or_default(),
            duration: None,
            made: None,
            revised_prompt: None,
        })
    }

    fn made(&self, wish: &Wish, kept: &[Kept], withheld: u32) -> Usage {
        let pieces = kept.len() as u64 + u64::from(withheld);
        Usage::ZERO.with(Unit::Image, pieces.saturating_mul(wish.each))
    }

    fn is_inline(&self, wish: &Wish) -> bool {
        wish.inline
    }
}

async fn all(content: Got) -> Result<Bytes, Spoilt> {
    let mut stream = match content {
        Got::Whole(bytes) => return Ok(bytes),
        Got::Stream(stream) => stream,
    };
    let mut bytes = Vec::new();
    while let Some(part) = stream.next().await {
        let part = part.map_err(Spoilt::Missing)?;
        if bytes.len() + part.len() > MOST_BYTES {
            return Err(Spoilt::Missing(UpstreamError::protocol("a picture is too large")));
        }
        bytes.extend_from_slice(&part);
    }
    Ok(bytes.into())
}

/// Looks at what was made, and encodes it as it was asked for.
fn finish(bytes: Bytes, format: Option<Format>, asked: Option<(u32, u32)>) -> Result<(Bytes, Facts), Spoilt> {
    let wrong = |error: tollgate_studio::Error| Spoilt::Wrong(error.to_string());
    let size = picture::dimensions(&bytes).map_err(wrong)?;
    // A ratio that a model cannot keep to the pixel costs some rows; less than that is a smaller picture than was paid for.
    let least = asked.map_or(0, |(width, height)| u64::from(width) * u64::from(height) * 4 / 5);
    if size.pixels() < least {
        return Err(Spoilt::Wrong(format!(
            "{}x{} pixels, which is too small",
            size.width, size.height
        )));
    }
    let known = Encoding::of(&bytes).ok_or_else(|| Spoilt::Wrong("no picture".to_owned()))?;
    let (bytes, mime_type) = match format.map(Format::encoding) {
        Some(wanted) if wanted.mime_type() != known.mime_type() => {
            let picture = Picture::decode(&bytes).map_err(wrong)?;
            (
                Bytes::from(picture.encode(wanted).map_err(wrong)?),
                wanted.mime_type(),
            )
        }
        _ => (bytes, known.mime_type()),
    };
    let facts = Facts {
        mime_type: mime_type.to_owned(),
        width: Some(size.width),
        height: Some(size.height),
        duration: None,
    };
    Ok((bytes, facts))
}
