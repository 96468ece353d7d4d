//! Labels by the numbers of their tokens, whose probabilities are exact however improbable they are: chat completions of
//! vLLM, `/generate` of SGLang.

use std::collections::HashMap;

use serde_json::{Value, json};
use tollgate_upstream::{CallContext, LabelCall, LabelReading, UpstreamError};

use super::ServerEndpoints;
use crate::deciding::{reading, told_by_chat};
use crate::openai_compatible::OpenAiCompatible;
use crate::openai_compatible::presets::LabelServer;

/// The most tokens that a request may name.
const AT_ONCE: usize = 128;
/// How vLLM writes a token as its number.
const MARK: &str = "token_id:";

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
            return Err(UpstreamError::protocol("a label is not a token of the model"));
        };
        let all = tokens.concat();
        let mut told: HashMap<u64, f64> = HashMap::with_capacity(all.len());
        // Every request tells shares of the same whole, so that their answers can be put together.
        for some in all.chunks(AT_ONCE) {
            let answer = match server.kind {
                LabelServer::Sglang => self.ask_sglang(ctx, server, call, some).await?,
                LabelServer::Vllm | LabelServer::LlamaCpp => self.ask_vllm(ctx, call, some).await?,
            };
            // A server that does not know the field tells others, or none.
            if !some.iter().all(|token| answer.contains_key(token)) {
                return Ok(None);
            }
            told.extend(answer);
        }
        let named = call.labels.iter().zip(&tokens).flat_map(|(label, tokens)| {
            let told = &told;
            tokens
                .iter()
                .filter_map(move |token| Some((label.clone(), *told.get(token)?)))
        });
        let read = reading(&named.collect::<Vec<_>>(), &call.labels, 1)?;
        let requests = u32::try_from(all.chunks(AT_ONCE).len()).unwrap_or(u32::MAX);
        let rest = None;
        Ok(read.map(|read| LabelReading {
            rest,
            requests,
            ..read
        }))
    }

    async fn ask_vllm(
        &self,
        ctx: &CallContext,
        call: &LabelCall,
        tokens: &[u64],
    ) -> Result<HashMap<u64, f64>, UpstreamError> {
        let mut body = self.asking(call, 1);
        body.insert("logprobs".to_owned(), json!(true));
        body.insert("top_logprobs".to_owned(), json!(0));
        body.insert("logprob_token_ids".to_owned(), json!(tokens));
        body.insert("return_tokens_as_token_ids".to_owned(), json!(true));
        let answer = self.ask_chat(ctx, &call.upstream_model, body).await?;
        let told = told_by_chat(answer.choices.first().and_then(|choice| choice.logprobs.as_ref()))?;
        let told = told.into_iter();
        let numbered =
            told.filter_map(|(text, logprob)| Some((text.strip_prefix(MARK)?.parse().ok()?, logprob)));
        Ok(numbered.collect())
    }

    /// SGLang has no place for a chat template here: the text ends where the label is to follow.
    async fn ask_sglang(
        &self,
        ctx: &CallContext,
        server: &ServerEndpoints,
        call: &LabelCall,
        tokens: &[u64],
    ) -> Result<HashMap<u64, f64>, UpstreamError> {
        let Some(endpoint) = &server.complete else {
            return Ok(HashMap::new());
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
        Ok(read.collect())
    }
}
