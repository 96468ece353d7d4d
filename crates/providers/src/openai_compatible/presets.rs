//! Providers that speak OpenAI's chat format: one row each, with its differences as data.
//!
//! Additional fields of a caller (`vendor_fields`) are those that change the generated output.
//! Three kinds are omitted on purpose. Some cost more than the model's price or select another
//! model (OpenRouter's `models`, `route` and `plugins`, xAI's `search_parameters`). Some change the
//! format of the response (xAI's `deferred`). Some affect the server or other callers
//! (`chat_template`, `custom_logit_processor`, `cache_salt`, `priority`, `lora_path`, `id_slot`).

use tollgate_formats::decisions::Shape;
use tollgate_formats::openai_chat::CapName;
use tollgate_formats::openai_realtime::SessionShape;

/// Authentication header of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// The header `Authorization: Bearer KEY`.
    Bearer,
    /// This header, whose value is the key.
    Header(&'static str),
    /// Like `Header`, but a JWT of an identity provider is sent as `Authorization: Bearer TOKEN`.
    HeaderOrToken(&'static str),
}

/// Requirement for an API key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A key is required. This environment variable usually contains it.
    Required(&'static str),
    /// A key is sent if configured.
    Optional,
}

/// Differences of a provider's embeddings from OpenAI's.
#[derive(Clone, Copy, Debug)]
pub struct Embeddings {
    /// Path below the base URL.
    pub path: &'static str,
    /// Fields of the format that the provider rejects and that do not change the vectors: they are
    /// dropped. If `encoding_format` is dropped, the provider returns numbers, which the gateway
    /// encodes as requested.
    pub drops: &'static [&'static str],
    /// Fields outside the format that are forwarded.
    pub vendor_fields: &'static [&'static str],
    /// The provider's field for the vector length; `None` if not supported.
    pub dimensions: Option<&'static str>,
    /// URL of the documentation.
    pub source: &'static str,
}

/// Differences of a provider's `POST /v1/completions` from OpenAI's. The dropped and the forwarded
/// fields are those of chat.
#[derive(Clone, Copy, Debug)]
pub struct Completions {
    /// Path below the base URL.
    pub path: &'static str,
    /// Fields of the format that the provider does not support. `prompt` means prompts other than a
    /// single text.
    pub lacks: &'static [&'static str],
    /// URL of the documentation.
    pub source: &'static str,
}

/// Size fields of image requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageSizeFields {
    /// Field `size`, as `WIDTHxHEIGHT`.
    Joined,
    /// Fields `width` and `height`.
    Apart,
    /// Fields `aspect_ratio` and `resolution`, without pixels.
    Ratio,
}

/// Method of requesting image bytes in the response instead of URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageBytes {
    /// The request sets this `response_format`.
    Request(&'static str),
    /// Older models (`dall-e-…`) need the `response_format` `b64_json`. Newer models always return
    /// bytes and reject the field; they accept `output_format`, which older models reject.
    RequestFromOldModels,
}

/// Differences of a provider's images from OpenAI's.
#[derive(Clone, Copy, Debug)]
pub struct Images {
    /// Path of generations below the base URL.
    pub path: &'static str,
    /// Path of edits by form, if supported.
    pub edits: Option<&'static str>,
    /// Whether edits accept a `mask` whose transparent areas are repainted.
    pub masks: bool,
    /// Path of variations by form, if supported.
    pub variations: Option<&'static str>,
    /// Names of the request's size fields.
    pub size: ImageSizeFields,
    /// Method of requesting bytes in the response.
    pub bytes: ImageBytes,
    /// Supported fields among `quality`, `output_format`, `negative_prompt` and `seed`.
    pub takes: &'static [&'static str],
    /// Maximum number of images of one request.
    pub max_outputs: u32,
    /// Whether a repeated request with the same `Idempotency-Key` is executed only once.
    pub is_idempotent: bool,
    /// URL of the documentation.
    pub source: &'static str,
}

/// Differences of a provider's videos from OpenAI's.
#[derive(Clone, Copy, Debug)]
pub struct Videos {
    /// Path below the base URL.
    pub path: &'static str,
    /// Whether every request is a form; otherwise, requests without an image are JSON.
    pub only_forms: bool,
    /// Supported fields among `negative_prompt` and `seed`.
    pub takes: &'static [&'static str],
    /// Boolean field that enables or disables audio, if any.
    pub audio_field: Option<&'static str>,
    /// URL of the documentation.
    pub source: &'static str,
}

/// Paths of speech and transcriptions in OpenAI's format.
#[derive(Clone, Copy, Debug)]
pub struct Audio {
    /// Path of speech below the base URL, if supported.
    pub speech_path: Option<&'static str>,
    /// Path of transcriptions below the base URL, if supported.
    pub transcriptions_path: Option<&'static str>,
    /// URL of the documentation.
    pub source: &'static str,
}

