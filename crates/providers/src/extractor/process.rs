//! One extraction process.

use std::process::Stdio;

use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tollgate_upstream::page::EXTRACT_GREETING;
use tollgate_upstream::{ExtractError, ExtractedPage, PageHead};

use super::{ExtractorSettings, Fault};

/// Maximum size of a reply, in bytes. A text has at most a million characters of four bytes.
const MAX_REPLY_BYTES: usize = 16 << 20;

/// A running process. Dropping it kills it.
pub(super) struct Process {
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Process {
    /// Starts the program and checks its greeting, so that no other program receives pages.
    pub(super) async fn start(settings: &ExtractorSettings) -> Result<Self, Fault> {
        let mut command = Command::new(&settings.program);
        command.args(&settings.arguments).env_clear().current_dir("/");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let not_started =
            |cause: String| Fault::NotStarted(format!("{}: {cause}", settings.program.display()));
        let mut child = command.spawn().map_err(|error| not_started(error.to_string()))?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(not_started("its pipes are missing".to_owned()));
        };
        let mut process = Self { child, input, output };
        match process.receive(EXTRACT_GREETING.len()).await {
            Ok(greeting) if greeting == EXTRACT_GREETING.as_bytes() => Ok(process),
            Ok(_) => Err(not_started("another program or version".to_owned())),
            Err(Fault::Broken(cause) | Fault::NotStarted(cause)) => Err(not_started(cause)),
        }
    }

    /// Whether the process has not ended.
    pub(super) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends a page and returns the reply.
    pub(super) async fn exchange(
        &mut self,
        head: &PageHead,
        bytes: &Bytes,
    ) -> Result<Result<ExtractedPage, ExtractError>, Fault> {
        let head = serde_json::to_vec(head).map_err(broken)?;
        self.send(&head).await?;
        self.send(bytes).await?;
        let reply = self.receive(MAX_REPLY_BYTES).await?;
        serde_json::from_slice(&reply).map_err(broken)
    }

    async fn send(&mut self, frame: &[u8]) -> Result<(), Fault> {
        let length = u32::try_from(frame.len()).map_err(broken)?;
        self.input
            .write_all(&length.to_be_bytes())
            .await
            .map_err(broken)?;
        self.input.write_all(frame).await.map_err(broken)?;
        self.input.flush().await.map_err(broken)
    }

    /// Receives a frame of at most `max` bytes.
    async fn receive(&mut self, max: usize) -> Result<Vec<u8>, Fault> {
        let length = self.output.read_u32().await.map_err(broken)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > max {
            return Err(Fault::Broken(format!("a frame of {length} bytes")));
        }
        let mut frame = vec![0; length];
        self.output.read_exact(&mut frame).await.map_err(broken)?;
        Ok(frame)
    }
}

fn broken(cause: impl std::fmt::Display) -> Fault {
    Fault::Broken(cause.to_string())
}
