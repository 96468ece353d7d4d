//! Realtime conversations of the simulator. A conversation exists only in the process. The answers
//! are those of the simulated chat model, spoken by the simulated voice; recordings are transcribed
//! as by the simulated transcription model. docs/providers.md describes them.

mod conversation;
mod meter;
mod response;

use std::future::pending;

use async_trait::async_trait;
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use tollgate_media_tools::Tools;
use tollgate_types::{ErrorCode, Usage};
use tollgate_upstream::{
    CallContext, ItemKey, Permit, RealtimeCall, RealtimeEvent, RealtimeFinish, RealtimeInput, RealtimeItem,
    RealtimeLink, RealtimePlace, RealtimeProvider, RealtimeRequest, RealtimeSettings, RealtimeToolChoice,
    UpstreamError,
};

use super::{Simulator, failure};
use conversation::{Content, Conversation, Entry};
use meter::Meter;
use response::Step;

#[async_trait]
impl RealtimeProvider for Simulator {
    async fn open(
        &self,
        _ctx: &CallContext,
        _call: &RealtimeCall,
    ) -> Result<Box<dyn RealtimeLink>, UpstreamError> {
        Ok(Box::new(Link {
            tools: self.tools.clone(),
            settings: first_settings(),
            conversation: Conversation::default(),
            running: None,
            responses: 0,
            has_ended: false,
        }))
    }
}

/// Returns the settings before the first change.
fn first_settings() -> RealtimeSettings {
    RealtimeSettings {
        instructions: "".into(),
        is_spoken: true,
        voice: None,
        speed: 1.0,
        tools: Vec::new(),
        tool_choice: RealtimeToolChoice::Auto,
        parallel_tool_calls: None,
        temperature: None,
    }
}

/// A conversation and its running response.
struct Link {
    tools: Tools,
    settings: RealtimeSettings,
    conversation: Conversation,
    running: Option<Running>,
    /// Number of responses so far, a part of the ids of function calls.
    responses: u64,
    /// Whether a script has ended the connection.
    has_ended: bool,
}

/// The running response.
struct Running {
    steps: BoxStream<'static, Step>,
    meter: Meter,
    /// The item of the output that grows.
    item: Option<ItemKey>,
    /// Whether the output is outside the conversation.
    is_outside: bool,
    /// Reason to end before the next step.
    ends: Option<RealtimeFinish>,
}

impl Link {
    fn check_open(&self) -> Result<(), UpstreamError> {
        match self.has_ended {
            true => Err(UpstreamError::protocol("the simulated connection has ended")),
            false => Ok(()),
        }
    }

    /// Returns the items that a response reads, in order.
    async fn input(&mut self, request: &RealtimeRequest) -> Result<Vec<Entry>, UpstreamError> {
        let Some(inputs) = &request.outside else {
            return Ok(self.conversation.entries().to_vec());
        };
        let mut entries = Vec::with_capacity(inputs.len());
        for input in inputs {
            entries.push(match input {
                RealtimeInput::Reference(key) => self.conversation.entry(*key).ok_or_else(unknown)?.clone(),
                RealtimeInput::Item(item) => Entry::outside(Content::read(item).await?),
            });
        }
        Ok(entries)
    }
}

#[async_trait]
impl RealtimeLink for Link {
    async fn configure(&mut self, settings: &RealtimeSettings) -> Result<(), UpstreamError> {
        self.check_open()?;
        self.settings = settings.clone();
        Ok(())
    }

    async fn create(&mut self, place: RealtimePlace, item: &RealtimeItem) -> Result<ItemKey, UpstreamError> {
        self.check_open()?;
        let content = Content::read(item).await?;
        self.conversation.insert(place, content).ok_or_else(unknown)
    }

    async fn delete(&mut self, item: ItemKey) -> Result<(), UpstreamError> {
        self.check_open()?;
        self.conversation.remove(item).ok_or_else(unknown)
    }

    async fn truncate(&mut self, item: ItemKey, heard_ms: u64) -> Result<(), UpstreamError> {
        self.check_open()?;
        self.conversation.truncate(item, heard_ms).ok_or_else(unknown)
    }

    async fn respond(&mut self, ctx: &CallContext, request: &RealtimeRequest) -> Result<(), UpstreamError> {
        self.check_open()?;
        if !matches!(ctx.permit, Permit::Hold(_)) {
            return Err(UpstreamError::connect("a response needs a hold"));
        }
        if self.running.is_some() {
            let message = "The conversation has a running response.";
            return Err(failure::simulated(ErrorCode::InvalidParameter, message));
        }
        let entries = self.input(request).await?;
        self.responses += 1;
        let meter = Meter::new(
            conversation::input_usage(&self.settings, &entries),
            request.max_output_tokens,
        );
        self.conversation.set_read(&entries);
        self.running = Some(Running {
            steps: response::open(
                &self.tools,
                &self.settings,
                &entries,
                request,
                self.responses,
                ctx,
            ),
            meter,
            item: None,
            is_outside: request.outside.is_some(),
            ends: None,
        });
        Ok(())
    }

    async fn cancel(&mut self) -> Result<(), UpstreamError> {
        self.check_open()?;
        if let Some(running) = &mut self.running {
            running.ends = Some(RealtimeFinish::Cancelled);
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<RealtimeEvent, UpstreamError> {
        self.check_open()?;
        let Some(running) = &mut self.running else {
            return pending().await;
        };
        let step = match running.ends {
            Some(finish) => Step::End(finish),
            // The stream has the state of the step, so that a dropped call loses nothing.
            None => match running.steps.next().await {
                Some(step) => step,
                None => Step::Break(UpstreamError::protocol("the simulated response has no end")),
            },
        };
        match step {
            Step::Started => Ok(RealtimeEvent::Started),
            Step::Item(content) => {
                let key = match running.is_outside {
                    true => self.conversation.reserve(),
                    false => self.conversation.push_output(content),
                };
                running.item = Some(key);
                Ok(RealtimeEvent::Item(key))
            }
            Step::Output(event, tokens) => {
                let (event, is_full) = running.meter.admit(event, tokens);
                running.ends = is_full.then_some(RealtimeFinish::MaxTokens);
                let Some(event) = event else {
                    return Ok(self.end(RealtimeFinish::MaxTokens));
                };
                if let Some(item) = running.item {
                    self.conversation.grow(item, &event);
                }
                Ok(event)
            }
            Step::End(finish) => Ok(self.end(finish)),
            Step::Fail(error) => {
                self.running = None;
                Ok(RealtimeEvent::Failed(error))
            }
            Step::Break(error) => {
                self.running = None;
                self.has_ended = true;
                Err(error)
            }
        }
    }
}

impl Link {
    /// Ends the running response.
    fn end(&mut self, finish: RealtimeFinish) -> RealtimeEvent {
        let usage: Option<Usage> = self.running.take().map(|running| running.meter.usage());
        RealtimeEvent::Ended { finish, usage }
    }
}

fn unknown() -> UpstreamError {
    let message = "The conversation has no such item.";
    failure::simulated(ErrorCode::InvalidParameter, message)
}

#[cfg(test)]
mod tests;
