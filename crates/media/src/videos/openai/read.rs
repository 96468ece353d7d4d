//! Parses the requests of `POST /v1/videos`. They have the parameters of `POST
//! /v1/videos/generations`, as JSON or as a form, and `input_reference` for the first frame.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value};
use tollgate_edge::form::FormField;
use tollgate_edge::members::{Members, invalid, text};
use tollgate_types::{Error, ErrorCode};

use crate::videos::read::{Request, request_of};

/// OpenAI's parameter for the image of the first frame.
const REFERENCE: &str = "input_reference";

/// A request body, which is JSON or a form.
pub(super) enum Sent {
    /// The bytes of a JSON body.
    Json(Bytes),
    /// The fields of a multipart form.
    Form(Vec<FormField>),
}

/// Parses a request body.
pub(super) fn request(sent: &Sent) -> Result<Request, Error> {
    let mut members = match sent {
        Sent::Json(body) => Members::read(body)?,
        Sent::Form(fields) => Members::of(form(fields)?),
    };
    let reference = members.take(REFERENCE).map(reference).transpose()?;
    let is_reference = reference.is_some();
    if let Some(address) = reference {
        if ["image", "image_url", "images"]
            .iter()
            .any(|name| members.has(name))
        {
            return Err(invalid(
                REFERENCE,
                "cannot be combined with 'image', 'image_url' or 'images'. Send only one of them",
            ));
        }
        members.put("image", Value::String(address));
    }
    let mut request = request_of(members).map_err(as_named_here)?;
    if is_reference {
        for (path, _) in &mut request.images {
            REFERENCE.clone_into(path);
        }
    }
    Ok(request)
}

/// Parses a remix request and returns its prompt.
pub(super) fn remix(body: &[u8]) -> Result<String, Error> {
    let mut members = Members::read(body)?;
    let prompt = members.text("prompt")?.ok_or_else(|| {
        let message = "'prompt' is required. Describe the new version of the video.";
        Error::new(ErrorCode::MissingRequiredParameter, message).with_param("prompt")
    })?;
    members.end()?;
    Ok(prompt)
}

/// Renames the parameter `duration` of an error to `seconds`, its name in OpenAI's API.
pub(super) fn as_named_here(mut error: Error) -> Error {
    if error.param.as_deref() == Some("duration") {
        error.param = Some("seconds".into());
        error.message = error.message.replace("'duration'", "'seconds'");
    }
    error
}

/// Returns the URL of the first frame's image.
fn reference(value: Value) -> Result<String, Error> {
    let Value::Object(mut members) = value else {
        return text(REFERENCE, value);
    };
    match (members.remove("image_url"), members.is_empty()) {
        (Some(url), true) => text("input_reference.image_url", url),
        (None, false) if members.contains_key("file_id") => {
            let message = "'input_reference.file_id' is not supported. Send the file itself or 'image_url'.";
            Err(Error::new(ErrorCode::UnsupportedParameter, message).with_param("input_reference.file_id"))
        }
        _ => Err(invalid(
            REFERENCE,
            "must be a file or an object with only 'image_url'",
        )),
    }
}

/// Converts form fields to JSON members.
fn form(fields: &[FormField]) -> Result<Map<String, Value>, Error> {
    let mut members = Map::new();
    for field in fields {
        let shown: String = field.name.chars().take(60).collect();
        let (name, value) = match (field.name.as_str(), field.filename.is_some()) {
            (REFERENCE, true) => {
                let data = STANDARD.encode(&field.content);
                (REFERENCE, Value::String(format!("data:image/*;base64,{data}")))
            }
            (_, true) => return Err(invalid(&shown, "must not be a file")),
            ("input_reference[image_url]", false) => (REFERENCE, json_value(field, &shown)?),
            (name, false) => (name, json_value(field, &shown)?),
        };
        if members.insert(name.to_owned(), value).is_some() {
            return Err(invalid(&shown, "may be sent only once"));
        }
    }
    Ok(members)
}

