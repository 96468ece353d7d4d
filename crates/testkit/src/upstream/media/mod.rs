//! The upstream as providers of jobs: OpenAI's images and videos, stable-diffusion.cpp, fal,
//! Replicate, ComfyUI, Imagen and Veo, and the research reports of OpenAI, Perplexity and Gemini,
//! each at its own paths. Every submission is recorded, even if its response fails, so that a test
//! can check that a job was submitted exactly once. Every output is a real image or video of the
//! requested size, or the report that a test sets.

mod comfyui;
mod fal;
mod files;
mod form;
mod google;
mod openai;
mod replicate;
mod reports;
mod sdcpp;

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::delivery::{At, How};
use super::received::ReceivedRequest;
use super::reply::Reply;

pub use files::{image, video};
pub use form::FormPart;
pub(super) use form::parts;
pub use reports::CitedSentence;

/// Number of polls until a job is done, unless a test sets another number.
const USUAL_POLLS: u32 = 2;

/// The fault of the next submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaFault {
    /// The job is accepted, but no answer is sent.
    Hang,
    /// The job is accepted, but the answer is a server error.
    ServerError,
    /// The submission is refused with 429 and `retry-after: 7`.
    Busy,
    /// The submission is refused because its content is not allowed.
    Refused,
    /// The job is accepted, but the answer is truncated JSON.
    BrokenJson,
    /// The job is accepted, but the connection ends in the middle of the answer.
    Cut,
    /// The output has half the width and height.
    WrongSize,
    /// The job is unknown immediately after its submission.
    Lost,
    /// The job fails with this message.
    Fails(String),
    /// The output is blocked by the content filter.
    Blocked,
    /// The job never ends.
    Endless,
}

/// The fault of the WebSockets that report progress.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SocketFault {
    /// WebSockets report progress as usual.
    #[default]
    None,
    /// WebSocket connections are refused.
    Refused,
    /// Connections are closed before the first message.
    Closed,
    /// Messages are malformed.
    Garbage,
}

/// A submitted job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Making {
    /// The upstream's id of the job.
    pub id: String,
    /// The API of the submission: `openai`, `sdcpp`, `fal`, `replicate`, `comfyui`, `google` or
    /// `perplexity`.
    pub wire: &'static str,
    /// Whether the output is a video.
    pub is_video: bool,
    /// The requested model.
    pub model: String,
    /// The prompt of the job.
    pub prompt: String,
    /// Number of outputs.
    pub count: u32,
    /// Width and height of the output in pixels.
    pub size: (u32, u32),
    /// Length of a video in seconds.
    pub seconds: u32,
    /// The `idempotency-key` of the submission.
    pub key: Option<String>,
    /// The fault of the job; `None` for a job without a fault.
    pub fault: Option<MediaFault>,
    /// Number of status queries for the job.
    pub polls: u32,
    /// Whether a request cancelled the job.
    pub is_cancelled: bool,
}

impl Making {
    /// Returns the bytes of one output.
    pub fn output(&self, index: u32) -> Vec<u8> {
        let (width, height) = self.size;
        match self.is_video {
            true => video(width, height, self.seconds),
            false => image(width, height, index as u8),
        }
    }
}

/// The parameters of a submission.
#[derive(Debug, Default)]
struct Order {
    is_video: bool,
    model: String,
    prompt: String,
    count: u32,
    size: Option<(u32, u32)>,
    seconds: u32,
    /// Idempotency key in the body.
    key: Option<String>,
}

/// The status of a job.
enum Stage {
    Waiting,
    Running,
    Done,
    Failed(String),
    Blocked,
    Cancelled,
}

/// The state of the media APIs.
#[derive(Debug)]
pub(super) struct MediaServer {
    pub made: Vec<Making>,
    /// Number of submissions, accepted or not.
    pub submissions: u64,
    pub faults: VecDeque<MediaFault>,
    /// Number of polls until a job is done.
    pub polls: u32,
    pub socket: SocketFault,
    /// Names of uploaded files.
    uploads: Vec<String>,
    /// Sentences of research reports.
    pub cited: Vec<CitedSentence>,
}

impl MediaServer {
    pub(super) fn new() -> Self {
        Self {
            made: Vec::new(),
            submissions: 0,
            faults: VecDeque::new(),
            polls: USUAL_POLLS,
            socket: SocketFault::None,
            uploads: Vec::new(),
            cited: reports::usual(),
        }
    }

