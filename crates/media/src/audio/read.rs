//! Parses speech and transcription requests and checks the limits that apply to all models.

use bytes::Bytes;
use serde_json::Value;
use tollgate_edge::FormField;
use tollgate_edge::members::{Members, invalid, text};
use tollgate_types::{Error, ErrorCode};
use tollgate_upstream::{AudioFormat, Timestamps, TranscriptFormat};

/// Maximum length of `input` and of `instructions`, in characters.
const MAX_INPUT_CHARS: usize = 4_096;
/// Maximum length of a voice name or voice id, in characters.
const MAX_VOICE_CHARS: usize = 200;
/// Allowed values of `speed`, as minimum and maximum.
const SPEED_RANGE: (f64, f64) = (0.25, 4.0);
/// Maximum size of a recording, in bytes: 25 MiB.
const MAX_AUDIO_BYTES: usize = 25 << 20;
/// Maximum size of a request body, in bytes: the recording, and 1 MiB for the other form fields.
pub(super) const MAX_FORM_BYTES: usize = MAX_AUDIO_BYTES + (1 << 20);
/// Maximum length of the `prompt` of a transcription, in characters.
const MAX_PROMPT_CHARS: usize = 8_192;
/// Maximum length of a file name, in characters. Longer names lose their beginning.
const MAX_NAME_CHARS: usize = 200;

/// A parsed speech request.
#[derive(Debug, PartialEq)]
pub(super) struct Speech {
    pub(super) model: Option<String>,
    pub(super) input: String,
    pub(super) voice: String,
    pub(super) has_own_voice: bool,
    pub(super) instructions: Option<String>,
    pub(super) format: AudioFormat,
    pub(super) speed: Option<f64>,
}

/// Parses the JSON body of a speech request.
pub(super) fn speech(body: &[u8]) -> Result<Speech, Error> {
    let mut members = Members::read(body)?;
    let (voice, has_own_voice) = voice(members.take("voice"))?;
    let request = Speech {
        model: members.text("model")?,
        input: bounded(members.any_text("input")?, "input", MAX_INPUT_CHARS)?
            .ok_or_else(|| missing("input"))?,
        voice,
        has_own_voice,
        instructions: bounded(members.any_text("instructions")?, "instructions", MAX_INPUT_CHARS)?,
        format: format(members.text("response_format")?)?,
        speed: members.decimal("speed", SPEED_RANGE)?,
    };
    match members.text("stream_format")?.as_deref() {
        None | Some("audio") => {}
        Some("sse") => return Err(unsupported("stream_format")),
        Some(_) => return Err(invalid("stream_format", "must be \"audio\"")),
    }
    members.end()?;
    Ok(request)
}

/// Returns a voice name and `false`, or a custom voice id and `true`.
fn voice(value: Option<Value>) -> Result<(String, bool), Error> {
    let (path, value, is_own) = match value.ok_or_else(|| missing("voice"))? {
        Value::Object(mut object) => {
            let id = object.remove("id").ok_or_else(|| missing("voice.id"))?;
            ("voice.id", id, true)
        }
        name => ("voice", name, false),
    };
    match text(path, value)? {
        name if name.chars().count() <= MAX_VOICE_CHARS => Ok((name, is_own)),
        _ => Err(invalid(
            path,
            &format!("must have at most {MAX_VOICE_CHARS} characters"),
        )),
    }
}

fn format(name: Option<String>) -> Result<AudioFormat, Error> {
    let Some(name) = name else {
        return Ok(AudioFormat::Mp3);
    };
    let known = AudioFormat::ALL.map(AudioFormat::as_str).join(", ");
    AudioFormat::parse(&name).ok_or_else(|| invalid("response_format", &format!("must be one of: {known}")))
}

/// A parsed transcription or translation request.
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
    /// Whether the recording is translated into English.
    pub(super) translate: bool,
    /// Names of the parameters that were accepted and have no effect.
    pub(super) ignored: Vec<&'static str>,
}

/// Parses the form of a transcription, or of a translation if `translate` is true. A translation
/// accepts neither `language` nor `timestamp_granularities`.
pub(super) fn recording(fields: Vec<FormField>, translate: bool) -> Result<Recording, Error> {
    let mut form = Form::new(fields);
    let file = form.file()?;
    let format = transcript_format(form.text("response_format")?)?;
    let recording = Recording {
        model: form.text("model")?,
        filename: name_of(file.filename),
        media_type: file.content_type,
        audio: file.content,
        language: match translate {
            true => None,
            false => language(form.text("language")?)?,
        },
        prompt: bounded(form.text("prompt")?, "prompt", MAX_PROMPT_CHARS)?,
        temperature: temperature(form.text("temperature")?)?,
        format,
        timestamps: match translate {
            true => Timestamps {
                segments: format.is_timed(),
                words: false,
            },
            false => timestamps(&mut form, format)?,
        },
        translate,
        ignored: ignored(&mut form)?,
    };
    form.end()?;
    Ok(recording)
}

