//! Forbids provider names in the core: the domain must not depend on the provider of a model.
//!
//! Applies to code and literals; comments may name the source document of a rule.

use super::Fault;
use super::rust::{Keep, blank, line_of};
use super::tree::Tree;

/// Crates that must not name a provider.
const CORE: &[&str] = &[
    "types", "storage", "accounts", "billing", "jobs", "pipeline", "edge",
];

/// Providers and model servers, in lower case. Names that are everyday words include their quotes.
const PROVIDERS: &[&str] = &[
    "openai",
    "azure",
    "anthropic",
    "claude",
    "gemini",
    "google",
    "vertex",
    "bedrock",
    "groq",
    "fireworks",
    "deepseek",
    "mistral",
    "cerebras",
    "nvidia",
    "ollama",
    "openrouter",
    "cohere",
    "perplexity",
    "llamacpp",
    "llama_cpp",
    "llama.cpp",
    "vllm",
    "sglang",
    "lm_studio",
    "lm-studio",
    "runpod",
    "\"xai\"",
    "\"together\"",
];

/// Names of wire formats and their headers: they name a format, not a provider that is called.
const FORMATS: &[&str] = &[
    "openai_chat",
    "openaichat",
    "openai_completions",
    "openaicompletions",
    "openai_responses",
    "openairesponses",
    "openai_realtime",
    "openairealtime",
    "anthropic_messages",
    "anthropicmessages",
    "formats::gemini",
    "format::gemini",
    "anthropic-ratelimit",
    "anthropic-version",
    "openai-insecure-api-key",
    "x-goog-api-key",
    "x-goog-api-client",
    "type.googleapis.com/google.rpc",
];

/// Checks the product files of the core.
pub fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    let core = |path: &str| {
        CORE.iter()
            .any(|name| path.starts_with(&format!("crates/{name}/")))
    };
    for file in tree
        .files
        .iter()
        .filter(|file| file.is_product() && core(&file.path))
    {
        let mut code = blank(&file.text, Keep::CodeAndLiterals).to_ascii_lowercase();
        for format in FORMATS {
            code = code.replace(format, &" ".repeat(format.len()));
        }
        for provider in PROVIDERS {
            if let Some(offset) = code.find(provider) {
                let what = format!("names the provider {provider}: the core speaks of providers");
                faults.push(Fault::at(&file.path, line_of(&code, offset), what));
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::super::expect_faults;
    use super::*;

    #[test]
    fn core_names_no_provider() {
        let cases = [
            (
                "crates/pipeline/src/dispatch.rs",
                "if id == \"groq\" { retry() }",
                1,
            ),
            ("crates/pipeline/src/dispatch.rs", "struct OpenAiError;", 1),
            ("crates/edge/src/error.rs", "\"the call to Anthropic failed\"", 1),
            (
                "crates/billing/src/quote.rs",
                "match name { \"together\" => 1 }",
                1,
            ),
            ("crates/billing/src/quote.rs", "\"taken together\"", 0),
            (
                "crates/edge/src/error.rs",
                "Format::Gemini => formats::openai_chat::encode()",
                0,
            ),
            (
                "crates/types/src/usage.rs",
                "// the meaning is OpenAI's: cached tokens",
                0,
            ),
            ("crates/providers/src/registry.rs", "\"groq\"", 0),
            ("crates/edge/src/auth/tests.rs", "\"openai/gpt\"", 0),
        ];
        expect_faults(check, &cases);
    }

    #[test]
    fn a_fault_names_its_line() {
        let tree = Tree::of(&[(
            "crates/types/src/id.rs",
            "// one\n\nconst A: &str = \"Mistral\";\n",
        )]);
        assert_eq!(check(&tree)[0].line, Some(3));
    }
}
