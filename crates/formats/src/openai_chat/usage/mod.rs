//! Conversion of usage objects to disjoint token classes.
//!
//! In this format `prompt_tokens` includes cached, cache-written and audio tokens, and
//! `completion_tokens` includes reasoning and audio tokens. Known deviations: DeepSeek reports
//! cache hits as `prompt_cache_hit_tokens`, and Moonshot as `cached_tokens` next to the totals. xAI
//! includes reasoning only in the total. Groq sends the report of a stream in `x_groq`.

use serde_json::{Value, json};
use tollgate_types::usage::MAX_QUANTITY;
use tollgate_types::{Credits, Unit, Usage};

use crate::error::{BoxedError, DecodeError};
use crate::json::{Kind, Reader};

/// Usage report after a plausibility check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct UsageReport {
    /// Reported usage. `None` if the report is missing, or if its prompt or completion tokens are
    /// implausible or cannot be derived from the total. A report of zero is `Some`.
    pub usage: Option<Usage>,
    /// Whether the upstream sent a report that is implausible, in whole or in part: negative,
    /// fractional, textual or huge numbers, a missing total, a part above its total.
    pub implausible: bool,
}

/// State of a count in a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
enum Count {
    #[default]
    Absent,
    Known(u64),
    Invalid,
}

impl Count {
    fn known(self) -> Option<u64> {
        match self {
            Count::Known(quantity) => Some(quantity),
            _ => None,
        }
    }

    fn or(self, other: Count) -> Count {
        if self == Count::Absent { other } else { self }
    }
}

/// Numbers of a report that affect the usage.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reported {
    prompt: Count,
    completion: Count,
    total: Count,
    cached: Count,
    cache_hit: Count,
    cached_beside: Count,
    cache_write: Count,
    input_audio: Count,
    reasoning: Count,
    reasoning_beside: Count,
    output_audio: Count,
    /// Whether the report contains the upstream's cost for the operator, which callers must not
    /// receive.
    pub(super) has_cost: bool,
    /// Position just after the last value, or after the opening brace.
    pub(super) last: u32,
    /// Whether the object has no members.
    pub(super) is_empty: bool,
}

impl Reported {
    /// Reads the object under the cursor. A count with an invalid value is recorded as invalid and
    /// causes no error.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Reported, BoxedError> {
        let mut reported = Reported {
            is_empty: true,
            ..Reported::default()
        };
        reader.begin_object()?;
        reported.last = reader.end();
        while let Some(key) = reader.key()? {
            match &*key.name {
                "prompt_tokens" => reported.prompt = count(reader)?,
                "completion_tokens" => reported.completion = count(reader)?,
                "total_tokens" => reported.total = count(reader)?,
                "prompt_cache_hit_tokens" => reported.cache_hit = count(reader)?,
                "cached_tokens" => reported.cached_beside = count(reader)?,
                "reasoning_tokens" => reported.reasoning_beside = count(reader)?,
                "prompt_tokens_details" => reported.read_prompt_details(reader)?,
                "completion_tokens_details" => reported.read_completion_details(reader)?,
                name => {
                    reported.has_cost |= is_cost(name);
                    reader.skip()?;
                }
            }
            reported.is_empty = false;
            reported.last = reader.end();
        }
        Ok(reported)
    }

    fn read_prompt_details(&mut self, reader: &mut Reader<'_>) -> Result<(), BoxedError> {
        if reader.kind()? != Kind::Object {
            return reader.skip();
        }
        reader.begin_object()?;
        while let Some(key) = reader.key()? {
            match &*key.name {
                "cached_tokens" => self.cached = count(reader)?,
                "cache_write_tokens" => self.cache_write = count(reader)?,
                "audio_tokens" => self.input_audio = count(reader)?,
                _ => reader.skip()?,
            }
        }
        Ok(())
    }

    fn read_completion_details(&mut self, reader: &mut Reader<'_>) -> Result<(), BoxedError> {
        if reader.kind()? != Kind::Object {
            return reader.skip();
        }
        reader.begin_object()?;
        while let Some(key) = reader.key()? {
            match &*key.name {
                "reasoning_tokens" => self.reasoning = count(reader)?,
                "audio_tokens" => self.output_audio = count(reader)?,
                _ => reader.skip()?,
            }
        }
        Ok(())
    }

    /// Converts the report to disjoint token classes. Their sum is `prompt_tokens +
    /// completion_tokens`, plus the reasoning tokens if the upstream's total shows that
    /// `completion_tokens` excludes them.
    pub(super) fn normalise(&self) -> UsageReport {
        let (Some(prompt), Some(completion)) = self.totals() else {
            let has_counts = [self.prompt, self.completion, self.total]
                .iter()
                .any(|count| *count != Count::Absent);
            return UsageReport {
                usage: None,
                implausible: has_counts,
            };
        };
        let cached = self.cached.or(self.cache_hit).or(self.cached_beside);
        let reasoning = self.reasoning.or(self.reasoning_beside);
        let beside = self.reasoning_beside_completion(prompt, completion, reasoning);
        let output = completion + beside;
        let parts = [
            (cached, prompt),
            (self.cache_write, prompt),
            (self.input_audio, prompt),
            (reasoning, output),
            (self.output_audio, output),
        ];
        let implausible = parts.iter().any(|(part, whole)| match part {
            Count::Absent => false,
            Count::Known(quantity) => quantity > whole,
            Count::Invalid => true,
        });
        let mut usage = Usage::ZERO;
        let mut input_left = prompt;
        let mut output_left = output;
        let mut take = |unit, part: Count, left: &mut u64| {
            let quantity = part.known().unwrap_or(0).min(*left);
            *left -= quantity;
            usage = usage.with(unit, quantity);
        };
        take(Unit::CacheRead, cached, &mut input_left);
        take(Unit::CacheWrite, self.cache_write, &mut input_left);
        take(Unit::InputAudio, self.input_audio, &mut input_left);
        take(Unit::Reasoning, reasoning, &mut output_left);
        take(Unit::OutputAudio, self.output_audio, &mut output_left);
        let usage = usage
            .with(Unit::Input, input_left)
            .with(Unit::Output, output_left);
        UsageReport {
            usage: Some(usage),
            implausible,
        }
    }

    /// Returns the prompt and completion tokens; one of them may be derived from the total.
    fn totals(&self) -> (Option<u64>, Option<u64>) {
        let rest_of_total = |part: u64| self.total.known().and_then(|total| total.checked_sub(part));
        match (self.prompt, self.completion) {
            (Count::Known(prompt), Count::Absent) => (Some(prompt), rest_of_total(prompt)),
            (Count::Absent, Count::Known(completion)) => (rest_of_total(completion), Some(completion)),
            (prompt, completion) => (prompt.known(), completion.known()),
        }
    }

    fn reasoning_beside_completion(&self, prompt: u64, completion: u64, reasoning: Count) -> u64 {
        let reasoning = reasoning.known().unwrap_or(0);
        let counted_beside = self.total.known() == Some(prompt + completion + reasoning);
        let is_plausible = completion + reasoning <= MAX_QUANTITY;
        if counted_beside && is_plausible {
            reasoning
        } else {
            0
        }
    }
}

