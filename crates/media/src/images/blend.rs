//! What a template adds to a request for pictures. What the caller has said stays as it is.

use tollgate_catalog::{MediaEntry, Template};
use tollgate_upstream::ImageFormat;

use super::read::Request;
use crate::read::fill;

/// What stands for the subject where the caller shows a picture and says nothing.
const SHOWN: &str = "the subject of the given picture, unchanged";

/// The prompt that the model is sent.
pub(super) fn prompt(request: &Request, template: &Template) -> String {
    let shows = request.variation_of.is_some() || !request.images.is_empty();
    template.blend(request.prompt.as_deref(), shows.then_some(SHOWN))
}

/// The request with the template's parameters where it has none of its own, as far as the model says that it can do them.
/// Steps have other names from maker to maker, so a model that does not list them is asked for none.
pub(super) fn filled(request: &Request, template: &Template, model: &MediaEntry) -> Request {
    let (mut request, params) = (request.clone(), &template.params);
    if request.said.size.is_none() {
        let ratios = &model.aspect_ratios;
        fill(&mut request.said.aspect_ratio, &params.aspect_ratio, |ratio| {
            ratios.is_empty() || ratios.contains(ratio)
        });
        fill(&mut request.said.resolution, &params.resolution, |step| {
            model.resolutions.contains(step)
        });
    }
    fill(&mut request.quality, &params.quality, |quality| {
        model.qualities.contains(quality)
    });
    fill(&mut request.num_images, &params.num_images, |count| {
        model.max_images.is_none_or(|most| *count <= most)
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
    fn what_the_caller_says_stays() {
        let able = model(
            "resolutions = [\"1k\", \"2k\", \"4k\"]\naspect_ratios = [\"1:1\", \"16:9\"]\nqualities = [\"low\", \"high\"]",
        );
        let full = json!({"aspect_ratio": "16:9", "resolution": "2k", "quality": "high", "num_images": 2,
            "negative_prompt": "text", "output_format": "webp"});
        for (said, stays) in [
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
            let mut said = said;
            said["template"] = json!("t");
            let mut expected = said.clone();
            for (name, value) in full.as_object().unwrap() {
                if !stays.contains(&name.as_str()) {
                    expected[name] = value.clone();
                }
            }
            let found = filled(&request(&said), &template(), &able);
            assert_eq!(found, request(&expected), "{said}");
        }
    }

    #[test]
    fn what_the_model_cannot_do_is_left_out() {
        let asked = request(&json!({"template": "t"}));
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
            let found = filled(&asked, &template(), &model(limits));
            let mut expected = json!({"template": "t", "aspect_ratio": "16:9", "resolution": "2k", "quality": "high",
                "num_images": 2, "negative_prompt": "text", "output_format": "webp"});
            expected.as_object_mut().unwrap().remove(left_out);
            assert_eq!(found, request(&expected), "{limits}");
        }
    }

    #[test]
    fn who_shows_a_picture_need_not_say_what_is_on_it() {
        for (body, expected) in [
            (json!({"prompt": "a shoe."}), "A photo of a shoe."),
            (json!({}), "A photo of a mug."),
            (
                json!({"image": "i"}),
                "A photo of the subject of the given picture, unchanged.",
            ),
            (
                json!({"variation_of": "i"}),
                "A photo of the subject of the given picture, unchanged.",
            ),
            (json!({"image": "i", "prompt": "a shoe"}), "A photo of a shoe."),
        ] {
            let mut body = body;
            body["template"] = json!("t");
            assert_eq!(prompt(&request(&body), &template()), expected, "{body}");
        }
    }
}
