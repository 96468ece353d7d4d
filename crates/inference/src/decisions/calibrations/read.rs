//! Parses and validates calibration requests.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tollgate_probability::{AnswerKind, Example, Truth};
use tollgate_types::{Error, ErrorCode};

/// Allowed number of examples.
pub(super) const EXAMPLE_COUNT: std::ops::RangeInclusive<usize> = 30..=50_000;
/// Maximum length of a name, in characters.
const MAX_NAME_CHARS: usize = 100;
/// Allowed fields of an example. Evaluations write the last three; a profile does not depend on
/// them.
const MEMBERS: [&str; 7] = [
    "type",
    "probabilities",
    "probability",
    "truth",
    "abstain",
    "confidence",
    "group",
];

/// A calibration request whose examples are not parsed yet.
#[derive(Debug)]
pub(super) struct CalibrationParams {
    pub(super) model: String,
    pub(super) name: Option<String>,
    pub(super) examples: Bytes,
}

/// Parses a request except its examples.
pub(super) fn create(body: &Bytes) -> Result<CalibrationParams, Error> {
    let members = members(body, &["model", "name", "examples"])?;
    let model = text(&members, "model")?.ok_or_else(|| missing("model"))?;
    let name = text(&members, "name")?;
    if name.as_ref().is_some_and(|name| !is_name(name)) {
        let what =
            format!("must have 1 to {MAX_NAME_CHARS} characters, not only spaces, and no control characters");
        return Err(invalid("name", &what));
    }
    let examples = members.get("examples").filter(|raw| raw.get() != "null");
    let examples = examples.ok_or_else(|| missing("examples"))?;
    Ok(CalibrationParams {
        model,
        name,
        examples: body.slice_ref(examples.get().as_bytes()),
    })
}

/// Parses the `default` flag.
pub(super) fn choose(body: &Bytes) -> Result<bool, Error> {
    let members = members(body, &["default"])?;
    let chosen = members.get("default").ok_or_else(|| missing("default"))?;
    serde_json::from_str(chosen.get()).map_err(|_| invalid("default", "must be true or false"))
}

fn members<'b>(body: &'b [u8], known: &[&str]) -> Result<BTreeMap<String, &'b RawValue>, Error> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_slice(body).map_err(|error| {
        let message = format!("The body is not a JSON object: {error}.");
        Error::new(ErrorCode::InvalidJson, message)
    })?;
    match members.keys().find(|name| !known.contains(&name.as_str())) {
        Some(unknown) => Err(unknown_member("", unknown)),
        None => Ok(members),
    }
}

fn text(members: &BTreeMap<String, &RawValue>, name: &str) -> Result<Option<String>, Error> {
    let read = members.get(name).map(|raw| serde_json::from_str(raw.get()));
    let read: Option<Option<String>> = read.transpose().map_err(|_| invalid(name, "must be a string"))?;
    Ok(read.flatten())
}

fn is_name(name: &str) -> bool {
    !name.trim().is_empty() && name.chars().count() <= MAX_NAME_CHARS && !name.chars().any(char::is_control)
}

/// Parses the array of examples.
pub(super) fn examples(list: &[u8]) -> Result<Vec<Example>, Error> {
    let each: Vec<&RawValue> =
        serde_json::from_slice(list).map_err(|_| invalid("examples", "must be an array of examples"))?;
    if !EXAMPLE_COUNT.contains(&each.len()) {
        let (min, max) = (EXAMPLE_COUNT.start(), EXAMPLE_COUNT.end());
        return Err(invalid("examples", &format!("must have {min} to {max} examples")));
    }
    let each = each.into_iter().enumerate();
    each.map(|(place, raw)| {
        let param = format!("examples[{place}]");
        match serde_json::from_str(raw.get()) {
            Ok(Value::Object(members)) => example(&members, &param),
            _ => Err(invalid(&param, "must be an object")),
        }
    })
    .collect()
}

fn example(members: &Map<String, Value>, param: &str) -> Result<Example, Error> {
    if let Some(unknown) = members.keys().find(|name| !MEMBERS.contains(&name.as_str())) {
        return Err(unknown_member(&format!("{param}."), unknown));
    }
    let need = |name: &str| {
        let found = members.get(name).filter(|value| !value.is_null());
        found.ok_or_else(|| missing(&format!("{param}.{name}")))
    };
    let kind = kind(need("type")?, &format!("{param}.type"))?;
    let (names, probabilities) = match (members.get("probability"), members.get("probabilities")) {
        (Some(Value::Number(yes)), None) if kind == AnswerKind::Noul => {
            let yes = yes.as_f64().filter(|yes| (0.0..=1.0).contains(yes));
            let yes =
                yes.ok_or_else(|| invalid(&format!("{param}.probability"), "must be a number from 0 to 1"))?;
            (None, vec![yes, 1.0 - yes])
        }
        (Some(_), _) => {
            let what = "must be a number and is allowed only for type 'noul' and without 'probabilities'";
            return Err(invalid(&format!("{param}.probability"), what));
        }
        (None, _) => probabilities(kind, need("probabilities")?, &format!("{param}.probabilities"))?,
    };
    let truth = truth(kind, need("truth")?, names.as_deref(), &format!("{param}.truth"))?;
    Ok(Example {
        kind,
        probabilities,
        truth,
        abstain: None,
        confidence: None,
        group: None,
    })
}

