//! Provider adapters: one folder or one preset for each provider.
//!
//! Suggested reading order: [`registry`], [`openai_compatible`] with its table of
//! [`presets`](openai_compatible::presets), [`anthropic`], [`openai_responses`], [`gemini`],
//! [`bedrock`], [`tokens`], [`moderations`], [`search`], [`mcp`], [`http`], [`egress`], [`pages`],
//! [`extractor`], [`sim`], [`stripe`], [`mail`], [`gateway`], [`discover`]. How to add a provider:
//! docs/adding-a-provider.md.

pub mod anthropic;
mod batches;
pub mod bedrock;
mod comfyui;
mod conversion;
mod counted;
mod decisions;
pub mod discover;
pub mod egress;
pub mod extractive;
pub mod extractor;
mod fal;
pub mod gateway;
pub mod gemini;
pub mod http;
pub mod mail;
pub mod mcp;
mod media;
pub mod moderations;
pub mod openai_compatible;
pub mod openai_responses;
pub mod pages;
mod perplexity;
mod refusal;
pub mod registry;
mod replicate;
mod reports;
mod sdcpp;
pub mod search;
pub mod sim;
pub mod stripe;
pub mod tokens;

pub use egress::{EgressClient, EgressSettings, PageClient, PageSettings};
pub use extractor::{Extractor, ExtractorSettings};
pub use http::{HttpClient, HttpSettings};
pub use registry::{ConfigError, ProviderConfig};
