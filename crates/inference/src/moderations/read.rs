//! Parses and validates a moderation request.

use serde_json::{Map, Value};
use tollgate_formats::image::{MUST_BE_IMAGE, is_false_image};
use tollgate_types::moderate::{ModerationInput, ModerationPart};
use tollgate_types::{Error, ErrorCode};

/// Maximum number of texts or parts of one request.
pub(super) const MAX_INPUTS: usize = 2_048;

/// A validated moderation request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) model: Option<String>,
    pub(super) input: ModerationInput,
}

/// Parses a request body. Errors name the path of the invalid parameter.
pub(super) fn request(body: &[u8]) -> Result<Request, Error> {
    let body: Value = serde_json::from_slice(body).map_err(|error| {
        let message = format!("The body is not a JSON object: {error}.");
        Error::new(ErrorCode::InvalidJson, message)
    })?;
    let Value::Object(members) = body else {
        return Err(Error::new(
            ErrorCode::InvalidJson,
            "The body is not a JSON object.",
        ));
    };
    if let Some(unknown) = members
        .keys()
        .find(|name| !["model", "input"].contains(&name.as_str()))
    {
        return Err(Error::unknown_parameter(unknown.as_str()));
    }
    let model = match members.get("model") {
        None | Some(Value::Null) => None,
        Some(Value::String(model)) if !model.is_empty() => Some(model.clone()),
        Some(_) => return Err(invalid("model", "must be the id of a model")),
    };
    let input = match members.get("input") {
        None | Some(Value::Null) => {
            let message = "'input' is missing. Send a string, an array of strings, or an array of parts.";
            return Err(Error::new(ErrorCode::MissingRequiredParameter, message).with_param("input"));
        }
        Some(Value::String(text)) => ModerationInput::Texts(vec![text.clone()]),
        Some(Value::Array(items)) => inputs(items)?,
        Some(_) => return Err(invalid("input", "must be a string or an array")),
    };
    Ok(Request { model, input })
}

fn inputs(items: &[Value]) -> Result<ModerationInput, Error> {
    if items.is_empty() || items.len() > MAX_INPUTS {
        return Err(invalid("input", &format!("must have 1 to {MAX_INPUTS} items")));
    }
    let place = |at: usize| format!("input[{at}]");
    let items = items.iter().enumerate();
    if items.clone().all(|(_, item)| !item.is_object()) {
        let text = |(at, item): (usize, &Value)| match item {
            Value::String(text) => Ok(text.clone()),
            _ => Err(invalid(&place(at), "must be a string")),
        };
        return Ok(ModerationInput::Texts(items.map(text).collect::<Result<_, _>>()?));
    }
    let part = |(at, item): (usize, &Value)| match item {
        Value::Object(members) => part(&place(at), members),
        _ => Err(invalid(&place(at), "must be an object, like the other parts")),
    };
    Ok(ModerationInput::Parts(items.map(part).collect::<Result<_, _>>()?))
}

fn part(place: &str, members: &Map<String, Value>) -> Result<ModerationPart, Error> {
    let text = |path: [&str; 2]| {
        let [first, second] = path;
        let found = members.get(first);
        match second {
            "" => found.and_then(Value::as_str),
            _ => found.and_then(|found| found.get(second)).and_then(Value::as_str),
        }
    };
    match members.get("type").and_then(Value::as_str) {
        Some("text") => match text(["text", ""]) {
            Some(text) => Ok(ModerationPart::Text(text.to_owned())),
            None => Err(invalid(&format!("{place}.text"), "must be a string")),
        },
        Some("image_url") => match text(["image_url", "url"]) {
            Some(url)
                if ["https://", "http://", "data:image/"]
                    .iter()
                    .any(|start| url.starts_with(start)) =>
            {
                if is_false_image(url) {
                    return Err(invalid(&format!("{place}.image_url.url"), MUST_BE_IMAGE));
                }
                Ok(ModerationPart::Image(url.to_owned()))
            }
            _ => Err(invalid(
                &format!("{place}.image_url.url"),
                "must be an http(s) or data URL of an image",
            )),
        },
        _ => Err(invalid(&format!("{place}.type"), "must be 'text' or 'image_url'")),
    }
}

fn invalid(param: &str, what: &str) -> Error {
    Error::new(ErrorCode::InvalidParameter, format!("'{param}' {what}.")).with_param(param)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_form_of_input_is_read() {
        let text = || ModerationPart::Text("a".to_owned());
        let image = |url: &str| ModerationPart::Image(url.to_owned());
        let texts = |texts: &[&str]| ModerationInput::Texts(texts.iter().map(|t| (*t).to_owned()).collect());
        for (body, model, input) in [
            (json!({"input": "a"}), None, texts(&["a"])),
            (json!({"input": "", "model": null}), None, texts(&[""])),
            (
                json!({"input": ["a", "b"], "model": "m"}),
                Some("m"),
                texts(&["a", "b"]),
            ),
            (
                json!({"input": [{"type": "text", "text": "a"},
                    {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]}),
                None,
                ModerationInput::Parts(vec![
                    text(),
                    image("https://x/y.png"),
                    image("data:image/png;base64,iVBORw0KGgo="),
                ]),
            ),
        ] {
            let expected = Request {
                model: model.map(str::to_owned),
                input,
            };
            assert_eq!(request(body.to_string().as_bytes()).unwrap(), expected, "{body}");
        }
        let max = json!({"input": vec!["a"; MAX_INPUTS]});
        assert_eq!(
            request(max.to_string().as_bytes()).unwrap().input.results(),
            MAX_INPUTS
        );
    }

    #[test]
    fn invalid_input_is_reported_with_its_path() {
        use ErrorCode::{InvalidParameter, MissingRequiredParameter, UnknownParameter};
        for (body, code, param) in [
            (json!({}), MissingRequiredParameter, "input"),
            (json!({"input": null}), MissingRequiredParameter, "input"),
            (json!({"input": 1}), InvalidParameter, "input"),
            (json!({"input": []}), InvalidParameter, "input"),
            (
                json!({"input": vec!["a"; MAX_INPUTS + 1]}),
                InvalidParameter,
                "input",
            ),
            (json!({"input": ["a", 1]}), InvalidParameter, "input[1]"),
            (
                json!({"input": [{"type": "text", "text": "a"}, "b"]}),
                InvalidParameter,
                "input[1]",
            ),
            (
                json!({"input": [{"type": "audio"}]}),
                InvalidParameter,
                "input[0].type",
            ),
            (
                json!({"input": [{"type": "text"}]}),
                InvalidParameter,
                "input[0].text",
            ),
            (
                json!({"input": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]}),
                InvalidParameter,
                "input[0].image_url.url",
            ),
            (
                json!({"input": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}),
                InvalidParameter,
                "input[0].image_url.url",
            ),
            (json!({"input": "a", "model": 1}), InvalidParameter, "model"),
            (json!({"input": "a", "colour": 1}), UnknownParameter, "colour"),
        ] {
            let error = request(body.to_string().as_bytes()).unwrap_err();
            assert_eq!(
                (error.code, error.param.as_deref()),
                (code, Some(param)),
                "{body}"
            );
        }
        for body in ["", "[]", "{", "\"a\""] {
            assert_eq!(
                request(body.as_bytes()).unwrap_err().code,
                ErrorCode::InvalidJson,
                "{body}"
            );
        }
    }
}
