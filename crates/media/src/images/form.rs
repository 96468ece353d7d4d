//! Multipart forms of image edits and variations, compatible with OpenAI's API. A form is converted
//! to the members of a JSON request, with files as data URLs, so that forms and JSON have the same
//! validation.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use tollgate_edge::FormField;
use tollgate_edge::body::MEDIA_BODY;
use tollgate_edge::members::{Members, invalid};
use tollgate_media_tools::Encoding;
use tollgate_types::{Error, ErrorCode};

use super::read::{self, MAX_INPUTS, Request};

/// Maximum size of a form, in bytes: the limit of a JSON request.
pub(super) const MAX_FORM_BYTES: usize = MEDIA_BODY;
/// Fields that are parsed as integers.
const NUMBERS: [&str; 5] = ["n", "num_images", "seed", "partial_images", "output_compression"];
/// Fields that are parsed as booleans. All other fields are strings, files or JSON.
const FLAGS: [&str; 4] = ["sync", "wait", "stream", "image_set"];
/// Member of a JSON request that contains the image to vary.
const VARIATION_OF: &str = "variation_of";

/// Parses the form of an image edit.
pub(super) fn edit(fields: Vec<FormField>) -> Result<Request, Error> {
    let (mut members, images) = members(fields)?;
    if images.is_empty() {
        return Err(missing());
    }
    members.insert("image".to_owned(), Value::Array(images));
    read::members(Members::of(members))
}

/// Parses the form of an image variation.
pub(super) fn vary(fields: Vec<FormField>) -> Result<Request, Error> {
    let (mut members, mut images) = members(fields)?;
    let image = images.pop().ok_or_else(missing)?;
    if !images.is_empty() {
        return Err(invalid("image", "must have exactly one image"));
    }
    members.insert(VARIATION_OF.to_owned(), image);
    let mut request = read::members(Members::of(members)).map_err(as_image)?;
    request.variation_of = request
        .variation_of
        .map(|(_, address)| ("image".to_owned(), address));
    Ok(request)
}

/// Renames the parameter `variation_of` of an error to `image`, its name in a form.
pub(super) fn as_image(mut error: Error) -> Error {
    if error.param.as_deref() == Some(VARIATION_OF) {
        error.message = error.message.replace(VARIATION_OF, "image");
        error.param = Some("image".to_owned());
    }
    error
}

/// Converts form fields to JSON members. Images are returned separately, as URLs.
fn members(fields: Vec<FormField>) -> Result<(Map<String, Value>, Vec<Value>), Error> {
    let (mut members, mut images) = (Map::new(), Vec::new());
    for field in fields {
        let name = field.name.strip_suffix("[]").unwrap_or(&field.name).to_owned();
        if name == "image" {
            if images.len() == MAX_INPUTS {
                return Err(invalid("image", &format!("must have 1 to {MAX_INPUTS} items")));
            }
            images.push(address(&name, field)?);
            continue;
        }
        let value = match &*name {
            "mask" => address(&name, field)?,
            _ => match value(&name, text(&name, field)?)? {
                Some(value) => value,
                None => continue,
            },
        };
        if members.contains_key(&name) {
            return Err(invalid(&name, "may be sent only once"));
        }
        members.insert(name, value);
    }
    Ok((members, images))
}

/// Returns the URL of an image: a data URL of an uploaded file, or the text of a field.
fn address(name: &str, field: FormField) -> Result<Value, Error> {
    if field.filename.is_none() && Encoding::of(&field.content).is_none() {
        return Ok(text(name, field)?.into());
    }
    if field.content.is_empty() {
        return Err(invalid(name, "must not be empty"));
    }
    let known = Encoding::of(&field.content).map(Encoding::mime_type);
    let mime_type = known.unwrap_or("application/octet-stream");
    let data = STANDARD.encode(&field.content);
    Ok(format!("data:{mime_type};base64,{data}").into())
}

fn text(name: &str, field: FormField) -> Result<String, Error> {
    String::from_utf8(field.content.into()).map_err(|_| invalid(name, "must be UTF-8"))
}

/// Converts a text field to the JSON type of its member. An empty field counts as absent. A value
/// of the wrong type stays a string, which the validation then rejects.
fn value(name: &str, text: String) -> Result<Option<Value>, Error> {
    let word = text.trim();
    if word.is_empty() {
        return Ok(None);
    }
    let read = match name {
        _ if NUMBERS.contains(&name) => word.parse::<u64>().ok().map(Value::from),
        _ if FLAGS.contains(&name) => word.parse::<bool>().ok().map(Value::from),
        "metadata" => serde_json::from_str(word).ok(),
        _ => None,
    };
    Ok(Some(read.unwrap_or(Value::String(text))))
}

fn missing() -> Error {
    Error::new(ErrorCode::MissingRequiredParameter, "'image' is required.").with_param("image")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

    fn field(name: &str, content: &[u8]) -> FormField {
        FormField {
            name: name.to_owned(),
            filename: content.starts_with(PNG).then(|| "a.png".to_owned()),
            content_type: None,
            content: content.to_vec().into(),
        }
    }

    #[test]
    fn forms_are_read_like_json() {
        let mut fields = vec![
            field("image[]", PNG),
            field("image[]", b"https://a.example/b.png"),
            field("prompt", b"a hat"),
            field("n", b"2"),
            field("sync", b"false"),
            field("response_format", b"b64_json"),
            field("metadata", br#"{"a": "b"}"#),
            field("size", b""),
        ];
        let request = edit(fields.clone()).unwrap();
        let data = format!("data:image/png;base64,{}", STANDARD.encode(PNG));
        let images = [
            ("image[0]", data.as_str()),
            ("image[1]", "https://a.example/b.png"),
        ];
        assert_eq!(
            request.images,
            images.map(|(path, url)| (path.to_owned(), url.to_owned()))
        );
        assert_eq!(
            (request.num_images, request.sync, request.inline),
            (Some(2), Some(false), true)
        );
        fields.drain(1..3);
        let request = vary(fields).unwrap();
        assert_eq!(request.variation_of, Some(("image".to_owned(), data)));
    }

    #[test]
    fn errors_name_the_form_field() {
        type Read = fn(Vec<FormField>) -> Result<Request, Error>;
        let many = |count: usize| vec![field("image", PNG); count];
        for (read, fields, param) in [
            (edit as Read, vec![field("prompt", b"x")], "image"),
            (vary, Vec::new(), "image"),
            (vary, many(2), "image"),
            (edit, many(MAX_INPUTS + 1), "image"),
            (edit, vec![field("image", PNG), field("n", b"two")], "n"),
            (edit, vec![field("image", PNG), field("n", b"5")], "n"),
            (
                edit,
                vec![field("image", PNG), field("stream", b"maybe")],
                "stream",
            ),
            (
                edit,
                vec![field("image", PNG), field("prompt", b"\xff")],
                "prompt",
            ),
            (
                edit,
                vec![field("image", PNG), field("prompt", b"x"), field("prompt", b"y")],
                "prompt",
            ),
            (edit, vec![field("image", PNG), field("steps", b"5")], "steps"),
            (vary, vec![field("image", PNG), field("mask", PNG)], "mask"),
        ] {
            let error = read(fields).unwrap_err();
            assert_eq!(error.param.as_deref(), Some(param), "{error:?}");
        }
        assert!(edit(many(MAX_INPUTS)).is_ok());
    }
}
