//! Typed decisions: questions about a state, each answered with probabilities instead of text.

mod schema;

use serde_json::Value;

use crate::Error;

/// The state that the questions are about.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct State {
    /// Text of the state. JSON is included as JSON text. Markers such as `[image 1]` replace the
    /// media; caller text that looks like a marker is altered, so that models do not mistake it for
    /// a marker.
    pub text: String,
    /// Media, in the order of their markers.
    pub media: Vec<StateMedia>,
}

/// An image, recording or video in a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateMedia {
    pub kind: StateMediaKind,
    /// An http or https URL, or a data URL.
    pub url: String,
    /// Path of the medium in the caller's request, for errors, such as `state.photos[0].image_url`.
    pub param: String,
}

/// Kinds of media that a state may contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StateMediaKind {
    Image,
    Audio,
    Video,
}

impl StateMediaKind {
    /// All kinds of media.
    pub const ALL: [StateMediaKind; 3] = [
        StateMediaKind::Image,
        StateMediaKind::Audio,
        StateMediaKind::Video,
    ];

    /// Returns the name used in markers and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            StateMediaKind::Image => "image",
            StateMediaKind::Audio => "audio",
            StateMediaKind::Video => "video",
        }
    }

    /// Returns the maximum number of media of this kind in one request (contract, Limits).
    pub const fn max(self) -> usize {
        match self {
            StateMediaKind::Image => 16,
            StateMediaKind::Audio => 8,
            StateMediaKind::Video => 4,
        }
    }
}

/// Maximum number of questions in one request (contract, Limits).
pub const MAX_QUESTIONS: usize = 128;
/// Permitted number of options of a choice.
pub const OPTIONS: std::ops::RangeInclusive<usize> = 2..=255;
/// Permitted number of levels of a score.
pub const LEVELS: std::ops::RangeInclusive<usize> = 2..=10;
/// Maximum number of tokens of the state plus the longest question (contract, Limits).
pub const MAX_TOKENS: u64 = 1_000_000;

/// Options of the question whether the state answers another question, for models that
/// receive labels instead of options.
pub const ANSWERABLE: [&str; 2] = ["answerable", "unanswerable"];

/// One question of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Name of the question, unique within its request.
    pub id: String,
    /// Path of the question in the caller's request, for errors, such as `questions[3]` or
    /// `questions.refund`.
    pub param: String,
    /// Text of the question.
    pub instructions: String,
    /// Type of the question, with its possible answers.
    pub kind: QuestionKind,
    /// Whether the model also decides if the state contains the information that the question
    /// needs.
    pub abstain: bool,
}

/// Type of a question, with its possible answers.
#[derive(Clone, Debug, PartialEq)]
pub enum QuestionKind {
    /// Yes or no, with optional descriptions of both answers.
    Noul {
        /// Condition for a yes.
        yes: Option<String>,
        /// Condition for a no.
        no: Option<String>,
    },
    /// One of several options.
    Choice {
        /// 2 to 255 options; all are different.
        options: Vec<ChoiceOption>,
    },
    /// A level on a scale of 2 to 10 levels.
    Score {
        /// Levels, lowest first.
        levels: Vec<Level>,
    },
    /// A function to call.
    Tool {
        /// At least one function; the names are unique.
        tools: Vec<FunctionTool>,
        /// Whether a function must be called. Otherwise `none` is a possible answer.
        required: bool,
    },
}

/// An option of a choice, with its condition.
#[derive(Clone, Debug, PartialEq)]
pub struct ChoiceOption {
    /// A string, or a boolean in dialects that allow booleans.
    pub value: Value,
    /// Condition for this option.
    pub description: Option<String>,
}

impl ChoiceOption {
    /// Returns the value as text: a string without quotes, any other value as JSON.
    pub fn name(&self) -> String {
        match &self.value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        }
    }
}

/// A level of a scale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Level {
    /// Short name shown to the model.
    pub label: String,
    /// Condition for this level.
    pub description: Option<String>,
}

/// A function that could be called.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionTool {
    pub name: String,
    /// Purpose of the function, shown to the model.
    pub description: Option<String>,
    /// JSON Schema of the function's arguments.
    pub parameters: Value,
}

/// An argument with a fixed set of values: an enumeration or a boolean. Arguments of other types
/// are not decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// Property name in the function's schema.
    pub name: String,
    /// Description from the schema.
    pub description: Option<String>,
    /// Possible values of the argument. [`FunctionTool::arguments`] returns only arguments with 2
    /// to 255 values.
    pub values: Vec<Value>,
}

impl FunctionTool {
    /// Returns the enumeration and boolean arguments with 2 to 255 values, in schema order.
    pub fn arguments(&self) -> Vec<Argument> {
        let mut found = self.enumerations();
        found.retain(|argument| OPTIONS.contains(&argument.values.len()));
        found
    }

