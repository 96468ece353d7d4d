//! Formats of providers, and the conversions into them.

use bytes::Bytes;
use tollgate_formats::anthropic_messages::Version;
use tollgate_formats::openai_chat::{CapName, RequestEdits};
use tollgate_formats::{
    anthropic_messages, bedrock_converse, gemini, openai_chat, openai_responses, to_common,
};
use tollgate_types::generate::{File, GenerateRequest, Part, ResponseFormat};
use tollgate_types::{Abilities, Error, Format};

/// Origin of the signatures of reasoning that the provider can read.
pub const ORIGIN: &str = "0123456789abcdef";
const CAP: u64 = 4_096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    Chat,
    Messages,
    Responses,
    GenerateContent,
    Converse,
}

impl Provider {
    pub const ALL: [Provider; 5] = [
        Provider::Chat,
        Provider::Messages,
        Provider::Responses,
        Provider::GenerateContent,
        Provider::Converse,
    ];

    /// Returns the format; `None` if callers cannot use it.
    pub fn format(self) -> Option<Format> {
        match self {
            Provider::Chat => Some(Format::ChatCompletions),
            Provider::Messages => Some(Format::Messages),
            Provider::Responses => Some(Format::Responses),
            Provider::GenerateContent => Some(Format::GenerateContent),
            Provider::Converse => None,
        }
    }

    /// Returns the name of the model. For Gemini and Bedrock, it is a current model, which has the
    /// newest reasoning parameters.
    pub fn model(self) -> &'static str {
        match self {
            Provider::GenerateContent => "gemini-3-pro",
            Provider::Converse => "anthropic.claude-opus-4-8",
            _ => "m",
        }
    }

    /// Returns the abilities of current models.
    fn abilities(self) -> Abilities {
        Abilities {
            system_turns: Some(true),
            ..Abilities::default()
        }
    }

    /// Returns the omitted fields that do not affect the response, named as in the common form.
    pub fn check_compatible(self, request: &GenerateRequest) -> Result<Vec<String>, Error> {
        let abilities = self.abilities();
        let mut ignored = match self {
            Provider::Chat => openai_chat::check_compatible(request),
            Provider::Messages => anthropic_messages::check_compatible(request, &abilities),
            Provider::Responses => {
                openai_responses::check_compatible(request, openai_responses::MIN_OUTPUT_TOKENS)
            }
            Provider::GenerateContent => gemini::check_compatible(request, &abilities),
            Provider::Converse => bedrock_converse::check_compatible(request, &abilities),
        }?;
        if to_common::has_foreign_reasoning(request, ORIGIN) {
            ignored.push("reasoning".to_owned());
        }
        Ok(ignored)
    }

    pub fn encode(self, request: &GenerateRequest) -> Vec<u8> {
        let abilities = self.abilities();
        match self {
            Provider::Chat => openai_chat::encode_request(request, CapName::AsSent),
            Provider::Messages => anthropic_messages::encode_request(request, &abilities, CAP),
            Provider::Responses => openai_responses::encode_request(request, None, false),
            Provider::GenerateContent => gemini::encode_request(request, &abilities, None),
            Provider::Converse => bedrock_converse::encode_request(request, &abilities, CAP),
        }
    }

    /// Rewrites the caller's bytes for a provider of the same format.
    pub fn splice(self, body: &Bytes) -> Bytes {
        match self {
            Provider::Chat => {
                let head = openai_chat::validate(body).unwrap();
                let edits = RequestEdits {
                    model: self.model(),
                    ..RequestEdits::default()
                };
                openai_chat::splice_request(body, &head, &edits).concat().into()
            }
            Provider::Messages => {
                let purpose = anthropic_messages::Purpose::Generate;
                let head = anthropic_messages::validate(body, Version::V2023_06_01, purpose).unwrap();
                anthropic_messages::splice_request(body, &head, self.model(), ORIGIN, None)
            }
            Provider::Responses => {
                let head = openai_responses::validate(body).unwrap();
                let edits = openai_responses::RequestEdits {
                    reasons: false,
                    model: self.model(),
                    origin: ORIGIN,
                    clamp_output: None,
                    stream: false,
                };
                openai_responses::splice_request(body, &head, edits)
            }
            Provider::GenerateContent => {
                let head = gemini::validate(body, gemini::Purpose::Generate).unwrap();
                gemini::splice_request(body, &head, self.model(), ORIGIN, None)
            }
            Provider::Converse => unreachable!("no caller speaks it"),
        }
    }

    /// Whether the adapter reports that it drops reasoning with another provider's signature.
    pub fn names_foreign_seal(self, body: &Bytes) -> bool {
        match self {
            Provider::Messages => {
                let purpose = anthropic_messages::Purpose::Generate;
                let head = anthropic_messages::validate(body, Version::V2023_06_01, purpose).unwrap();
                anthropic_messages::has_foreign_seal(body, &head, ORIGIN)
            }
            Provider::Responses => {
                let head = openai_responses::validate(body).unwrap();
                openai_responses::has_foreign_seal(body, &head, ORIGIN)
            }
            Provider::GenerateContent => {
                let head = gemini::validate(body, gemini::Purpose::Generate).unwrap();
                gemini::has_foreign_seal(body, &head, ORIGIN)
            }
            Provider::Chat | Provider::Converse => false,
        }
    }

    /// Whether providers of this format enforce the format of the response. If they do not, the
    /// gateway checks the response.
    pub fn forces(self, format: &ResponseFormat) -> bool {
        !matches!(self, Provider::Messages | Provider::Converse) || *format != ResponseFormat::JsonObject
    }

    /// Replaces uploaded files, and the URLs that the gateway fetches for this provider, with
    /// bytes. Returns whether the request had any of them.
    pub fn fetch(self, request: &mut GenerateRequest) -> bool {
        let mut fetched = false;
        for part in request.messages.iter_mut().flat_map(|message| &mut message.parts) {
            match part {
                Part::Image { url, .. }
                    if url.starts_with("http")
                        && matches!(self, Provider::GenerateContent | Provider::Converse) =>
                {
                    *url = crate::features::media::IMAGE.to_owned();
                    fetched = true;
                }
                Part::File(file) if file.url.is_some() => {
                    (file.url, file.data) = (None, Some(crate::features::media::DOCUMENT.to_owned()));
                    fetched = true;
                }
                Part::Stored(stored) => {
                    *part = match stored.is_image {
                        true => Part::Image {
                            url: crate::features::media::IMAGE.to_owned(),
                            detail: None,
                        },
                        false => Part::File(File {
                            data: Some(crate::features::media::DOCUMENT.to_owned()),
                            ..File::default()
                        }),
                    };
                    fetched = true;
                }
                _ => {}
            }
        }
        fetched
    }
}
