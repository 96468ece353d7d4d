//! Embeddings of the simulator: unit vectors, equal for equal inputs and nearly orthogonal for
//! different ones. The last text input may contain a script. It supports `delay` and `error`; `cut`
//! fails the call.

use async_trait::async_trait;
use tokio::time::sleep;
use tollgate_formats::embeddings::decode_request;
use tollgate_types::embed::{EmbedInput, EmbedRequest, EmbedResponse};
use tollgate_types::{ErrorCode, Unit, Usage};
use tollgate_upstream::{
    CallContext, EmbedAnswer, EmbedCall, EmbedPayload, EmbedProvider, UpstreamCause, UpstreamError,
    UpstreamErrorKind,
};

use super::grammar::{self, Script};
use super::{EMBEDDINGS, Simulator, failure, tokens};

/// Default vector length, as in the catalog.
const DIMENSIONS: u32 = 1_536;

#[async_trait]
impl EmbedProvider for Simulator {
    async fn embed(&self, ctx: &CallContext, call: &EmbedCall) -> Result<EmbedAnswer, UpstreamError> {
        let request = decode_request(&call.body).map_err(|error| UpstreamError {
            param: error.param.clone(),
            ..UpstreamError::new(
                UpstreamErrorKind::Rejected,
                UpstreamCause::Protocol,
                format!("the request does not match the format: {}", error.code.as_str()),
            )
        })?;
        play(&script(&request)?, ctx).await?;
        let counts: Vec<u64> = request.inputs.iter().map(count).collect();
        let (_, longest) = EMBEDDINGS;
        if counts.iter().any(|tokens| *tokens > longest) {
            return Err(UpstreamError::new(
                UpstreamErrorKind::ContextLength,
                UpstreamCause::Status,
                "an input exceeds the context window",
            ));
        }
        let dimensions = request.dimensions.unwrap_or(DIMENSIONS).min(DIMENSIONS);
        let vectors: Vec<Vec<f32>> = request
            .inputs
            .iter()
            .map(|input| vector(seed(input), dimensions))
            .collect();
        let usage = Usage::ZERO.with(Unit::Input, counts.iter().sum());
        let numbers = vectors.len() as u64 * u64::from(dimensions);
        let response = EmbedResponse {
            vectors,
            usage: Some(usage),
        };
        Ok(EmbedAnswer {
            payload: EmbedPayload::Common(Box::new(response)),
            usage: Some(usage),
            output_bytes: numbers * 4,
        })
    }
}

/// Parses the script of the last text.
fn script(request: &EmbedRequest) -> Result<Script, UpstreamError> {
    let last = request.inputs.iter().rev().find_map(|input| match input {
        EmbedInput::Text(text) => Some(text.as_str()),
        EmbedInput::Tokens(_) => None,
    });
    let read = grammar::read(last.unwrap_or_default());
    let (script, _) = read.map_err(|wrong| UpstreamError {
        param: Some("input".to_owned()),
        ..failure::simulated(ErrorCode::InvalidParameter, wrong)
    })?;
    Ok(script)
}

/// Waits for the delay of a script, then returns the error that the script requests, if any. A
/// `cut` counts as an error. A delay of at least the header timeout ends in a timeout.
pub(super) async fn play(script: &Script, ctx: &CallContext) -> Result<(), UpstreamError> {
    if script.delay >= ctx.header_timeout {
        sleep(ctx.header_timeout).await;
        return Err(failure::requested(ErrorCode::UpstreamTimeout));
    }
    if !script.delay.is_zero() {
        sleep(script.delay).await;
    }
    let cut = script.cut.map(|_| ErrorCode::UpstreamError);
    match script.error.or(cut) {
        Some(code) => Err(failure::requested(code)),
        None => Ok(()),
    }
}

fn count(input: &EmbedInput) -> u64 {
    match input {
        EmbedInput::Text(text) => tokens::count(text),
        EmbedInput::Tokens(tokens) => tokens.len() as u64,
    }
}

/// Hashes the input (FNV-1a).
fn seed(input: &EmbedInput) -> u64 {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    let start = 0xCBF2_9CE4_8422_2325;
    match input {
        EmbedInput::Text(text) => text.bytes().fold(start, mix),
        EmbedInput::Tokens(tokens) => tokens
            .iter()
            .flat_map(|token| token.to_le_bytes())
            .fold(!start, mix),
    }
}

/// Returns a unit vector. A shorter vector is the normalised prefix of a longer one, as for models
/// that support shortening.
fn vector(seed: u64, dimensions: u32) -> Vec<f32> {
    let mut state = seed;
    let values: Vec<f64> = (0..dimensions).map(|_| uniform(&mut state)).collect();
    let length = values.iter().map(|value| value * value).sum::<f64>().sqrt();
    values
        .iter()
        .map(|value| (value / length.max(f64::MIN_POSITIVE)) as f32)
        .collect()
}

/// Returns a random number between -1 and 1, never zero (SplitMix64).
pub(super) fn uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    let bits = (z ^ (z >> 31)) >> 11;
    (bits as f64 + 0.5) / (1_u64 << 52) as f64 - 1.0
}

#[cfg(test)]
mod tests;
