//! Items of the provider's conversation, in their order there.

use std::sync::Arc;

use bytes::Bytes;
use tollgate_formats::openai_realtime::{ContentPart, ItemKind, Role};
use tollgate_upstream::{
    ItemKey, REALTIME_RATE, RealtimeInput, RealtimeItem, RealtimeLink, RealtimePlace, RealtimeRole,
    UpstreamError,
};

use crate::audio::{Resampler, pcm};
use crate::cascade::{Recording, text_of};
use crate::execution::ContextItem;

/// Items that the provider has. An item of the gateway can be several items there.
#[derive(Default)]
pub(super) struct Mirror(Vec<Mirrored>);

struct Mirrored {
    /// Id of the gateway's item; `None` for output that the client has not received.
    id: Option<Arc<str>>,
    key: ItemKey,
    /// Duration after which the provider has cut the item, in microseconds.
    cut_us: Option<u64>,
}

impl Mirror {
    /// Adds an item of the output. `id` is the id of the gateway's item; without one, the next
    /// synchronization removes it.
    pub(super) fn add_output(&mut self, id: Option<Arc<str>>, key: ItemKey) {
        self.0.push(Mirrored {
            id,
            key,
            cut_us: None,
        });
    }

    /// Forgets an item of the output, so that the next synchronization removes it at the provider.
    pub(super) fn withdraw(&mut self, id: &str) {
        for mirrored in &mut self.0 {
            if mirrored.id.as_deref() == Some(id) {
                mirrored.id = None;
            }
        }
    }

    /// Removes, cuts and adds items, so that the provider's conversation equals the context.
    /// Returns the ids of the items whose recordings the provider has received.
    pub(super) async fn synchronize(
        &mut self,
        link: &mut dyn RealtimeLink,
        context: &[ContextItem],
        is_editable: bool,
    ) -> Result<Vec<Arc<str>>, UpstreamError> {
        if is_editable {
            self.remove_missing(link, context).await?;
        }
        let mut uploaded = Vec::new();
        let mut previous = None;
        for item in context {
            let Some(id) = &item.item.id else { continue };
            if let Some(place) = self
                .0
                .iter()
                .rposition(|mirrored| mirrored.id.as_ref() == Some(id))
            {
                self.cut(link, place, item.cut_us).await?;
                previous = Some(place);
                continue;
            }
            for new in items_of(item) {
                let next = previous.map_or(0, |place| place + 1);
                let place = match previous.and_then(|place| self.0.get(place)) {
                    _ if next == self.0.len() || !is_editable => RealtimePlace::Last,
                    Some(mirrored) => RealtimePlace::After(mirrored.key),
                    None => RealtimePlace::First,
                };
                let key = link.create(place, &new).await?;
                let index = next.min(self.0.len());
                self.0.insert(
                    index,
                    Mirrored {
                        id: Some(id.clone()),
                        key,
                        cut_us: item.cut_us,
                    },
                );
                previous = Some(index);
            }
            if item.recording.is_some() {
                uploaded.push(id.clone());
            }
        }
        Ok(uploaded)
    }

    async fn remove_missing(
        &mut self,
        link: &mut dyn RealtimeLink,
        context: &[ContextItem],
    ) -> Result<(), UpstreamError> {
        let is_missing = |mirrored: &Mirrored| match &mirrored.id {
            Some(id) => !context.iter().any(|item| item.item.id.as_ref() == Some(id)),
            None => true,
        };
        while let Some(place) = self.0.iter().position(is_missing) {
            let removed = self.0.remove(place);
            link.delete(removed.key).await?;
        }
        Ok(())
    }

    async fn cut(
        &mut self,
        link: &mut dyn RealtimeLink,
        place: usize,
        cut_us: Option<u64>,
    ) -> Result<(), UpstreamError> {
        let Some(mirrored) = self.0.get_mut(place) else {
            return Ok(());
        };
        if let Some(heard_us) = cut_us.filter(|_| mirrored.cut_us != cut_us) {
            link.truncate(mirrored.key, heard_us / 1_000).await?;
            mirrored.cut_us = cut_us;
        }
        Ok(())
    }

    /// Returns the input of a response outside the conversation.
    pub(super) fn input(&self, context: &[ContextItem]) -> Vec<RealtimeInput> {
        let mut input = Vec::with_capacity(context.len());
        for item in context {
            let known = self
                .0
                .iter()
                .filter(|mirrored| mirrored.id.is_some() && mirrored.id == item.item.id);
            let before = input.len();
            input.extend(known.map(|mirrored| RealtimeInput::Reference(mirrored.key)));
            if input.len() == before {
                input.extend(items_of(item).into_iter().map(RealtimeInput::Item));
            }
        }
        input
    }
}

/// Returns the items that the provider receives for an item of the gateway.
fn items_of(context: &ContextItem) -> Vec<RealtimeItem> {
    match &context.item.kind {
        ItemKind::Message { role, content } => {
            let text = match context.recording {
                // The recording says what a transcript of it says.
                Some(_) => text_of(&written(content)),
                None => text_of(content),
            };
            let message = (!text.is_empty()).then(|| RealtimeItem::Message {
                role: match role {
                    Role::User => RealtimeRole::User,
                    Role::Assistant => RealtimeRole::Assistant,
                    Role::System => RealtimeRole::System,
                },
                text: text.into(),
            });
            let recording = context.recording.as_ref().map(samples_of);
            let recording = recording.map(RealtimeItem::Recording);
            message.into_iter().chain(recording).collect()
        }
        ItemKind::FunctionCall {
            call_id,
            name,
            arguments,
        } => vec![RealtimeItem::FunctionCall {
            call_id: call_id.clone().unwrap_or_default(),
            name: name.clone(),
            arguments: arguments.clone(),
        }],
        ItemKind::FunctionCallOutput { call_id, output } => vec![RealtimeItem::FunctionOutput {
            call_id: call_id.clone(),
            output: output.clone(),
        }],
    }
}

/// Returns the written parts of a message.
fn written(content: &[ContentPart]) -> Vec<ContentPart> {
    let is_written = |part: &&ContentPart| matches!(part, ContentPart::InputText { .. });
    content.iter().filter(is_written).cloned().collect()
}

/// Returns the samples of a recording at the rate of the connection.
fn samples_of(recording: &Recording) -> Bytes {
    let Some(mut resampler) = Resampler::new(recording.rate, REALTIME_RATE) else {
        return Bytes::new();
    };
    let mut samples = resampler.push(&recording.samples);
    samples.extend(resampler.finish());
    pcm::to_le_bytes(&samples).into()
}
