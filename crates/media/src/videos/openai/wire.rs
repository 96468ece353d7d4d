//! Queries and answers, as OpenAI's clients know them.

use serde::{Deserialize, Serialize};
use tollgate_types::{Error, JobId};
use utoipa::{IntoParams, ToSchema};

use crate::read::invalid;

/// Films on a page when the request does not say, and at the most.
const USUAL_LIMIT: u32 = 20;
const MOST_LIMIT: u32 = 100;

/// A request for a film. Whatever `POST /v1/videos/generations` takes besides is taken here, too.
#[derive(Serialize, ToSchema)]
pub struct CreateVideo {
    /// What is to be seen and heard.
    prompt: String,
    /// Id or alias of a video model; without one the service's usual model serves.
    model: Option<String>,
    /// How long, such as `"8"`; one of the model's `limits.durations`.
    seconds: Option<String>,
    /// Pixels, such as `1280x720`.
    size: Option<String>,
    /// The first frame: `{"image_url": …}`, or in a form a file.
    #[schema(value_type = Option<Object>)]
    input_reference: Option<serde_json::Value>,
}

/// A request for the same film with another prompt.
#[derive(Serialize, ToSchema)]
pub struct RemixVideo {
    /// What is to be seen and heard this time.
    prompt: String,
}

/// A film, made or in the making.
#[derive(Debug, Serialize, ToSchema)]
pub struct Video {
    /// The id of its job.
    pub id: String,
    /// Always `video`.
    #[schema(value_type = String)]
    pub object: &'static str,
    /// The model as the request named it.
    pub model: String,
    /// `queued`, `in_progress`, `completed` or `failed`.
    #[schema(value_type = String)]
    pub status: &'static str,
    /// How much is done, in percent; 0 where nobody knows.
    pub progress: u8,
    /// When it was accepted, in seconds since the epoch.
    pub created_at: i64,
    /// When it ended.
    pub completed_at: Option<i64>,
    /// Until when its content can be had at least.
    pub expires_at: Option<i64>,
    /// Pixels, such as `1280x720`.
    pub size: String,
    /// How long it is, such as `"8"`.
    pub seconds: String,
    /// What the model was sent.
    pub prompt: Option<String>,
    /// Why it was not made.
    pub error: Option<VideoError>,
    /// The film that it is another version of.
    pub remixed_from_video_id: Option<String>,
}

/// Why a film was not made.
#[derive(Debug, Serialize, ToSchema)]
pub struct VideoError {
    /// An error code, `cancelled` or `expired`.
    pub code: String,
    /// The same in words.
    pub message: String,
}

/// A page of films.
#[derive(Debug, Serialize, ToSchema)]
pub struct VideoList {
    /// Always `list`.
    #[schema(value_type = String)]
    pub object: &'static str,
    /// The films.
    pub data: Vec<Video>,
    /// Id of the first.
    pub first_id: Option<String>,
    /// Id of the last: `after` of the next page.
    pub last_id: Option<String>,
    /// Whether there are more.
    pub has_more: bool,
}

/// A film that is gone.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeletedVideo {
    /// Its id.
    pub id: String,
    /// Always `video.deleted`.
    #[schema(value_type = String)]
    pub object: &'static str,
    /// Always true.
    pub deleted: bool,
}

/// Which films.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct VideosQuery {
    /// Behind the film with this id.
    after: Option<String>,
    /// Films on a page, 1 to 100; 20 when it is not said.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// `desc`, newest first, or `asc`.
    order: Option<String>,
}

/// Which films, read.
#[derive(Debug, PartialEq)]
pub(super) struct Wanted {
    pub(super) after: Option<JobId>,
    pub(super) limit: usize,
    pub(super) oldest_first: bool,
}

impl VideosQuery {
    pub(super) fn decode(self) -> Result<Wanted, Error> {
        let limit = self.limit.unwrap_or(USUAL_LIMIT);
        if !(1..=MOST_LIMIT).contains(&limit) {
            return Err(invalid("limit", "is 1 to 100"));
        }
        let id = |text: String| {
            text.parse()
                .map_err(|_| invalid("after", "is not the id of a film"))
        };
        Ok(Wanted {
            after: self.after.map(id).transpose()?,
            limit: limit as usize,
            oldest_first: match self.order.as_deref() {
                None | Some("desc") => false,
                Some("asc") => true,
                Some(_) => return Err(invalid("order", "is \"asc\" or \"desc\"")),
            },
        })
    }
}

/// What of a film.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct ContentQuery {
    /// `video`, the film; `thumbnail`, a small picture of it; `spritesheet`, 16 of them on one sheet.
    variant: Option<String>,
}

/// What of a film, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    Video,
    Thumbnail,
    Spritesheet,
}

impl ContentQuery {
    pub(super) fn decode(&self) -> Result<Variant, Error> {
        match self.variant.as_deref() {
            None | Some("video") => Ok(Variant::Video),
            Some("thumbnail") => Ok(Variant::Thumbnail),
            Some("spritesheet") => Ok(Variant::Spritesheet),
            Some(_) => Err(invalid(
                "variant",
                "is \"video\", \"thumbnail\" or \"spritesheet\"",
            )),
        }
    }
}
