//! Stage 2: fetches referenced media, reserves tokens per minute, then takes the hold. Every paid
//! upstream call requires the resulting [`Admission`].

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use tollgate_accounts::limits::TokenReservation;
use tollgate_accounts::{Caller, LimitHeaders};
use tollgate_billing::{Demand, Hold, HoldRequest, Preview};
use tollgate_catalog::Model;
use tollgate_storage::{Decision, Job};
use tollgate_types::{AccountId, Credits, Error, HoldId, RequestId, Timestamp};
use tollgate_upstream::{CallContext, Permit, TextCall};

use crate::Pipeline;
use crate::health::Shape;
use crate::hold_guard::HoldGuard;
use crate::media::ReferencesMedia;
use crate::policy::Policy;
use crate::route::{Route, Routed};
use crate::run_to_completion::Caller as CallerPresence;
use crate::structured::Structured;

/// Maximum number of output tokens per choice to reserve from the tokens-per-minute limit.
const MAX_RESERVED_OUTPUT: u64 = 4_096;

/// A decoded request for an operation; text generation by default.
#[derive(Clone, Debug)]
pub struct CallRequest<C = TextCall> {
    /// Authenticated account and API key.
    pub caller: Caller,
    /// Id of the API request.
    pub request: RequestId,
    /// Time of acceptance, before an account's test clock is applied.
    pub accepted_at: Timestamp,
    /// Path of the public endpoint.
    pub endpoint: &'static str,
    /// Upper bounds on consumption, from which the hold is priced.
    pub demand: Demand,
    /// Cost limit of the request in credits; `None` for no limit.
    pub max_cost: Option<Credits>,
    /// Provider-neutral call. Dispatch fills in `upstream_model`, and the output cap if the caller
    /// set none.
    pub call: C,
}

/// A call with its hold and its token reservation.
#[must_use = "an admission holds credits and tokens"]
pub struct Admission<C = TextCall> {
    pub(crate) hold: Hold,
    /// Guard that releases the hold unless the call runs.
    pub(crate) hold_guard: HoldGuard,
    pub(crate) reservation: TokenReservation,
    pub(crate) model: Arc<Model>,
    pub(crate) routes: Vec<Route>,
    pub(crate) request: CallRequest<C>,
    /// Content policy, if it inspects the output.
    pub(crate) policy: Option<Arc<Policy>>,
    /// Required structure of the response, if the gateway enforces it.
    pub(crate) structured: Option<Arc<Structured>>,
    /// Connection state of the caller, which counts as connected until the call runs.
    pub(crate) caller: CallerPresence,
}

/// Rejection of a call, with the state of its token limit.
#[derive(Debug)]
pub struct Refused {
    /// Reason for the rejection.
    pub error: Error,
    /// State of the tokens-per-minute window, if the limiter rejected the call.
    pub tokens: Option<Decision>,
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        refused.error
    }
}

impl<C> Admission<C> {
    /// Returns the names of the request fields that were changed or dropped for the candidate with
    /// this target.
    pub(crate) fn changed_for(&self, target: &str) -> Vec<String> {
        let route = self
            .routes
            .iter()
            .find(|route| *route.candidate.target == *target);
        route.map(|route| route.changed.clone()).unwrap_or_default()
    }

    /// Returns the provider-neutral call of the request.
    pub fn call(&self) -> &C {
        &self.request.call
    }

    /// Returns the request shape (features and size class), under which upstream health is
    /// recorded.
    pub(crate) fn shape(&self) -> Shape {
        let demand = &self.request.demand;
        let hashed = |size: u32| {
            let mut hasher = DefaultHasher::new();
            let requested = (demand.images > 0, demand.media_bytes > 0, demand.n > 1);
            (self.request.endpoint, requested, self.structured.is_some(), size).hash(&mut hasher);
            hasher.finish()
        };
        Shape {
            coarse: hashed(0),
            // Each size class covers four times the bytes of the previous one.
            fine: hashed(1 + demand.text_bytes.checked_ilog2().unwrap_or(0) / 2),
        }
    }

