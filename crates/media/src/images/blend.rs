//! Applies templates to image requests. Parameters of the request override the template.

use tollgate_catalog::{MediaEntry, Template};
use tollgate_upstream::ImageFormat;

use super::read::Request;
use crate::defaults::fill;

/// Subject in the template's prompt if the request has an image and no prompt.
const DEFAULT_SUBJECT: &str = "the subject of the given image, unchanged";

/// Returns the template's prompt, filled with the request's prompt.
pub(super) fn prompt(request: &Request, template: &Template) -> String {
    let shows = request.variation_of.is_some() || !request.images.is_empty();
    template.blend(request.prompt.as_deref(), shows.then_some(DEFAULT_SUBJECT))
}

/// Returns the request with the template's values for parameters that the request omits and the
/// model supports. Names of resolutions and qualities differ between providers, so the template's
/// values are used only if the model lists them. A request with `size` does not use the template's
/// aspect ratio and resolution.
pub(super) fn filled(request: &Request, template: &Template, model: &MediaEntry) -> Request {
    let (mut request, params) = (request.clone(), &template.params);
    if request.requested_size.size.is_none() {
        let ratios = &model.aspect_ratios;
        fill(
            &mut request.requested_size.aspect_ratio,
            &params.aspect_ratio,
            |ratio| ratios.is_empty() || ratios.contains(ratio),
        );
        fill(
            &mut request.requested_size.resolution,
            &params.resolution,
            |step| model.resolutions.contains(step),
        );
    }
    fill(&mut request.quality, &params.quality, |quality| {
        model.qualities.contains(quality)
    });
    fill(&mut request.num_images, &params.num_images, |count| {
        model.max_images.is_none_or(|max| *count <= max)
    });
    fill(&mut request.negative_prompt, &params.negative_prompt, |_| {
        model.negative_prompts != Some(false)
    });
    let format = params.output_format.as_deref().and_then(ImageFormat::parse);
    fill(&mut request.output_format, &format, |_| true);
    request
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tollgate_catalog::{CatalogInput, load};

    use super::*;
    use crate::images::read;

    fn template() -> Template {
        let text = "type = \"image\"\nprompt = \"A photo of {prompt}.\"\nsubject = \"a mug\"\n\
                    params = { aspect_ratio = \"16:9\", resolution = \"2k\", quality = \"high\", num_images = 2, \
                    negative_prompt = \"text\", output_format = \"webp\" }";
        let input = CatalogInput {
            templates: [("t".to_owned(), toml::from_str(text).unwrap())].into(),
            ..CatalogInput::default()
        };
        let snapshot = load(&input).unwrap();
        Template::clone(snapshot.template("t").unwrap())
    }

    fn model(text: &str) -> MediaEntry {
        toml::from_str(text).unwrap()
    }

    fn request(body: &Value) -> Request {
        read::request(body.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn request_values_override_the_template() {
        let able = model(
            "resolutions = [\"1k\", \"2k\", \"4k\"]\naspect_ratios = [\"1:1\", \"16:9\"]\nqualities = [\"low\", \"high\"]",
        );
        let full = json!({"aspect_ratio": "16:9", "resolution": "2k", "quality": "high", "num_images": 2,
            "negative_prompt": "text", "output_format": "webp"});
        for (body, stays) in [
            (json!({}), &[][..]),
            (json!({"aspect_ratio": "1:1"}), &["aspect_ratio"]),
            (json!({"aspect_ratio": "auto"}), &["aspect_ratio"]),
            (json!({"resolution": "4k"}), &["resolution"]),
            (
                json!({"size": "1024x1024"}),
                &["size", "aspect_ratio", "resolution"],
            ),
            (json!({"size": "auto"}), &["size", "aspect_ratio", "resolution"]),
            (json!({"quality": "low"}), &["quality"]),
            (json!({"quality": "auto"}), &["quality"]),
            (json!({"n": 1}), &["num_images"]),
            (json!({"num_images": 4}), &["num_images"]),
            (json!({"negative_prompt": "people"}), &["negative_prompt"]),
            (json!({"output_format": "jpg"}), &["output_format"]),
        ] {
            let mut body = body;
            body["template"] = json!("t");
            let mut expected = body.clone();
            for (name, value) in full.as_object().unwrap() {
                if !stays.contains(&name.as_str()) {
                    expected[name] = value.clone();
                }
            }
            let found = filled(&request(&body), &template(), &able);
            assert_eq!(found, request(&expected), "{body}");
        }
    }

    #[test]
    fn unsupported_template_values_are_dropped() {
        let plain_request = request(&json!({"template": "t"}));
        for (limits, left_out) in [
            (
                "aspect_ratios = [\"1:1\"]\nresolutions = [\"2k\"]\nqualities = [\"high\"]",
                "aspect_ratio",
            ),
            ("resolutions = [\"1k\"]\nqualities = [\"high\"]", "resolution"),
            ("qualities = [\"high\"]", "resolution"),
            ("resolutions = [\"2k\"]\nqualities = [\"best\"]", "quality"),
            ("resolutions = [\"2k\"]", "quality"),
            (
                "resolutions = [\"2k\"]\nqualities = [\"high\"]\nmax_images = 1",
                "num_images",
            ),
            (
                "resolutions = [\"2k\"]\nqualities = [\"high\"]\nnegative_prompts = false",
                "negative_prompt",
            ),
        ] {
            let found = filled(&plain_request, &template(), &model(limits));
            let mut expected = json!({"template": "t", "aspect_ratio": "16:9", "resolution": "2k", "quality": "high",
                "num_images": 2, "negative_prompt": "text", "output_format": "webp"});
            expected.as_object_mut().unwrap().remove(left_out);
            assert_eq!(found, request(&expected), "{limits}");
        }
    }

    #[test]
    fn prompts_are_optional_with_an_input() {
        for (body, expected) in [
            (json!({"prompt": "a shoe."}), "A photo of a shoe."),
            (json!({}), "A photo of a mug."),
            (
                json!({"image": "i"}),
                "A photo of the subject of the given image, unchanged.",
            ),
            (
                json!({"variation_of": "i"}),
                "A photo of the subject of the given image, unchanged.",
            ),
            (json!({"image": "i", "prompt": "a shoe"}), "A photo of a shoe."),
        ] {
            let mut body = body;
            body["template"] = json!("t");
            assert_eq!(prompt(&request(&body), &template()), expected, "{body}");
        }
    }
}
