//! Decisions by servers that speak chat completions: questions where a server takes them, else labels, by the best means
//! that it has. What a deployment turns out not to have is remembered and not asked for again.

mod chat;
mod completion;
mod token_ids;
mod vocabulary;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;
use tollgate_types::decide::State;
use tollgate_upstream::{
    CallContext, DecideProvider, DecisionWay, LabelCall, LabelDraws, LabelReading, RelayAnswer, RelayCall,
    UpstreamError, letters,
};

use super::adapter::OpenAiCompatible;
use super::presets::{Decisions, LabelServer, Questions};
use crate::deciding::{Means, Memory, native, probe, settled};
use crate::http::{BaseUrl, Credential, Endpoint, EndpointError, RequestBody, Timeouts};
use crate::refusal;
use vocabulary::Vocabulary;

/// What a server that counts tokens by their numbers tells of in one reading, by as many requests as that takes.
const LABELS: usize = 255;
/// How many tokens an endpoint of completions is asked for.
const COMPLETION_TOKENS: usize = 512;

/// Where a provider is asked for decisions, and what is known of its models.
#[derive(Debug)]
pub(super) struct DecisionsEndpoint {
    row: &'static Decisions,
    questions: Option<Endpoint>,
    server: Option<ServerEndpoints>,
    memory: Memory,
    vocabulary: Vocabulary,
}

/// The endpoints of a model server beside those of the format.
#[derive(Debug)]
struct ServerEndpoints {
    kind: LabelServer,
    tokenize: Endpoint,
    /// SGLang's `/generate`, llama.cpp's `/completion`.
    complete: Option<Endpoint>,
    /// llama.cpp's `/apply-template`.
    template: Option<Endpoint>,
}

impl ServerEndpoints {
    fn new(kind: LabelServer, base: &BaseUrl, credentials: &[Credential]) -> Result<Self, EndpointError> {
        // They stand beside the format's `/v1`.
        let (root, last) = base.clone().without_last_segment();
        let root = if last.as_deref() == Some("/v1") {
            root
        } else {
            base.clone()
        };
        let at = |path: &str| Endpoint::new(&root, path, credentials);
        let (complete, template) = match kind {
            LabelServer::Vllm => (None, None),
            LabelServer::Sglang => (Some(at("/generate")?), None),
            LabelServer::LlamaCpp => (Some(at("/completion")?), Some(at("/apply-template")?)),
        };
        Ok(Self {
            kind,
            tokenize: at("/tokenize")?,
            complete,
            template,
        })
    }
}

impl DecisionsEndpoint {
    pub(super) fn new(
        row: &'static Decisions,
        base: &BaseUrl,
        credentials: &[Credential],
    ) -> Result<Self, EndpointError> {
        let questions = row.questions.filter(|_| !base.names_model()).map(|row| {
            let base = match row.beside {
                true => base.clone().without_last_segment().0,
                false => base.clone(),
            };
            Endpoint::new(&base, row.path, credentials)
        });
        let server = row.server.filter(|_| !base.names_model());
        let server = server.map(|kind| ServerEndpoints::new(kind, base, credentials));
        Ok(Self {
            row,
            questions: questions.transpose()?,
            server: server.transpose()?,
            memory: Memory::default(),
            vocabulary: Vocabulary::default(),
        })
    }

    /// Where it takes questions about such a state, if this model may answer them.
    fn natively(&self, model: &str, state: &State) -> Option<(&'static Questions, &Endpoint)> {
        let (row, endpoint) = (self.row.questions.as_ref()?, self.questions.as_ref()?);
        let is_able = native::carries(row.shape, state) && self.memory.may_have(model, Means::Questions);
        is_able.then_some((row, endpoint))
    }

    /// By what a server's own endpoints tell probabilities, as far as is known.
    fn means_of_server(&self, model: &str, state: &State) -> Option<Means> {
        let kind = self.server.as_ref()?.kind;
        // Only vLLM is asked by chat, which is where media can be.
        let is_taken = kind == LabelServer::Vllm || state.media.is_empty();
        let means = match kind {
            LabelServer::Vllm | LabelServer::Sglang => Means::TokenIds,
            LabelServer::LlamaCpp => Means::Completion,
        };
        (is_taken && self.memory.may_have(model, means)).then_some(means)
    }

    /// The way by them.
    fn way_of_server(&self, model: &str, state: &State) -> Option<DecisionWay> {
        Some(match self.means_of_server(model, state)? {
            Means::TokenIds => DecisionWay::Logits { labels: LABELS },
            _ => DecisionWay::TopLogprobs {
                most: COMPLETION_TOKENS,
            },
        })
    }
}