/// Live transcription over WebSocket.
#[derive(Clone, Copy, Debug)]
pub struct LiveTranscription {
    /// Path of the WebSocket below the base URL.
    pub path: &'static str,
    /// Query of the handshake; may be empty.
    pub query: &'static str,
    /// Events of the connection.
    pub wire: LiveTranscriptionWire,
    /// Documentation of the endpoint.
    pub source: &'static str,
}

/// Events of a live transcription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveTranscriptionWire {
    /// Those of a transcription session of OpenAI's Realtime protocol.
    OpenAi,
    /// Those of vLLM.
    Vllm,
}

/// Differences of a provider's realtime conversations from OpenAI's.
#[derive(Clone, Copy, Debug)]
pub struct Realtime {
    /// Path of the WebSocket below the base URL.
    pub path: &'static str,
    /// Form of the session object.
    pub session: SessionShape,
    /// Maximum of `max_output_tokens`; `None` if unknown.
    pub max_output_tokens: Option<u64>,
    /// Supported fields among `parallel_tool_calls` and `temperature`.
    pub takes: &'static [&'static str],
    /// Whether responses outside the conversation are possible.
    pub has_outside_responses: bool,
    /// Whether items can be inserted before others, and removed.
    pub has_editable_items: bool,
    /// URL of the documentation.
    pub source: &'static str,
}

/// A model server that has its own endpoints for label probabilities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelServer {
    /// vLLM: `logprob_token_ids` in chat completions, and `/tokenize`.
    Vllm,
    /// SGLang: `token_ids_logprob` in `/generate`, and `/tokenize`.
    Sglang,
    /// llama.cpp: `n_probs` in `/completion`, `/apply-template` and `/tokenize`.
    LlamaCpp,
}

/// Endpoint of a provider for questions.
#[derive(Clone, Copy, Debug)]
pub struct Questions {
    /// Path below the base URL.
    pub path: &'static str,
    /// Whether the path replaces the last segment of the base URL.
    pub replaces_last_segment: bool,
    /// Format of the requests.
    pub shape: Shape,
    /// Maximum number of questions of a request.
    pub max: usize,
    /// Maximum number of options of a question.
    pub options: usize,
}

/// Decision methods of a provider's models.
#[derive(Clone, Copy, Debug)]
pub struct Decisions {
    /// Endpoint for questions, if any.
    pub questions: Option<Questions>,
    /// The server's own endpoints for labels, if any.
    pub server: Option<LabelServer>,
    /// Maximum number of top tokens of chat completions; 0 if unsupported or not in OpenAI's
    /// format.
    pub top_logprobs: usize,
    /// Maximum number of sampled answers of a request.
    pub max_answers: u32,
    /// The provider's field for a seed, if any.
    pub seed: Option<&'static str>,
    /// Fields that disable thinking, with their JSON values.
    pub no_thinking_fields: &'static [(&'static str, &'static str)],
    /// URL of the documentation.
    pub source: &'static str,
}

/// Limits of a provider's batches in OpenAI's format.
#[derive(Clone, Copy, Debug)]
pub struct Batches {
    /// Maximum number of requests of a batch.
    pub max_requests: u32,
    /// Maximum size of the uploaded file, in bytes.
    pub max_bytes: u64,
    /// URL of the documentation.
    pub source: &'static str,
}

/// A provider that speaks chat completions, and its differences from OpenAI.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Name in the configuration.
    pub name: &'static str,
    /// Name for display.
    pub title: &'static str,
    /// Base URL; `None` if the operator must configure one.
    pub base_url: Option<&'static str>,
    /// Environment variable that usually contains the base URL.
    pub base_url_env: Option<&'static str>,
    /// Path to add to a base URL without one.
    pub base_path: &'static str,
    /// Path of chat completions below the base URL.
    pub chat_path: &'static str,
    /// Completions endpoint of the provider's chat models, if any. Without it, completions are
    /// converted to chat.
    pub completions: Option<Completions>,
    /// Embeddings endpoint, if any.
    pub embeddings: Option<Embeddings>,
    /// Path of moderations below the base URL, if they are in OpenAI's format.
    pub moderations_path: Option<&'static str>,
    /// Images endpoint, if in OpenAI's format.
    pub images: Option<Images>,
    /// Videos endpoint, if in OpenAI's format.
    pub videos: Option<Videos>,
    /// URL of the documentation of reports of deep research models, if the provider executes them
    /// as background responses in OpenAI's format.
    pub reports_source: Option<&'static str>,
    /// Speech and transcription endpoints, if any.
    pub audio: Option<Audio>,
    /// Live transcription over WebSocket, if any.
    pub live_transcription: Option<LiveTranscription>,
    /// Realtime conversations over WebSocket, if any.
    pub realtime: Option<Realtime>,
    /// Batch API, if in OpenAI's format.
    pub batches: Option<Batches>,
    /// Decision methods of the provider's models.
    pub decisions: Decisions,
    /// Requirement for an API key, and the environment variable of a required key.
    pub key: Key,
    /// Header in which the key is sent.
    pub auth: Auth,
    /// The provider's field for the output cap.
    pub cap_name: CapName,
    /// Top-level fields of the format that the provider rejects and that do not change the
    /// response: they are dropped. If they include `stream_options`, the provider reports usage at
    /// the end of a stream by default.
    pub drops: &'static [&'static str],
    /// Top-level fields outside the format that are forwarded.
    pub vendor_fields: &'static [&'static str],
    /// Whether the provider supports the role `system` but not `developer`.
    pub developer_as_system: bool,
    /// Whether `response_format` enforces a schema. If not, the gateway validates the response.
    pub forces_schema: bool,
    /// Whether each of several choices needs its own call: the provider reports the usage of only
    /// one choice, or returns only one, or its behaviour is unknown.
    pub needs_call_per_answer: bool,
    /// Whether images are sent as bytes, never as URLs. A server of the operator is in the
    /// operator's network, so it must not fetch a caller's URL.
    pub inline_images: bool,
    /// Port on which discovery looks for the server on this machine.
    pub local_port: Option<u16>,
    /// URL of the documentation.
    pub source: &'static str,
}

