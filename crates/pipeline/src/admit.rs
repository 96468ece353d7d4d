//! Stage 2: what must be fetched, tokens per minute, then the hold. Nothing is sent upstream without what comes out of here.

use std::sync::Arc;
use std::time::Duration;

use tollgate_accounts::limits::TokenReservation;
use tollgate_accounts::{Caller, LimitHeaders};
use tollgate_billing::{Demand, Hold, HoldRequest, Preview};
use tollgate_catalog::Model;
use tollgate_storage::{Decision, Job};
use tollgate_types::{Credits, Error, RequestId, Timestamp};
use tollgate_upstream::{CallContext, Permit, TextCall};

use crate::Pipeline;
use crate::media::NamesMedia;
use crate::policy::Policy;
use crate::route::{Route, Routed};
use crate::structured::Structured;

/// Output tokens that the limit reserves for a call without a cap.
const RESERVED_OUTPUT: u64 = 4_096;

/// A decoded request for an operation: text generation, unless another call is named.
#[derive(Clone, Debug)]
pub struct CallRequest<C = TextCall> {
    /// Who asks.
    pub caller: Caller,
    /// The request's id.
    pub request: RequestId,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// The path of the endpoint.
    pub endpoint: &'static str,
    /// What it asks for, as far as its cost goes.
    pub demand: Demand,
    /// The most that the caller allows it to cost.
    pub max_cost: Option<Credits>,
    /// What is sent; `upstream_model`, and a cap that nobody else sets, are filled in later.
    pub call: C,
}

/// A call that may be made.
#[must_use = "an admission holds credits and tokens"]
pub struct Admission<C = TextCall> {
    pub(crate) hold: Hold,
    pub(crate) reservation: TokenReservation,
    pub(crate) model: Arc<Model>,
    pub(crate) routes: Vec<Route>,
    pub(crate) request: CallRequest<C>,
    /// What looks at the answer.
    pub(crate) policy: Option<Arc<Policy>>,
    /// The shape that the answer must have, when the gateway has to see to it.
    pub(crate) structured: Option<Arc<Structured>>,
}

/// A call that may not be made, with what the limit headers should say.
#[derive(Debug)]
pub struct Refused {
    /// Why.
    pub error: Error,
    /// The window of tokens, when it was looked at.
    pub tokens: Option<Decision>,
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        refused.error
    }
}

impl<C> Admission<C> {
    /// The frame in which an upstream may be called. There is no other way to make one.
    pub(crate) fn context(&self, header_timeout: Duration, idle_timeout: Duration) -> CallContext {
        let permit = Permit::Hold(self.hold.id());
        CallContext {
            request: self.request.request,
            permit,
            header_timeout,
            idle_timeout,
            inspected: self.policy.is_some() || self.structured.is_some(),
        }
    }
}

/// The frame in which an upstream may be asked what costs nothing: a classifier of the operator's about a text before
/// anything is held, or how many tokens a request has.
pub(crate) fn free_context(request: RequestId, reason: &'static str, timeout: Duration) -> CallContext {
    CallContext {
        request,
        permit: Permit::Free(reason),
        header_timeout: timeout,
        idle_timeout: timeout,
        inspected: false,
    }
}

/// The frame in which an upstream may be called for a job, whose hold was taken with it.
pub(crate) fn job_context(job: &Job, header_timeout: Duration, idle_timeout: Duration) -> CallContext {
    CallContext {
        request: job.request,
        permit: Permit::Hold(job.hold),
        header_timeout,
        idle_timeout,
        inspected: false,
    }
}

impl Pipeline {
    /// Fetches the media that must be, reserves tokens, then holds the most that the call can cost. A refusal leaves
    /// nothing behind. `texts` are what a tokenizer can count of the call's text, as it stands in the caller's body; they
    /// are asked for where the balance does not cover its bytes.
    pub async fn admit<C: NamesMedia>(
        &self,
        mut routed: Routed,
        mut request: CallRequest<C>,
        texts: fn(&C) -> Vec<String>,
    ) -> Result<(Admission<C>, Decision), Refused> {
        let fetched = C::fetch_media(self, &mut routed, &mut request).await;
        fetched.map_err(|error| Refused { error, tokens: None })?;
        let demand = routed.demand(request.demand);
        let tokens = tokens_to_reserve(&demand);
        let reserved = self.limiter.reserve(&request.caller.account, tokens).await;
        let (reservation, decision) = reserved.map_err(|(error, decision)| Refused {
            error,
            tokens: Some(decision),
        })?;
        let hold_request = self.hold_request(&routed, &request);
        let count = || self.counted_demand(&routed, &request, texts);
        match Hold::take(&*self.ledger, &hold_request, &routed.model, demand, count).await {
            Ok(hold) => {
                let Routed {
                    model,
                    routes,
                    structured,
                    ..
                } = routed;
                Ok((
                    Admission {
                        hold,
                        reservation,
                        model,
                        routes,
                        request,
                        policy: self.policy().filter(|policy| policy.inspects_output()),
                        structured,
                    },
                    decision,
                ))
            }
            Err(error) => {
                self.limiter.correct(reservation, 0).await;
                Err(Refused { error, tokens: None })
            }
        }
    }

    /// What [`Pipeline::admit`] would hold for the call now, and holds nothing. Media are fetched as there, since what they
    /// cost is not known before.
    pub async fn preview<C: NamesMedia>(
        &self,
        routed: &mut Routed,
        request: &mut CallRequest<C>,
        texts: fn(&C) -> Vec<String>,
    ) -> Result<Preview, Error> {
        C::fetch_media(self, routed, request).await?;
        let demand = routed.demand(request.demand);
        let hold_request = self.hold_request(routed, request);
        let count = || self.counted_demand(routed, request, texts);
        Hold::preview(&*self.ledger, &hold_request, &routed.model, demand, count).await
    }

    fn hold_request<C>(&self, routed: &Routed, request: &CallRequest<C>) -> HoldRequest {
        HoldRequest {
            account: request.caller.account_id(),
            key: request.caller.key,
            request: request.request,
            public_model: routed.public_model.clone(),
            endpoint: request.endpoint,
            max_cost: request.max_cost,
            accepted_at: request.accepted_at,
            ahead: request.caller.account.test_clock.unwrap_or_default(),
            lifetime: self.settings.hold_lifetime(),
        }
    }

    /// What the call may consume when its texts are counted.
    async fn counted_demand<C>(
        &self,
        routed: &Routed,
        request: &CallRequest<C>,
        texts: fn(&C) -> Vec<String>,
    ) -> Option<Demand> {
        let counted = self
            .count_text(routed.model.tokenizer?, texts(&request.call))
            .await?;
        Some(routed.demand(request.demand.counted(counted)))
    }

    /// What the limit headers of a caller say now.
    pub async fn limit_headers(
        &self,
        caller: &Caller,
        budget: tollgate_storage::Budget,
    ) -> Option<LimitHeaders> {
        self.limiter.peek(&caller.account, budget).await
    }
}

impl Routed {
    /// What a call may consume, with what the gateway adds to it.
    pub fn demand(&self, asked: Demand) -> Demand {
        match &self.structured {
            Some(structured) => structured.demand(asked),
            None => asked,
        }
    }
}

fn tokens_to_reserve(demand: &Demand) -> u64 {
    let output = demand
        .max_tokens
        .map_or(RESERVED_OUTPUT, |cap| cap.min(RESERVED_OUTPUT));
    demand
        .input_estimate()
        .saturating_add(output.saturating_mul(demand.n.max(1)))
}
