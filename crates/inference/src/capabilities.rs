//! Checks the capabilities of a model against those that a request needs, before any hold or
//! upstream call.

use tollgate_catalog::{Modality, Model, ModelKind, StructuredOutput};
use tollgate_formats::{Media, ResponseFormatKind};
use tollgate_types::{Error, ErrorCode};

/// Capabilities that a request needs, independent of its format.
pub(crate) struct RequestedCapabilities {
    /// Maximum number of output tokens, and the field that sets it.
    pub(crate) max_tokens: Option<(u64, &'static str)>,
    /// Output format, and the field that sets it.
    pub(crate) response_format: (ResponseFormatKind, &'static str),
    /// Whether the request defines tools.
    pub(crate) tools: bool,
    /// Name of the field that holds the conversation.
    pub(crate) conversation: &'static str,
    /// Number of non-text parts of the conversation.
    pub(crate) media: Media,
    /// Whether audio output is requested.
    pub(crate) audio_output: bool,
}

/// Rejects unsupported requests: 400 for a missing capability, 422 for a number that exceeds the
/// limits of the model.
pub(crate) fn check(model: &Model, requested: &RequestedCapabilities) -> Result<(), Error> {
    if model.kind != ModelKind::Chat {
        let message = "This model does not generate text. GET /v1/models lists the endpoints of each model.";
        return Err(Error::new(ErrorCode::UnsupportedEndpoint, message).with_param("model"));
    }
    check_output_cap(model, requested)?;
    let conversation = requested.conversation;
    let lacks = [
        (
            lacks_format(model, requested.response_format.0),
            requested.response_format.1,
            "does not support this output format",
            None,
        ),
        (
            requested.tools && !model.tools,
            "tools",
            "does not call tools",
            None,
        ),
        (
            requested.media.images > 0 && !model.takes(Modality::Image),
            conversation,
            "does not accept images",
            Some("images"),
        ),
        (
            requested.media.audio > 0 && !model.takes(Modality::Audio),
            conversation,
            "does not accept audio",
            Some("audio"),
        ),
        (
            requested.media.files > 0 && !model.takes(Modality::File),
            conversation,
            "does not accept documents",
            Some("documents"),
        ),
        (
            requested.audio_output && !model.output.contains(&Modality::Audio),
            "modalities",
            "does not produce audio",
            None,
        ),
    ];
    let Some((_, param, what, media)) = lacks.into_iter().find(|(lacks, ..)| *lacks) else {
        return Ok(());
    };
    let removed = match media {
        Some(media) => format!("the {media} from '{param}'"),
        None => format!("'{param}'"),
    };
    let message =
        format!("The model {what}. Remove {removed}, or choose a model that does (see GET /v1/models).");
    Err(Error::new(ErrorCode::UnsupportedParameter, message).with_param(param))
}

fn check_output_cap(model: &Model, requested: &RequestedCapabilities) -> Result<(), Error> {
    let (Some((cap, name)), Some(ceiling)) = (requested.max_tokens, model.output_ceiling()) else {
        return Ok(());
    };
    if cap <= ceiling {
        return Ok(());
    }
    let message = format!("'{name}' is {cap}, but this model produces at most {ceiling} output tokens.");
    Err(Error::new(ErrorCode::ParameterOutOfRange, message).with_param(name))
}

fn lacks_format(model: &Model, requested: ResponseFormatKind) -> bool {
    match requested {
        ResponseFormatKind::Text => false,
        ResponseFormatKind::JsonObject => model.structured_output == StructuredOutput::None,
        ResponseFormatKind::JsonSchema => model.structured_output != StructuredOutput::JsonSchema,
    }
}
