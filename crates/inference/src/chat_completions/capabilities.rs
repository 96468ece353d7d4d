//! What a model can do, held against what a request asks for, before anything is held or sent.

use tollgate_catalog::{Modality, Model, ModelKind, StructuredOutput};
use tollgate_formats::openai_chat::{ChatHead, ResponseFormatKind};
use tollgate_types::{Error, ErrorCode};

/// Refuses what the model cannot do: 400 for what it lacks, 422 for a number beyond its own bounds.
pub(super) fn check(model: &Model, head: &ChatHead<'_>) -> Result<(), Error> {
    if model.kind != ModelKind::Chat {
        let message =
            "This model does not generate text. Its record in GET /v1/models names the endpoints it serves.";
        return Err(Error::new(ErrorCode::UnsupportedEndpoint, message).with_param("model"));
    }
    check_output_cap(model, head)?;
    let lacks = [
        (
            lacks_format(model, head),
            "response_format",
            "does not force this shape of answer",
        ),
        (head.tools > 0 && !model.tools, "tools", "does not call tools"),
        (
            head.media.images > 0 && !model.takes(Modality::Image),
            "messages",
            "does not take pictures",
        ),
        (
            head.media.audio > 0 && !model.takes(Modality::Audio),
            "messages",
            "does not take sound",
        ),
        (
            head.media.files > 0 && !model.takes(Modality::File),
            "messages",
            "does not take documents",
        ),
        (
            head.audio_output && !model.output.contains(&Modality::Audio),
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

fn check_output_cap(model: &Model, head: &ChatHead<'_>) -> Result<(), Error> {
    let (Some(asked), Some(ceiling)) = (head.max_tokens, model.output_ceiling()) else {
        return Ok(());
    };
    if asked.value <= ceiling {
        return Ok(());
    }
    let name = asked.field.as_str();
    let message = format!(
        "'{name}' is {} and this model produces at most {ceiling} tokens.",
        asked.value
    );
    Err(Error::new(ErrorCode::ParameterOutOfRange, message).with_param(name))
}

fn lacks_format(model: &Model, head: &ChatHead<'_>) -> bool {
    match head.response_format {
        ResponseFormatKind::Text => false,
        ResponseFormatKind::JsonObject => model.structured_output == StructuredOutput::None,
        ResponseFormatKind::JsonSchema => model.structured_output != StructuredOutput::JsonSchema,
    }
}
