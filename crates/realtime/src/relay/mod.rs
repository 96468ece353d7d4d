//! Responses of voice models that a provider serves. The gateway owns the conversation, its turns
//! and their payment; the provider receives a turn only for a response whose hold is taken.
//!
//! One task per session owns the connection and executes the responses one after another.
//! `mirror` brings the provider's conversation to the state of the gateway's, `delivery` passes a
//! response on at the pace of its playback.

mod delivery;
mod mirror;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tollgate_edge::websocket::{Outbox, Turns};
use tollgate_formats::openai_realtime::{OutputModality, ToolChoice};
use tollgate_pipeline::{OpenedRealtime, Pipeline, realtime_error};
use tollgate_types::{Error, RequestId};
use tollgate_upstream::{
    CallContext, RealtimeRequest, RealtimeSettings, RealtimeTool, RealtimeToolChoice, UpstreamError,
    UpstreamErrorKind,
};

use crate::execution::{Consumption, ContextItem, Progress, Reporter, ResponseSettings};
use delivery::{Delivery, End};
use mirror::Mirror;

/// Time that the provider has for the end of a cancelled response, with its usage.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of responses that wait for the connection.
const MAX_WAITING: usize = 8;

/// Everything that a response depends on.
pub(crate) struct RelayOrder {
    pub(crate) request: RequestId,
    /// Context of the upstream work, with the permit of the hold.
    pub(crate) ctx: CallContext,
    pub(crate) context: Vec<ContextItem>,
    /// Whether the context is the whole conversation, to which the output is added.
    pub(crate) is_in_conversation: bool,
    pub(crate) settings: ResponseSettings,
    pub(crate) reporter: Reporter,
    pub(crate) consumption: Consumption,
    /// Source of the ids of new items.
    pub(crate) turns: Arc<Turns>,
    /// Queue of the client, whose backlog delays the audio.
    pub(crate) outbox: Outbox,
    /// Maximum lead of sent audio over its playback, in milliseconds; 0 for no limit.
    pub(crate) lead_ms: u64,
}

/// State of a response that the task and the session share.
#[derive(Clone, Default)]
struct Running {
    cancelled: CancellationToken,
    has_started: Arc<AtomicBool>,
}

/// A response that waits for the connection, or is executed. Dropping it cancels the response.
pub(crate) struct RelayedResponse {
    running: Running,
    ended: oneshot::Receiver<()>,
}

impl RelayedResponse {
    /// Cancels the response, and waits a few seconds for the usage that the provider reports.
    pub(crate) async fn stop(&mut self) {
        self.running.cancelled.cancel();
        if self.running.has_started.load(Ordering::SeqCst) {
            let max_wait = CANCEL_TIMEOUT + Duration::from_secs(1);
            let _ = timeout(max_wait, &mut self.ended).await;
        }
    }
}

impl Drop for RelayedResponse {
    fn drop(&mut self) {
        self.running.cancelled.cancel();
    }
}

struct Waiting {
    order: RelayOrder,
    running: Running,
    /// Dropped when the response has ended.
    _ended: oneshot::Sender<()>,
}

/// Connection of a session to a provider's model.
pub(crate) struct Relay {
    waiting: mpsc::Sender<Waiting>,
    lost: watch::Receiver<Option<UpstreamError>>,
    has_outside_responses: bool,
    _task: AbortOnDropHandle<()>,
}

impl Relay {
    /// Starts the task of a connection.
    pub(crate) fn start(pipeline: Arc<Pipeline>, opened: OpenedRealtime) -> Self {
        let (waiting, orders) = mpsc::channel(MAX_WAITING);
        let (loss, lost) = watch::channel(None);
        let has_outside_responses = opened.has_outside_responses;
        let calls = pipeline.calls.clone();
        let connection = Connection {
            pipeline,
            opened,
            mirror: Mirror::default(),
        };
        let task = calls.spawn(connection.run(orders, loss));
        Self {
            waiting,
            lost,
            has_outside_responses,
            _task: AbortOnDropHandle::new(task),
        }
    }

    /// Whether the model can respond outside the conversation.
    pub(crate) const fn has_outside_responses(&self) -> bool {
        self.has_outside_responses
    }

    /// Starts a response, which waits until the previous ones have ended.
    pub(crate) fn respond(&self, order: RelayOrder) -> RelayedResponse {
        let running = Running::default();
        let (ended, receiver) = oneshot::channel();
        // A session has fewer running responses than the channel has places, and a lost connection
        // ends the session.
        let _ = self.waiting.try_send(Waiting {
            order,
            running: running.clone(),
            _ended: ended,
        });
        RelayedResponse {
            running,
            ended: receiver,
        }
    }

    /// Waits until the connection is lost.
    pub(crate) async fn lost(&mut self) -> UpstreamError {
        let lost = self.lost.wait_for(Option::is_some).await;
        let error = lost.ok().and_then(|error| error.clone());
        error.unwrap_or_else(|| UpstreamError::protocol("the task of the connection ended"))
    }
}

struct Connection {
    pipeline: Arc<Pipeline>,
    opened: OpenedRealtime,
    mirror: Mirror,
}

