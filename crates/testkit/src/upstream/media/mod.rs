//! The upstream as makers of pictures and films: OpenAI's images and videos, stable-diffusion.cpp, fal, Replicate,
//! ComfyUI, Imagen and Veo, each by its own paths. What is submitted is written down, whatever becomes of its answer:
//! so a test can say that something was asked for once. Every piece is a real picture or film of the size that was
//! asked for.

mod comfyui;
mod fal;
mod files;
mod form;
mod google;
mod openai;
mod replicate;
mod sdcpp;

use std::collections::VecDeque;

use serde_json::{Value, json};

use super::delivery::{At, How};
use super::received::ReceivedRequest;
use super::reply::Reply;

pub use files::{film, picture};
pub use form::FormPart;
pub(super) use form::parts;

/// How often something is asked for until it is there, when a test says nothing else.
const USUAL_POLLS: u32 = 2;

/// What becomes of the next submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaFault {
    /// It is taken, and nothing is ever answered.
    Hang,
    /// It is taken, and the answer is an error of the server.
    ServerError,
    /// It is not taken: too many requests, come again in seven seconds.
    Busy,
    /// It is not taken: its content is not allowed.
    Refused,
    /// It is taken, and the answer is half of one.
    BrokenJson,
    /// It is taken, and the connection ends in the middle of the answer.
    Cut,
    /// What comes has half the width and height.
    WrongSize,
    /// It is forgotten at once.
    Lost,
    /// It fails, with these words.
    Fails(String),
    /// It is made, and withheld.
    Blocked,
    /// It is never done.
    Endless,
}

/// What is wrong with sockets that tell how far something is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SocketFault {
    /// Nothing.
    #[default]
    None,
    /// There are none.
    Refused,
    /// They are closed before anything is told.
    Closed,
    /// What comes cannot be read.
    Garbage,
}

/// Something that was submitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Making {
    /// How the upstream calls it.
    pub id: String,
    /// Who made it: `openai`, `sdcpp`, `fal`, `replicate`, `comfyui` or `google`.
    pub wire: &'static str,
    /// Whether it is a film.
    pub is_film: bool,
    /// The model that was asked for.
    pub model: String,
    /// What is to be seen.
    pub prompt: String,
    /// How many.
    pub count: u32,
    /// Width and height of what comes.
    pub size: (u32, u32),
    /// The length of a film, in seconds.
    pub seconds: u32,
    /// The key under which it was submitted.
    pub key: Option<String>,
    /// What is wrong with it.
    pub fault: Option<MediaFault>,
    /// How often it was asked for.
    pub polls: u32,
    /// Whether it was cancelled.
    pub is_cancelled: bool,
}

impl Making {
    /// The bytes of one of its pieces.
    pub fn piece(&self, index: u32) -> Vec<u8> {
        let (width, height) = self.size;
        match self.is_film {
            true => film(width, height, self.seconds),
            false => picture(width, height, index as u8),
        }
    }
}

/// What a request asks for.
#[derive(Debug, Default)]
struct Order {
    is_film: bool,
    model: String,
    prompt: String,
    count: u32,
    size: Option<(u32, u32)>,
    seconds: u32,
}

/// How it goes with something.
enum Stage {
    Waiting,
    Running,
    Done,
    Failed(String),
    Blocked,
    Cancelled,
}

/// The makers' books.
#[derive(Debug)]
pub(super) struct Makers {
    pub made: Vec<Making>,
    /// How many submissions came, taken or not.
    pub submissions: u64,
    pub faults: VecDeque<MediaFault>,
    /// How often something is asked for until it is there.
    pub polls: u32,
    pub socket: SocketFault,
    /// Names of files that were uploaded.
    uploads: Vec<String>,
}

impl Makers {
    pub(super) fn new() -> Self {
        Self {
            made: Vec::new(),
            submissions: 0,
            faults: VecDeque::new(),
            polls: USUAL_POLLS,
            socket: SocketFault::None,
            uploads: Vec::new(),
        }
    }

    /// The reply to a request that is for one of them.
    pub(super) fn reply(&mut self, request: &ReceivedRequest) -> Option<Reply> {
        files::reply(self, request)
            .or_else(|| sdcpp::reply(self, request))
            .or_else(|| fal::reply(self, request))
            .or_else(|| comfyui::reply(self, request))
            .or_else(|| google::reply(self, request))
            .or_else(|| replicate::reply(self, request))
            .or_else(|| openai::reply(self, request))
    }

    /// Writes a submission down and answers it, in the way of its fault.
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
            is_film: order.is_film,
            model: order.model,
            prompt: order.prompt,
            count: order.count.max(1),
            size: (width / by, height / by),
            seconds: order.seconds,
            key: request.header("idempotency-key").map(str::to_owned),
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

    /// Something that was submitted, unless it was forgotten.
    fn find(&mut self, id: &str) -> Option<&mut Making> {
        let found = self.made.iter_mut().find(|making| making.id == id)?;
        (found.fault != Some(MediaFault::Lost)).then_some(found)
    }

    /// How it goes with something that is asked for once more.
    fn poll(&mut self, id: &str) -> Option<(Making, Stage)> {
        let most = self.polls;
        let making = self.find(id)?;
        making.polls += 1;
        let stage = match (&making.fault, making.polls) {
            _ if making.is_cancelled => Stage::Cancelled,
            (Some(MediaFault::Endless), _) => Stage::Running,
            (_, polls) if polls <= most && polls == 1 => Stage::Waiting,
            (_, polls) if polls <= most => Stage::Running,
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

/// The address of a piece at this server, as the client calls it.
fn own_url(request: &ReceivedRequest, making: &Making, index: u32) -> String {
    let host = request.header("host").unwrap_or_default();
    format!("http://{host}{}", files::path(making, index))
}

/// The address of a piece at a server that is another one to whoever compares names.
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

/// `WIDTHxHEIGHT`.
fn size_of(text: &str) -> Option<(u32, u32)> {
    let (width, height) = text.split_once('x')?;
    Some((width.parse().ok()?, height.parse().ok()?))
}

/// `width` and `height` of an object.
fn sides_of(value: &Value) -> Option<(u32, u32)> {
    Some((number(&value["width"])?, number(&value["height"])?))
}
