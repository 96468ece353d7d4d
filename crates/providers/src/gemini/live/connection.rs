//! One connection of a conversation.

use std::sync::Arc;

use tollgate_formats::gemini::live::{LiveCommand, LiveEvent, LiveSetup, LiveTool, parse_live};
use tollgate_upstream::{RealtimeSettings, RealtimeToolChoice, UpstreamError};

use super::super::adapter::Gemini;
use crate::http::{BaseUrl, Endpoint, HttpClient, Socket, Timeouts, Variant};

/// Version of the API if the base URL names none.
const VERSION: &str = "v1beta";

/// Opens the connections of a conversation.
pub(super) struct Connector {
    http: Arc<HttpClient>,
    endpoint: Arc<Endpoint>,
    base: BaseUrl,
    path: String,
    /// Path of the model, such as `models/gemini-3.8-live`.
    model: String,
}

/// First message of a connection, and the settings in it.
pub(super) struct Setup {
    message: String,
    settings: Option<RealtimeSettings>,
    max_output_tokens: u64,
}

impl Connector {
    pub(super) fn new(provider: &Gemini, model: &str) -> Result<Self, UpstreamError> {
        let (base, version) = split(provider.access.base());
        let path =
            format!("/ws/google.ai.generativelanguage.{version}.GenerativeService.BidiGenerateContent");
        Ok(Self {
            http: Arc::clone(&provider.http),
            endpoint: provider.access.endpoint(&base, &path)?,
            base,
            path,
            model: match model.contains('/') {
                true => model.to_owned(),
                false => format!("models/{model}"),
            },
        })
    }

    /// Opens a connection without settings.
    pub(super) async fn connect(&self, timeouts: Timeouts) -> Result<Connection, UpstreamError> {
        let variant = Variant::new(&self.base, &self.path);
        let variant = variant.map_err(|error| UpstreamError::connect(error.to_string()))?;
        let opening = self.http.open_socket(&self.endpoint, variant, timeouts);
        Ok(Connection {
            socket: opening.await?,
            applied: None,
            max_output_tokens: 0,
            open_calls: Vec::new(),
            is_in_activity: false,
            awaits_turn_end: false,
            is_ending: false,
        })
    }

    /// Opens a connection with settings.
    pub(super) async fn open(&self, setup: Setup, timeouts: Timeouts) -> Result<Connection, UpstreamError> {
        let mut connection = self.connect(timeouts).await?;
        connection.set_up(setup, timeouts).await?;
        Ok(connection)
    }

    /// Returns the first message of a connection with these settings. `None` means those of the
    /// model.
    pub(super) fn setup(
        &self,
        settings: Option<&RealtimeSettings>,
        max_output_tokens: u64,
        handle: Option<&str>,
        has_history: bool,
    ) -> Setup {
        let calls_functions = |settings: &&RealtimeSettings| settings.tool_choice != RealtimeToolChoice::None;
        let functions = settings.filter(calls_functions).map(|settings| &settings.tools);
        let tools = functions.into_iter().flatten().map(|tool| LiveTool {
            name: &tool.name,
            description: tool.description.as_deref(),
            parameters: tool.parameters.as_deref(),
        });
        let tools: Vec<LiveTool<'_>> = tools.collect();
        let setup = LiveSetup {
            model: &self.model,
            instructions: settings.map_or("", |settings| &settings.instructions),
            is_spoken: settings.is_none_or(|settings| settings.is_spoken),
            voice: settings.and_then(|settings| settings.voice.as_deref()),
            temperature: settings.and_then(|settings| settings.temperature),
            max_output_tokens,
            tools: &tools,
            handle,
            has_history,
        };
        Setup {
            message: LiveCommand::Setup(&setup).write(),
            settings: settings.cloned(),
            max_output_tokens,
        }
    }
}

/// Splits the API version from a base URL, such as `/v1beta`.
fn split(base: &BaseUrl) -> (BaseUrl, String) {
    let (parent, last) = base.clone().without_last_segment();
    let version = last.as_deref().map(|last| last.trim_start_matches('/'));
    let is_version = |version: &&str| {
        let number = version.strip_prefix('v');
        number.is_some_and(|number| number.starts_with(|first: char| first.is_ascii_digit()))
    };
    match version.filter(is_version) {
        Some(version) => (parent, version.to_owned()),
        None => (base.clone(), VERSION.to_owned()),
    }
}

/// A function call that waits for its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenCall {
    pub(super) id: String,
    pub(super) name: String,
}

/// An open connection.
pub(super) struct Connection {
    socket: Socket,
    /// Settings of the connection; `None` before its first message.
    applied: Option<Option<RealtimeSettings>>,
    /// Output limit of the connection, in tokens.
    pub(super) max_output_tokens: u64,
    /// Calls whose outputs start the next response.
    pub(super) open_calls: Vec<OpenCall>,
    /// Whether an activity of the user has started and not ended.
    pub(super) is_in_activity: bool,
    /// Whether the end of the model's last turn has not arrived.
    pub(super) awaits_turn_end: bool,
    /// Whether the server will end the connection soon.
    pub(super) is_ending: bool,
}

impl Connection {
    /// Whether the connection has no settings yet.
    pub(super) fn is_unused(&self) -> bool {
        self.applied.is_none()
    }

    /// Whether the connection has these settings, and this or a higher output limit.
    pub(super) fn suits(&self, settings: Option<&RealtimeSettings>, max_output_tokens: u64) -> bool {
        let applied = self.applied.as_ref();
        applied.is_some_and(|applied| applied.as_ref() == settings)
            && max_output_tokens <= self.max_output_tokens
    }

    /// Sends the settings and waits until the server has applied them.
    pub(super) async fn set_up(&mut self, setup: Setup, timeouts: Timeouts) -> Result<(), UpstreamError> {
        self.socket.queue(setup.message);
        let completed = async {
            while !self.receive().await?.contains(&LiveEvent::SetupComplete) {}
            Ok(())
        };
        match tokio::time::timeout(timeouts.headers, completed).await {
            Ok(completed) => completed?,
            Err(_) => return Err(UpstreamError::timeout("timed out waiting for the settings")),
        }
        self.applied = Some(setup.settings);
        self.max_output_tokens = setup.max_output_tokens;
        Ok(())
    }

    pub(super) fn queue(&mut self, command: LiveCommand<'_>) {
        self.queue_message(command.write());
    }

    pub(super) fn queue_message(&mut self, message: String) {
        self.socket.queue(message);
    }

    /// Writes all queued messages.
    pub(super) async fn flush(&mut self, timeouts: Timeouts) -> Result<(), UpstreamError> {
        self.socket.flush(timeouts.headers).await
    }

    /// Returns the events of the next message, and writes queued messages meanwhile. An error means
    /// that the connection has ended. Cancel-safe.
    pub(super) async fn receive(&mut self) -> Result<Vec<LiveEvent>, UpstreamError> {
        let message = self.socket.receive_bytes().await?;
        parse_live(&message).map_err(|error| UpstreamError::protocol(error.message))
    }
}