    /// Returns the context of an upstream call that the hold pays for.
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

/// Returns the context of an upstream call that no caller pays: a token count, the classification
/// of a text for the operator's content policy, or a test by the operator.
pub(crate) fn free_context(request: RequestId, reason: &'static str, timeout: Duration) -> CallContext {
    CallContext {
        request,
        permit: Permit::Free(reason),
        header_timeout: timeout,
        idle_timeout: timeout,
        inspected: false,
    }
}

/// Returns the context of an upstream call for a job, paid by the hold that was taken with the job.
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
    /// Fetches referenced media, reserves tokens, then takes a hold for the maximum cost of the
    /// call. If the hold is denied, the token reservation is released. `texts` returns the
    /// countable texts of the call; it is called only if the byte-based bound of the cost exceeds
    /// the cost limit or the balance.
    pub async fn admit<C: ReferencesMedia>(
        &self,
        routed: Routed,
        request: CallRequest<C>,
        texts: fn(&C) -> Vec<String>,
    ) -> Result<(Admission<C>, Decision), Refused> {
        self.admit_as(None, routed, request, texts).await
    }

    /// Admits a call like [`Pipeline::admit`], with this id of its hold instead of the request's.
    pub(crate) async fn admit_as<C: ReferencesMedia>(
        &self,
        hold: Option<HoldId>,
        mut routed: Routed,
        mut request: CallRequest<C>,
        texts: fn(&C) -> Vec<String>,
    ) -> Result<(Admission<C>, Decision), Refused> {
        let fetched = C::fetch_media(self, &mut routed, &mut request).await;
        fetched.map_err(|error| Refused { error, tokens: None })?;
        let demand = routed.demand(request.demand);
        let account = &request.caller.account;
        let output = output_to_reserve(&demand, self.limiter.tpm(account));
        let reserved = self
            .limiter
            .reserve(account, demand.input_estimate(), output)
            .await;
        let (reservation, decision) = reserved.map_err(|(error, decision)| Refused {
            error,
            tokens: Some(decision),
        })?;
        let hold_request = HoldRequest {
            hold,
            ..self.hold_request(&routed, &request)
        };
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
                        hold_guard: self.hold_guard(request.caller.account_id(), hold.id()),
                        hold,
                        reservation,
                        model,
                        routes,
                        request,
                        policy: self.policy().filter(|policy| policy.inspects_output()),
                        structured,
                        caller: CallerPresence::default(),
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

    /// Returns the hold that [`Pipeline::admit`] would take now, without taking it. Media are
    /// fetched, since their cost depends on their content.
    pub async fn preview<C: ReferencesMedia>(
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
            principal: request.caller.principal,
            request: request.request,
            hold: None,
            public_model: routed.public_model.clone(),
            endpoint: request.endpoint,
            max_cost: request.max_cost,
            accepted_at: request.accepted_at,
            ahead: request.caller.account.test_clock.unwrap_or_default(),
            lifetime: self.settings.hold_lifetime(),
        }
    }

    fn hold_guard(&self, account: AccountId, hold: HoldId) -> HoldGuard {
        match self.owns_holds {
            true => HoldGuard::new(
                self.ledger.clone(),
                self.clock.clone(),
                self.calls.clone(),
                account,
                hold,
            ),
            false => HoldGuard::for_job(),
        }
    }

    /// Returns the demand with the counted tokens of the call's texts instead of their bytes;
    /// `None` if the texts cannot be counted.
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

    /// Returns the current values of the caller's rate limit headers, for one of its budgets.
    pub async fn limit_headers(
        &self,
        caller: &Caller,
        budget: tollgate_storage::Budget,
    ) -> Option<LimitHeaders> {
        self.limiter.peek(&caller.account, budget).await
    }
}

impl Routed {
    /// Returns a call's demand, increased by the overhead of structured output: the schema text and
    /// the repair attempt.
    pub fn demand(&self, requested: Demand) -> Demand {
        match &self.structured {
            Some(structured) => structured.demand(requested),
            None => requested,
        }
    }
}

/// Returns the number of output tokens to reserve from a token limit. A call without a cap reserves
/// at most a tenth of the limit.
fn output_to_reserve(demand: &Demand, limit: u64) -> u64 {
    let answers = demand.n.max(1);
    match demand.max_tokens {
        Some(cap) => cap.min(MAX_RESERVED_OUTPUT).saturating_mul(answers),
        None => MAX_RESERVED_OUTPUT.saturating_mul(answers).min(limit / 10),
    }
}
