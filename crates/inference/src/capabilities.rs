//! What a model can do, held against what a request asks for, before anything is held or sent.

use tollgate_catalog::{Modality, Model, ModelKind, StructuredOutput};
use tollgate_formats::{Media, ResponseFormatKind};
use tollgate_types::{Error, ErrorCode};

/// What a request asks for, whatever its format.
pub(crate) struct Asked {
    /// The cap on output tokens, and the field that has it.
    pub(crate) max_tokens: Option<(u64, &'static str)>,
    /// The shape of the answer, and the field that has it.
    pub(crate) response_format: (ResponseFormatKind, &'static str),
    /// Whether tools may be called.
    pub(crate) tools: bool,
    /// The field that has the conversation.
    pub(crate) conversation: &'static str,
    /// What of the conversation is not text.
    pub(crate) media: Media,
    /// Whether spoken output is asked for.
    pub(crate) audio_output: bool,
}

/// Refuses what the model cannot do: 400 for what it lacks, 422 for a number beyond its own bounds.
pub(crate) fn check(model: &Model, asked: &Asked) -> Result<(), Error> {
    if model.kind != ModelKind::Chat {
        let message =
            "This model does not generate text. Its record in GET /v1/models names the endpoints it serves.";
        return Err(Error::new(ErrorCode::UnsupportedEndpoint, message).with_param("model"));
    }
    check_output_cap(model, asked)?;
    let lacks = [
        (
            lacks_format(model, asked.response_format.0),
            asked.response_format.1,
            "does not force this shape of answer",
        ),
        (asked.tools && !model.tools, "tools", "does not call tools"),
        (
            asked.media.images > 0 && !model.takes(Modality::Image),
            asked.conversation,
            "does not take pictures",
        ),
        (
            asked.media.audio > 0 && !model.takes(Modality::Audio),
            asked.conversation,
            "does not take sound",
        ),
        (
            asked.media.files > 0 && !model.takes(Modality::File),
            asked.conversation,
            "does not take documents",
        ),
        (
            asked.audio_output && !model.output.contains(&Modality::Audio),
            "modalities",
            "does not speak",
        ),
    ];
    match lacks.into_iter().find(|(lacks, ..)| *lacks) {
        Some((_, param, what)) => {
            let message = format!(
                "The model {what}. Leave '{param}' out, or choose a model that does: GET /v1/models tells."
            );
            Err(Error::new(ErrorCode::UnsupportedParameter, message).with_param(param))
        }
        None => Ok(()),
    }
}

fn check_output_cap(model: &Model, asked: &Asked) -> Result<(), Error> {
    let (Some((cap, name)), Some(ceiling)) = (asked.max_tokens, model.output_ceiling()) else {
        return Ok(());
    };
    if cap <= ceiling {
        return Ok(());
    }
    let message = format!("'{name}' is {cap} and this model produces at most {ceiling} tokens.");
    Err(Error::new(ErrorCode::ParameterOutOfRange, message).with_param(name))
}

fn lacks_format(model: &Model, asked: ResponseFormatKind) -> bool {
    match asked {
        ResponseFormatKind::Text => false,
        ResponseFormatKind::JsonObject => model.structured_output == StructuredOutput::None,
        ResponseFormatKind::JsonSchema => model.structured_output != StructuredOutput::JsonSchema,
    }
}
