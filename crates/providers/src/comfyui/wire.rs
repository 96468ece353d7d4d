//! What comes back.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_upstream::{Content, Made, Piece, State, UpstreamError};

use crate::http::escape;
use crate::media::Server;
use crate::refusal;

/// Under which names nodes tell of what they have written.
const KINDS: [&str; 3] = ["images", "gifs", "videos"];

/// A graph that was queued.
#[derive(Deserialize)]
pub(super) struct Queued {
    pub(super) prompt_id: String,
}

/// A file that was uploaded.
#[derive(Deserialize)]
pub(super) struct Uploaded {
    name: String,
    #[serde(default)]
    subfolder: String,
}

impl Uploaded {
    /// How a node names it.
    pub(super) fn input(&self) -> Value {
        match self.subfolder.is_empty() {
            true => json!(self.name),
            false => json!(format!("{}/{}", self.subfolder, self.name)),
        }
    }
}

/// What is queued: lists of which the first two are a number and an id.
#[derive(Deserialize)]
pub(super) struct Line {
    queue_running: Vec<Value>,
    queue_pending: Vec<Value>,
}

impl Line {
    /// Whether it is being worked on.
    pub(super) fn runs(&self, id: &str) -> bool {
        self.queue_running.iter().any(|entry| entry[1] == id)
    }

    /// How many are before it; `None` when it does not wait.
    fn before(&self, id: &str) -> Option<usize> {
        let number = |entry: &Value| entry[0].as_f64().unwrap_or(f64::INFINITY);
        let own = number(self.queue_pending.iter().find(|entry| entry[1] == id)?);
        let waiting = self.queue_pending.iter().filter(|entry| number(entry) < own);
        Some(waiting.count() + self.queue_running.len())
    }

    /// How it goes with one that is in it.
    pub(super) fn state(&self, id: &str) -> Option<State> {
        if self.runs(id) {
            return Some(State::Running { percent: None });
        }
        Some(State::Waiting {
            ahead: u32::try_from(self.before(id)?).ok(),
        })
    }
}

/// What is told of graphs that are done, by their ids.
pub(super) type History = BTreeMap<String, Entry>;

#[derive(Deserialize)]
pub(super) struct Entry {
    /// By the names of nodes.
    #[serde(default)]
    outputs: BTreeMap<String, Value>,
    #[serde(default)]
    status: Value,
}

#[derive(Deserialize)]
struct File {
    filename: String,
    #[serde(default)]
    subfolder: String,
    #[serde(rename = "type")]
    place: String,
}

impl Entry {
    /// How it went.
    pub(super) fn state(self, server: &Server) -> Result<State, UpstreamError> {
        let messages = self.status["messages"].as_array();
        let mut said = messages.into_iter().flatten();
        if said.any(|message| message[0] == "execution_interrupted") {
            return Ok(State::Cancelled);
        }
        if self.status["status_str"] == "error" {
            return Ok(State::Failed(refusal::from_failure(
                &json!({"error": {"code": "execution_error"}}),
            )));
        }
        let files = self.files();
        // What a graph shows of its work is not what it makes, unless it makes nothing else.
        let is_kept = files.iter().any(|file| file.place == "output");
        let files = files.iter().filter(|file| !is_kept || file.place == "output");
        let pieces: Vec<Piece> = files
            .map(|file| Piece {
                content: Content::Own(server.path(&file.path())),
                revised_prompt: None,
            })
            .collect();
        match pieces.is_empty() {
            true => Err(UpstreamError::protocol(
                "a graph that is done and has made nothing",
            )),
            false => Ok(State::Made(Made { pieces, usage: None })),
        }
    }

    fn files(&self) -> Vec<File> {
        let kinds = self
            .outputs
            .values()
            .flat_map(|node| KINDS.map(|kind| &node[kind]));
        let lists = kinds.filter_map(Value::as_array).flatten();
        lists.filter_map(|file| File::deserialize(file).ok()).collect()
    }
}

impl File {
    fn path(&self) -> String {
        let File {
            filename,
            subfolder,
            place,
        } = self;
        let [filename, subfolder, place] = [filename, subfolder, place].map(|text| escape(text, ""));
        format!("/view?filename={filename}&subfolder={subfolder}&type={place}")
    }
}
