//! Decisions by servers that speak chat completions. A server with an endpoint for questions
//! receives the questions; others receive label calls by the best available method. Missing
//! capabilities of a deployment are recorded and not tried again.

mod chat;
mod completion;
mod token_ids;
mod vocabulary;

use async_trait::async_trait;
use bytes::Bytes;
use serde_json::Value;
use tollgate_types::decide::State;
use tollgate_upstream::{
    CallContext, DecideProvider, DecisionWay, Draw, LabelCall, LabelDraws, LabelReading, RelayAnswer,
    RelayCall, UpstreamError, letters,
};

use super::adapter::OpenAiCompatible;
use super::presets::{Decisions, LabelServer, Questions};
use crate::decisions::{Capability, Memory, attempt_outcome, native, probe};
use crate::http::{BaseUrl, Credential, Endpoint, EndpointError, RequestBody, Timeouts};
use crate::refusal;
use vocabulary::VocabularyCache;

/// Maximum number of labels of one reading by token ids. A reading may need several requests.
const MAX_LABELS: usize = 255;
/// Number of top tokens that a request to a completion endpoint requests.
const COMPLETION_TOKENS: usize = 512;

/// Endpoints of a provider for decisions, and the recorded capabilities of its models.
#[derive(Debug)]
pub(super) struct DecisionsEndpoint {
    row: &'static Decisions,
    questions: Option<Endpoint>,
    server: Option<ServerEndpoints>,
    memory: Memory,
    vocabulary: VocabularyCache,
}

/// Endpoints of a model server in addition to those of OpenAI's format.
#[derive(Debug)]
pub(super) struct ServerEndpoints {
    pub(super) kind: LabelServer,
    pub(super) tokenize: Endpoint,
    /// Completion endpoint: SGLang's `/generate`, llama.cpp's `/completion`.
    complete: Option<Endpoint>,
    /// Chat template endpoint: llama.cpp's `/apply-template`.
    pub(super) template: Option<Endpoint>,
}

impl ServerEndpoints {
    fn new(kind: LabelServer, base: &BaseUrl, credentials: &[Credential]) -> Result<Self, EndpointError> {
        // These endpoints are siblings of the format's `/v1`.
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
            let base = match row.replaces_last_segment {
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
            vocabulary: VocabularyCache::default(),
        })
    }

    /// Returns the server's own endpoints, if any.
    pub(super) fn server(&self) -> Option<&ServerEndpoints> {
        self.server.as_ref()
    }

    /// Returns the endpoint for questions, if its format can express the state and the model was
    /// not found to lack the endpoint.
    fn native_questions(&self, model: &str, state: &State) -> Option<(&'static Questions, &Endpoint)> {
        let (row, endpoint) = (self.row.questions.as_ref()?, self.questions.as_ref()?);
        let is_able =
            native::can_express(row.shape, state) && self.memory.may_have(model, Capability::Questions);
        is_able.then_some((row, endpoint))
    }

    /// Returns the source of probabilities in the server's own endpoints, unless the model was
    /// found to lack it or it does not support the state's media.
    fn server_capability(&self, model: &str, state: &State) -> Option<Capability> {
        let kind = self.server.as_ref()?.kind;
        // Only vLLM reports label probabilities in chat completions, which support media.
        let is_taken = kind == LabelServer::Vllm || state.media.is_empty();
        let capability = match kind {
            LabelServer::Vllm | LabelServer::Sglang => Capability::TokenIds,
            LabelServer::LlamaCpp => Capability::Completion,
        };
        (is_taken && self.memory.may_have(model, capability)).then_some(capability)
    }

    /// Returns the decision method of the server's own endpoints, under the conditions of
    /// [`server_capability`](Self::server_capability).
    fn server_way(&self, model: &str, state: &State) -> Option<DecisionWay> {
        Some(match self.server_capability(model, state)? {
            Capability::TokenIds => DecisionWay::Logits { labels: MAX_LABELS },
            _ => DecisionWay::TopLogprobs {
                max: COMPLETION_TOKENS,
            },
        })
    }
}