fn kind(value: &Value, param: &str) -> Result<AnswerKind, Error> {
    match value.as_str() {
        Some("noul" | "predicate") => Ok(AnswerKind::Noul),
        Some("choice") => Ok(AnswerKind::Choice),
        Some("score") => Ok(AnswerKind::Score),
        Some("tool") => Ok(AnswerKind::Tool),
        _ => Err(invalid(param, "must be 'noul', 'choice', 'score' or 'tool'")),
    }
}

/// Names of the options, if the probabilities have names, and the probabilities.
type Named = (Option<Vec<String>>, Vec<f64>);

/// Parses an array, or a map by option as in an answer. The probabilities of a score are in the
/// order of its levels.
fn probabilities(kind: AnswerKind, value: &Value, param: &str) -> Result<Named, Error> {
    match value {
        Value::Array(list) => Ok((None, shares(list.iter(), param)?)),
        Value::Object(named) if kind == AnswerKind::Score => {
            let levels = (0..named.len()).map(|level| named.get(&level.to_string()));
            let levels: Option<Vec<&Value>> = levels.collect();
            let levels = levels
                .ok_or_else(|| invalid(param, "must have the consecutive levels '0', '1', … as keys"))?;
            let names = (0..named.len()).map(|level| level.to_string());
            Ok((Some(names.collect()), shares(levels.into_iter(), param)?))
        }
        Value::Object(named) if kind != AnswerKind::Noul => {
            let names = named.keys().cloned().collect();
            Ok((Some(names), shares(named.values(), param)?))
        }
        _ if kind == AnswerKind::Noul => Err(invalid(
            param,
            "must be an array of two numbers: the probabilities of yes and of no",
        )),
        _ => Err(invalid(
            param,
            "must be an array of numbers, or an object that maps each option to a number",
        )),
    }
}

fn shares<'v>(values: impl Iterator<Item = &'v Value>, param: &str) -> Result<Vec<f64>, Error> {
    let shares: Option<Vec<f64>> = values.map(Value::as_f64).collect();
    shares.ok_or_else(|| invalid(param, "must contain only numbers"))
}

fn truth(kind: AnswerKind, value: &Value, names: Option<&[String]>, param: &str) -> Result<Truth, Error> {
    let place = match value {
        Value::Array(list) => return Ok(Truth::Soft(shares(list.iter(), param)?)),
        Value::Bool(yes) if kind == AnswerKind::Noul => Some(usize::from(!yes)),
        Value::String(name) => names.and_then(|names| names.iter().position(|known| known == name)),
        Value::Number(place) => place.as_u64().and_then(|place| usize::try_from(place).ok()),
        _ => None,
    };
    place.map(Truth::Option).ok_or_else(|| {
        let what = match (kind, names) {
            (AnswerKind::Noul, _) => "must be true, false, or an array of two probabilities",
            (_, Some(_)) => "must be the name or the index of an option, or an array of probabilities",
            (_, None) => "must be the index of an option from 0, or an array of probabilities",
        };
        invalid(param, what)
    })
}

pub(super) fn invalid(param: &str, what: &str) -> Error {
    Error::new(ErrorCode::InvalidParameter, format!("'{param}' {what}.")).with_param(param)
}

fn missing(param: &str) -> Error {
    let message = format!("'{param}' is missing.");
    Error::new(ErrorCode::MissingRequiredParameter, message).with_param(param)
}

