//! Providers that speak OpenAI's chat format: one row each, quirks as data.
//!
//! Fields that a caller may add (`vendor_fields`) are those that change how the model answers. Left out on purpose is
//! what would cost the operator more than the model's price says or reach another model (OpenRouter's `models`,
//! `route` and `plugins`, xAI's `search_parameters`), what would break the answer's shape (xAI's `deferred`), and what
//! reaches into the server or other people's calls (`chat_template`, `custom_logit_processor`, `cache_salt`,
//! `priority`, `lora_path`, `id_slot`).

use tollgate_formats::decisions::Shape;
use tollgate_formats::openai_chat::CapName;

/// How a key is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Auth {
    /// `Authorization: Bearer KEY`.
    Bearer,
    /// The key alone in this header.
    Header(&'static str),
    /// The same, but the token of an identity provider, which is a JWT, as `Authorization: Bearer TOKEN`.
    HeaderOrToken(&'static str),
}

/// Whether a key is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Nothing works without one; this environment variable usually has it.
    Required(&'static str),
    /// Sent when there is one.
    Optional,
}

/// How a provider's embeddings differ from OpenAI's.
#[derive(Clone, Copy, Debug)]
pub struct Embeddings {
    /// The path under the base.
    pub path: &'static str,
    /// Fields of the format that it refuses and that change nothing about the vectors: they are dropped. Without
    /// `encoding_format` it answers numbers, and the gateway writes them as the caller wants.
    pub drops: &'static [&'static str],
    /// Fields outside the format that are let through to it.
    pub vendor_fields: &'static [&'static str],
    /// Under which name it knows the length of the vectors; `None` when it cannot be chosen.
    pub dimensions: Option<&'static str>,
    /// Where this is from.
    pub source: &'static str,
}

/// How a provider's `POST /v1/completions` differs from OpenAI's. Fields are dropped and let through as for chat.
#[derive(Clone, Copy, Debug)]
pub struct Completions {
    /// The path under the base.
    pub path: &'static str,
    /// Fields of the format that it does not have; `prompt` for prompts that are more than one text.
    pub lacks: &'static [&'static str],
    /// Where this is from.
    pub source: &'static str,
}

/// How a size is written in requests for pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureSize {
    /// `size`: `WIDTHxHEIGHT`.
    Joined,
    /// `width` and `height`.
    Apart,
    /// `aspect_ratio` and `resolution`; pixels cannot be said.
    Ratio,
}

/// How pictures come to be in the answer itself and not at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PictureBytes {
    /// They are asked for by this `response_format`.
    Asked(&'static str),
    /// The older models (`dall-e-…`) are asked by `b64_json`. The newer ones answer nothing else and refuse to be
    /// asked; they take an `output_format`, which the older ones refuse.
    AskedOfOlder,
}

/// How a provider's pictures differ from OpenAI's.
#[derive(Clone, Copy, Debug)]
pub struct Images {
    /// Path under the base where they are made from a prompt.
    pub path: &'static str,
    /// Path where they are made from pictures, by a form, when it has that.
    pub edits: Option<&'static str>,
    /// Whether an edit takes a `mask` that is transparent where the picture is to be made again.
    pub masks: bool,
    /// Path where pictures are made that are like another, by a form, when it has that.
    pub variations: Option<&'static str>,
    /// How a size is written.
    pub size: PictureSize,
    /// How the answer comes to have bytes.
    pub bytes: PictureBytes,
    /// What else it takes of `quality`, `output_format`, `negative_prompt` and `seed`.
    pub takes: &'static [&'static str],
    /// The most of one request.
    pub most_at_once: u32,
    /// Whether a request that is sent again under its `Idempotency-Key` is carried out once.
    pub keeps_keys: bool,
    /// Where this is from.
    pub source: &'static str,
}

/// How a provider's films differ from OpenAI's.
#[derive(Clone, Copy, Debug)]
pub struct Videos {
    /// Path under the base.
    pub path: &'static str,
    /// Whether every request is a form; otherwise those without a picture are JSON.
    pub only_forms: bool,
    /// What else it takes of `negative_prompt` and `seed`.
    pub takes: &'static [&'static str],
    /// The field that says whether there is sound, when it has one.
    pub sound: Option<&'static str>,
    /// Where this is from.
    pub source: &'static str,
}

/// Where a provider has speech and transcripts in OpenAI's shape.
#[derive(Clone, Copy, Debug)]
pub struct Audio {
    /// The path of speech under the base, if it speaks.
    pub speech_path: Option<&'static str>,
    /// The path of transcripts under the base, if it hears.
    pub transcriptions_path: Option<&'static str>,
    /// Where this is from.
    pub source: &'static str,
}