    /// Returns the reply to a request of a media API; `None` for other paths.
    pub(super) fn reply(&mut self, request: &ReceivedRequest) -> Option<Reply> {
        files::reply(self, request)
            .or_else(|| sdcpp::reply(self, request))
            .or_else(|| fal::reply(self, request))
            .or_else(|| comfyui::reply(self, request))
            .or_else(|| google::reply(self, request))
            .or_else(|| replicate::reply(self, request))
            .or_else(|| openai::reply(self, request))
            .or_else(|| reports::reply(self, request))
    }

    /// Records a submission and answers it according to its fault.
    fn submit(
        &mut self,
        wire: &'static str,
        request: &ReceivedRequest,
        order: Order,
        answer: impl FnOnce(&Making) -> Reply,
    ) -> Reply {
        self.submissions += 1;
        let fault = self.faults.pop_front();
        match fault {
            Some(MediaFault::Busy) => {
                return Reply::error(429, "rate_limit_exceeded", "slow down").header("retry-after", "7");
            }
            Some(MediaFault::Refused) => {
                return Reply::error(400, "content_policy_violation", &order.prompt);
            }
            _ => {}
        }
        let (width, height) = order.size.unwrap_or((64, 64));
        let by = if fault == Some(MediaFault::WrongSize) {
            2
        } else {
            1
        };
        let making = Making {
            id: format!("{wire}-{}", self.made.len() + 1),
            wire,
            is_video: order.is_video,
            model: order.model,
            prompt: order.prompt,
            count: order.count.max(1),
            size: (width / by, height / by),
            seconds: order.seconds,
            key: order
                .key
                .or_else(|| request.header("idempotency-key").map(str::to_owned)),
            fault: fault.clone(),
            polls: 0,
            is_cancelled: false,
        };
        let reply = answer(&making);
        self.made.push(making);
        match fault {
            Some(MediaFault::Hang) => Reply::hang(),
            Some(MediaFault::ServerError) => Reply::error(500, "server_error", "it was taken all the same"),
            Some(MediaFault::BrokenJson) => Reply::body(200, "application/json", "{\"id\": \"x"),
            Some(MediaFault::Cut) => reply.cut(At::InsideEvent(0), How::Close),
            _ => reply,
        }
    }

    /// Finds a job, unless its fault is [`MediaFault::Lost`].
    fn find(&mut self, id: &str) -> Option<&mut Making> {
        let found = self.made.iter_mut().find(|making| making.id == id)?;
        (found.fault != Some(MediaFault::Lost)).then_some(found)
    }

    /// Returns the job that was submitted with this idempotency key.
    fn with_key(&self, key: &str) -> Option<Making> {
        let mut made = self.made.iter();
        made.find(|making| making.key.as_deref() == Some(key)).cloned()
    }

    /// Counts one poll and returns the job with its status.
    fn poll(&mut self, id: &str) -> Option<(Making, Stage)> {
        let max = self.polls;
        let making = self.find(id)?;
        making.polls += 1;
        let stage = match (&making.fault, making.polls) {
            _ if making.is_cancelled => Stage::Cancelled,
            (Some(MediaFault::Endless), _) => Stage::Running,
            (_, polls) if polls <= max && polls == 1 => Stage::Waiting,
            (_, polls) if polls <= max => Stage::Running,
            (Some(MediaFault::Fails(words)), _) => Stage::Failed(words.clone()),
            (Some(MediaFault::Blocked), _) => Stage::Blocked,
            _ => Stage::Done,
        };
        Some((making.clone(), stage))
    }
}

fn as_json(status: u16, body: &Value) -> Reply {
    Reply::body(status, "application/json", body.to_string())
}

fn not_found() -> Reply {
    as_json(
        404,
        &json!({"error": {"message": "no such thing", "code": "not_found"}, "detail": "Not found"}),
    )
}

/// Returns the URL of an output at this server, under the host name that the client uses.
fn own_url(request: &ReceivedRequest, making: &Making, index: u32) -> String {
    let host = request.header("host").unwrap_or_default();
    format!("http://{host}{}", files::path(making, index))
}

/// Returns the URL of an output at this server, under another host name.
fn other_url(request: &ReceivedRequest, making: &Making, index: u32) -> String {
    let host = request.header("host").unwrap_or_default();
    let port = host.rsplit(':').next().unwrap_or_default();
    format!("http://localhost:{port}{}", files::path(making, index))
}

fn number(value: &Value) -> Option<u32> {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    u32::try_from(number).ok()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Parses `WIDTHxHEIGHT`.
fn size_of(text: &str) -> Option<(u32, u32)> {
    let (width, height) = text.split_once('x')?;
    Some((width.parse().ok()?, height.parse().ok()?))
}

/// Reads `width` and `height` of an object.
fn sides_of(value: &Value) -> Option<(u32, u32)> {
    Some((number(&value["width"])?, number(&value["height"])?))
}