/// Converts a text field to the JSON type of its member.
fn json_value(field: &FormField, shown: &str) -> Result<Value, Error> {
    let text = std::str::from_utf8(&field.content).map_err(|_| invalid(shown, "must be UTF-8 text"))?;
    Ok(match field.name.as_str() {
        "generate_audio" | "seed" => serde_json::from_str(text).unwrap_or_else(|_| text.into()),
        _ => text.into(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn json_body(body: &Value) -> Result<Request, Error> {
        request(&Sent::Json(body.to_string().into()))
    }

    fn form_body(fields: &[(&str, bool, &str)]) -> Result<Request, Error> {
        let field = |(name, is_file, content): &(&str, bool, &str)| FormField {
            name: (*name).to_owned(),
            filename: is_file.then(|| "a.png".to_owned()),
            content_type: None,
            content: Bytes::copy_from_slice(content.as_bytes()),
        };
        request(&Sent::Form(fields.iter().map(field).collect()))
    }

    #[test]
    fn forms_and_json_are_read_alike() {
        let form = form_body(&[
            ("prompt", false, "a cat"),
            ("model", false, "m"),
            ("seconds", false, "8"),
            ("size", false, "1280x720"),
            ("generate_audio", false, "false"),
            ("seed", false, "7"),
            ("input_reference", true, "png"),
        ]);
        let body = json!({"prompt": "a cat", "model": "m", "seconds": "8", "size": "1280x720", "generate_audio": false,
            "seed": 7, "input_reference": {"image_url": "data:image/*;base64,cG5n"}});
        let form = form.unwrap();
        assert_eq!(form, json_body(&body).unwrap());
        assert_eq!(form.duration, Some(Duration::from_secs(8)));
        assert_eq!(
            form.images,
            [(
                "input_reference".to_owned(),
                "data:image/*;base64,cG5n".to_owned()
            )]
        );
        let named = form_body(&[
            ("prompt", false, "a"),
            ("input_reference[image_url]", false, "https://a.example"),
        ]);
        assert_eq!(named.unwrap().images[0].1, "https://a.example");
    }

    #[test]
    fn errors_name_the_field_that_was_sent() {
        for (body, param) in [
            (json!({"prompt": "p", "seconds": "long"}), "seconds"),
            (json!({"prompt": "p", "input_reference": 5}), "input_reference"),
            (json!({"prompt": "p", "input_reference": {}}), "input_reference"),
            (
                json!({"prompt": "p", "input_reference": {"image_url": 5}}),
                "input_reference.image_url",
            ),
            (
                json!({"prompt": "p", "input_reference": {"file_id": "f"}}),
                "input_reference.file_id",
            ),
            (
                json!({"prompt": "p", "input_reference": "i", "image": "i"}),
                "input_reference",
            ),
            (json!({"prompt": "p", "fps": 24}), "fps"),
            (json!({}), "prompt"),
        ] {
            let error = json_body(&body).unwrap_err();
            assert_eq!(error.param.as_deref(), Some(param), "{body}");
        }
        for (fields, param) in [
            (&[("prompt", true, "p")][..], "prompt"),
            (&[("prompt", false, "p"), ("prompt", false, "p")], "prompt"),
            (
                &[("prompt", false, "p"), ("generate_audio", false, "loud")],
                "generate_audio",
            ),
        ] {
            let error = form_body(fields).unwrap_err();
            assert_eq!(error.param.as_deref(), Some(param), "{param}");
        }
        assert!(remix(br#"{"prompt": "p"}"#).is_ok());
        for (body, param) in [("{}", "prompt"), (r#"{"prompt": "p", "size": "x"}"#, "size")] {
            assert_eq!(
                remix(body.as_bytes()).unwrap_err().param.as_deref(),
                Some(param),
                "{body}"
            );
        }
    }
}
