//! Query parameters and schemas that are compatible with OpenAI's video API.

use serde::{Deserialize, Serialize};
use tollgate_edge::members::invalid;
use tollgate_types::{Error, JobId};
use utoipa::{IntoParams, ToSchema};

/// Default number of videos on a page.
const DEFAULT_LIMIT: u32 = 20;
/// Maximum value of `limit`.
const MAX_LIMIT: u32 = 100;

/// A request to create a video. The parameters of `POST /v1/videos/generations` are also accepted.
#[derive(Serialize, ToSchema)]
pub struct CreateVideo {
    /// Description of the video and its audio.
    prompt: String,
    /// Id or alias of a video model. If omitted, the default video model is used.
    model: Option<String>,
    /// Duration in seconds, such as `"8"`; one of the model's `limits.durations`.
    seconds: Option<String>,
    /// Dimensions in pixels, such as `1280x720`.
    size: Option<String>,
    /// Image for the first frame: an object with `image_url`, or a file in a form.
    #[schema(value_type = Option<Object>)]
    input_reference: Option<serde_json::Value>,
}

/// A request for a new version of a video with another prompt.
#[derive(Serialize, ToSchema)]
pub struct RemixVideo {
    /// Description of the new version of the video.
    prompt: String,
}

/// A video and the status of its generation.
#[derive(Debug, Serialize, ToSchema)]
pub struct Video {
    /// Id of the video, which is also the id of its job.
    pub id: String,
    /// Always `video`.
    #[schema(value_type = String)]
    pub object: &'static str,
    /// Model, as named in the request, or the default model if the request names none.
    pub model: String,
    /// Status of the generation: `queued`, `in_progress`, `completed` or `failed`. Cancelled and
    /// expired jobs count as `failed`.
    #[schema(value_type = String)]
    pub status: &'static str,
    /// Progress in percent; 0 if it is unknown.
    pub progress: u8,
    /// Acceptance time of the request, in seconds since the Unix epoch.
    pub created_at: i64,
    /// End time of the job, in seconds since the Unix epoch; null until the job has ended.
    pub completed_at: Option<i64>,
    /// Earliest time at which the content may be deleted, in seconds since the Unix epoch; null for
    /// videos that are not completed.
    pub expires_at: Option<i64>,
    /// Dimensions in pixels, such as `1280x720`.
    pub size: String,
    /// Duration in seconds, such as `"8"`.
    pub seconds: String,
    /// Prompt that was sent to the model; null if it was empty.
    pub prompt: Option<String>,
    /// Reason why the generation failed; null for other videos.
    pub error: Option<VideoError>,
    /// Id of the original video; null if this is not a remix.
    pub remixed_from_video_id: Option<String>,
}

/// Reason why the generation of a video failed.
#[derive(Debug, Serialize, ToSchema)]
pub struct VideoError {
    /// Error code of the API, or `cancelled` or `expired` if the job ended with that status.
    pub code: String,
    /// Human-readable description of the error.
    pub message: String,
}

/// A page of the list of videos.
#[derive(Debug, Serialize, ToSchema)]
pub struct VideoList {
    /// Always `list`.
    #[schema(value_type = String)]
    pub object: &'static str,
    /// The videos on the page.
    pub data: Vec<Video>,
    /// Id of the first video on the page; null on an empty page.
    pub first_id: Option<String>,
    /// Id of the last video on the page; null on an empty page. Send it as `after` to get the next
    /// page.
    pub last_id: Option<String>,
    /// Whether more videos exist after this page.
    pub has_more: bool,
}

/// Confirmation that a video was deleted.
#[derive(Debug, Serialize, ToSchema)]
pub struct DeletedVideo {
    /// Id of the deleted video.
    pub id: String,
    /// Always `video.deleted`.
    #[schema(value_type = String)]
    pub object: &'static str,
    /// Always true after a successful deletion.
    pub deleted: bool,
}

/// Order and paging of the video list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct VideosQuery {
    /// Selects videos after the video with this id, in the order of the list.
    after: Option<String>,
    /// Number of videos on a page, 1 to 100. Defaults to 20.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
    /// Order of the list: `desc` (the default) for the newest videos first, `asc` for the oldest
    /// first.
    order: Option<String>,
}

/// Parsed form of [`VideosQuery`].
#[derive(Debug, PartialEq)]
pub(super) struct PageParams {
    pub(super) after: Option<JobId>,
    pub(super) limit: usize,
    pub(super) oldest_first: bool,
}

impl VideosQuery {
    pub(super) fn decode(self) -> Result<PageParams, Error> {
        let limit = self.limit.unwrap_or(DEFAULT_LIMIT);
        if !(1..=MAX_LIMIT).contains(&limit) {
            return Err(invalid("limit", "must be 1 to 100"));
        }
        let id = |text: String| {
            text.parse()
                .map_err(|_| invalid("after", "must be the id of a video"))
        };
        Ok(PageParams {
            after: self.after.map(id).transpose()?,
            limit: limit as usize,
            oldest_first: match self.order.as_deref() {
                None | Some("desc") => false,
                Some("asc") => true,
                Some(_) => return Err(invalid("order", "must be \"asc\" or \"desc\"")),
            },
        })
    }
}

/// Query parameters of a download.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct ContentQuery {
    /// Content to download: `video` (the default), `thumbnail` (a small JPEG of one frame) or
    /// `spritesheet` (a JPEG with 16 frames).
    variant: Option<String>,
}

/// Parsed `variant` of [`ContentQuery`].
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
                "must be \"video\", \"thumbnail\" or \"spritesheet\"",
            )),
        }
    }
}