    /// Returns all enumeration and boolean arguments, with any number of values, in schema order.
    pub fn enumerations(&self) -> Vec<Argument> {
        let properties = self.parameters.get("properties").and_then(Value::as_object);
        let described = |schema: &Value| schema.get("description")?.as_str().map(str::to_owned);
        let found = properties.into_iter().flatten().filter_map(|(name, schema)| {
            Some(Argument {
                name: name.clone(),
                description: described(schema),
                values: schema::values(schema, &self.parameters)?,
            })
        });
        found.collect()
    }
}

/// Options of a request for decisions.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DecideOptions {
    /// Number of option orders, 1 to 8, if the gateway presents the options; `None` for the default
    /// number.
    pub permutations: Option<u32>,
    /// Calibration profile that corrects the probabilities.
    pub calibration: CalibrationChoice,
    /// Whether choices with many options may be evaluated in one pass, which is faster and less
    /// accurate.
    pub fast: bool,
    /// Seed for the option orders and for sampling.
    pub seed: u64,
}

/// Selection of the calibration profile that corrects probabilities.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum CalibrationChoice {
    /// The account's default profile for the model, if one exists: the chosen one, else the newest.
    #[default]
    Newest,
    /// No correction of probabilities.
    None,
    /// The profile with this id.
    Profile(String),
}

/// Source of a probability; the best source comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DecisionSource {
    /// An upstream with an API for typed decisions.
    Native,
    /// Probabilities of exactly the tokens that name the options.
    Logits,
    /// Probabilities of the top tokens.
    TopLogprobs,
    /// Frequencies in sampled answers.
    Sampled,
}

impl DecisionSource {
    /// All sources, best first.
    pub const ALL: [DecisionSource; 4] = [
        DecisionSource::Native,
        DecisionSource::Logits,
        DecisionSource::TopLogprobs,
        DecisionSource::Sampled,
    ];

    /// Returns the name used on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            DecisionSource::Native => "native",
            DecisionSource::Logits => "logits",
            DecisionSource::TopLogprobs => "top_logprobs",
            DecisionSource::Sampled => "sampled",
        }
    }
}

/// Method that determined the probabilities of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Method {
    /// Source of the probabilities.
    pub source: DecisionSource,
    /// Number of option orders presented; 0 if the gateway did not present the options.
    pub permutations: u32,
    /// Minimum total probability of the option labels over all orders. `None` if the provider does
    /// not report it.
    pub mass: Option<f64>,
    /// Number of upstream requests.
    pub calls: u32,
    /// Id of the calibration profile that corrected the probabilities.
    pub calibrated: Option<String>,
}

impl Method {
    /// Merges the methods of two partial answers: the worse source, the higher number of orders,
    /// the lower known mass and the sum of the calls. The calibration is that of `self`.
    #[must_use]
    pub fn and(self, other: &Method) -> Method {
        let mass = match (self.mass, other.mass) {
            (Some(one), Some(two)) => Some(one.min(two)),
            (one, two) => one.or(two),
        };
        Method {
            source: self.source.max(other.source),
            permutations: self.permutations.max(other.permutations),
            mass,
            calls: self.calls.saturating_add(other.calls),
            calibrated: self.calibrated,
        }
    }
}

/// The answer to a question.
#[derive(Debug)]
pub struct Decision {
    /// Result with its probabilities.
    pub verdict: Verdict,
    /// Probability that the state lacks the information that the question needs. `None` if this was
    /// not requested, or if the question was refused or failed.
    pub abstain: Option<f64>,
    /// Method that determined the probabilities; `None` if the question was refused or failed.
    pub method: Option<Method>,
}

/// Result of a question. Probabilities are in the order of the question's options, and each list
/// sums to 1.
#[derive(Debug)]
pub enum Verdict {
    /// Probability of a yes.
    Noul(f64),
    /// Probability of each option.
    Choice(Vec<f64>),
    /// Probability of each level.
    Score(Vec<f64>),
    /// Function to call.
    Tool {
        /// Probability of each function; if the question does not require a call, the last entry is
        /// the probability of `none`.
        probabilities: Vec<f64>,
        /// Decided arguments of each function, under the assumption that the function is called.
        /// Empty for an improbable function.
        arguments: Vec<Vec<ArgumentDecision>>,
    },
    /// The model refused to answer.
    Refused,
    /// This question failed; others may have succeeded.
    Failed(Error),
}

/// Decision about one argument of a function.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgumentDecision {
    /// The argument with its possible values.
    pub argument: Argument,
    /// Probability of each value.
    pub probabilities: Vec<f64>,
}

