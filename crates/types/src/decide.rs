//! Typed decisions: questions about a state, each answered with probabilities. No text is generated.

mod schema;

use serde_json::Value;

use crate::Error;

/// What is decided about.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct State {
    /// All of its text; JSON stays JSON. Where a medium stood is its marker, such as `[image 1]`; text of the caller's that
    /// looks like one is changed so that it does not.
    pub text: String,
    /// The media, in the order of their markers.
    pub media: Vec<StateMedia>,
}

/// A medium of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateMedia {
    /// What it is.
    pub kind: StateMediaKind,
    /// Where its bytes are: an http or https address or a data URL.
    pub url: String,
    /// Where the caller wrote it, for errors, such as `state.photos[0].image_url`.
    pub param: String,
}

/// A kind of media that a state may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StateMediaKind {
    /// A picture.
    Image,
    /// A sound.
    Audio,
    /// A film.
    Video,
}

impl StateMediaKind {
    /// Every kind.
    pub const ALL: [StateMediaKind; 3] = [
        StateMediaKind::Image,
        StateMediaKind::Audio,
        StateMediaKind::Video,
    ];

    /// Its word, in markers and on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            StateMediaKind::Image => "image",
            StateMediaKind::Audio => "audio",
            StateMediaKind::Video => "video",
        }
    }

    /// The most of one request (contract, Limits).
    pub const fn most(self) -> usize {
        match self {
            StateMediaKind::Image => 16,
            StateMediaKind::Audio => 8,
            StateMediaKind::Video => 4,
        }
    }
}

/// The most questions of one request (contract, Limits).
pub const MAX_QUESTIONS: usize = 128;
/// How many options a choice has.
pub const OPTIONS: std::ops::RangeInclusive<usize> = 2..=255;
/// How many levels a score has.
pub const LEVELS: std::ops::RangeInclusive<usize> = 2..=10;
/// The most tokens of the state and the longest question together (contract, Limits).
pub const MAX_TOKENS: u64 = 1_000_000;

/// The two options of the question whether a state has what another question needs, where labels stand for options: that it
/// has, and that it has not.
pub const ANSWERABLE: [&str; 2] = ["answerable", "unanswerable"];

/// A question.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Its name among the questions of its request.
    pub id: String,
    /// Where the caller wrote it, for errors, such as `questions[3]` or `questions.refund`.
    pub param: String,
    /// What is asked.
    pub instructions: String,
    /// What may be answered.
    pub kind: QuestionKind,
    /// Whether it is also asked if the state has what is needed to answer.
    pub abstain: bool,
}

/// What may be answered to a question.
#[derive(Clone, Debug, PartialEq)]
pub enum QuestionKind {
    /// Yes or no, and what either means, if the caller says.
    Noul {
        /// When it is a yes.
        yes: Option<String>,
        /// When it is a no.
        no: Option<String>,
    },
    /// One of several.
    Choice {
        /// 2 to 255, no two alike.
        options: Vec<ChoiceOption>,
    },
    /// A level of a scale, the lowest one first: 2 to 10.
    Score {
        /// The levels.
        levels: Vec<Level>,
    },
    /// A function to call.
    Tool {
        /// At least one, no two of one name.
        tools: Vec<FunctionTool>,
        /// Whether one must be called; otherwise `none` may be the answer.
        required: bool,
    },
}

/// What can be chosen.
#[derive(Clone, Debug, PartialEq)]
pub struct ChoiceOption {
    /// A text; or a yes or no, where the caller's dialect has those.
    pub value: Value,
    /// When it is to be chosen.
    pub description: Option<String>,
}

impl ChoiceOption {
    /// The value as a text.
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
    /// Its name.
    pub label: String,
    /// When it is the one.
    pub description: Option<String>,
}

/// A function that could be called.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionTool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// JSON Schema of its arguments.
    pub parameters: Value,
}

/// An argument of a function that has few values: an enumeration or a yes or no. Others are not decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// Its name.
    pub name: String,
    /// What the schema says of it.
    pub description: Option<String>,
    /// What it can be: 2 to 255.
    pub values: Vec<Value>,
}

impl FunctionTool {
    /// Its arguments that can be decided, in the order of its schema.
    pub fn arguments(&self) -> Vec<Argument> {
        let mut found = self.enumerations();
        found.retain(|argument| OPTIONS.contains(&argument.values.len()));
        found
    }

    /// Its arguments that are an enumeration, of however many values, or a yes or no, in the order of its schema.
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

/// What a caller may say about how it is decided.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct DecideOptions {
    /// In how many orders the options are shown, where the gateway shows them: 1 to 8.
    pub permutations: Option<u32>,
    /// By which profile probabilities are corrected.
    pub calibration: CalibrationChoice,
    /// Whether wide choices may be read in one look, which is quicker and worse.
    pub fast: bool,
    /// Decides the orders in which options are shown, and what is drawn.
    pub seed: u64,
}

