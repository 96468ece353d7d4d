//! The requests, checked as far as the format goes.

use bytes::Bytes;
use serde_json::Value;
use tollgate_edge::FormField;
use tollgate_types::{Error, ErrorCode};
use tollgate_upstream::{SoundFormat, Timestamps, TranscriptFormat};

use crate::read::{Members, invalid, text};

/// Most characters that are spoken at once, and most of what says how.
const MOST_INPUT: usize = 4_096;
/// Most characters of a voice's name.
const MOST_VOICE: usize = 200;
/// How fast: from, to.
const SPEEDS: (f64, f64) = (0.25, 4.0);
/// The largest recording.
const MOST_AUDIO: usize = 25 << 20;
/// The same with what stands around it in its form.
pub(super) const FORM: usize = MOST_AUDIO + (1 << 20);
/// Most characters of the prompt of a transcript.
const MOST_PROMPT: usize = 8_192;
/// Most characters of a file's name; others are cut.
const MOST_NAME: usize = 200;

/// A request for speech.
#[derive(Debug, PartialEq)]
pub(super) struct Speech {
    pub(super) model: Option<String>,
    pub(super) input: String,
    pub(super) voice: String,
    pub(super) has_own_voice: bool,
    pub(super) instructions: Option<String>,
    pub(super) format: SoundFormat,
    pub(super) speed: Option<f64>,
}

/// Reads a request for speech.
pub(super) fn speech(body: &[u8]) -> Result<Speech, Error> {
    let mut members = Members::read(body)?;
    let (voice, has_own_voice) = voice(members.take("voice"))?;
    let request = Speech {
        model: members.text("model")?,
        input: bounded(members.any_text("input")?, "input", MOST_INPUT)?.ok_or_else(|| missing("input"))?,
        voice,
        has_own_voice,
        instructions: bounded(members.any_text("instructions")?, "instructions", MOST_INPUT)?,
        format: format(members.text("response_format")?)?,
        speed: members.decimal("speed", SPEEDS)?,
    };
    match members.text("stream_format")?.as_deref() {
        None | Some("audio") => {}
        Some("sse") => return Err(unsupported("stream_format")),
        Some(_) => return Err(invalid("stream_format", "is \"audio\"")),
    }
    members.end()?;
    Ok(request)
}

/// The name of a voice, or the id of one of the operator's own.
fn voice(value: Option<Value>) -> Result<(String, bool), Error> {
    let (path, value, is_own) = match value.ok_or_else(|| missing("voice"))? {
        Value::Object(mut object) => {
            let id = object.remove("id").ok_or_else(|| missing("voice.id"))?;
            ("voice.id", id, true)
        }
        name => ("voice", name, false),
    };
    match text(path, value)? {
        name if name.chars().count() <= MOST_VOICE => Ok((name, is_own)),
        _ => Err(invalid(path, &format!("has at most {MOST_VOICE} characters"))),
    }
}

fn format(name: Option<String>) -> Result<SoundFormat, Error> {
    let Some(name) = name else {
        return Ok(SoundFormat::Mp3);
    };
    let known = SoundFormat::ALL.map(SoundFormat::as_str).join(", ");
    SoundFormat::parse(&name).ok_or_else(|| invalid("response_format", &format!("is one of: {known}")))
}

/// A recording, and how it is to be written down.
#[derive(Debug, PartialEq)]
pub(super) struct Recording {
    pub(super) model: Option<String>,
    pub(super) audio: Bytes,
    pub(super) filename: String,
    pub(super) media_type: Option<String>,
    pub(super) language: Option<String>,
    pub(super) prompt: Option<String>,
    pub(super) temperature: Option<f64>,
    pub(super) format: TranscriptFormat,
    pub(super) timestamps: Timestamps,
    /// Hints that change nothing here.
    pub(super) ignored: Vec<&'static str>,
}

/// Reads the fields of a form.
pub(super) fn recording(fields: Vec<FormField>) -> Result<Recording, Error> {
    let mut form = Form::new(fields);
    let file = form.file()?;
    let format = transcript_format(form.text("response_format")?)?;
    let recording = Recording {
        model: form.text("model")?,
        filename: name_of(file.filename),
        media_type: file.content_type,
        audio: file.content,
        language: language(form.text("language")?)?,
        prompt: bounded(form.text("prompt")?, "prompt", MOST_PROMPT)?,
        temperature: temperature(form.text("temperature")?)?,
        format,
        timestamps: timestamps(&mut form, format)?,
        ignored: ignored(&mut form)?,
    };
    form.end()?;
    Ok(recording)
}

/// What of a form was not looked at yet.
struct Form {
    fields: Vec<FormField>,
    known: Vec<&'static str>,
}

impl Form {
    fn new(fields: Vec<FormField>) -> Self {
        Self {
            fields,
            known: Vec::new(),
        }
    }

    /// Every field of a name.
    fn all(&mut self, name: &'static str) -> Vec<FormField> {
        self.known.push(name);
        let (found, rest) = std::mem::take(&mut self.fields)
            .into_iter()
            .partition(|field| field.name == name);
        self.fields = rest;
        found
    }

    fn one(&mut self, name: &'static str) -> Result<Option<FormField>, Error> {
        let mut found = self.all(name).into_iter();
        match (found.next(), found.next()) {
            (_, Some(_)) => Err(invalid(name, "is there more than once")),
            (one, None) => Ok(one),
        }
    }

