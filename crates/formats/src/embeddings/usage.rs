//! Usage reports of upstreams. Embeddings have no output tokens, so both counts of the usage object
//! are equal. Some providers add other fields, such as zero counts or the cost for the operator.

use tollgate_types::usage::MAX_QUANTITY;
use tollgate_types::{Credits, Unit, Usage};

use crate::error::BoxedError;
use crate::json::{Kind, Reader};
use crate::lossless::Span;

/// Usage report after a plausibility check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EmbedReport {
    /// Reported usage. `None` if the report is missing or implausible; a report of zero is `Some`.
    pub usage: Option<Usage>,
    /// Whether the upstream sent an implausible report.
    pub implausible: bool,
}

impl EmbedReport {
    /// Reads the value under the cursor. The count is `prompt_tokens`, or `total_tokens` if
    /// `prompt_tokens` is missing. An implausible count makes the report implausible, as does a
    /// value that is neither an object nor null; neither is an error.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, BoxedError> {
        if reader.kind()? != Kind::Object {
            let implausible = reader.kind()? != Kind::Null;
            reader.skip()?;
            return Ok(Self {
                usage: None,
                implausible,
            });
        }
        let (mut prompt, mut total) = (None, None);
        reader.begin_object()?;
        while let Some(key) = reader.key()? {
            match &*key.name {
                "prompt_tokens" => prompt = Some(count(reader)?),
                "total_tokens" => total = Some(count(reader)?),
                _ => reader.skip()?,
            }
        }
        let tokens = prompt.or(total).flatten();
        Ok(Self {
            usage: tokens.map(|tokens| Usage::ZERO.with(Unit::Input, tokens)),
            implausible: tokens.is_none() && (prompt.is_some() || total.is_some()),
        })
    }
}

fn count(reader: &mut Reader<'_>) -> Result<Option<u64>, BoxedError> {
    if reader.kind()? != Kind::Number {
        reader.skip()?;
        return Ok(None);
    }
    let value = reader.number()?.as_f64();
    // All plausible counts are exact in double precision.
    let is_plausible = (0.0..=MAX_QUANTITY as f64).contains(&value) && value.fract() == 0.0;
    Ok(is_plausible.then_some(value as u64))
}

/// Writes the usage object of this format with the caller's cost.
pub(super) fn write(out: &mut Vec<u8>, usage: &Usage, cost: Credits) {
    let (input, total) = (usage.total_input(), usage.total());
    let text = format!("{{\"prompt_tokens\":{input},\"total_tokens\":{total},\"cost\":\"{cost}\"}}");
    out.extend_from_slice(text.as_bytes());
}

/// Returns the upstream's usage object with the caller's cost in place of the upstream's cost
/// fields.
pub(super) fn with_cost(object: &[u8], cost: Credits) -> Result<Vec<u8>, BoxedError> {
    let mut out = Vec::with_capacity(object.len() + 40);
    let mut reader = Reader::new(object, u32::MAX)?;
    reader.begin_object()?;
    out.push(b'{');
    while let Some(key) = reader.key()? {
        reader.skip()?;
        if !is_cost(&key.name) {
            out.extend_from_slice(Span::new(key.start, reader.end()).of(object));
            out.push(b',');
        }
    }
    out.extend_from_slice(format!("\"cost\":\"{cost}\"}}").as_bytes());
    Ok(out)
}

/// Whether the field describes the operator's cost.
fn is_cost(name: &str) -> bool {
    matches!(name, "cost" | "cost_details" | "cost_in_usd_ticks" | "is_byok")
}
