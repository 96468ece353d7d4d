//! Applies templates to video requests. Parameters of the request override the template.

use std::time::Duration;

use tollgate_catalog::{MediaEntry, Template};

use super::generator::Task;
use super::read::Request;
use super::service::pixels;
use crate::defaults::fill;

/// Subject in the template's prompt if the request has input media and no prompt.
const DEFAULT_SUBJECT: &str = "the content of the given image or video, unchanged";

/// Returns the template's prompt, filled with the request's prompt.
pub(super) fn prompt(request: &Request, template: &Template) -> String {
    let shows = request.extend_from.is_some() || !request.images.is_empty() || !request.references.is_empty();
    template.blend(request.prompt.as_deref(), shows.then_some(DEFAULT_SUBJECT))
}

/// Returns the request with the template's values for parameters that the request omits and the
/// model supports. Names of resolutions differ between providers, so the template's resolution is
/// used only if the model lists it. The template's aspect ratio is not used for extended videos,
/// which have the aspect ratio of their source. A request with `size` uses neither value of the
/// template.
pub(super) fn filled(request: &Request, template: &Template, model: &MediaEntry, task: Task) -> Request {
    let (mut request, params) = (request.clone(), &template.params);
    if request.requested_size.size.is_none() {
        let ratios = &model.aspect_ratios;
        fill(
            &mut request.requested_size.aspect_ratio,
            &params.aspect_ratio,
            |ratio| task != Task::Extend && (ratios.is_empty() || ratios.contains(ratio)),
        );
        let max = model.max_reference_resolution.as_deref();
        let max = max.filter(|_| task == Task::FromReferences);
        fill(
            &mut request.requested_size.resolution,
            &params.resolution,
            |step| model.resolutions.contains(step) && max.is_none_or(|max| pixels(step) <= pixels(max)),
        );
    }
    let duration = params
        .duration
        .filter(|seconds| model.durations.is_empty() || model.durations.contains(seconds))
        .map(|seconds| Duration::from_secs(u64::from(seconds)));
    fill(&mut request.duration, &duration, |_| true);
    fill(&mut request.audio, &params.generate_audio, |wanted| {
        !wanted || model.audio != Some(false)
    });
    fill(&mut request.negative_prompt, &params.negative_prompt, |_| {
        model.negative_prompts != Some(false)
    });
    request
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tollgate_catalog::{CatalogInput, load};

    use super::*;
    use crate::videos::read;

    fn template() -> Template {
        let text = "type = \"video\"\nprompt = \"A video of {prompt}.\"\nsubject = \"a kite\"\n\
                    params = { aspect_ratio = \"9:16\", resolution = \"720p\", duration = 8, generate_audio = true, \
                    negative_prompt = \"text\" }";
        let input = CatalogInput {
            templates: [("t".to_owned(), toml::from_str(text).unwrap())].into(),
            ..CatalogInput::default()
        };
        let snapshot = load(&input).unwrap();
        Template::clone(snapshot.template("t").unwrap())
    }

    fn request(body: &Value) -> Request {
        read::request(body.to_string().as_bytes()).unwrap()
    }

    /// Returns the request with all parameters of the template except `without`.
    fn expected(body: &Value, without: &[&str]) -> Request {
        let full = json!({"aspect_ratio": "9:16", "resolution": "720p", "duration": 8, "generate_audio": true,
            "negative_prompt": "text"});
        let mut expected = body.clone();
        for (name, value) in full.as_object().unwrap() {
            if !without.contains(&name.as_str()) {
                expected[name] = value.clone();
            }
        }
        request(&expected)
    }

    #[test]
    fn request_values_override_the_template() {
        let able: MediaEntry = toml::from_str("resolutions = [\"720p\", \"1080p\"]").unwrap();
        let video = json!({"job_id": "j"});
        for (body, task, stays) in [
            (json!({}), Task::FromText, &[][..]),
            (json!({"aspect_ratio": "1:1"}), Task::FromText, &["aspect_ratio"]),
            (json!({"resolution": "1080p"}), Task::FromText, &["resolution"]),
            (
                json!({"size": "640x360"}),
                Task::FromText,
                &["aspect_ratio", "resolution"],
            ),
            (json!({"seconds": "4"}), Task::FromText, &["duration"]),
            (json!({"duration": 4}), Task::FromText, &["duration"]),
            (
                json!({"generate_audio": false}),
                Task::FromText,
                &["generate_audio"],
            ),
            (
                json!({"negative_prompt": "people"}),
                Task::FromText,
                &["negative_prompt"],
            ),
            (json!({"extend_from": video}), Task::Extend, &["aspect_ratio"]),
        ] {
            let mut body = body;
            body["template"] = json!("t");
            let found = filled(&request(&body), &template(), &able, task);
            assert_eq!(found, expected(&body, stays), "{body}");
        }
    }

    #[test]
    fn unsupported_template_values_are_dropped() {
        let body = json!({"template": "t"});
        let limited = "resolutions = [\"720p\", \"480p\"]\nmax_reference_resolution = \"480p\"";
        for (limits, task, left_out) in [
            (limited, Task::FromText, &[][..]),
            (limited, Task::FromReferences, &["resolution"]),
            ("", Task::FromText, &["resolution"]),
            (
                "aspect_ratios = [\"16:9\"]",
                Task::FromText,
                &["aspect_ratio", "resolution"],
            ),
            ("durations = [5]", Task::FromText, &["duration", "resolution"]),
            ("audio = false", Task::FromText, &["generate_audio", "resolution"]),
            (
                "negative_prompts = false",
                Task::FromText,
                &["negative_prompt", "resolution"],
            ),
        ] {
            let found = filled(
                &request(&body),
                &template(),
                &toml::from_str(limits).unwrap(),
                task,
            );
            assert_eq!(found, expected(&body, left_out), "{limits}");
        }
    }

    #[test]
    fn prompts_are_optional_with_an_input() {
        let shown = "A video of the content of the given image or video, unchanged.";
        for (body, expected) in [
            (json!({"prompt": "a shoe"}), "A video of a shoe."),
            (json!({}), "A video of a kite."),
            (json!({"image": "i"}), shown),
            (json!({"reference_images": ["i"]}), shown),
            (json!({"extend_from": {"job_id": "j"}}), shown),
        ] {
            let mut body = body;
            body["template"] = json!("t");
            assert_eq!(prompt(&request(&body), &template()), expected, "{body}");
        }
    }
}
