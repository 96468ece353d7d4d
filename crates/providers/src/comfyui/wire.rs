//! Response bodies of a ComfyUI server.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_upstream::{Content, GenerationOutput, GenerationState, OutputItem, UpstreamError};

use crate::http::escape;
use crate::media::Server;
use crate::refusal;

/// Output keys under which nodes list the files that they wrote.
const KINDS: [&str; 3] = ["images", "gifs", "videos"];

/// Response to the submission of a graph.
#[derive(Deserialize)]
pub(super) struct QueuedGraph {
    pub(super) prompt_id: String,
}

/// Response to the upload of a file.
#[derive(Deserialize)]
pub(super) struct Uploaded {
    name: String,
    #[serde(default)]
    subfolder: String,
}

impl Uploaded {
    /// Returns the file name as a value for a node's input.
    pub(super) fn input(&self) -> Value {
        match self.subfolder.is_empty() {
            true => json!(self.name),
            false => json!(format!("{}/{}", self.subfolder, self.name)),
        }
    }
}

/// Response of `GET /queue`. Each entry is a list that starts with a number and an id.
#[derive(Deserialize)]
pub(super) struct QueueStatus {
    queue_running: Vec<Value>,
    queue_pending: Vec<Value>,
}

impl QueueStatus {
    pub(super) fn is_running(&self, id: &str) -> bool {
        self.queue_running.iter().any(|entry| entry[1] == id)
    }

    /// Returns the number of graphs before this one, running graphs included; `None` if this graph
    /// is not waiting.
    fn queue_position(&self, id: &str) -> Option<usize> {
        let number = |entry: &Value| entry[0].as_f64().unwrap_or(f64::INFINITY);
        let own = number(self.queue_pending.iter().find(|entry| entry[1] == id)?);
        let waiting = self.queue_pending.iter().filter(|entry| number(entry) < own);
        Some(waiting.count() + self.queue_running.len())
    }

    /// Returns the state of a graph in the queue; `None` if it is not in the queue.
    pub(super) fn state(&self, id: &str) -> Option<GenerationState> {
        if self.is_running(id) {
            return Some(GenerationState::Running { percent: None });
        }
        Some(GenerationState::Waiting {
            ahead: u32::try_from(self.queue_position(id)?).ok(),
        })
    }
}

/// Response of `GET /history`: ended graphs by id.
pub(super) type History = BTreeMap<String, Entry>;

#[derive(Deserialize)]
pub(super) struct Entry {
    /// Outputs by node id.
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
    folder_type: String,
}

impl Entry {
    /// Returns the state of an ended graph. A graph that completed without output files is an
    /// error.
    pub(super) fn state(self, server: &Server) -> Result<GenerationState, UpstreamError> {
        let messages = self.status["messages"].as_array();
        let mut messages = messages.into_iter().flatten();
        if messages.any(|message| message[0] == "execution_interrupted") {
            return Ok(GenerationState::Cancelled);
        }
        if self.status["status_str"] == "error" {
            return Ok(GenerationState::Failed(refusal::from_failure(
                &json!({"error": {"code": "execution_error"}}),
            )));
        }
        let files = self.files();
        // Previews (type `temp`) count as outputs only if there are no others.
        let has_outputs = files.iter().any(|file| file.folder_type == "output");
        let files = files
            .iter()
            .filter(|file| !has_outputs || file.folder_type == "output");
        let items: Vec<OutputItem> = files
            .map(|file| OutputItem {
                content: Content::Upstream(server.path(&file.path())),
                revised_prompt: None,
            })
            .collect();
        match items.is_empty() {
            true => Err(UpstreamError::protocol("the graph completed without output")),
            false => Ok(GenerationState::Completed(GenerationOutput {
                items,
                usage: None,
            })),
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
            folder_type,
        } = self;
        let [filename, subfolder, folder_type] =
            [filename, subfolder, folder_type].map(|text| escape(text, ""));
        format!("/view?filename={filename}&subfolder={subfolder}&type={folder_type}")
    }
}