const UNSET: &str = "";

/// OpenAI's embeddings endpoint.
const EMBEDDINGS: Embeddings = Embeddings {
    path: "/embeddings",
    drops: &[],
    vendor_fields: &[],
    dimensions: Some("dimensions"),
    source: UNSET,
};

/// OpenAI's path of moderations.
const MODERATIONS: &str = "/moderations";
/// OpenAI's speech and transcription endpoints.
const AUDIO: Audio = Audio {
    speech_path: Some("/audio/speech"),
    transcriptions_path: Some("/audio/transcriptions"),
    source: UNSET,
};
/// OpenAI's realtime conversations.
const REALTIME: Realtime = Realtime {
    path: "/realtime",
    session: SessionShape::Nested,
    max_output_tokens: Some(4_096),
    takes: &["parallel_tool_calls"],
    has_outside_responses: true,
    has_editable_items: true,
    source: UNSET,
};
/// OpenAI's live transcription.
const LIVE_TRANSCRIPTION: LiveTranscription = LiveTranscription {
    path: "/realtime",
    query: "intent=transcription",
    wire: LiveTranscriptionWire::OpenAi,
    source: UNSET,
};
/// OpenAI's legacy completions endpoint.
const COMPLETIONS: Completions = Completions {
    path: "/completions",
    lacks: &[],
    source: UNSET,
};

/// Images endpoint of most servers of the format.
const IMAGES: Images = Images {
    path: "/images/generations",
    edits: Some("/images/edits"),
    masks: false,
    variations: None,
    size: ImageSizeFields::Joined,
    bytes: ImageBytes::Request("b64_json"),
    takes: &[],
    max_outputs: 10,
    is_idempotent: false,
    source: UNSET,
};

/// OpenAI's images endpoint.
const OPENAI_IMAGES: Images = Images {
    masks: true,
    variations: Some("/images/variations"),
    bytes: ImageBytes::RequestFromOldModels,
    takes: &["quality", "output_format"],
    ..IMAGES
};

/// OpenAI's former video API, which other providers use.
const VIDEOS: Videos = Videos {
    path: "/videos",
    only_forms: false,
    takes: &[],
    audio_field: None,
    source: UNSET,
};