impl OpenAiCompatible {
    /// Posts to one of the server's own endpoints and decodes the JSON response.
    pub(super) async fn ask_json(
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
            .map_err(|_| UpstreamError::protocol(format!("the response is not JSON ({} bytes)", body.len())))
    }

    async fn read_by(
        &self,
        ctx: &CallContext,
        capability: Capability,
        call: &LabelCall,
    ) -> Result<Option<LabelReading>, UpstreamError> {
        match (capability, &self.decisions.server) {
            (Capability::TokenIds, Some(server)) => self.read_token_ids(ctx, server, call).await,
            (Capability::Completion, Some(server)) => self.read_completion(ctx, server, call).await,
            (Capability::Logprobs, _) => self.read_chat(ctx, call).await,
            _ => Ok(None),
        }
    }
}

#[async_trait]
impl DecideProvider for OpenAiCompatible {
    fn decision_ways(&self, upstream_model: &str, state: &State) -> Vec<DecisionWay> {
        let (decisions, mut ways) = (&self.decisions, Vec::with_capacity(4));
        let native_questions = decisions.native_questions(upstream_model, state);
        ways.extend(native_questions.map(|(row, _)| DecisionWay::Native {
            questions: row.max,
            options: row.options,
            tools: false,
            abstain: false,
        }));
        ways.extend(decisions.server_way(upstream_model, state));
        let is_chat = ways
            .iter()
            .all(|way| !matches!(way, DecisionWay::TopLogprobs { .. }));
        if is_chat
            && decisions.row.top_logprobs > 0
            && decisions.memory.may_have(upstream_model, Capability::Logprobs)
        {
            ways.push(DecisionWay::TopLogprobs {
                max: decisions.memory.max(upstream_model, decisions.row.top_logprobs),
            });
        }
        ways.push(DecisionWay::Sampled {
            max_answers: decisions.row.max_answers,
        });
        ways
    }

    async fn relay(&self, ctx: &CallContext, call: &RelayCall) -> Result<Option<RelayAnswer>, UpstreamError> {
        let decisions = &self.decisions;
        let Some((row, endpoint)) = decisions.native_questions(&call.upstream_model, &call.state) else {
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
        attempt_outcome(
            &decisions.memory,
            &call.upstream_model,
            Capability::Questions,
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
        let capability = decisions.server_capability(upstream_model, &State::default());
        let (Some(server), Some(capability)) = (&decisions.server, capability) else {
            return Ok(plain());
        };
        let asked = self.vocabulary_of(ctx, server, upstream_model).await;
        let nothing = async { Ok(None::<()>) };
        let known = attempt_outcome(&decisions.memory, upstream_model, capability, asked, nothing).await?;
        Ok(known.map_or_else(plain, |known| known.labels(number)))
    }

    async fn read_labels(
        &self,
        ctx: &CallContext,
        way: DecisionWay,
        call: &LabelCall,
    ) -> Result<Option<LabelReading>, UpstreamError> {
        let model = &call.upstream_model;
        let by_server = self.decisions.server_way(model, &call.state) == Some(way);
        let capability = match way {
            DecisionWay::Logits { .. } if by_server => Capability::TokenIds,
            DecisionWay::TopLogprobs { .. } if by_server => Capability::Completion,
            DecisionWay::TopLogprobs { .. } if self.decisions.row.top_logprobs > 0 => Capability::Logprobs,
            _ => return Ok(None),
        };
        let attempt = self.read_by(ctx, capability, call).await;
        let probing = probe(call);
        let probed = self.read_by(ctx, capability, &probing);
        attempt_outcome(&self.decisions.memory, model, capability, attempt, probed).await
    }

    async fn draw_labels(
        &self,
        ctx: &CallContext,
        call: &LabelCall,
        draw: Draw,
    ) -> Result<Option<LabelDraws>, UpstreamError> {
        self.draw_chat(ctx, call, draw).await.map(Some)
    }
}
