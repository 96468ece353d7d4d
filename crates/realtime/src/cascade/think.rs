//! The answer of the chat model.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Map;
use tokio::sync::mpsc;
use tollgate_formats::openai_realtime::{
    ContentPart, Item, ItemKind, Role as ItemRole, ToolChoice as Choice,
};
use tollgate_pipeline::job::Settled;
use tollgate_pipeline::{AnswerChunk, Delivered, DeliveredStream};
use tollgate_types::generate::{
    FinishReason, GenerateRequest, Message, Part, ResponseFormat, Role, Sampling, Tool, ToolCall, ToolChoice,
};
use tollgate_types::stream::StreamEvent;
use tollgate_types::{Error, ErrorCode, Format, Usage};
use tollgate_upstream::{Payload, TextCall};

use super::splitter::Splitter;
use super::{Order, broken_stage, demand_of};
use crate::execution::{Consumption, Finish, Progress, Reporter, Stop};

/// A running answer.
pub(super) struct Thought {
    events: DeliveredStream,
    settled: Arc<Settled>,
    consumption: Consumption,
    finish: Finish,
}

/// Part of an answer.
enum Fragment {
    Text(String),
    CallStarted {
        index: u32,
        call_id: String,
        name: String,
    },
    CallArguments {
        index: u32,
        delta: String,
    },
}

impl Thought {
    /// Sends the context to the chat model. Returns when the answer begins.
    pub(super) async fn begin(
        order: &Order,
        items: &[Item],
        consumption: &Consumption,
    ) -> Result<Self, Error> {
        let stage = order.stage_call();
        let mut routed = stage
            .pipeline
            .route(&stage.caller, &order.stages.think)
            .map_err(|error| broken_stage("think", &error))?;
        let mut request = prompt(order, items);
        request.model = routed.public_model.to_string();
        if let Some(max) = routed.model.output_ceiling() {
            request.max_tokens = request.max_tokens.map(|cap| cap.min(max));
        }
        routed.retain_compatible(Format::ChatCompletions, &request, true, true)?;
        let bytes = size(&request);
        consumption.change(|consumed| consumed.prompt_bytes = bytes);
        let demand = demand_of(
            Usage::ZERO,
            order.settings.max_tokens,
            bytes,
            request.messages.len() as u64,
        );
        let call = TextCall {
            common: Some(Arc::new(request)),
            stream: true,
            is_read: true,
            reasons: routed.model.reasoning,
            ..TextCall::new(Format::ChatCompletions, routed.public_model.clone(), Bytes::new())
        };
        let (pipeline, settled) = stage.pipeline.executing_stage();
        let admitted = pipeline
            .admit(routed, stage.request(demand, call), |_| Vec::new())
            .await?;
        match pipeline.run(admitted.0).await?.answer {
            Delivered::Stream(events) => Ok(Self {
                events,
                settled,
                consumption: consumption.clone(),
                finish: Finish::Completed,
            }),
            Delivered::Whole { .. } => Err(Error::internal("a streamed call has a complete answer")),
        }
    }

    /// Returns the next part of the answer; `None` at its end.
    async fn next(&mut self) -> Result<Option<Fragment>, Stop> {
        while let Some(chunk) = self.events.recv().await {
            let event = match chunk {
                AnswerChunk::Event(Payload::Common(event))
                | AnswerChunk::Usage(Payload::Common(event), _) => *event,
                AnswerChunk::Ping => continue,
                AnswerChunk::End(..) => {
                    let settlement = self.settled.get();
                    self.consumption.change(|consumed| {
                        consumed.reported = settlement.as_ref().map(|settlement| settlement.usage);
                        consumed.target = settlement.map(|settlement| settlement.target);
                    });
                    return Ok(None);
                }
                AnswerChunk::Failed(error) => return Err(Stop::Failed(*error)),
                AnswerChunk::Event(_) | AnswerChunk::Usage(..) => {
                    return Err(Error::internal("an event is not in the common form").into());
                }
            };
            if let StreamEvent::Finish { reason, .. } = event {
                self.finish = finish_of(reason);
            }
            if let Some(fragment) = Fragment::of(event) {
                self.consumption
                    .change(|consumed| consumed.output_bytes += fragment.bytes());
                return Ok(Some(fragment));
            }
        }
        let message = "The model failed in the middle of the response.";
        Err(Error::new(ErrorCode::UpstreamError, message).into())
    }
}