/// Whether a key of a usage object is about the upstream's charge for the call. The gateway removes
/// such keys and adds its own `cost`.
pub(super) fn is_cost(name: &str) -> bool {
    matches!(name, "cost" | "cost_details" | "cost_in_usd_ticks" | "is_byok")
}

fn count(reader: &mut Reader<'_>) -> Result<Count, BoxedError> {
    match reader.kind()? {
        Kind::Null => {
            reader.null()?;
            Ok(Count::Absent)
        }
        Kind::Number => {
            let number = reader.number()?;
            if let Some(quantity) = number.as_i64().and_then(|number| u64::try_from(number).ok()) {
                let is_plausible = quantity <= MAX_QUANTITY;
                return Ok(if is_plausible {
                    Count::Known(quantity)
                } else {
                    Count::Invalid
                });
            }
            let value = number.as_f64();
            // All plausible counts are exact in double precision.
            let is_plausible = (0.0..=MAX_QUANTITY as f64).contains(&value) && value.fract() == 0.0;
            Ok(if is_plausible {
                Count::Known(value as u64)
            } else {
                Count::Invalid
            })
        }
        _ => {
            reader.skip()?;
            Ok(Count::Invalid)
        }
    }
}

/// Writes the usage object; `cost` is written as a decimal string of credits, if known.
pub fn encode_usage(usage: &Usage, cost: Option<Credits>) -> Value {
    let mut object = json!({
        "prompt_tokens": usage.total_input(),
        "completion_tokens": usage.total_output(),
        "total_tokens": usage.total(),
        "prompt_tokens_details": {
            "cached_tokens": usage.cache_read(),
            "cache_write_tokens": usage.cache_written(),
            "audio_tokens": usage.input_audio(),
        },
        "completion_tokens_details": {
            "reasoning_tokens": usage.get(Unit::Reasoning),
            "audio_tokens": usage.get(Unit::OutputAudio),
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    });
    if let (Some(cost), Some(object)) = (cost, object.as_object_mut()) {
        object.insert("cost".to_owned(), Value::String(cost.to_string()));
    }
    object
}

/// Reads a usage object of this format from JSON text. A value of another type counts as a missing
/// report.
pub fn read_usage(text: &[u8]) -> Result<UsageReport, DecodeError> {
    let mut reader = Reader::new(text, u32::MAX)?;
    if reader.kind()? != Kind::Object {
        return Ok(UsageReport::default());
    }
    let reported = Reported::read(&mut reader)?;
    reader.finish()?;
    Ok(reported.normalise())
}

/// Reads a usage object of this format from a value.
pub(super) fn read_usage_value(value: &Value) -> UsageReport {
    read_usage(value.to_string().as_bytes()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
