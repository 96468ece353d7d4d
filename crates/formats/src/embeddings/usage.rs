//! What an upstream says it consumed. Embeddings have input alone, so the two numbers of the usage object say the same;
//! some makers add others, all of them zero or what a call costs the operator.

use tollgate_types::usage::MAX_QUANTITY;
use tollgate_types::{Credits, Unit, Usage};

use crate::error::Flaw;
use crate::json::{Kind, Reader};
use crate::lossless::Span;

/// A report on consumption, as far as it is believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EmbedReport {
    /// `None` when there is no report or when it is useless; a report of zero is `Some`.
    pub usage: Option<Usage>,
    /// A report was there but made no sense.
    pub implausible: bool,
}

impl EmbedReport {
    /// Reads the value under the cursor. Whatever is not a count is taken as nonsense and never as an error.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, Flaw> {
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

fn count(reader: &mut Reader<'_>) -> Result<Option<u64>, Flaw> {
    if reader.kind()? != Kind::Number {
        reader.skip()?;
        return Ok(None);
    }
    let value = reader.number()?.as_f64();
    // Every quantity that is believed is exact in double precision.
    let believable = (0.0..=MAX_QUANTITY as f64).contains(&value) && value.fract() == 0.0;
    Ok(believable.then_some(value as u64))
}

/// The usage object of this format with the cost to the caller.
pub(super) fn write(out: &mut Vec<u8>, usage: &Usage, cost: Credits) {
    let (input, total) = (usage.total_input(), usage.total());
    let text = format!("{{\"prompt_tokens\":{input},\"total_tokens\":{total},\"cost\":\"{cost}\"}}");
    out.extend_from_slice(text.as_bytes());
}

/// An upstream's usage object without its own cost and with the caller's.
pub(super) fn with_cost(object: &[u8], cost: Credits) -> Result<Vec<u8>, Flaw> {
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

/// Whether a key says what a call costs the operator.
fn is_cost(name: &str) -> bool {
    matches!(name, "cost" | "cost_details" | "cost_in_usd_ticks" | "is_byok")
}