/// Fields that disable thinking in the chat templates of open models.
const NO_THINKING: &[(&str, &str)] = &[("chat_template_kwargs", r#"{"enable_thinking":false}"#)];

/// Decisions by sampled answers.
const SAMPLED: Decisions = Decisions {
    questions: None,
    server: None,
    top_logprobs: 0,
    max_answers: 1,
    seed: Some("seed"),
    no_thinking_fields: &[],
    source: UNSET,
};

/// Decisions by the probabilities of top tokens, in OpenAI's format.
const TOP_LOGPROBS: Decisions = Decisions {
    top_logprobs: 20,
    ..SAMPLED
};

/// Endpoint for questions of model servers.
const SYSTEM_ONE: Questions = Questions {
    path: "/systemone",
    replaces_last_segment: false,
    shape: Shape::SystemOne,
    max: 128,
    options: 255,
};

/// Default values of the presets; not a preset itself.
const DEFAULTS: Preset = Preset {
    name: UNSET,
    title: UNSET,
    base_url: None,
    base_url_env: None,
    base_path: "/v1",
    chat_path: "/chat/completions",
    completions: None,
    embeddings: None,
    moderations_path: None,
    images: None,
    videos: None,
    reports_source: None,
    audio: None,
    live_transcription: None,
    realtime: None,
    batches: None,
    decisions: SAMPLED,
    key: Key::Optional,
    auth: Auth::Bearer,
    cap_name: CapName::AsSent,
    drops: &[],
    vendor_fields: &[],
    developer_as_system: true,
    forces_schema: true,
    needs_call_per_answer: false,
    inline_images: false,
    local_port: None,
    source: UNSET,
};

/// Fields for OpenAI's storage, user tracking, caching and billing. They do not change the
/// response.
const BOOKKEEPING: &[&str] = &[
    "store",
    "metadata",
    "user",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
];

/// The fields of [`BOOKKEEPING`], and `stream_options`.
const BOOKKEEPING_AND_STREAM_OPTIONS: &[&str] = &[
    "stream_options",
    "store",
    "metadata",
    "user",
    "service_tier",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
];

/// All presets. The last one is for servers without their own preset.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "openai",
        title: "OpenAI",
        base_url: Some("https://api.openai.com/v1"),
        key: Key::Required("OPENAI_API_KEY"),
        // Reasoning models reject `max_tokens`; every model accepts the newer name.
        cap_name: CapName::MaxCompletionTokens,
        developer_as_system: false,
        source: "https://platform.openai.com/docs/api-reference/chat/create",
        embeddings: Some(Embeddings {
            source: "https://platform.openai.com/docs/api-reference/embeddings/create",
            ..EMBEDDINGS
        }),
        moderations_path: Some(MODERATIONS),
        images: Some(Images {
            source: "https://platform.openai.com/docs/api-reference/images",
            ..OPENAI_IMAGES
        }),
        videos: Some(Videos {
            source: "https://platform.openai.com/docs/api-reference/videos",
            ..VIDEOS
        }),
        reports_source: Some("https://platform.openai.com/docs/guides/deep-research"),
        audio: Some(Audio {
            source: "https://platform.openai.com/docs/api-reference/audio",
            ..AUDIO
        }),
        live_transcription: Some(LiveTranscription {
            source: "https://developers.openai.com/api/docs/guides/realtime-transcription",
            ..LIVE_TRANSCRIPTION
        }),
        realtime: Some(Realtime {
            source: "https://platform.openai.com/docs/guides/realtime-websocket",
            ..REALTIME
        }),
        batches: Some(Batches {
            max_requests: 50_000,
            max_bytes: 200_000_000,
            source: "https://platform.openai.com/docs/api-reference/batch",
        }),
        decisions: Decisions {
            questions: Some(Questions {
                path: "/decisions",
                shape: Shape::OpenAi,
                ..SYSTEM_ONE
            }),
            max_answers: 8,
            source: "https://github.com/openai/openai-python/tree/main/src/openai/types",
            ..TOP_LOGPROBS
        },
        ..DEFAULTS
    },
    Preset {
        name: "azure-openai",
        title: "Azure OpenAI",
        base_url_env: Some("AZURE_OPENAI_ENDPOINT"),
        base_path: "/openai/v1",
        key: Key::Required("AZURE_OPENAI_API_KEY"),
        auth: Auth::HeaderOrToken("api-key"),
        cap_name: CapName::MaxCompletionTokens,
        developer_as_system: false,
        source: "https://learn.microsoft.com/azure/foundry/openai/api-version-lifecycle",
        embeddings: Some(Embeddings {
            source: "https://learn.microsoft.com/azure/foundry/openai/latest",
            ..EMBEDDINGS
        }),
        images: Some(Images {
            variations: None,
            source: "https://learn.microsoft.com/azure/foundry/openai/how-to/dall-e",
            ..OPENAI_IMAGES
        }),
        live_transcription: Some(LiveTranscription {
            source: "https://learn.microsoft.com/azure/foundry/openai/how-to/realtime-audio-websockets",
            ..LIVE_TRANSCRIPTION
        }),
        realtime: Some(Realtime {
            source: "https://learn.microsoft.com/azure/foundry/openai/how-to/realtime-audio-websockets",
            ..REALTIME
        }),
        decisions: Decisions {
            max_answers: 8,
            source: "https://learn.microsoft.com/azure/foundry/openai/latest",
            ..TOP_LOGPROBS
        },
        ..DEFAULTS
    },
    Preset {
        name: "openrouter",
        title: "OpenRouter",
        base_url: Some("https://openrouter.ai/api/v1"),
        key: Key::Required("OPENROUTER_API_KEY"),
        vendor_fields: &[
            "provider",
            "transforms",
            "reasoning",
            "include_reasoning",
            "usage",
            "top_k",
            "top_a",
            "min_p",
            "repetition_penalty",
        ],
        developer_as_system: false,
        source: "https://openrouter.ai/docs/api-reference/overview",
        embeddings: Some(Embeddings {
            vendor_fields: &["provider", "input_type"],
            source: "https://openrouter.ai/docs/api-reference/embeddings/create-embeddings",
            ..EMBEDDINGS
        }),
        decisions: Decisions {
            questions: Some(Questions {
                path: "/alpha/decisions",
                replaces_last_segment: true,
                shape: Shape::OpenRouter,
                ..SYSTEM_ONE
            }),
            source: "https://openrouter.ai/docs/api-reference/parameters",
            ..TOP_LOGPROBS
        },
        ..DEFAULTS
    },
    Preset {
        name: "groq",
        title: "Groq",
        base_url: Some("https://api.groq.com/openai/v1"),
        key: Key::Required("GROQ_API_KEY"),
        drops: &[
            "store",
            "metadata",
            "safety_identifier",
            "prompt_cache_key",
            "prompt_cache_options",
            "prompt_cache_retention",
        ],
        vendor_fields: &[
            "reasoning_format",
            "include_reasoning",
            "documents",
            "citation_options",
            "disable_tool_validation",
        ],
        source: "https://console.groq.com/docs/openai",
        audio: Some(Audio {
            source: "https://console.groq.com/docs/api-reference",
            ..AUDIO
        }),
        decisions: Decisions {
            source: "https://console.groq.com/docs/openai",
            ..SAMPLED
        },
        ..DEFAULTS
    },
    Preset {
        name: "together",
        title: "Together AI",
        base_url: Some("https://api.together.xyz/v1"),
        key: Key::Required("TOGETHER_API_KEY"),
        cap_name: CapName::MaxTokens,
        drops: BOOKKEEPING,
        vendor_fields: &[
            "top_k",
            "min_p",
            "repetition_penalty",
            "reasoning",
            "chat_template_kwargs",
            "context_length_exceeded_behavior",
        ],
        source: "https://docs.together.ai/reference/chat-completions",
        completions: Some(Completions {
            lacks: &["prompt", "suffix", "best_of"],
            source: "https://docs.together.ai/reference/completions-1",
            ..COMPLETIONS
        }),
        embeddings: Some(Embeddings {
            drops: &["encoding_format", "user"],
            dimensions: None,
            source: "https://docs.together.ai/reference/embeddings",
            ..EMBEDDINGS
        }),
        images: Some(Images {
            edits: None,
            size: ImageSizeFields::Apart,
            bytes: ImageBytes::Request("base64"),
            takes: &["output_format", "negative_prompt", "seed"],
            max_outputs: 4,
            source: "https://docs.together.ai/reference/post-images-generations",
            ..IMAGES
        }),
        audio: Some(Audio {
            source: "https://docs.together.ai/reference/audio-speech",
            ..AUDIO
        }),
        decisions: Decisions {
            max_answers: 8,
            source: "https://docs.together.ai/reference/chat-completions",
            ..SAMPLED
        },
        ..DEFAULTS
    },
    Preset {
        name: "fireworks",
        title: "Fireworks AI",
        base_url: Some("https://api.fireworks.ai/inference/v1"),
        key: Key::Required("FIREWORKS_API_KEY"),
        drops: &[
            "store",
            "service_tier",
            "safety_identifier",
            "prompt_cache_retention",
        ],
        vendor_fields: &[
            "top_k",
            "min_p",
            "typical_p",
            "repetition_penalty",
            "mirostat_target",
            "mirostat_lr",
            "thinking",
            "reasoning_history",
            "ignore_eos",
            "raw_output",
            "return_token_ids",
            "prompt_truncate_len",
            "context_length_exceeded_behavior",
        ],
        source: "https://docs.fireworks.ai/api-reference/post-chatcompletions",
        completions: Some(Completions {
            lacks: &["suffix", "best_of"],
            source: "https://docs.fireworks.ai/api-reference/post-completions",
            ..COMPLETIONS
        }),
        embeddings: Some(Embeddings {
            // The server returns 400 for unknown fields.
            drops: &["encoding_format", "user"],
            vendor_fields: &["prompt_template", "normalize"],
            source: "https://docs.fireworks.ai/api-reference/creates-an-embedding-vector-representing-the-input-text",
            ..EMBEDDINGS
        }),
        decisions: Decisions {
            top_logprobs: 5,
            max_answers: 8,
            seed: None,
            source: "https://docs.fireworks.ai/api-reference/post-chatcompletions",
            ..TOP_LOGPROBS
        },
        ..DEFAULTS
    },
    Preset {
        name: "deepseek",
        // The API supports only `json_object` (https://api-docs.deepseek.com/guides/json_mode).
        forces_schema: false,
        title: "DeepSeek",
        base_url: Some("https://api.deepseek.com/v1"),
        key: Key::Required("DEEPSEEK_API_KEY"),
        cap_name: CapName::MaxTokens,
        drops: BOOKKEEPING,
        vendor_fields: &["thinking"],
        source: "https://api-docs.deepseek.com/api/create-chat-completion",
        decisions: Decisions {
            seed: None,
            source: "https://api-docs.deepseek.com/api/create-chat-completion",
            ..TOP_LOGPROBS
        },
        ..DEFAULTS
    },
    Preset {
        name: "mistral",
        title: "Mistral AI",
        base_url: Some("https://api.mistral.ai/v1"),
        key: Key::Required("MISTRAL_API_KEY"),
        // The server returns 422 for unknown fields.
        cap_name: CapName::MaxTokens,
        drops: BOOKKEEPING_AND_STREAM_OPTIONS,
        vendor_fields: &["random_seed", "safe_prompt", "prompt_mode"],
        source: "https://docs.mistral.ai/api/endpoint/chat",
        embeddings: Some(Embeddings {
            drops: &["user"],
            dimensions: Some("output_dimension"),
            source: "https://docs.mistral.ai/api/endpoint/embeddings",
            ..EMBEDDINGS
        }),
        audio: Some(Audio {
            speech_path: None,
            source: "https://docs.mistral.ai/capabilities/audio_transcription",
            ..AUDIO
        }),
        decisions: Decisions {
            seed: Some("random_seed"),
            source: "https://docs.mistral.ai/api/endpoint/chat",
            ..SAMPLED
        },
        ..DEFAULTS
    },
    Preset {
        name: "xai",
        title: "xAI",
        base_url: Some("https://api.x.ai/v1"),
        key: Key::Required("XAI_API_KEY"),
        drops: &[
            "store",
            "metadata",
            "service_tier",
            "safety_identifier",
            "prompt_cache_key",
            "prompt_cache_options",
            "prompt_cache_retention",
        ],
        source: "https://docs.x.ai/developers/rest-api-reference/inference/chat",
        images: Some(Images {
            edits: None,
            size: ImageSizeFields::Ratio,
            source: "https://docs.x.ai/developers/rest-api-reference/inference/images",
            ..IMAGES
        }),
        realtime: Some(Realtime {
            session: SessionShape::Flat,
            max_output_tokens: None,
            takes: &[],
            // The documentation has neither `conversation: "none"` nor `previous_item_id`.
            has_outside_responses: false,
            has_editable_items: false,
            source: "https://docs.x.ai/developers/rest-api-reference/inference/voice",
            ..REALTIME
        }),
        decisions: Decisions {
            top_logprobs: 8,
            source: "https://docs.x.ai/developers/rest-api-reference/inference/chat",
            ..TOP_LOGPROBS
        },
        ..DEFAULTS
    },
    Preset {
        name: "cerebras",
        title: "Cerebras",
        base_url: Some("https://api.cerebras.ai/v1"),
        key: Key::Required("CEREBRAS_API_KEY"),
        drops: &[
            "store",
            "metadata",
            "service_tier",
            "safety_identifier",
            "prompt_cache_key",
            "prompt_cache_options",
            "prompt_cache_retention",
        ],
        vendor_fields: &["reasoning_format", "disable_reasoning", "clear_thinking"],
        source: "https://inference-docs.cerebras.ai/resources/openai",
        decisions: Decisions {
            source: "https://inference-docs.cerebras.ai/resources/openai",
            ..TOP_LOGPROBS
        },
        ..DEFAULTS
    },
    Preset {
        name: "nvidia",
        title: "NVIDIA NIM",
        base_url: Some("https://integrate.api.nvidia.com/v1"),
        key: Key::Required("NVIDIA_API_KEY"),
        cap_name: CapName::MaxTokens,
        drops: BOOKKEEPING,
        vendor_fields: &[
            "top_k",
            "min_p",
            "repetition_penalty",
            "min_tokens",
            "ignore_eos",
            "nvext",
            "chat_template_kwargs",
            "min_thinking_tokens",
            "max_thinking_tokens",
        ],
        source: "https://docs.nvidia.com/nim/large-language-models/latest/api-reference.html",
        embeddings: Some(Embeddings {
            drops: &["user"],
            vendor_fields: &["input_type", "truncate"],
            source: "https://docs.nvidia.com/nim/nemo-retriever/text-embedding/latest/reference.html",
            ..EMBEDDINGS
        }),
        decisions: Decisions {
            source: "https://docs.nvidia.com/nim/large-language-models/latest/api-reference.html",
            ..TOP_LOGPROBS
        },
        ..DEFAULTS
    },
    Preset {
        name: "ollama",
        title: "Ollama",
        base_url: Some("http://127.0.0.1:11434/v1"),
        cap_name: CapName::MaxTokens,
        drops: BOOKKEEPING,
        vendor_fields: &["reasoning"],
        inline_images: true,
        local_port: Some(11434),
        needs_call_per_answer: true,
        source: "https://docs.ollama.com/api/openai-compatibility",
        completions: Some(Completions {
            lacks: &["prompt", "n", "best_of", "echo", "logprobs", "logit_bias"],
            source: "https://docs.ollama.com/api/openai-compatibility",
            ..COMPLETIONS
        }),
        embeddings: Some(Embeddings {
            drops: &["user"],
            source: "https://docs.ollama.com/api/openai-compatibility",
            ..EMBEDDINGS
        }),
        images: Some(Images {
            edits: None,
            max_outputs: 1,
            source: "https://docs.ollama.com/api/openai-compatibility",
            ..IMAGES
        }),
        decisions: Decisions {
            questions: Some(SYSTEM_ONE),
            no_thinking_fields: &[("reasoning_effort", r#""none""#)],
            source: "https://docs.ollama.com/api/openai-compatibility",
            ..TOP_LOGPROBS
        },
        ..DEFAULTS
    },
    Preset {
        name: "llama.cpp",
        title: "llama.cpp server",
        base_url: Some("http://127.0.0.1:8080/v1"),
        cap_name: CapName::MaxTokens,
        drops: BOOKKEEPING,
        vendor_fields: &[
            "top_k",
            "min_p",
            "typical_p",
            "repeat_penalty",
            "repeat_last_n",
            "mirostat",
            "mirostat_tau",
            "mirostat_eta",
            "dry_multiplier",
            "dry_base",
            "dry_allowed_length",
            "dry_penalty_last_n",
            "dry_sequence_breakers",
            "xtc_probability",
            "xtc_threshold",
            "dynatemp_range",
            "dynatemp_exponent",
            "top_n_sigma",
            "samplers",
            "ignore_eos",
            "grammar",
            "json_schema",
            "n_probs",
            "cache_prompt",
            "chat_template_kwargs",
            "reasoning_format",
            "timings_per_token",
        ],
        inline_images: true,
        local_port: Some(8080),
        source: "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
        needs_call_per_answer: true,
        completions: Some(Completions {
            lacks: &["prompt", "n", "suffix", "best_of", "echo", "logprobs"],
            source: "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
            ..COMPLETIONS
        }),
        embeddings: Some(Embeddings {
            drops: &["user"],
            dimensions: None,
            source: "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
            ..EMBEDDINGS
        }),
        decisions: Decisions {
            questions: Some(SYSTEM_ONE),
            server: Some(LabelServer::LlamaCpp),
            no_thinking_fields: NO_THINKING,
            source: "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
            ..TOP_LOGPROBS
        },
        ..DEFAULTS
    },
    Preset {
        name: "vllm",
        title: "vLLM",
        base_url: Some("http://127.0.0.1:8000/v1"),
        drops: &["store", "safety_identifier", "prompt_cache_retention"],
        vendor_fields: &[
            "top_k",
            "min_p",
            "repetition_penalty",
            "length_penalty",
            "use_beam_search",
            "stop_token_ids",
            "include_stop_str_in_output",
            "ignore_eos",
            "min_tokens",
            "skip_special_tokens",
            "spaces_between_special_tokens",
            "truncate_prompt_tokens",
            "allowed_token_ids",
            "bad_words",
            "add_generation_prompt",
            "continue_final_message",
            "documents",
            "chat_template_kwargs",
            "structured_outputs",
            "guided_json",
            "guided_regex",
            "guided_choice",
            "guided_grammar",
            "include_reasoning",
            "thinking_token_budget",
            "return_token_ids",
        ],
        inline_images: true,
        local_port: Some(8000),
        source: "https://github.com/vllm-project/vllm/blob/main/vllm/entrypoints/openai/chat_completion/protocol.py",
        live_transcription: Some(LiveTranscription {
            path: "/realtime",
            query: "",
            wire: LiveTranscriptionWire::Vllm,
            source: "https://docs.vllm.ai/en/stable/api/vllm/entrypoints/openai/realtime/api_router/",
        }),
        completions: Some(Completions {
            lacks: &["suffix", "best_of"],
            source: "https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html",
            ..COMPLETIONS
        }),
        embeddings: Some(Embeddings {
            vendor_fields: &["truncate_prompt_tokens", "add_special_tokens", "normalize"],
            source: "https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html",
            ..EMBEDDINGS
        }),
        images: Some(Images {
            takes: &["output_format", "negative_prompt", "seed"],
            source: "https://docs.vllm.ai/projects/vllm-omni/en/stable/serving/image_generation_api/",
            ..IMAGES
        }),
        videos: Some(Videos {
            only_forms: true,
            takes: &["negative_prompt", "seed"],
            audio_field: Some("generate_sound"),
            source: "https://docs.vllm.ai/projects/vllm-omni/en/stable/serving/videos_api/",
            ..VIDEOS
        }),
        audio: Some(Audio {
            speech_path: None,
            source: "https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html",
            ..AUDIO
        }),
        decisions: Decisions {
            server: Some(LabelServer::Vllm),
            max_answers: 16,
            no_thinking_fields: NO_THINKING,
            source: "https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html",
            ..TOP_LOGPROBS
        },
        ..DEFAULTS
    },
    Preset {
        name: "sglang",
        title: "SGLang",
        base_url: Some("http://127.0.0.1:30000/v1"),
        drops: &["store", "safety_identifier", "prompt_cache_retention"],
        vendor_fields: &[
            "top_k",
            "min_p",
            "min_tokens",
            "repetition_penalty",
            "regex",
            "ebnf",
            "stop_token_ids",
            "stop_regex",
            "no_stop_trim",
            "ignore_eos",
            "continue_final_message",
            "skip_special_tokens",
            "separate_reasoning",
            "stream_reasoning",
            "chat_template_kwargs",
        ],
        inline_images: true,
        local_port: Some(30000),
        source: "https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/entrypoints/openai/protocol.py",
        completions: Some(Completions {
            lacks: &["best_of"],
            source: "https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/entrypoints/openai/protocol.py",
            ..COMPLETIONS
        }),
        embeddings: Some(Embeddings {
            source: "https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/entrypoints/openai/protocol.py",
            ..EMBEDDINGS
        }),
        images: Some(Images {
            takes: &["quality", "output_format", "negative_prompt", "seed"],
            source: "https://docs.sglang.io/diffusion/api/openai_api.html",
            ..IMAGES
        }),
        videos: Some(Videos {
            takes: &["negative_prompt", "seed"],
            source: "https://docs.sglang.io/diffusion/api/openai_api.html",
            ..VIDEOS
        }),
        decisions: Decisions {
            server: Some(LabelServer::Sglang),
            max_answers: 16,
            no_thinking_fields: NO_THINKING,
            source: "https://docs.sglang.io/basic_usage/native_api.html",
            ..TOP_LOGPROBS
        },
        ..DEFAULTS
    },
    Preset {
        name: "lm-studio",
        title: "LM Studio",
        base_url: Some("http://127.0.0.1:1234/v1"),
        cap_name: CapName::MaxTokens,
        drops: BOOKKEEPING,
        vendor_fields: &["top_k", "min_p", "repeat_penalty"],
        inline_images: true,
        local_port: Some(1234),
        needs_call_per_answer: true,
        source: "https://lmstudio.ai/docs/developer/openai-compat/chat-completions",
        completions: Some(Completions {
            lacks: &["prompt", "n", "suffix", "best_of", "echo", "logprobs"],
            source: "https://lmstudio.ai/docs/developer/openai-compat/completions",
            ..COMPLETIONS
        }),
        embeddings: Some(Embeddings {
            drops: &["encoding_format", "user"],
            dimensions: None,
            source: "https://lmstudio.ai/docs/developer/openai-compat/embeddings",
            ..EMBEDDINGS
        }),
        decisions: Decisions {
            source: "https://lmstudio.ai/docs/developer/openai-compat/chat-completions",
            ..SAMPLED
        },
        ..DEFAULTS
    },
    Preset {
        name: "openai-compatible",
        title: "an OpenAI-compatible server",
        moderations_path: Some(MODERATIONS),
        // Every server except OpenAI's supports `max_tokens`. A server that ignores the cap
        // generates without a limit; a server that rejects the name rejects the call, which costs
        // nothing.
        cap_name: CapName::MaxTokens,
        vendor_fields: &["top_k", "min_p", "repetition_penalty", "chat_template_kwargs"],
        needs_call_per_answer: true,
        source: "-",
        embeddings: Some(Embeddings {
            vendor_fields: &["input_type"],
            source: "-",
            ..EMBEDDINGS
        }),
        images: Some(Images {
            masks: true,
            variations: Some("/images/variations"),
            takes: &["quality"],
            source: "-",
            ..IMAGES
        }),
        videos: Some(Videos {
            source: "-",
            ..VIDEOS
        }),
        audio: Some(Audio { source: "-", ..AUDIO }),
        live_transcription: Some(LiveTranscription {
            source: "-",
            ..LIVE_TRANSCRIPTION
        }),
        realtime: Some(Realtime {
            max_output_tokens: None,
            takes: &["parallel_tool_calls", "temperature"],
            source: "-",
            ..REALTIME
        }),
        decisions: Decisions {
            questions: Some(SYSTEM_ONE),
            source: "-",
            ..TOP_LOGPROBS
        },
        ..DEFAULTS
    },
];

/// Returns the preset with this name; `None` if the name is unknown.
pub fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

impl Preset {
    /// Returns the environment variable that usually contains the key; `None` if the key is
    /// optional.
    pub fn key_env(&self) -> Option<&'static str> {
        match self.key {
            Key::Required(name) => Some(name),
            Key::Optional => None,
        }
    }
}