/// A model server with endpoints of its own, beside those of the format, that tell the probabilities of labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelServer {
    /// `logprob_token_ids` in chat completions, and `/tokenize`.
    Vllm,
    /// `token_ids_logprob` in `/generate`, and `/tokenize`.
    Sglang,
    /// `n_probs` in `/completion`, `/apply-template` and `/tokenize`.
    LlamaCpp,
}

/// Where a provider takes questions.
#[derive(Clone, Copy, Debug)]
pub struct Questions {
    /// The path under the base.
    pub path: &'static str,
    /// Whether the path takes the place of the last segment of the base.
    pub beside: bool,
    /// How it wants to be asked.
    pub shape: Shape,
    /// The most questions of a request.
    pub most: usize,
    /// The most options of a choice.
    pub options: usize,
}

/// How a provider's models are brought to decide.
#[derive(Clone, Copy, Debug)]
pub struct Decisions {
    /// Where it takes questions, for its models that decide.
    pub questions: Option<Questions>,
    /// Its own endpoints for labels.
    pub server: Option<LabelServer>,
    /// How many of the likeliest tokens its chat completions tell; 0 when none, or not in OpenAI's shape.
    pub top_logprobs: usize,
    /// How many answers a request may ask for.
    pub at_once: u32,
    /// Under which name it knows a seed.
    pub seed: Option<&'static str>,
    /// Members, and their JSON, that keep a model from thinking before it answers.
    pub quiet: &'static [(&'static str, &'static str)],
    /// Where this is from.
    pub source: &'static str,
}

/// The batches of a provider, in OpenAI's shape.
#[derive(Clone, Copy, Debug)]
pub struct Batches {
    /// Most requests of one.
    pub most_requests: u32,
    /// Most bytes of its file.
    pub most_bytes: u64,
    /// Where this is from.
    pub source: &'static str,
}

/// A provider that speaks the format of chat completions, and how it differs from OpenAI.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// As written in the configuration.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// Where it is; `None` when every customer has an address of its own.
    pub base_url: Option<&'static str>,
    /// The environment variable that usually has that address.
    pub base_url_env: Option<&'static str>,
    /// What follows an address that has no path.
    pub base_path: &'static str,
    /// Path of chat completions under the base.
    pub chat_path: &'static str,
    /// Its endpoint for completions, when it serves its chat models there, too; without it they are asked as chat.
    pub completions: Option<Completions>,
    /// Its embeddings, when it has any.
    pub embeddings: Option<Embeddings>,
    /// Path of its moderations under the base, when it has any in OpenAI's shape.
    pub moderations_path: Option<&'static str>,
    /// Its pictures, when it makes any in OpenAI's shape.
    pub images: Option<Images>,
    /// Its films, when it makes any in OpenAI's shape.
    pub videos: Option<Videos>,
    /// Its speech and transcripts, when it has any.
    pub audio: Option<Audio>,
    /// Its batches, when it has any in OpenAI's shape.
    pub batches: Option<Batches>,
    /// How its models are brought to decide.
    pub decisions: Decisions,
    /// Whether a key is needed.
    pub key: Key,
    /// How it is shown.
    pub auth: Auth,
    /// Under which name it knows the cap on output tokens.
    pub cap_name: CapName,
    /// Top-level fields of the format that it refuses and that change nothing about the answer: they are dropped.
    /// With `stream_options` among them, it reports usage at the end of a stream without being asked.
    pub drops: &'static [&'static str],
    /// Top-level fields outside the format that are let through to it.
    pub vendor_fields: &'static [&'static str],
    /// Whether it knows `system` but not `developer`.
    pub developer_as_system: bool,
    /// Whether `response_format` forces a schema. Where it does not, the gateway looks at the answer.
    pub forces_schema: bool,
    /// Whether it reports the usage of one answer however many it gives, so that only one may be asked for.
    pub counts_one_answer: bool,
    /// Whether pictures are given to it as bytes and never as an address. A server of the operator's own stands in the
    /// operator's network: it must not be made to fetch what a caller names.
    pub inline_pictures: bool,
    /// The port on which such a server is looked for on this machine.
    pub local_port: Option<u16>,
    /// Where the row's facts are from.
    pub source: &'static str,
}

const UNSAID: &str = "";

/// Embeddings as OpenAI has them.
const EMBEDDINGS: Embeddings = Embeddings {
    path: "/embeddings",
    drops: &[],
    vendor_fields: &[],
    dimensions: Some("dimensions"),
    source: UNSAID,
};