impl Fragment {
    /// Returns the part in an event; `None` for events without content.
    fn of(event: StreamEvent) -> Option<Self> {
        match event {
            StreamEvent::Text { text, .. } | StreamEvent::Refusal { text, .. } => Some(Fragment::Text(text)),
            StreamEvent::ToolCallStart { call, id, name, .. } => Some(Fragment::CallStarted {
                index: call,
                call_id: id,
                name,
            }),
            StreamEvent::ToolCallArguments { call, arguments, .. } => Some(Fragment::CallArguments {
                index: call,
                delta: arguments,
            }),
            _ => None,
        }
    }

    fn bytes(&self) -> u64 {
        let bytes = match self {
            Fragment::Text(text) => text.len(),
            Fragment::CallStarted { name, .. } => name.len(),
            Fragment::CallArguments { delta, .. } => delta.len(),
        };
        bytes as u64
    }
}

/// Reports a written answer.
pub(super) async fn write(mut thought: Thought, reporter: &Reporter) -> Result<Finish, Stop> {
    while let Some(fragment) = thought.next().await? {
        reporter.report(progress(fragment)).await?;
    }
    Ok(thought.finish)
}

/// Splits an answer into chunks to speak. Calls of functions are reported directly.
pub(super) async fn split(
    mut thought: Thought,
    chunks: mpsc::Sender<String>,
    reporter: &Reporter,
) -> Result<Finish, Stop> {
    let mut splitter = Splitter::new();
    while let Some(fragment) = thought.next().await? {
        match fragment {
            Fragment::Text(text) => pass(&chunks, splitter.push(&text)).await,
            fragment => reporter.report(progress(fragment)).await?,
        }
    }
    pass(&chunks, splitter.finish()).await;
    Ok(thought.finish)
}

/// Passes chunks on. The receiver ends early when the audio reaches its limit.
async fn pass(chunks: &mpsc::Sender<String>, ready: Vec<String>) {
    for chunk in ready {
        if chunks.send(chunk).await.is_err() {
            return;
        }
    }
}

fn progress(fragment: Fragment) -> Progress {
    match fragment {
        Fragment::Text(text) => Progress::Text(text),
        Fragment::CallStarted { index, call_id, name } => Progress::CallStarted { index, call_id, name },
        Fragment::CallArguments { index, delta } => Progress::CallArguments { index, delta },
    }
}

const fn finish_of(reason: FinishReason) -> Finish {
    match reason {
        FinishReason::Stop | FinishReason::StopSequence | FinishReason::ToolCalls => Finish::Completed,
        FinishReason::Length | FinishReason::ContextFull => Finish::MaxTokens,
        FinishReason::ContentFilter => Finish::ContentFilter,
    }
}

