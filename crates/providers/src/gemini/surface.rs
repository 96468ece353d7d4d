//! The two services with Gemini's format: their paths and their differences.

use bytes::Bytes;
use tollgate_formats::gemini::for_vertex;
use tollgate_formats::{DecodeError, counting};

use super::LOCATION_VARIABLES;
use crate::http::{BaseUrl, EndpointError};

/// Default version of Vertex AI's API, as a path segment.
const VERSION: &str = "/v1";
/// Path of Vertex AI's model list, which exists only in this API version
/// (cloud.google.com/vertex-ai/docs/reference/rest/v1beta1/publishers.models).
const LISTING: &str = "/v1beta1/publishers/google/models?pageSize=100";

/// The Gemini API or Vertex AI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Surface {
    /// The Gemini API.
    Gemini,
    /// Vertex AI, in one project and location.
    Vertex {
        /// Prefix of models and endpoints: `/v1/projects/PROJECT/locations/LOCATION`.
        folder: String,
    },
}

impl Surface {
    /// Returns Vertex AI's surface for a project and location, and its base URL: `stated`, or the
    /// location's default. A stated URL may end with the API version.
    pub(crate) fn vertex(
        stated: Option<&str>,
        project: &str,
        location: &str,
    ) -> Result<(Self, BaseUrl), EndpointError> {
        if !is_name(location, b"-") {
            let [variable, _] = LOCATION_VARIABLES;
            return Err(EndpointError::new(format!(
                "the location is invalid: set `location` or the environment variable {variable} to a \
                 region such as \"us-central1\", or to \"global\""
            )));
        }
        if !is_name(project, b"-:.") {
            let message = "the project is invalid: set a project id, such as \"my-project\"";
            return Err(EndpointError::new(message));
        }
        let base = BaseUrl::parse(stated.unwrap_or(&format!("https://{}", host(location))))?;
        let (base, version) = base.without_last_segment();
        let version = version.unwrap_or_else(|| VERSION.to_owned());
        let folder = format!("{version}/projects/{project}/locations/{location}");
        Ok((Surface::Vertex { folder }, base))
    }

    /// Returns the path of a model's action. A model name with a slash is already a path, such as
    /// the path of a tuned model or of a Vertex AI endpoint.
    pub(super) fn path_of(&self, model: &str, action: &str) -> String {
        match (self, model.contains('/')) {
            (Surface::Gemini, true) => format!("/{model}:{action}"),
            (Surface::Gemini, false) => format!("/models/{model}:{action}"),
            (Surface::Vertex { folder }, true) => format!("{folder}/{model}:{action}"),
            (Surface::Vertex { folder }, false) => {
                format!("{folder}/publishers/google/models/{model}:{action}")
            }
        }
    }

    /// Returns the path of the model list, with a query for the page size.
    pub(super) fn listing(&self) -> &'static str {
        match self {
            Surface::Gemini => "/models?pageSize=1000",
            Surface::Vertex { .. } => LISTING,
        }
    }

    /// Converts a body of the format to a token-count request of this service.
    pub(super) fn counted(&self, body: Bytes, model: &str) -> Result<Bytes, DecodeError> {
        match (self, model.contains('/')) {
            (Surface::Gemini, true) => Ok(counting::content(&body, model)),
            (Surface::Gemini, false) => Ok(counting::content(&body, &format!("models/{model}"))),
            (Surface::Vertex { .. }, _) => counting::vertex_content(&body),
        }
    }

    /// Converts a body of the format to this service's variant.
    pub(super) fn body(&self, body: Bytes) -> Result<Bytes, DecodeError> {
        match self {
            Surface::Gemini => Ok(body),
            Surface::Vertex { .. } => for_vertex(&body),
        }
    }
}

/// Returns the host of a location (cloud.google.com/vertex-ai/generative-ai/docs/learn/locations).
/// The global host has no prefix, and multi-regions have another domain.
fn host(location: &str) -> String {
    match location {
        "global" => "aiplatform.googleapis.com".to_owned(),
        "us" | "eu" => format!("aiplatform.{location}.rep.googleapis.com"),
        _ => format!("{location}-aiplatform.googleapis.com"),
    }
}

/// Whether the text is not empty, consists of lower-case letters, digits and `others`, and contains
/// more than dots. Dots alone would be a relative path.
fn is_name(text: &str, others: &[u8]) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || others.contains(&byte);
    let is_path = text.bytes().all(|byte| byte == b'.');
    !is_path && text.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn location_selects_the_host() {
        for (stated, location, base, version) in [
            (
                None,
                "us-central1",
                "https://us-central1-aiplatform.googleapis.com",
                "v1",
            ),
            (None, "global", "https://aiplatform.googleapis.com", "v1"),
            (None, "eu", "https://aiplatform.eu.rep.googleapis.com", "v1"),
            (
                Some("https://psc.p.googleapis.com"),
                "us-central1",
                "https://psc.p.googleapis.com",
                "v1",
            ),
            (Some("http://h:9/v1beta1/"), "global", "http://h:9", "v1beta1"),
            (Some("http://h:9/cloud/v1"), "global", "http://h:9/cloud", "v1"),
        ] {
            let (surface, address) = Surface::vertex(stated, "p", location).unwrap();
            assert_eq!(address.to_string(), base);
            let folder = format!("/{version}/projects/p/locations/{location}");
            for (model, path) in [
                ("m", format!("{folder}/publishers/google/models/m:do")),
                ("endpoints/7", format!("{folder}/endpoints/7:do")),
            ] {
                assert_eq!(surface.path_of(model, "do"), path);
            }
        }
    }

    #[test]
    fn names_with_path_or_host_characters_are_refused() {
        for (project, location, named) in [
            ("p", "", "location"),
            ("p", "us-central1.example.com/", "location"),
            ("p", "US", "location"),
            ("", "global", "project"),
            ("..", "global", "project"),
            ("p/../q", "global", "project"),
            ("p q", "global", "project"),
        ] {
            let message = Surface::vertex(None, project, location).unwrap_err().to_string();
            assert!(message.contains(&format!("the {named} is invalid")), "{message}");
        }
        Surface::vertex(None, "example.com:my-project-1", "europe-west4").unwrap();
    }
}