/// By which profile probabilities are corrected.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum CalibrationChoice {
    /// By the account's newest one for the model, if it has one.
    #[default]
    Newest,
    /// By none.
    None,
    /// By this one.
    Profile(String),
}

/// How a number was obtained, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DecisionSource {
    /// By a server of typed decisions.
    Native,
    /// From the probabilities of the very tokens that name the options.
    Logits,
    /// From the probabilities of the likeliest tokens.
    TopLogprobs,
    /// By counting answers that were drawn.
    Sampled,
}

impl DecisionSource {
    /// Every one.
    pub const ALL: [DecisionSource; 4] = [
        DecisionSource::Native,
        DecisionSource::Logits,
        DecisionSource::TopLogprobs,
        DecisionSource::Sampled,
    ];

    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            DecisionSource::Native => "native",
            DecisionSource::Logits => "logits",
            DecisionSource::TopLogprobs => "top_logprobs",
            DecisionSource::Sampled => "sampled",
        }
    }
}

/// How the numbers of an answer were obtained.
#[derive(Clone, Debug, PartialEq)]
pub struct Method {
    /// By what.
    pub source: DecisionSource,
    /// In how many orders the options were shown; 0 where the gateway did not show them.
    pub permutations: u32,
    /// The least share of probability that was seen on any of the options' labels; `None` where it is not told.
    pub mass: Option<f64>,
    /// How many requests it took.
    pub calls: u32,
    /// The profile by which the probabilities were corrected.
    pub calibrated: Option<String>,
}

impl Method {
    /// How two answers were obtained that make one: the worse of each.
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
    /// What was decided.
    pub verdict: Verdict,
    /// How probable it is that the state does not have what the question needs, when that was asked.
    pub abstain: Option<f64>,
    /// How the numbers were obtained; `None` where there are none.
    pub method: Option<Method>,
}

/// What was decided. Probabilities are in the order of the question's options and sum to one.
#[derive(Debug)]
pub enum Verdict {
    /// How probable a yes is.
    Noul(f64),
    /// How probable each option is.
    Choice(Vec<f64>),
    /// How probable each level is.
    Score(Vec<f64>),
    /// Which function.
    Tool {
        /// How probable each function is; at the end how probable none is, where none may be.
        probabilities: Vec<f64>,
        /// For each function the arguments that were decided, as if it were called; empty for one that is improbable.
        arguments: Vec<Vec<ArgumentDecision>>,
    },
    /// The model would not answer.
    Refused,
    /// The question failed, alone.
    Failed(Error),
}

/// What an argument would be.
#[derive(Clone, Debug, PartialEq)]
pub struct ArgumentDecision {
    /// Which, and what it can be.
    pub argument: Argument,
    /// How probable each value is.
    pub probabilities: Vec<f64>,
}

/// The place of the likeliest one: of several as likely, the first.
pub fn likeliest(probabilities: &[f64]) -> usize {
    let mut best = 0;
    for (place, probability) in probabilities.iter().enumerate() {
        if *probability > probabilities[best] {
            best = place;
        }
    }
    best
}

/// How far a choice is from a guess: `(p_max - 1/k) / (1 - 1/k)`.
pub fn confidence_of_choice(probabilities: &[f64]) -> f64 {
    let Some(most) = probabilities.get(likeliest(probabilities)) else {
        return 0.0;
    };
    let guess = 1.0 / probabilities.len() as f64;
    if guess >= 1.0 {
        return 1.0;
    }
    ((most - guess) / (1.0 - guess)).clamp(0.0, 1.0)
}

/// How far a yes or no is from a guess: `|2p - 1|`.
pub fn confidence_of_noul(yes: f64) -> f64 {
    (2.0 * yes - 1.0).abs().clamp(0.0, 1.0)
}

/// How near the levels are to the likeliest one, beside those of a guess:
/// `max(0, 1 - sum p_i |i - m| / MAD_uniform)`.
pub fn confidence_of_score(probabilities: &[f64]) -> f64 {
    let likeliest = likeliest(probabilities);
    let far = |weights: &dyn Fn(usize) -> f64| -> f64 {
        let levels = 0..probabilities.len();
        levels
            .map(|level| weights(level) * level.abs_diff(likeliest) as f64)
            .sum()
    };
    let guess = far(&|_| 1.0 / probabilities.len() as f64);
    if guess <= 0.0 {
        return 1.0;
    }
    (1.0 - far(&|level| probabilities[level]) / guess).clamp(0.0, 1.0)
}

/// The expected level, the lowest one being 0.
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

    /// The first two are of the README of llama.cpp's server.
    #[test]
    fn confidences_are_those_of_the_field() {
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
    fn of_several_as_likely_the_first_is_it() {
        assert_eq!(likeliest(&[0.2, 0.4, 0.4]), 1);
        assert_eq!(likeliest(&[]), 0);
        assert!(near(expected_level(&[0.02, 0.22, 0.76]), 1.74));
    }

    #[test]
    fn arguments_of_few_values_can_be_decided() {
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