    /// A text; an empty one is as none.
    fn text(&mut self, name: &'static str) -> Result<Option<String>, Error> {
        let Some(field) = self.one(name)? else {
            return Ok(None);
        };
        let text = String::from_utf8(field.content.into()).map_err(|_| invalid(name, "is no UTF-8"))?;
        Ok(Some(text).filter(|text| !text.trim().is_empty()))
    }

    fn file(&mut self) -> Result<FormField, Error> {
        let field = self.one("file")?.ok_or_else(|| missing("file"))?;
        if field.filename.is_none() {
            return Err(invalid("file", "is a file: send it with its name"));
        }
        if field.content.is_empty() {
            return Err(invalid("file", "is empty"));
        }
        if field.content.len() > MOST_AUDIO {
            let mebibytes = MOST_AUDIO >> 20;
            let message = format!("'file' is larger than the {mebibytes} MiB that a recording may have.");
            return Err(Error::new(ErrorCode::RequestTooLarge, message).with_param("file"));
        }
        Ok(field)
    }

    /// Refuses what nobody has asked for.
    fn end(mut self) -> Result<(), Error> {
        let Some(unknown) = self.fields.first() else {
            return Ok(());
        };
        let shown: String = unknown.name.chars().take(60).collect();
        self.known.sort_unstable();
        let known = self.known.join(", ");
        let message = format!("'{shown}' is not a parameter of this endpoint. Its parameters are: {known}.");
        Err(Error::new(ErrorCode::UnknownParameter, message).with_param(shown))
    }
}

/// The last part of the name, without what could end a line.
fn name_of(filename: Option<String>) -> String {
    let name = filename.unwrap_or_default();
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let length = last.chars().count();
    // Its ending says what it is.
    let kept = last.chars().skip(length.saturating_sub(MOST_NAME));
    let name: String = kept.filter(|letter| !letter.is_control()).collect();
    match name.is_empty() {
        true => "audio".to_owned(),
        false => name,
    }
}

fn transcript_format(name: Option<String>) -> Result<TranscriptFormat, Error> {
    let Some(name) = name else {
        return Ok(TranscriptFormat::Json);
    };
    let known = TranscriptFormat::ALL.map(TranscriptFormat::as_str).join(", ");
    match TranscriptFormat::parse(&name) {
        Some(format) => Ok(format),
        None if name == "diarized_json" => Err(unsupported("response_format")),
        None => Err(invalid("response_format", &format!("is one of: {known}"))),
    }
}

fn language(name: Option<String>) -> Result<Option<String>, Error> {
    let Some(name) = name else { return Ok(None) };
    let is_code =
        (2..=16).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    match is_code {
        true => Ok(Some(name)),
        false => Err(invalid("language", "is a code of a language, such as \"en\"")),
    }
}

fn temperature(text: Option<String>) -> Result<Option<f64>, Error> {
    let Some(text) = text else { return Ok(None) };
    let number = text.trim().parse::<f64>().ok();
    let number = number.filter(|number| (0.0..=1.0).contains(number));
    number
        .map(Some)
        .ok_or_else(|| invalid("temperature", "is a number from 0 to 1"))
}

/// Of what times are told: of segments unless words alone are asked for.
fn timestamps(form: &mut Form, format: TranscriptFormat) -> Result<Timestamps, Error> {
    const NAME: &str = "timestamp_granularities";
    let mut asked = form.all("timestamp_granularities[]");
    asked.extend(form.all(NAME));
    if !asked.is_empty() && format != TranscriptFormat::VerboseJson {
        return Err(invalid(NAME, "needs the response_format \"verbose_json\""));
    }
    let mut timestamps = Timestamps::default();
    for field in &asked {
        match &field.content[..] {
            b"segment" => timestamps.segments = true,
            b"word" => timestamps.words = true,
            _ => return Err(invalid(NAME, "is \"segment\" or \"word\"")),
        }
    }
    if asked.is_empty() {
        timestamps.segments = format.is_timed();
    }
    Ok(timestamps)
}

/// What OpenAI's clients send besides: the usual values change nothing, others would.
fn ignored(form: &mut Form) -> Result<Vec<&'static str>, Error> {
    let mut ignored = Vec::new();
    match form.text("stream")?.as_deref() {
        None | Some("false" | "False" | "0") => {}
        Some(_) => return Err(unsupported("stream")),
    }
    match form.text("chunking_strategy")?.as_deref() {
        None => {}
        Some("auto") => ignored.push("chunking_strategy"),
        Some(_) => return Err(unsupported("chunking_strategy")),
    }
    if !form.all("include[]").is_empty() {
        return Err(unsupported("include"));
    }
    Ok(ignored)
}

/// A text that is not blank, of at most so many characters.
fn bounded(text: Option<String>, path: &str, most: usize) -> Result<Option<String>, Error> {
    match text.filter(|text| !text.trim().is_empty()) {
        Some(text) if text.chars().count() > most => {
            Err(invalid(path, &format!("has at most {most} characters")))
        }
        text => Ok(text),
    }
}

fn missing(name: &str) -> Error {
    Error::new(
        ErrorCode::MissingRequiredParameter,
        format!("'{name}' is missing."),
    )
    .with_param(name)
}

fn unsupported(name: &'static str) -> Error {
    let message = format!("'{name}' is not supported here with this value. Leave it out.");
    Error::new(ErrorCode::UnsupportedParameter, message).with_param(name)
}

#[cfg(test)]
mod tests;
