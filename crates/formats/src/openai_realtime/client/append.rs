//! Fast path for `input_audio_buffer.append`, which is nearly every event of a session.

use std::borrow::Cow;

use super::super::audio::decode_audio;
use super::event::{MAX_EVENT_ID_CHARS, refused};
use super::{ClientEvent, ParsedEvent, RefusedEvent};
use crate::error::BoxedError;
use crate::json::{Kind, Path, Reader};

const TYPE: &str = "input_audio_buffer.append";

/// Parses an event that has only `type`, `audio` and `event_id`, each of them a valid string that
/// occurs once. Returns `None` for all other texts, which the general parser reads.
pub(super) fn parse_append(text: &str) -> Option<Result<ParsedEvent, Box<RefusedEvent>>> {
    let (event_id, audio) = read(text).ok().flatten()?;
    let event_id = event_id.map(Cow::into_owned);
    Some(match decode_audio(&audio, &Path::TOP.key("audio")) {
        Ok(audio) => Ok(ParsedEvent {
            event_id,
            event: ClientEvent::AppendAudio { audio },
        }),
        Err(error) => Err(refused(event_id, *error)),
    })
}

type Fields<'a> = (Option<Cow<'a, str>>, Cow<'a, str>);

fn read(text: &str) -> Result<Option<Fields<'_>>, BoxedError> {
    const MAX_VALUES: u32 = 4;
    let mut reader = Reader::new(text.as_bytes(), MAX_VALUES)?;
    if reader.kind()? != Kind::Object {
        return Ok(None);
    }
    reader.begin_object()?;
    let (mut is_append, mut event_id, mut audio) = (false, None, None);
    while let Some(key) = reader.key()? {
        if reader.kind()? != Kind::String {
            return Ok(None);
        }
        let value = reader.string()?;
        match &*key.name {
            "type" if !is_append && value.raw == TYPE => is_append = true,
            "audio" if audio.is_none() => audio = Some(value.decoded()),
            "event_id" if event_id.is_none() && value.len <= MAX_EVENT_ID_CHARS => {
                event_id = Some(value.decoded());
            }
            _ => return Ok(None),
        }
    }
    reader.finish()?;
    Ok(match audio {
        Some(audio) if is_append => Some((event_id, audio)),
        _ => None,
    })
}
