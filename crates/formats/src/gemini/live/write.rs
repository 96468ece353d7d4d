//! Writing of the client's messages.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::Value;
use tollgate_types::generate::ToolCall;

use super::super::{encode, wire};
use super::{LiveCommand, LiveOutput, LiveSetup, LiveTurn};

/// Media type of the user's speech.
const AUDIO_TYPE: &str = "audio/pcm;rate=24000";

impl LiveCommand<'_> {
    /// Returns the text of the message.
    pub fn write(&self) -> String {
        let message = match self {
            LiveCommand::Setup(settings) => Message::Setup(Box::new(setup(settings))),
            LiveCommand::Content { turns, is_complete } => Message::ClientContent {
                turns: contents(turns),
                turn_complete: *is_complete,
            },
            LiveCommand::ActivityStart => Message::RealtimeInput(RealtimeInput::ActivityStart {}),
            LiveCommand::Audio(samples) => Message::RealtimeInput(RealtimeInput::Audio {
                mime_type: AUDIO_TYPE,
                data: STANDARD.encode(samples),
            }),
            LiveCommand::Text(text) => Message::RealtimeInput(RealtimeInput::Text(text)),
            LiveCommand::ActivityEnd => Message::RealtimeInput(RealtimeInput::ActivityEnd {}),
            LiveCommand::Outputs(outputs) => Message::ToolResponse {
                function_responses: outputs.iter().map(response).collect(),
            },
        };
        String::from_utf8(wire::to_bytes(&message)).unwrap_or_default()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Message<'a> {
    Setup(Box<Setup<'a>>),
    ClientContent {
        turns: Vec<wire::Content>,
        turn_complete: bool,
    },
    RealtimeInput(RealtimeInput<'a>),
    ToolResponse {
        function_responses: Vec<wire::FunctionResponse>,
    },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
enum RealtimeInput<'a> {
    ActivityStart {},
    Audio { mime_type: &'static str, data: String },
    Text(&'a str),
    ActivityEnd {},
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Setup<'a> {
    model: &'a str,
    generation_config: GenerationConfig<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<wire::Content>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<wire::Tool>,
    realtime_input_config: RealtimeInputConfig,
    input_audio_transcription: Enabled,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_audio_transcription: Option<Enabled>,
    session_resumption: SessionResumption<'a>,
    context_window_compression: ContextWindowCompression,
    #[serde(skip_serializing_if = "Option::is_none")]
    history_config: Option<HistoryConfig>,
}

/// Object without members, which enables a feature.
#[derive(Serialize)]
struct Enabled {}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig<'a> {
    response_modalities: [&'static str; 1],
    max_output_tokens: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    speech_config: Option<SpeechConfig<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SpeechConfig<'a> {
    voice_config: VoiceConfig<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct VoiceConfig<'a> {
    prebuilt_voice_config: PrebuiltVoiceConfig<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PrebuiltVoiceConfig<'a> {
    voice_name: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RealtimeInputConfig {
    automatic_activity_detection: AutomaticActivityDetection,
}

#[derive(Serialize)]
struct AutomaticActivityDetection {
    disabled: bool,
}

#[derive(Serialize)]
struct SessionResumption<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ContextWindowCompression {
    sliding_window: Enabled,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HistoryConfig {
    initial_history_in_client_content: bool,
}

fn setup<'a>(settings: &LiveSetup<'a>) -> Setup<'a> {
    let voice = settings.voice.filter(|_| settings.is_spoken);
    let instructions = (!settings.instructions.is_empty()).then(|| wire::Content {
        role: None,
        parts: vec![wire::Part::text(settings.instructions)],
    });
    Setup {
        model: settings.model,
        generation_config: GenerationConfig {
            response_modalities: [if settings.is_spoken { "AUDIO" } else { "TEXT" }],
            max_output_tokens: settings.max_output_tokens,
            temperature: settings.temperature,
            speech_config: voice.map(|voice_name| SpeechConfig {
                voice_config: VoiceConfig {
                    prebuilt_voice_config: PrebuiltVoiceConfig { voice_name },
                },
            }),
        },
        system_instruction: instructions,
        tools: tools(settings),
        realtime_input_config: RealtimeInputConfig {
            automatic_activity_detection: AutomaticActivityDetection { disabled: true },
        },
        input_audio_transcription: Enabled {},
        output_audio_transcription: settings.is_spoken.then_some(Enabled {}),
        session_resumption: SessionResumption {
            handle: settings.handle,
        },
        // Without it, the server ends the conversation when its context is full.
        context_window_compression: ContextWindowCompression {
            sliding_window: Enabled {},
        },
        history_config: settings.has_history.then_some(HistoryConfig {
            initial_history_in_client_content: true,
        }),
    }
}

fn tools(settings: &LiveSetup<'_>) -> Vec<wire::Tool> {
    let declarations = settings.tools.iter().map(|tool| wire::FunctionDeclaration {
        name: tool.name.to_owned(),
        description: tool.description.map(str::to_owned),
        parameters: None,
        parameters_json_schema: tool
            .parameters
            .and_then(|schema| serde_json::from_str::<Value>(schema).ok()),
    });
    let declarations: Vec<wire::FunctionDeclaration> = declarations.collect();
    match declarations.is_empty() {
        true => Vec::new(),
        false => vec![wire::Tool {
            function_declarations: Some(declarations),
        }],
    }
}

/// Joins consecutive turns of one role.
fn contents(turns: &[LiveTurn<'_>]) -> Vec<wire::Content> {
    let mut contents: Vec<wire::Content> = Vec::new();
    for turn in turns {
        let (role, part) = match turn {
            LiveTurn::User(text) => ("user", wire::Part::text(*text)),
            LiveTurn::Model(text) => ("model", wire::Part::text(*text)),
            LiveTurn::Call { id, name, arguments } => {
                let call = ToolCall {
                    id: (*id).to_owned(),
                    name: (*name).to_owned(),
                    arguments: (*arguments).to_owned(),
                    custom: false,
                };
                ("model", encode::call_to_wire(&call))
            }
            LiveTurn::Output(output) => {
                let part = wire::Part {
                    function_response: Some(response(output)),
                    ..wire::Part::default()
                };
                ("user", part)
            }
        };
        match contents.last_mut() {
            Some(last) if last.role.as_deref() == Some(role) => last.parts.push(part),
            _ => contents.push(wire::Content {
                role: Some(role.to_owned()),
                parts: vec![part],
            }),
        }
    }
    contents
}

fn response(output: &LiveOutput<'_>) -> wire::FunctionResponse {
    wire::FunctionResponse {
        id: Some(output.id.to_owned()),
        name: output.name.to_owned(),
        response: encode::response(output.output, false),
        parts: None,
    }
}