/// The form fields that were not read yet, and the names of the fields that were looked up.
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

    /// Removes and returns all fields with this name.
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
            (_, Some(_)) => Err(invalid(name, "may be sent only once")),
            (one, None) => Ok(one),
        }
    }

    /// Removes and returns a text field. A blank text counts as absent.
    fn text(&mut self, name: &'static str) -> Result<Option<String>, Error> {
        let Some(field) = self.one(name)? else {
            return Ok(None);
        };
        let text = String::from_utf8(field.content.into()).map_err(|_| invalid(name, "must be UTF-8"))?;
        Ok(Some(text).filter(|text| !text.trim().is_empty()))
    }

    fn file(&mut self) -> Result<FormField, Error> {
        let field = self.one("file")?.ok_or_else(|| missing("file"))?;
        if field.filename.is_none() {
            return Err(invalid("file", "must be a file with a file name"));
        }
        if field.content.is_empty() {
            return Err(invalid("file", "must not be empty"));
        }
        if field.content.len() > MAX_AUDIO_BYTES {
            let mebibytes = MAX_AUDIO_BYTES >> 20;
            let message = format!("'file' is too large. A recording may have at most {mebibytes} MiB.");
            return Err(Error::new(ErrorCode::RequestTooLarge, message).with_param("file"));
        }
        Ok(field)
    }

    /// Returns an error if the form has an unknown field.
    fn end(mut self) -> Result<(), Error> {
        let Some(unknown) = self.fields.first() else {
            return Ok(());
        };
        let shown: String = unknown.name.chars().take(60).collect();
        self.known.sort_unstable();
        let known = self.known.join(", ");
        let message = format!("Unknown parameter '{shown}'. Known parameters: {known}.");
        Err(Error::new(ErrorCode::UnknownParameter, message).with_param(shown))
    }
}

/// Returns the last path component of a file name, without control characters and limited to its
/// last [`MAX_NAME_CHARS`] characters; `audio` if nothing is left.
fn name_of(filename: Option<String>) -> String {
    let name = filename.unwrap_or_default();
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let length = last.chars().count();
    // The file extension shows the audio format, so the end of the name is retained.
    let suffix = last.chars().skip(length.saturating_sub(MAX_NAME_CHARS));
    let name: String = suffix.filter(|letter| !letter.is_control()).collect();
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
        None => Err(invalid("response_format", &format!("must be one of: {known}"))),
    }
}

fn language(name: Option<String>) -> Result<Option<String>, Error> {
    let Some(name) = name else { return Ok(None) };
    let is_code =
        (2..=16).contains(&name.len()) && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    match is_code {
        true => Ok(Some(name)),
        false => Err(invalid("language", "must be a language code such as \"en\"")),
    }
}

fn temperature(text: Option<String>) -> Result<Option<f64>, Error> {
    let Some(text) = text else { return Ok(None) };
    let number = text.trim().parse::<f64>().ok();
    let number = number.filter(|number| (0.0..=1.0).contains(number));
    number
        .map(Some)
        .ok_or_else(|| invalid("temperature", "must be a number from 0 to 1"))
}

/// Parses `timestamp_granularities`. If it is absent, response formats with timestamps have segment
/// timestamps.
fn timestamps(form: &mut Form, format: TranscriptFormat) -> Result<Timestamps, Error> {
    const NAME: &str = "timestamp_granularities";
    let mut granularities = form.all("timestamp_granularities[]");
    granularities.extend(form.all(NAME));
    if !granularities.is_empty() && format != TranscriptFormat::VerboseJson {
        return Err(invalid(NAME, "requires response_format \"verbose_json\""));
    }
    let mut timestamps = Timestamps::default();
    for field in &granularities {
        match &field.content[..] {
            b"segment" => timestamps.segments = true,
            b"word" => timestamps.words = true,
            _ => return Err(invalid(NAME, "must be \"segment\" or \"word\"")),
        }
    }
    if granularities.is_empty() {
        timestamps.segments = format.is_timed();
    }
    Ok(timestamps)
}

/// Reads OpenAI parameters that have no effect here, and returns the names to report as ignored.
/// Values that would change the response are errors.
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

/// Returns the text, or `None` if it is blank. Returns an error if it has more than `max`
/// characters.
fn bounded(text: Option<String>, path: &str, max: usize) -> Result<Option<String>, Error> {
    match text.filter(|text| !text.trim().is_empty()) {
        Some(text) if text.chars().count() > max => {
            Err(invalid(path, &format!("must have at most {max} characters")))
        }
        text => Ok(text),
    }
}

fn missing(name: &str) -> Error {
    Error::new(
        ErrorCode::MissingRequiredParameter,
        format!("'{name}' is required."),
    )
    .with_param(name)
}

fn unsupported(name: &'static str) -> Error {
    let message = format!("This value of '{name}' is not supported. Remove the parameter.");
    Error::new(ErrorCode::UnsupportedParameter, message).with_param(name)
}

#[cfg(test)]
mod tests;