impl Connection {
    /// Executes responses until the session ends or the connection is lost.
    async fn run(mut self, mut orders: mpsc::Receiver<Waiting>, loss: watch::Sender<Option<UpstreamError>>) {
        let lost = loop {
            tokio::select! {
                waiting = orders.recv() => {
                    let Some(waiting) = waiting else { return };
                    if let Err(error) = self.execute(waiting).await {
                        break error;
                    }
                }
                // Events of a response that has ended are dropped.
                event = self.opened.link.next() => if let Err(error) = event {
                    break error;
                },
            }
        };
        loss.send_replace(Some(lost));
    }

    /// Executes a response and reports its end. Returns an error if the connection is lost.
    async fn execute(&mut self, waiting: Waiting) -> Result<(), UpstreamError> {
        let Waiting {
            order,
            running,
            _ended,
        } = waiting;
        running.has_started.store(true, Ordering::SeqCst);
        if running.cancelled.is_cancelled() {
            return Ok(());
        }
        let target = self.opened.target();
        order
            .consumption
            .change(|consumed| consumed.target = Some(target));
        let ended = match self.respond(&order, &running.cancelled).await {
            Ok(End::Finished(finish)) => {
                self.pipeline.note_realtime(order.request, &self.opened, Ok(()));
                Progress::Ended(finish)
            }
            Ok(End::Cancelled) => return Ok(()),
            Ok(End::Failed(error)) => Progress::Failed(self.failed(&order, &error)),
            Err(error) => {
                let failed = Progress::Failed(self.failed(&order, &error));
                report(&order, &running.cancelled, failed).await;
                return Err(error);
            }
        };
        report(&order, &running.cancelled, ended).await;
        Ok(())
    }

    fn failed(&self, order: &RelayOrder, error: &UpstreamError) -> Error {
        self.pipeline
            .note_realtime(order.request, &self.opened, Err(error));
        realtime_error(error)
    }

    async fn respond(
        &mut self,
        order: &RelayOrder,
        cancelled: &CancellationToken,
    ) -> Result<End, UpstreamError> {
        let max_wait = order.ctx.header_timeout;
        let accepted = timeout(max_wait, self.begin(order, cancelled)).await;
        let late = || UpstreamError::timeout("a command was not accepted in time");
        match accepted.unwrap_or_else(|_| Err(late())) {
            Ok(()) => {}
            Err(error) if is_refusal(&error) => return Ok(End::Failed(error)),
            Err(error) => return Err(error),
        }
        let inspection = self.pipeline.output_inspection(order.request);
        let delivery = Delivery::new(order, cancelled, inspection, &mut self.mirror);
        delivery.run(&mut *self.opened.link).await
    }

    /// Sends settings and new items, and requests the response.
    async fn begin(
        &mut self,
        order: &RelayOrder,
        cancelled: &CancellationToken,
    ) -> Result<(), UpstreamError> {
        let is_editable = self.opened.has_editable_items;
        let link = &mut *self.opened.link;
        link.configure(&settings_of(&order.settings)).await?;
        let outside = match order.is_in_conversation {
            true => {
                for item_id in self.mirror.synchronize(link, &order.context, is_editable).await? {
                    report(order, cancelled, Progress::Uploaded { item_id }).await;
                }
                None
            }
            false => Some(self.mirror.input(&order.context)),
        };
        let request = RealtimeRequest {
            max_output_tokens: order.settings.max_tokens,
            outside,
        };
        link.respond(&order.ctx, &request).await
    }
}

/// Whether an error refuses a command, after which the connection can still be used.
const fn is_refusal(error: &UpstreamError) -> bool {
    matches!(
        error.kind,
        UpstreamErrorKind::Rejected | UpstreamErrorKind::Unsupported | UpstreamErrorKind::Simulated(_)
    )
}

/// Reports progress, unless the response is cancelled: then the session does not receive progress.
async fn report(order: &RelayOrder, cancelled: &CancellationToken, progress: Progress) {
    tokio::select! {
        biased;
        () = cancelled.cancelled() => {}
        // A session that has ended also cancels its responses.
        _ = order.reporter.report(progress) => {}
    }
}

fn settings_of(settings: &ResponseSettings) -> RealtimeSettings {
    RealtimeSettings {
        instructions: settings.instructions.clone(),
        is_spoken: settings.modality == OutputModality::Audio,
        voice: settings.voice.clone(),
        speed: settings.speed,
        tools: settings
            .tools
            .iter()
            .map(|tool| RealtimeTool {
                name: tool.name.clone(),
                description: tool.description.clone(),
                parameters: tool.parameters.clone(),
            })
            .collect(),
        tool_choice: match &settings.tool_choice {
            ToolChoice::Auto => RealtimeToolChoice::Auto,
            ToolChoice::None => RealtimeToolChoice::None,
            ToolChoice::Required => RealtimeToolChoice::Required,
            ToolChoice::Function(name) => RealtimeToolChoice::Function(name.clone()),
        },
        parallel_tool_calls: settings.parallel_tool_calls,
        temperature: settings.temperature,
    }
}
