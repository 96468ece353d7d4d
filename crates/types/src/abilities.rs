//! Capabilities in which models with the same provider format differ.

use serde::{Deserialize, Serialize};

use crate::generate::{GenerateRequest, Thinking};

/// Capabilities of one model, read from the catalog. The default is for models that the catalog
/// does not describe.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Controls of reasoning that the model accepts. `None` if unknown; the adapter then uses the
    /// controls of its provider's newest models.
    pub reasoning_control: Option<ReasoningControl>,
    /// Supported efforts; empty if unknown. Reasoning can be disabled if the list is empty or
    /// includes [`Effort::None`].
    pub efforts: Vec<Effort>,
    /// Whether system messages may follow other messages; `None` if unknown.
    pub system_turns: Option<bool>,
    /// Whether the model accepts `temperature`, `top_p` and `top_k`; `None` if unknown.
    pub sampling: Option<bool>,
}

/// Request parameter that controls the amount of reasoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningControl {
    /// A level of effort; the model chooses the number of tokens.
    Effort,
    /// A maximum number of tokens.
    Budget,
    /// A level of effort or a maximum number of tokens.
    Both,
}

/// Reasoning efforts, in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

impl Effort {
    const ALL: [Effort; 7] = [
        Effort::None,
        Effort::Minimal,
        Effort::Low,
        Effort::Medium,
        Effort::High,
        Effort::Xhigh,
        Effort::Max,
    ];

    /// Returns the name used in requests.
    pub const fn as_str(self) -> &'static str {
        match self {
            Effort::None => "none",
            Effort::Minimal => "minimal",
            Effort::Low => "low",
            Effort::Medium => "medium",
            Effort::High => "high",
            Effort::Xhigh => "xhigh",
            Effort::Max => "max",
        }
    }

    /// Parses the name used in requests.
    pub fn parse(name: &str) -> Option<Self> {
        Effort::ALL.into_iter().find(|effort| effort.as_str() == name)
    }

    /// Returns the effort for a token budget: below 4,096 `low`, below 16,384 `medium`, otherwise
    /// `high`.
    pub const fn of_budget(tokens: u64) -> Self {
        match tokens {
            ..4_096 => Effort::Low,
            4_096..16_384 => Effort::Medium,
            _ => Effort::High,
        }
    }
}

/// Reasoning setting of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedReasoning {
    /// Reasoning is disabled.
    Off,
    /// Reasoning at a level of effort.
    Effort(Effort),
    /// Reasoning with a maximum number of tokens.
    Budget(u64),
    /// The model chooses the amount of reasoning.
    Adaptive,
}

impl RequestedReasoning {
    /// Returns the reasoning setting of a request, or `None` if it has none. A disabled mode or a
    /// budget takes precedence over an effort, and an effort other than `none` over an adaptive
    /// mode.
    pub fn of(request: &GenerateRequest) -> Option<Self> {
        let effort = request.reasoning_effort.as_deref().and_then(Effort::parse);
        match (request.thinking, effort) {
            (Some(Thinking::Off), _) | (None, Some(Effort::None)) => Some(RequestedReasoning::Off),
            (Some(Thinking::Budget(tokens)), _) => Some(RequestedReasoning::Budget(tokens)),
            (_, Some(effort)) if effort != Effort::None => Some(RequestedReasoning::Effort(effort)),
            (Some(Thinking::Adaptive | Thinking::BetweenTools), _) => Some(RequestedReasoning::Adaptive),
            (None, _) => None,
        }
    }
}

impl Abilities {
    /// Whether reasoning can be disabled. `true` if the catalog lists no efforts.
    pub fn can_stop_reasoning(&self) -> bool {
        self.efforts.is_empty() || self.efforts.contains(&Effort::None)
    }

    /// Returns the requested effort if the model supports it, else the next higher supported
    /// effort, else the highest. The supported efforts exclude `none`; if no other effort is
    /// listed, returns the requested effort.
    pub fn nearest_effort(&self, requested: Effort) -> Effort {
        let known = self
            .efforts
            .iter()
            .copied()
            .filter(|effort| *effort != Effort::None);
        let above = known.clone().filter(|effort| *effort >= requested).min();
        above.or_else(|| known.max()).unwrap_or(requested)
    }

    /// Returns the lowest supported effort other than `none`; `low` if none is listed.
    pub fn min_effort(&self) -> Effort {
        let lowest = self
            .efforts
            .iter()
            .copied()
            .filter(|effort| *effort != Effort::None)
            .min();
        lowest.unwrap_or(Effort::Low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_effort_is_raised_to_the_next_supported() {
        use Effort::{High, Low, Max, Medium, Minimal, None, Xhigh};
        let some = |efforts: &[Effort]| Abilities {
            efforts: efforts.to_vec(),
            ..Abilities::default()
        };
        for (efforts, requested, expected) in [
            (&[][..], Minimal, Minimal),
            (&[None, Low, Medium, High, Max], Minimal, Low),
            (&[None, Low, Medium, High, Max], Xhigh, Max),
            (&[Low, High], Medium, High),
            (&[Low, Medium, High], Max, High),
            (&[None, Low], Low, Low),
        ] {
            assert_eq!(
                some(efforts).nearest_effort(requested),
                expected,
                "{efforts:?} {requested:?}"
            );
        }
        assert!(some(&[]).can_stop_reasoning() && some(&[None, Low]).can_stop_reasoning());
        assert!(!some(&[Low]).can_stop_reasoning());
        assert_eq!(some(&[None, Minimal, Low]).min_effort(), Minimal);
    }

    #[test]
    fn budgets_and_names_are_efforts() {
        for (tokens, expected) in [
            (4_095, Effort::Low),
            (4_096, Effort::Medium),
            (16_383, Effort::Medium),
            (16_384, Effort::High),
        ] {
            assert_eq!(Effort::of_budget(tokens), expected);
        }
        for effort in Effort::ALL {
            assert_eq!(Effort::parse(effort.as_str()), Some(effort));
        }
        assert_eq!(Effort::parse("most"), None);
    }
}
