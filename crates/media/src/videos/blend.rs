//! What a template adds to a request for a film. What the caller has said stays as it is.

use std::time::Duration;

use tollgate_catalog::{MediaEntry, Template};

use super::craft::Task;
use super::read::Request;
use super::service::pixels;
use crate::read::fill;

/// What stands for the subject where the caller shows pictures or a film and says nothing.
const SHOWN: &str = "what is given to begin with, unchanged";

/// The prompt that the model is sent.
pub(super) fn prompt(request: &Request, template: &Template) -> String {
    let shows = request.extend_from.is_some() || !request.images.is_empty() || !request.references.is_empty();
    template.blend(request.prompt.as_deref(), shows.then_some(SHOWN))
}

/// The request with the template's parameters where it has none of its own, as far as the model says that it can do them.
/// Steps have other names from maker to maker, so a model that does not list them is asked for none; and a film that goes on
/// with another has its size and its shape, which are known when it was looked at.
pub(super) fn filled(request: &Request, template: &Template, model: &MediaEntry, task: Task) -> Request {
    let (mut request, params) = (request.clone(), &template.params);
    if request.said.size.is_none() {
        let ratios = &model.aspect_ratios;
        fill(&mut request.said.aspect_ratio, &params.aspect_ratio, |ratio| {
            task != Task::Extend && (ratios.is_empty() || ratios.contains(ratio))
        });
        let most = model.max_reference_resolution.as_deref();
        let most = most.filter(|_| task == Task::FromReferences);
        fill(&mut request.said.resolution, &params.resolution, |step| {
            model.resolutions.contains(step) && most.is_none_or(|most| pixels(step) <= pixels(most))
        });
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
        let text = "type = \"video\"\nprompt = \"A film of {prompt}.\"\nsubject = \"a kite\"\n\
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

    /// The request that has all of the template's parameters but those.
    fn expected(said: &Value, without: &[&str]) -> Request {
        let full = json!({"aspect_ratio": "9:16", "resolution": "720p", "duration": 8, "generate_audio": true,
            "negative_prompt": "text"});
        let mut expected = said.clone();
        for (name, value) in full.as_object().unwrap() {
            if !without.contains(&name.as_str()) {
                expected[name] = value.clone();
            }
        }
        request(&expected)
    }

    #[test]
    fn what_the_caller_says_stays() {
        let able: MediaEntry = toml::from_str("resolutions = [\"720p\", \"1080p\"]").unwrap();
        let film = json!({"job_id": "j"});
        for (said, task, stays) in [
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
            (json!({"extend_from": film}), Task::Extend, &["aspect_ratio"]),
        ] {
            let mut said = said;
            said["template"] = json!("t");
            let found = filled(&request(&said), &template(), &able, task);
            assert_eq!(found, expected(&said, stays), "{said}");
        }
    }

    #[test]
    fn what_the_model_cannot_do_is_left_out() {
        let said = json!({"template": "t"});
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
                &request(&said),
                &template(),
                &toml::from_str(limits).unwrap(),
                task,
            );
            assert_eq!(found, expected(&said, left_out), "{limits}");
        }
    }

    #[test]
    fn who_shows_something_need_not_say_it() {
        let shown = "A film of what is given to begin with, unchanged.";
        for (body, expected) in [
            (json!({"prompt": "a shoe"}), "A film of a shoe."),
            (json!({}), "A film of a kite."),
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
