//! Calls of realtime sessions. A turn is one call that several models serve: its hold pays for all
//! of them, and its charge follows from the prices of the voice model. A block is some seconds of
//! audio of a live transcription.

use std::sync::Arc;

use tollgate_billing::{Charge, Verdict};
use tollgate_catalog::Model;
use tollgate_storage::Decision;
use tollgate_types::usage::Outcome;
use tollgate_types::{Credits, Error, HoldId, RequestId, Timestamp, Unit, Usage};

use crate::Pipeline;
use crate::admit::{Admission, CallRequest, Refused};
use crate::job::Settled;
use crate::media::ReferencesMedia;
use crate::meters::Meters;
use crate::route::Routed;

/// Call of a turn or a block. The models that serve it have separate calls.
#[derive(Clone, Copy, Debug)]
pub struct SessionCall;

impl ReferencesMedia for SessionCall {}

/// A turn or a block whose hold is not settled yet. Dropping it releases the hold without a charge.
#[must_use = "a turn holds credits and tokens"]
pub struct PaidTurn {
    pub(crate) admission: Admission<SessionCall>,
}

/// Result of a turn or a block, from which its charge follows.
#[derive(Clone, Debug)]
pub struct TurnResult {
    /// Consumption of the caller.
    pub usage: Usage,
    /// Whether a part of the usage is estimated.
    pub estimated: bool,
    /// Outcome of the usage row.
    pub outcome: Outcome,
    /// Candidate that served the turn; empty if none did.
    pub target: Arc<str>,
    /// Time of the first output.
    pub first_at: Option<Timestamp>,
}

impl TurnResult {
    /// Returns the result of a turn that is not charged.
    pub fn free(outcome: Outcome) -> Self {
        Self {
            usage: Usage::ZERO,
            estimated: false,
            outcome,
            target: "".into(),
            first_at: None,
        }
    }
}

impl PaidTurn {
    /// Returns the number of output tokens that the hold covers.
    pub fn output_cap(&self) -> u64 {
        self.admission.hold.terms().quote.output_cap
    }
}

impl Pipeline {
    /// Takes the hold of a turn, or of a block with its own id. `demand` of the request bounds the
    /// consumption.
    pub async fn begin_turn(
        &self,
        hold: Option<HoldId>,
        routed: Routed,
        request: CallRequest<SessionCall>,
    ) -> Result<(PaidTurn, Decision), Refused> {
        let (admission, decision) = self.admit_as(hold, routed, request, |_| Vec::new()).await?;
        Ok((PaidTurn { admission }, decision))
    }

    /// Settles a turn and returns its charge. The sweep releases a hold that cannot be settled.
    pub async fn settle_turn(&self, turn: PaidTurn, result: TurnResult) -> Charge {
        let Admission {
            hold,
            mut hold_guard,
            reservation,
            request,
            ..
        } = turn.admission;
        hold_guard.run();
        let charge = hold.price(&Verdict {
            usage: result.usage,
            estimated: result.estimated,
            outcome: result.outcome,
        });
        self.limiter.correct(reservation, charge.usage.total()).await;
        let now = self.clock.now();
        let settled = hold
            .settle(&*self.ledger, &charge, result.target, result.first_at, now)
            .await;
        if let Err(error) = settled {
            tracing::error!(request.id = %request.request, %error, "cannot settle a turn; the storage retries the settlement, or the sweep releases the hold");
        }
        self.meters.record(&charge);
        charge
    }

    /// Returns a pipeline for the call of one stage of a turn, and the [`Settled`] that receives
    /// its usage. The turn's hold pays: the call takes no separate hold, charges nothing and does
    /// not count towards limits. A dropped call ends immediately.
    pub fn executing_stage(&self) -> (Arc<Pipeline>, Arc<Settled>) {
        let (pipeline, settled) = self.executing_part(Credits::MAX);
        let pipeline = Pipeline {
            meters: Arc::new(Meters::discarding()),
            ..Pipeline::clone(&pipeline)
        };
        (Arc::new(pipeline), settled)
    }

    /// Returns an error if the content policy forbids a text of the caller.
    pub async fn check_texts(&self, request: RequestId, texts: &[String]) -> Result<(), Error> {
        match self.policy().filter(|policy| policy.inspects_input()) {
            Some(policy) => policy.check_input(request, texts).await,
            None => Ok(()),
        }
    }
}

impl Routed {
    /// Sets the price of a million units, if the model has none for this unit.
    pub fn add_price(&mut self, unit: Unit, per_million: Credits) {
        if self.model.prices.listed(unit).is_none() {
            let mut model = (*self.model).clone();
            model.prices = model.prices.with(unit, per_million);
            self.model = Arc::new(model);
        }
    }

    /// Limits the output of a response if the caller sets no limit, in tokens.
    pub fn limit_output(&mut self, max_tokens: u64) {
        let mut model = (*self.model).clone();
        model.max_output_tokens = Some(max_tokens);
        model.context_window = model.context_window.map(|window| window.max(max_tokens));
        self.model = Arc::new(model);
    }
}

/// Returns the quantity of a block of audio: its duration where the model has a price for
/// audio, else the audio tokens.
pub fn audio_usage(model: &Model, micros: u64) -> Usage {
    match model.prices.listed(Unit::Audio) {
        Some(_) => Usage::ZERO.with(Unit::Audio, micros),
        None => Usage::ZERO.with(Unit::InputAudio, micros.div_ceil(MICROS_PER_INPUT_TOKEN)),
    }
}

/// Duration of an audio token of the input: 10 tokens a second.
pub const MICROS_PER_INPUT_TOKEN: u64 = 100_000;
/// Duration of an audio token of the output: 20 tokens a second.
pub const MICROS_PER_OUTPUT_TOKEN: u64 = 50_000;