/// Returns the index of the highest probability; the lowest such index if several are equal, and 0
/// for an empty slice.
pub fn argmax(probabilities: &[f64]) -> usize {
    let mut best = 0;
    for (place, probability) in probabilities.iter().enumerate() {
        if *probability > probabilities[best] {
            best = place;
        }
    }
    best
}

/// Returns the confidence of a choice, from 0 for a uniform guess to 1: `(p_max - 1/k) / (1 - 1/k)`
/// for `k` options. 1 for a single option, 0 for none.
pub fn confidence_of_choice(probabilities: &[f64]) -> f64 {
    let Some(max) = probabilities.get(argmax(probabilities)) else {
        return 0.0;
    };
    let guess = 1.0 / probabilities.len() as f64;
    if guess >= 1.0 {
        return 1.0;
    }
    ((max - guess) / (1.0 - guess)).clamp(0.0, 1.0)
}

/// Returns the confidence of a yes or no, from 0 for a guess to 1: `|2p - 1|`.
pub fn confidence_of_noul(yes: f64) -> f64 {
    (2.0 * yes - 1.0).abs().clamp(0.0, 1.0)
}

/// Returns the confidence of a score, from 0 to 1: the concentration of the probabilities around
/// the most probable level `m`, relative to a uniform guess. The formula is `max(0, 1 - d / u)`,
/// where `d` is the sum of `p_i |i - m|` and `u` is the mean of `|i - m|` over all levels. 1 if
/// there are fewer than two levels.
pub fn confidence_of_score(probabilities: &[f64]) -> f64 {
    let argmax = argmax(probabilities);
    let far = |weights: &dyn Fn(usize) -> f64| -> f64 {
        let levels = 0..probabilities.len();
        levels
            .map(|level| weights(level) * level.abs_diff(argmax) as f64)
            .sum()
    };
    let guess = far(&|_| 1.0 / probabilities.len() as f64);
    if guess <= 0.0 {
        return 1.0;
    }
    (1.0 - far(&|level| probabilities[level]) / guess).clamp(0.0, 1.0)
}

/// Returns the expected level; the lowest level is 0.
pub fn expected_level(probabilities: &[f64]) -> f64 {
    let levels = probabilities.iter().enumerate();
    levels
        .map(|(level, probability)| level as f64 * probability)
        .sum()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn near(one: f64, two: f64) -> bool {
        (one - two).abs() < 5e-4
    }

    /// The first two examples are from the README of llama.cpp's server.
    #[test]
    fn confidences_match_published_examples() {
        assert!(near(confidence_of_choice(&[0.9998, 0.0001, 0.0001]), 0.9997));
        assert!(near(confidence_of_score(&[0.0023, 0.116, 0.6753, 0.2064]), 0.673));
        assert_eq!(confidence_of_choice(&[0.25; 4]), 0.0);
        assert_eq!(confidence_of_choice(&[1.0, 0.0]), 1.0);
        assert!(near(confidence_of_noul(0.91), 0.82));
        assert!(near(confidence_of_noul(0.09), 0.82));
        assert_eq!(confidence_of_score(&[0.0, 1.0, 0.0]), 1.0);
        assert_eq!(confidence_of_score(&[0.5, 0.0, 0.5]), 0.0);
    }

    #[test]
    fn ties_are_won_by_the_first_option() {
        assert_eq!(argmax(&[0.2, 0.4, 0.4]), 1);
        assert_eq!(argmax(&[]), 0);
        assert!(near(expected_level(&[0.02, 0.22, 0.76]), 1.74));
    }

    #[test]
    fn arguments_with_few_values_are_decidable() {
        let tool = FunctionTool {
            name: "refund".to_owned(),
            description: None,
            parameters: json!({"type": "object", "properties": {
                "notify": {"type": "boolean", "description": "Tell them."},
                "reason": {"enum": ["duplicate", "other"]},
                "only": {"enum": ["one"]},
                "note": {"type": "string"},
                "color": {"$ref": "#/$defs/Color"},
                "size": {"anyOf": [{"type": "null"}, {"allOf": [{"$ref": "#/$defs/Color"}]}]},
                "maybe": {"type": ["boolean", "null"]},
                "loop": {"$ref": "#/properties/loop"}
            }, "$defs": {"Color": {"enum": ["red", "green"]}}}),
        };
        let arguments = tool.arguments();
        let names: Vec<&str> = arguments.iter().map(|argument| argument.name.as_str()).collect();
        assert_eq!(names, ["notify", "reason", "color", "size", "maybe"]);
        assert_eq!(arguments[3].values, [json!("red"), json!("green"), json!(null)]);
        assert_eq!(arguments[4].values, [json!(true), json!(false), json!(null)]);
        assert_eq!(tool.enumerations()[2].values, [json!("one")]);
        assert_eq!(arguments[0].values, [json!(true), json!(false)]);
        assert_eq!(arguments[0].description.as_deref(), Some("Tell them."));
    }
}
