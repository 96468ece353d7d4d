//! Blocks of 30 seconds of audio. Live transcription pays for each with a separate hold and usage
//! row.

use std::sync::Arc;

use tokio::time::{Duration, Instant};
use tollgate_catalog::Model;
use tollgate_edge::websocket::Turns;
use tollgate_pipeline::{Pipeline, TurnResult, audio_usage};
use tollgate_types::usage::Outcome;
use tollgate_types::{Credits, Error, HoldId, RequestId};
use tollgate_upstream::CallContext;

use crate::payment::{Payment, audio_request};

/// Maximum audio of a block, in microseconds.
const BLOCK_MICROS: u64 = 30_000_000;
/// Time without audio after which a block is settled.
const BLOCK_IDLE: Duration = Duration::from_secs(30);

/// Payer of the audio of one session.
pub(super) struct AudioBlocks {
    pipeline: Arc<Pipeline>,
    turns: Arc<Turns>,
    /// Request of the session, which all usage rows have.
    session: RequestId,
    open: Option<Block>,
    /// Duration of audio that was paid, but whose transcription failed. Later blocks are cheaper by
    /// it.
    credit_micros: u64,
    target: Arc<str>,
}

struct Block {
    payment: Payment,
    /// Model with the prices of the hold.
    model: Arc<Model>,
    used_micros: u64,
    last_audio_at: Instant,
}

impl AudioBlocks {
    pub(super) fn new(pipeline: Arc<Pipeline>, turns: Arc<Turns>, session: RequestId) -> Self {
        Self {
            pipeline,
            turns,
            session,
            open: None,
            credit_micros: 0,
            target: "".into(),
        }
    }

    /// Pays for `micros` of audio with the open block and the next ones. Returns the context of its
    /// upstream work. Returns an error if a hold or a limit refuses it; then the rest of the audio
    /// is not paid.
    pub(super) async fn pay(&mut self, model: &str, micros: u64) -> Result<Option<CallContext>, Error> {
        let mut left = micros;
        let mut ctx = None;
        while left > 0 {
            if self.open.is_none() {
                self.open = Some(self.begin(model).await?);
            }
            let Some(block) = &mut self.open else {
                return Ok(ctx);
            };
            ctx = Some(block.payment.context(&self.pipeline));
            let part = left.min(BLOCK_MICROS - block.used_micros);
            block.used_micros += part;
            block.last_audio_at = Instant::now();
            left -= part;
            if block.used_micros == BLOCK_MICROS {
                self.settle(Outcome::Ok).await;
            }
        }
        Ok(ctx)
    }

    /// Returns the time at which the open block ends if no audio arrives.
    pub(super) fn idle_at(&self) -> Option<Instant> {
        self.open.as_ref().map(|block| block.last_audio_at + BLOCK_IDLE)
    }

    /// Settles the open block.
    pub(super) async fn settle(&mut self, outcome: Outcome) {
        let Some(block) = self.open.take() else { return };
        let credit = self.credit_micros.min(block.used_micros);
        self.credit_micros -= credit;
        let result = TurnResult {
            usage: audio_usage(&block.model, block.used_micros - credit),
            estimated: false,
            outcome,
            target: self.target.clone(),
            first_at: None,
        };
        block.payment.settle(&self.pipeline, result).await;
    }

    /// Returns the price of a duration at the prices of the open block.
    pub(super) fn price(&self, micros: u64) -> Option<Credits> {
        let block = self.open.as_ref()?;
        Some(block.model.prices.cost(&audio_usage(&block.model, micros)))
    }

    /// Credits audio whose transcription failed.
    pub(super) fn credit(&mut self, micros: u64) {
        self.credit_micros = self.credit_micros.saturating_add(micros);
    }

    /// Sets the candidate that serves the session, for the usage rows.
    pub(super) fn set_target(&mut self, target: Arc<str>) {
        self.target = target;
    }

    async fn begin(&self, model: &str) -> Result<Block, Error> {
        let turn = self.turns.turn().await;
        let (caller, ctx) = turn.started?;
        let routed = self.pipeline.route(&caller, model)?;
        let request = audio_request(caller, self.session, &ctx, &routed, BLOCK_MICROS);
        let model = routed.model.clone();
        let hold = HoldId::from_u128(self.turns.new_id());
        let payment = Payment::take(&self.pipeline, &self.turns, Some(hold), routed, request).await?;
        Ok(Block {
            payment,
            model,
            used_micros: 0,
            last_audio_at: Instant::now(),
        })
    }
}