/// Where OpenAI has its moderations.
const MODERATIONS: &str = "/moderations";
/// Speech and transcripts as OpenAI has them.
const AUDIO: Audio = Audio {
    speech_path: Some("/audio/speech"),
    transcriptions_path: Some("/audio/transcriptions"),
    source: UNSAID,
};
/// Completions as OpenAI had them.
const COMPLETIONS: Completions = Completions {
    path: "/completions",
    lacks: &[],
    source: UNSAID,
};

/// Pictures as most servers of the format have them.
const IMAGES: Images = Images {
    path: "/images/generations",
    edits: Some("/images/edits"),
    masks: false,
    variations: None,
    size: PictureSize::Joined,
    bytes: PictureBytes::Asked("b64_json"),
    takes: &[],
    most_at_once: 10,
    keeps_keys: false,
    source: UNSAID,
};

/// Pictures as OpenAI has them.
const OPENAI_IMAGES: Images = Images {
    masks: true,
    variations: Some("/images/variations"),
    bytes: PictureBytes::AskedOfOlder,
    takes: &["quality", "output_format"],
    ..IMAGES
};

/// Films as OpenAI had them, and as others have them now.
const VIDEOS: Videos = Videos {
    path: "/videos",
    only_forms: false,
    takes: &[],
    sound: None,
    source: UNSAID,
};

