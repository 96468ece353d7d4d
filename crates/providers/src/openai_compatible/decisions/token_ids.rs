//! Labels by token ids: vLLM's chat completions and SGLang's `/generate`. Both report the exact
//! probability of every label, even of an improbable one.

use std::collections::HashMap;

use serde_json::{Value, json};
use tollgate_types::Usage;
use tollgate_upstream::{CallContext, LabelCall, LabelReading, UpstreamError};

use super::ServerEndpoints;
use crate::decisions::{chat_logprobs, reading};
use crate::openai_compatible::OpenAiCompatible;
use crate::openai_compatible::presets::LabelServer;

/// Maximum number of token ids of a request.
const MAX_TOKEN_IDS: usize = 128;
/// Log probabilities by token id, and the reported usage.
type LogprobsById = (HashMap<u64, f64>, Option<Usage>);

/// Prefix of a token id in vLLM's responses.
const TOKEN_ID_PREFIX: &str = "token_id:";

impl OpenAiCompatible {
    pub(super) async fn read_token_ids(
        &self,
        ctx: &CallContext,
        server: &ServerEndpoints,
        call: &LabelCall,
    ) -> Result<Option<LabelReading>, UpstreamError> {
        let Some(known) = self.vocabulary_of(ctx, server, &call.upstream_model).await? else {
            return Ok(None);
        };
        let tokens = call.labels.iter().map(|label| known.tokens(label));
        let Some(tokens) = tokens.collect::<Option<Vec<&[u64]>>>() else {
            return Err(UpstreamError::protocol(
                "a label is not a single token of the model",
            ));
        };
        let all = tokens.concat();
        let mut token_logprobs: HashMap<u64, f64> = HashMap::with_capacity(all.len());
        let mut usage: Option<Usage> = None;
        // The requests report probabilities of the same distribution, so their responses can be
        // merged.
        for some in all.chunks(MAX_TOKEN_IDS) {
            let (answer, consumed) = match server.kind {
                LabelServer::Sglang => self.ask_sglang(ctx, server, call, some).await?,
                LabelServer::Vllm | LabelServer::LlamaCpp => self.ask_vllm(ctx, call, some).await?,
            };
            // A server that ignores the field reports other tokens, or none.
            if !some.iter().all(|token| answer.contains_key(token)) {
                return Ok(None);
            }
            token_logprobs.extend(answer);
            usage = match (usage, consumed) {
                (Some(before), Some(consumed)) => Some(before.plus(&consumed)),
                (before, consumed) => before.or(consumed),
            };
        }
        let named = call.labels.iter().zip(&tokens).flat_map(|(label, tokens)| {
            let token_logprobs = &token_logprobs;
            tokens
                .iter()
                .filter_map(move |token| Some((label.clone(), *token_logprobs.get(token)?)))
        });
        let read = reading(&named.collect::<Vec<_>>(), &call.labels, 1)?;
        let requests = u32::try_from(all.chunks(MAX_TOKEN_IDS).len()).unwrap_or(u32::MAX);
        let rest = None;
        Ok(read.map(|read| LabelReading {
            rest,
            requests,
            usage,
            ..read
        }))
    }

    async fn ask_vllm(
        &self,
        ctx: &CallContext,
        call: &LabelCall,
        tokens: &[u64],
    ) -> Result<LogprobsById, UpstreamError> {
        let mut body = self.base_body(call, 1);
        body.insert("logprobs".to_owned(), json!(true));
        body.insert("top_logprobs".to_owned(), json!(0));
        body.insert("logprob_token_ids".to_owned(), json!(tokens));
        body.insert("return_tokens_as_token_ids".to_owned(), json!(true));
        let answer = self.ask_chat(ctx, &call.upstream_model, body).await?;
        let token_logprobs =
            chat_logprobs(answer.choices.first().and_then(|choice| choice.logprobs.as_ref()))?;
        let token_logprobs = token_logprobs.into_iter();
        let numbered = token_logprobs
            .filter_map(|(text, logprob)| Some((text.strip_prefix(TOKEN_ID_PREFIX)?.parse().ok()?, logprob)));
        Ok((numbered.collect(), answer.usage))
    }

    /// Requests log probabilities from SGLang. `/generate` applies no chat template: the text ends
    /// where the label follows.
    async fn ask_sglang(
        &self,
        ctx: &CallContext,
        server: &ServerEndpoints,
        call: &LabelCall,
        tokens: &[u64],
    ) -> Result<LogprobsById, UpstreamError> {
        let Some(endpoint) = &server.complete else {
            return Ok((HashMap::new(), None));
        };
        let body = json!({
            "text": format!("{}\n\n{}", call.state.text, call.question),
            "sampling_params": {"max_new_tokens": 1, "temperature": 1},
            "return_logprob": true,
            "logprob_start_len": -1,
            "token_ids_logprob": tokens,
        });
        let answer = self.ask_json(ctx, endpoint, &body).await?;
        let entries = answer
            .pointer("/meta_info/output_token_ids_logprobs/0")
            .and_then(Value::as_array);
        let entries = entries.into_iter().flatten();
        let read = entries.filter_map(|entry| Some((entry.get(1)?.as_u64()?, entry.get(0)?.as_f64()?)));
        let tokens = |name: &str| answer.get("meta_info")?.get(name)?.as_u64();
        let usage = tokens("prompt_tokens").zip(tokens("completion_tokens"));
        Ok((
            read.collect(),
            usage.map(|(input, output)| Usage::tokens(input, output)),
        ))
    }
}