/// Returns the request for the items of a conversation.
fn prompt(order: &Order, items: &[Item]) -> GenerateRequest {
    let settings = &order.settings;
    let mut messages = Vec::with_capacity(items.len() + 1);
    if !settings.instructions.is_empty() {
        messages.push(text_message(Role::System, settings.instructions.to_string()));
    }
    for item in items {
        add(item, &mut messages);
    }
    GenerateRequest {
        model: String::new(),
        messages,
        max_tokens: Some(settings.max_tokens),
        n: 1,
        stream: true,
        include_usage: true,
        stop: Vec::new(),
        sampling: Sampling {
            temperature: settings.temperature,
            ..Sampling::default()
        },
        tools: settings.tools.iter().map(tool).collect(),
        tool_choice: match &settings.tool_choice {
            Choice::Auto => ToolChoice::Auto,
            Choice::None => ToolChoice::None,
            Choice::Required => ToolChoice::Required,
            Choice::Function(name) => ToolChoice::Named(name.to_string()),
        },
        parallel_tool_calls: settings
            .parallel_tool_calls
            .filter(|_| !settings.tools.is_empty()),
        response_format: ResponseFormat::Text,
        reasoning_effort: None,
        thinking: None,
        hide_reasoning: false,
        user: None,
        top_logprobs: None,
        extra: Map::new(),
    }
}

fn tool(tool: &tollgate_formats::openai_realtime::Tool) -> Tool {
    Tool::Function {
        name: tool.name.to_string(),
        description: tool.description.as_deref().map(str::to_owned),
        parameters: tool
            .parameters
            .as_deref()
            .and_then(|schema| serde_json::from_str(schema).ok()),
        strict: None,
        cache: None,
    }
}

/// Appends the message of an item. A function call belongs to the message of the assistant before.
fn add(item: &Item, messages: &mut Vec<Message>) {
    match &item.kind {
        ItemKind::Message { role, content } => {
            let text = text_of(content);
            if text.is_empty() {
                return;
            }
            let role = match role {
                ItemRole::User => Role::User,
                ItemRole::Assistant => Role::Assistant,
                ItemRole::System => Role::System,
            };
            messages.push(text_message(role, text));
        }
        ItemKind::FunctionCall {
            call_id,
            name,
            arguments,
        } => {
            let call = ToolCall {
                id: call_id.as_deref().unwrap_or_default().to_owned(),
                name: name.to_string(),
                arguments: arguments.to_string(),
                custom: false,
            };
            match messages.last_mut().filter(|last| last.role == Role::Assistant) {
                Some(last) => last.tool_calls.push(call),
                None => messages.push(Message {
                    role: Role::Assistant,
                    tool_calls: vec![call],
                    ..Message::default()
                }),
            }
        }
        ItemKind::FunctionCallOutput { call_id, output } => messages.push(Message {
            tool_call_id: Some(call_id.to_string()),
            ..text_message(Role::Tool, output.to_string())
        }),
    }
}

fn text_message(role: Role, text: String) -> Message {
    Message {
        role,
        parts: vec![Part::Text(text)],
        ..Message::default()
    }
}

/// Returns the text of a message, with the transcripts of its audio.
pub(crate) fn text_of(content: &[ContentPart]) -> String {
    let texts = content.iter().filter_map(|part| match part {
        ContentPart::InputText { text } | ContentPart::OutputText { text } => Some(&**text),
        ContentPart::InputAudio { transcript, .. } | ContentPart::OutputAudio { transcript, .. } => {
            transcript.as_deref()
        }
        ContentPart::InputImage { .. } => None,
    });
    let texts: Vec<&str> = texts.filter(|text| !text.trim().is_empty()).collect();
    texts.join("\n")
}

/// Returns the size of a request's texts in bytes.
fn size(request: &GenerateRequest) -> u64 {
    let parts = request.messages.iter().flat_map(|message| &message.parts);
    let texts = parts.map(|part| match part {
        Part::Text(text) => text.len(),
        _ => 0,
    });
    let calls = request.messages.iter().flat_map(|message| &message.tool_calls);
    let calls = calls.map(|call| call.name.len() + call.arguments.len());
    let tools = request.tools.iter().map(|tool| match tool {
        Tool::Function {
            name,
            description,
            parameters,
            ..
        } => {
            name.len()
                + description.as_ref().map_or(0, String::len)
                + parameters.as_ref().map_or(0, |schema| schema.to_string().len())
        }
        _ => 0,
    });
    texts.chain(calls).chain(tools).sum::<usize>() as u64
}