/// How templates of open models are told not to begin with thoughts.
const NO_THINKING: &[(&str, &str)] = &[("chat_template_kwargs", r#"{"enable_thinking":false}"#)];

/// Decisions by answers that are counted.
const COUNTED: Decisions = Decisions {
    questions: None,
    server: None,
    top_logprobs: 0,
    at_once: 1,
    seed: Some("seed"),
    quiet: &[],
    source: UNSAID,
};

/// Decisions by the likeliest tokens, as OpenAI tells them.
const LIKELIEST: Decisions = Decisions {
    top_logprobs: 20,
    ..COUNTED
};

/// Questions as model servers take them.
const SYSTEM_ONE: Questions = Questions {
    path: "/systemone",
    beside: false,
    shape: Shape::SystemOne,
    most: 128,
    options: 255,
};

/// What most providers have in common; no provider itself.
const USUAL: Preset = Preset {
    name: UNSAID,
    title: UNSAID,
    base_url: None,
    base_url_env: None,
    base_path: "/v1",
    chat_path: "/chat/completions",
    completions: None,
    embeddings: None,
    moderations_path: None,
    images: None,
    videos: None,
    audio: None,
    batches: None,
    decisions: COUNTED,
    key: Key::Optional,
    auth: Auth::Bearer,
    cap_name: CapName::AsSent,
    drops: &[],
    vendor_fields: &[],
    developer_as_system: true,
    forces_schema: true,
    counts_one_answer: false,
    inline_pictures: false,
    local_port: None,
    source: UNSAID,
};

/// Hints for OpenAI's own bookkeeping, caching and billing. An answer is the same without them.
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

/// The same, for those that also refuse `stream_options`.
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

/// Every preset. The last one is for servers that have no row.
pub const PRESETS: &[Preset] = &[
    Preset {
        name: "openai",
        title: "OpenAI",
        base_url: Some("https://api.openai.com/v1"),
        key: Key::Required("OPENAI_API_KEY"),
        // Reasoning models refuse `max_tokens`; every model takes the newer name.
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
        audio: Some(Audio {
            source: "https://platform.openai.com/docs/api-reference/audio",
            ..AUDIO
        }),
        batches: Some(Batches {
            most_requests: 50_000,
            most_bytes: 200_000_000,
            source: "https://platform.openai.com/docs/api-reference/batch",
        }),
        decisions: Decisions {
            questions: Some(Questions {
                path: "/decisions",
                shape: Shape::OpenAi,
                ..SYSTEM_ONE
            }),
            at_once: 8,
            source: "https://github.com/openai/openai-python/tree/main/src/openai/types",
            ..LIKELIEST
        },
        ..USUAL
    },
    Preset {
        name: "azure-openai",
        title: "Azure OpenAI",
        base_url_env: Some("AZURE_OPENAI_ENDPOINT"),
        base_path: "/openai/v1",
        key: Key::Required("AZURE_OPENAI_API_KEY"),
        auth: Auth::HeaderOrToken("api-key"),
        cap_name: CapName::MaxCompletionTokens,
        vendor_fields: &["data_sources"],
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
        decisions: Decisions {
            at_once: 8,
            source: "https://learn.microsoft.com/azure/foundry/openai/latest",
            ..LIKELIEST
        },
        ..USUAL
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
                beside: true,
                shape: Shape::OpenRouter,
                ..SYSTEM_ONE
            }),
            source: "https://openrouter.ai/docs/api-reference/parameters",
            ..LIKELIEST
        },
        ..USUAL
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
            ..COUNTED
        },
        ..USUAL
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
            size: PictureSize::Apart,
            bytes: PictureBytes::Asked("base64"),
            takes: &["output_format", "negative_prompt", "seed"],
            most_at_once: 4,
            source: "https://docs.together.ai/reference/post-images-generations",
            ..IMAGES
        }),
        audio: Some(Audio {
            source: "https://docs.together.ai/reference/audio-speech",
            ..AUDIO
        }),
        decisions: Decisions {
            at_once: 8,
            source: "https://docs.together.ai/reference/chat-completions",
            ..COUNTED
        },
        ..USUAL
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
            // It answers 400 to every field that it does not know.
            drops: &["encoding_format", "user"],
            vendor_fields: &["prompt_template", "normalize"],
            source: "https://docs.fireworks.ai/api-reference/creates-an-embedding-vector-representing-the-input-text",
            ..EMBEDDINGS
        }),
        decisions: Decisions {
            top_logprobs: 5,
            at_once: 8,
            seed: None,
            source: "https://docs.fireworks.ai/api-reference/post-chatcompletions",
            ..LIKELIEST
        },
        ..USUAL
    },
    Preset {
        name: "deepseek",
        // It has `json_object` alone (https://api-docs.deepseek.com/guides/json_mode).
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
            ..LIKELIEST
        },
        ..USUAL
    },
    Preset {
        name: "mistral",
        title: "Mistral AI",
        base_url: Some("https://api.mistral.ai/v1"),
        key: Key::Required("MISTRAL_API_KEY"),
        // It answers 422 to every field that it does not know.
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
            ..COUNTED
        },
        ..USUAL
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
            size: PictureSize::Ratio,
            source: "https://docs.x.ai/developers/rest-api-reference/inference/images",
            ..IMAGES
        }),
        decisions: Decisions {
            top_logprobs: 8,
            source: "https://docs.x.ai/developers/rest-api-reference/inference/chat",
            ..LIKELIEST
        },
        ..USUAL
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
            ..LIKELIEST
        },
        ..USUAL
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
            ..LIKELIEST
        },
        ..USUAL
    },
    Preset {
        name: "ollama",
        title: "Ollama",
        base_url: Some("http://127.0.0.1:11434/v1"),
        cap_name: CapName::MaxTokens,
        drops: BOOKKEEPING,
        vendor_fields: &["reasoning"],
        inline_pictures: true,
        local_port: Some(11434),
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
            most_at_once: 1,
            source: "https://docs.ollama.com/api/openai-compatibility",
            ..IMAGES
        }),
        decisions: Decisions {
            questions: Some(SYSTEM_ONE),
            quiet: &[("reasoning_effort", r#""none""#)],
            source: "https://docs.ollama.com/api/openai-compatibility",
            ..LIKELIEST
        },
        ..USUAL
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
        inline_pictures: true,
        local_port: Some(8080),
        source: "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
        counts_one_answer: true,
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
            quiet: NO_THINKING,
            source: "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
            ..LIKELIEST
        },
        ..USUAL
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
        inline_pictures: true,
        local_port: Some(8000),
        source: "https://github.com/vllm-project/vllm/blob/main/vllm/entrypoints/openai/chat_completion/protocol.py",
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
            sound: Some("generate_sound"),
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
            at_once: 16,
            quiet: NO_THINKING,
            source: "https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html",
            ..LIKELIEST
        },
        ..USUAL
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
        inline_pictures: true,
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
            at_once: 16,
            quiet: NO_THINKING,
            source: "https://docs.sglang.io/basic_usage/native_api.html",
            ..LIKELIEST
        },
        ..USUAL
    },
    Preset {
        name: "lm-studio",
        title: "LM Studio",
        base_url: Some("http://127.0.0.1:1234/v1"),
        cap_name: CapName::MaxTokens,
        drops: BOOKKEEPING,
        vendor_fields: &["top_k", "min_p", "repeat_penalty"],
        inline_pictures: true,
        local_port: Some(1234),
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
            ..COUNTED
        },
        ..USUAL
    },
    Preset {
        name: "openai-compatible",
        title: "Any other server of the format",
        moderations_path: Some(MODERATIONS),
        vendor_fields: &["top_k", "min_p", "repetition_penalty", "chat_template_kwargs"],
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
        decisions: Decisions {
            questions: Some(SYSTEM_ONE),
            source: "-",
            ..LIKELIEST
        },
        ..USUAL
    },
];

/// The preset with this name.
pub fn preset(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

impl Preset {
    /// The environment variable that usually has the key.
    pub fn key_env(&self) -> Option<&'static str> {
        match self.key {
            Key::Required(name) => Some(name),
            Key::Optional => None,
        }
    }
}