impl OpenAiCompatible {
    /// Asks an endpoint of the server's own and reads the JSON that it answers.
    async fn ask_json(
        &self,
        ctx: &CallContext,
        endpoint: &Endpoint,
        body: &Value,
    ) -> Result<Value, UpstreamError> {
        let body = RequestBody::from(Bytes::from(body.to_string()));
        let response = self.http.post(endpoint, body, Timeouts::of(ctx)).await?;
        if !(200..300).contains(&response.status) {
            return Err(refusal::from_response(response, self.http.settings()).await);
        }
        let body = response.whole(self.http.settings().body_limit).await?;
        serde_json::from_slice(&body)
            .map_err(|_| UpstreamError::protocol(format!("the answer is not JSON ({} bytes)", body.len())))
    }

    async fn read_by(
        &self,
        ctx: &CallContext,
        means: Means,
        call: &LabelCall,
    ) -> Result<Option<LabelReading>, UpstreamError> {
        match (means, &self.decisions.server) {
            (Means::TokenIds, Some(server)) => self.read_token_ids(ctx, server, call).await,
            (Means::Completion, Some(server)) => self.read_completion(ctx, server, call).await,
            (Means::Logprobs, _) => self.read_chat(ctx, call).await,
            _ => Ok(None),
        }
    }
}

#[async_trait]
impl DecideProvider for OpenAiCompatible {
    fn decision_ways(&self, upstream_model: &str, state: &State) -> Vec<DecisionWay> {
        let (decisions, mut ways) = (&self.decisions, Vec::with_capacity(4));
        let natively = decisions.natively(upstream_model, state);
        ways.extend(natively.map(|(row, _)| DecisionWay::Native {
            questions: row.most,
            options: row.options,
            tools: false,
            abstain: false,
        }));
        ways.extend(decisions.way_of_server(upstream_model, state));
        let is_chat = ways
            .iter()
            .all(|way| !matches!(way, DecisionWay::TopLogprobs { .. }));
        if is_chat
            && decisions.row.top_logprobs > 0
            && decisions.memory.may_have(upstream_model, Means::Logprobs)
        {
            ways.push(DecisionWay::TopLogprobs {
                most: decisions.memory.most(upstream_model, decisions.row.top_logprobs),
            });
        }
        ways.push(DecisionWay::Sampled {
            at_once: decisions.row.at_once,
        });
        ways
    }

    async fn relay(&self, ctx: &CallContext, call: &RelayCall) -> Result<Option<RelayAnswer>, UpstreamError> {
        let decisions = &self.decisions;
        let Some((row, endpoint)) = decisions.natively(&call.upstream_model, &call.state) else {
            return Ok(None);
        };
        let asked = |call: RelayCall| async move {
            let body = RequestBody::from(native::body(row.shape, &call)?);
            let response = self.http.post(endpoint, body, Timeouts::of(ctx)).await?;
            let answer = native::relayed(response, &self.http, row.shape, &call.questions).await?;
            Ok(Some(answer))
        };
        let attempt = asked(call.clone()).await;
        let probed = asked(native::probe(call));
        settled(
            &decisions.memory,
            &call.upstream_model,
            Means::Questions,
            attempt,
            probed,
        )
        .await
    }

    async fn labels(
        &self,
        ctx: &CallContext,
        upstream_model: &str,
        number: usize,
    ) -> Result<Vec<String>, UpstreamError> {
        let (decisions, plain) = (&self.decisions, || letters().take(number).collect());
        let means = decisions.means_of_server(upstream_model, &State::default());
        let (Some(server), Some(means)) = (&decisions.server, means) else {
            return Ok(plain());
        };
        let asked = self.vocabulary_of(ctx, server, upstream_model).await;
        let nothing = async { Ok(None::<()>) };
        let known = settled(&decisions.memory, upstream_model, means, asked, nothing).await?;
        Ok(known.map_or_else(plain, |known| known.labels(number)))
    }

    async fn read_labels(
        &self,
        ctx: &CallContext,
        way: DecisionWay,
        call: &LabelCall,
    ) -> Result<Option<LabelReading>, UpstreamError> {
        let model = &call.upstream_model;
        let by_server = self.decisions.way_of_server(model, &call.state) == Some(way);
        let means = match way {
            DecisionWay::Logits { .. } if by_server => Means::TokenIds,
            DecisionWay::TopLogprobs { .. } if by_server => Means::Completion,
            DecisionWay::TopLogprobs { .. } if self.decisions.row.top_logprobs > 0 => Means::Logprobs,
            _ => return Ok(None),
        };
        let attempt = self.read_by(ctx, means, call).await;
        let probing = probe(call);
        let probed = self.read_by(ctx, means, &probing);
        settled(&self.decisions.memory, model, means, attempt, probed).await
    }

    async fn draw_labels(
        &self,
        ctx: &CallContext,
        call: &LabelCall,
        number: u32,
    ) -> Result<Option<LabelDraws>, UpstreamError> {
        self.draw_chat(ctx, call, number).await.map(Some)
    }
}