fn unknown_member(before: &str, name: &str) -> Error {
    let shown: String = name.chars().take(60).collect();
    Error::unknown_parameter(format!("{before}{shown}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(example: &Value) -> Result<Example, Error> {
        let mut list = vec![json!({"type": "noul", "probability": 0.9, "truth": true}); 29];
        list.insert(3, example.clone());
        let mut read = examples(Value::from(list).to_string().as_bytes())?;
        Ok(read.remove(3))
    }

    /// `tollgate decisions eval --fit` writes examples in this shape.
    #[test]
    fn evaluation_output_is_valid_input() {
        for (kind, truth) in [
            (AnswerKind::Noul, Truth::Option(1)),
            (AnswerKind::Choice, Truth::Option(0)),
            (AnswerKind::Score, Truth::Soft(vec![0.5, 0.5])),
            (AnswerKind::Tool, Truth::Option(1)),
        ] {
            let written = Example {
                kind,
                probabilities: vec![0.25, 0.75],
                truth,
                abstain: Some((0.1, false)),
                confidence: Some(0.5),
                group: Some("a set".to_owned()),
            };
            let known = read(&serde_json::to_value(&written).unwrap()).unwrap();
            let expected = (kind, written.probabilities, written.truth);
            assert_eq!((known.kind, known.probabilities, known.truth), expected);
        }
    }

    #[test]
    fn examples_may_have_the_shape_of_answers() {
        let named = json!({"billing": 0.7, "tech": 0.3});
        for (written, kind, probabilities, truth) in [
            (
                json!({"type": "noul", "probability": 0.75, "truth": false}),
                AnswerKind::Noul,
                vec![0.75, 0.25],
                Truth::Option(1),
            ),
            (
                json!({"type": "predicate", "probabilities": [0.75, 0.25], "truth": 0}),
                AnswerKind::Noul,
                vec![0.75, 0.25],
                Truth::Option(0),
            ),
            (
                json!({"type": "choice", "probabilities": named, "truth": "tech", "group": "a", "confidence": 7}),
                AnswerKind::Choice,
                vec![0.7, 0.3],
                Truth::Option(1),
            ),
            (
                json!({"type": "tool", "probabilities": named, "truth": [0.5, 0.5]}),
                AnswerKind::Tool,
                vec![0.7, 0.3],
                Truth::Soft(vec![0.5, 0.5]),
            ),
            (
                json!({"type": "score", "probabilities": {"2": 0.7, "0": 0.1, "1": 0.2}, "truth": "2"}),
                AnswerKind::Score,
                vec![0.1, 0.2, 0.7],
                Truth::Option(2),
            ),
        ] {
            let read = read(&written).unwrap();
            assert_eq!(
                (read.kind, read.probabilities, read.truth),
                (kind, probabilities, truth)
            );
        }
    }

    #[test]
    fn invalid_input_is_reported_with_its_path() {
        let whole = json!({"type": "choice", "probabilities": [0.5, 0.5], "truth": 0});
        for (name, value, code, param) in [
            ("type", json!("maybe"), "invalid_parameter", "examples[3].type"),
            (
                "type",
                Value::Null,
                "missing_required_parameter",
                "examples[3].type",
            ),
            (
                "truth",
                Value::Null,
                "missing_required_parameter",
                "examples[3].truth",
            ),
            ("truth", json!(-1), "invalid_parameter", "examples[3].truth"),
            ("truth", json!(true), "invalid_parameter", "examples[3].truth"),
            ("truth", json!("tech"), "invalid_parameter", "examples[3].truth"),
            (
                "probabilities",
                json!(0.5),
                "invalid_parameter",
                "examples[3].probabilities",
            ),
            (
                "probabilities",
                json!([0.5, "0.5"]),
                "invalid_parameter",
                "examples[3].probabilities",
            ),
            (
                "probability",
                json!(0.5),
                "invalid_parameter",
                "examples[3].probability",
            ),
            ("weight", json!(1), "unknown_parameter", "examples[3].weight"),
        ] {
            let mut written = whole.clone();
            written[name] = value;
            let error = read(&written).unwrap_err();
            assert_eq!((error.code.as_str(), error.param.as_deref()), (code, Some(param)));
        }
        let levels = json!({"type": "score", "probabilities": {"1": 0.5, "2": 0.5}, "truth": 0});
        let error = read(&levels).unwrap_err();
        assert_eq!(error.param.as_deref(), Some("examples[3].probabilities"));
        for (probability, is_fine) in [
            (0.0, true),
            (1.0, true),
            (2.0, false),
            (-0.1, false),
            (1.01, false),
        ] {
            let read = read(&json!({"type": "noul", "probability": probability, "truth": true}));
            let param = read.err().and_then(|error| error.param);
            let expected = (!is_fine).then_some("examples[3].probability");
            assert_eq!(param.as_deref(), expected, "{probability}");
        }
        assert!(read(&whole).is_ok());
    }

    #[test]
    fn model_and_examples_are_required() {
        for (body, expected) in [
            (r#"{"model": "m", "examples": [1]}"#, Ok("[1]")),
            (
                r#"{"model": "m", "examples": [], "name": "June", "more": 1}"#,
                Err("more"),
            ),
            (r#"{"examples": []}"#, Err("model")),
            (r#"{"model": 7, "examples": []}"#, Err("model")),
            (r#"{"model": "m", "examples": null}"#, Err("examples")),
            (r#"{"model": "m", "examples": [], "name": " "}"#, Err("name")),
        ] {
            let read = create(&Bytes::from_static(body.as_bytes()));
            let read = read.map_err(|error| error.param.unwrap_or_default());
            let read = read.map(|params| String::from_utf8(params.examples.to_vec()).unwrap());
            assert_eq!(read, expected.map(str::to_owned).map_err(str::to_owned), "{body}");
        }
        assert!(create(&Bytes::from_static(b"[]")).is_err());
        assert!(choose(&Bytes::from_static(br#"{"default": true}"#)).unwrap());
        assert!(choose(&Bytes::from_static(br#"{"default": 1}"#)).is_err());
    }
}
