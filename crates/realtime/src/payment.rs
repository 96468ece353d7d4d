//! Payment of turns and blocks: a hold, and a reservation from the budget of the client secret that
//! opened the session.

use std::sync::Arc;

use tokio::runtime::Handle;
use tollgate_accounts::{Caller, ClientSecrets, SecretBudget};
use tollgate_billing::{Charge, Demand};
use tollgate_edge::context::RequestContext;
use tollgate_edge::websocket::{SessionRecord, Turns};
use tollgate_pipeline::{CallRequest, PaidTurn, Pipeline, Routed, SessionCall, TurnResult, audio_usage};
use tollgate_types::{Credits, Error, ErrorCode, HoldId, RequestId, Unit, Usage};
use tollgate_upstream::CallContext;

use crate::cascade::ENDPOINT;

/// A paid turn or block that is not settled yet. Dropping it releases hold and reservation.
pub(crate) struct Payment {
    paid: PaidTurn,
    reserved: Option<Reserved>,
    session: Arc<SessionRecord>,
}

impl Payment {
    /// Reserves the maximum cost from the budget of the session's secret, if it has one, then takes
    /// the hold. Nothing is written if the budget does not suffice.
    pub(crate) async fn take(
        pipeline: &Arc<Pipeline>,
        turns: &Turns,
        hold: Option<HoldId>,
        routed: Routed,
        request: CallRequest<SessionCall>,
    ) -> Result<Self, Error> {
        let bound = pipeline.bound(&routed, &request).amount;
        let reserved = Reserved::take(pipeline, turns, bound).await?;
        let (paid, _) = pipeline.begin_turn(hold, routed, request).await?;
        Ok(Self {
            paid,
            reserved,
            session: turns.record().clone(),
        })
    }

    /// Returns the number of output tokens that the hold covers.
    pub(crate) fn output_cap(&self) -> u64 {
        self.paid.output_cap()
    }

    /// Returns the context of the upstream work that this payment covers.
    pub(crate) fn context(&self, pipeline: &Pipeline) -> CallContext {
        pipeline.turn_context(&self.paid)
    }

    /// Settles the hold and corrects the reservation.
    pub(crate) async fn settle(self, pipeline: &Pipeline, result: TurnResult) -> Charge {
        let charge = pipeline.settle_turn(self.paid, result).await;
        self.session.add_charge(charge.amount);
        if let Some(reserved) = self.reserved {
            reserved.settle(charge.amount).await;
        }
        charge
    }
}

/// Returns the request for the payment of audio that a transcription model reads.
pub(crate) fn audio_request(
    caller: Caller,
    session: RequestId,
    ctx: &RequestContext,
    routed: &Routed,
    micros: u64,
) -> CallRequest<SessionCall> {
    let usage = audio_usage(&routed.model, micros);
    CallRequest {
        caller,
        request: session,
        accepted_at: ctx.accepted_at,
        endpoint: ENDPOINT,
        demand: Demand {
            text_bytes: 0,
            tokens: usage.get(Unit::InputAudio),
            messages: 0,
            inputs: 0,
            media_bytes: 0,
            images: 0,
            max_tokens: Some(0),
            reasoning_budget: 0,
            n: 1,
            caches_for_an_hour: false,
            made: Usage::ZERO.with(Unit::Audio, usage.get(Unit::Audio)),
        },
        max_cost: ctx.max_cost.amount(),
        call: SessionCall,
    }
}

/// Credits that are reserved from the budget of a client secret. Dropping them returns them.
struct Reserved {
    secrets: Arc<ClientSecrets>,
    pipeline: Arc<Pipeline>,
    budget: SecretBudget,
    amount: Credits,
}

impl Reserved {
    async fn take(pipeline: &Arc<Pipeline>, turns: &Turns, amount: Credits) -> Result<Option<Self>, Error> {
        let Some((secret, secrets)) = turns.secret() else {
            return Ok(None);
        };
        let Some(budget) = secret.budget else {
            return Ok(None);
        };
        if !secrets.reserve(budget, amount).await? {
            let message = format!(
                "This request can cost up to {amount} credits, which exceeds what is left of the \
                 client secret's 'max_cost'."
            );
            return Err(Error::new(ErrorCode::InsufficientCredits, message).with_param("max_cost"));
        }
        Ok(Some(Self {
            secrets: secrets.clone(),
            pipeline: pipeline.clone(),
            budget,
            amount,
        }))
    }

    async fn settle(mut self, charged: Credits) {
        let amount = std::mem::take(&mut self.amount);
        correct(&self.secrets, self.budget, amount, charged).await;
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let amount = std::mem::take(&mut self.amount);
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        if amount.is_zero() {
            return;
        }
        let (secrets, budget) = (self.secrets.clone(), self.budget);
        self.pipeline.calls.spawn_on(
            async move { correct(&secrets, budget, amount, Credits::ZERO).await },
            &runtime,
        );
    }
}

/// Corrects a reservation. After an error it stays counted, so that no session spends more.
async fn correct(secrets: &ClientSecrets, budget: SecretBudget, held: Credits, charged: Credits) {
    if let Err(error) = secrets.correct(budget, held, charged).await {
        tracing::warn!(error = %error.operator_message(), "cannot correct the budget of a client secret");
    }
}
