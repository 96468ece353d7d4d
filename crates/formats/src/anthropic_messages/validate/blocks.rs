//! Validation of the content of messages: a string, or typed blocks.

use std::borrow::Cow;

use super::super::head::{BlockPlace, MessagesHead, Version};
use super::messages::Calls;
use super::options::{cache_control, once, open_object, unsupported};
use super::source::Source;
use crate::error::BoxedError;
use crate::json::{Kind, Path, Reader};
use crate::lossless::Span;

/// Location of content in the request, which determines the valid block types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    System,
    User,
    Assistant,
    ToolResult,
    /// Within a document, or within a block that is not in a user message.
    Inner,
}

impl Place {
    fn allows(self, kind: &str, version: Version) -> bool {
        match self {
            Place::System | Place::Inner if kind == "image" => self == Place::Inner,
            Place::System | Place::Inner => kind == "text",
            Place::User => matches!(
                kind,
                "text" | "image" | "document" | "search_result" | "tool_result"
            ),
            Place::Assistant if kind == "document" => version == Version::V2023_06_01,
            Place::Assistant => matches!(kind, "text" | "thinking" | "redacted_thinking" | "tool_use"),
            Place::ToolResult => {
                matches!(
                    kind,
                    "text" | "image" | "document" | "search_result" | "tool_reference"
                )
            }
        }
    }
}

/// Block types that are valid in at least one [`Place`].
const TYPES: &[&str] = &[
    "text",
    "tool_use",
    "tool_result",
    "image",
    "thinking",
    "redacted_thinking",
    "document",
    "search_result",
    "tool_reference",
];

/// Fields of a block that [`Block::check`] needs.
#[derive(Default)]
struct Block<'a> {
    kind: Option<&'static str>,
    seen: u32,
    source: Option<Source>,
    seal: Option<Span>,
    /// `id` of a call, or `tool_use_id` of a result.
    id: Option<Cow<'a, str>>,
    has_citations: bool,
}

/// Keys whose values are checked, regardless of the type of the block.
const KEYS: [&str; 16] = [
    "type",
    "text",
    "source",
    "thinking",
    "signature",
    "data",
    "id",
    "name",
    "input",
    "tool_use_id",
    "content",
    "is_error",
    "cache_control",
    "citations",
    "title",
    "context",
];

/// Required fields by block type.
const REQUIRED: &[(&str, &[&str])] = &[
    ("text", &["text"]),
    ("image", &["source"]),
    ("document", &["source"]),
    ("search_result", &["source", "title", "content"]),
    ("thinking", &["thinking", "signature"]),
    ("redacted_thinking", &["data"]),
    ("tool_use", &["id", "name", "input"]),
    ("tool_result", &["tool_use_id"]),
];

/// Validates a string or an array of blocks and calls `each` with the position of every block. Adds
/// the ids of the tool calls to `calls`.
pub(super) fn content<'a>(
    reader: &mut Reader<'a>,
    head: &mut MessagesHead<'_>,
    calls: &mut Calls<'a>,
    place: Place,
    path: &Path<'_>,
    mut each: impl FnMut(BlockPlace),
) -> Result<(), BoxedError> {
    match reader.kind()? {
        Kind::String => {
            reader.string()?;
            return Ok(());
        }
        Kind::Array => reader.begin_array()?,
        other => {
            return Err(path.invalid(format_args!(
                "must be a string or an array of content blocks, not {}",
                other.name()
            )));
        }
    }
    let (mut index, mut only_results) = (0, true);
    while reader.item()? {
        let path = path.index(index);
        let start = reader.place();
        let block = Block::read(reader, head, calls, place, &path)?;
        let kind = block.check(head, calls, place, &path)?;
        if kind == "tool_result" && !only_results {
            return Err(path
                .key("type")
                .invalid("is 'tool_result', which must come before all other content"));
        }
        only_results &= kind == "tool_result";
        if kind == "tool_use"
            && let Some(id) = block.id
        {
            calls.insert(id);
        }
        each(BlockPlace {
            span: Span::new(start, reader.end()),
            seal: block
                .seal
                .filter(|_| matches!(kind, "thinking" | "redacted_thinking")),
        });
        index += 1;
    }
    Ok(())
}

impl<'a> Block<'a> {
    fn read(
        reader: &mut Reader<'a>,
        head: &mut MessagesHead<'_>,
        calls: &mut Calls<'a>,
        place: Place,
        path: &Path<'_>,
    ) -> Result<Block<'a>, BoxedError> {
        reader.object_at(path)?;
        let mut block = Block::default();
        while let Some(key) = reader.key()? {
            let Some(bit) = KEYS.iter().position(|name| **name == *key.name) else {
                reader.skip()?;
                continue;
            };
            once(&mut block.seen, bit as u32, path, KEYS[bit])?;
            let here = path.key(KEYS[bit]);
            match KEYS[bit] {
                "type" => block.kind = Some(block_type(reader, place, head.version, &here)?),
                "source" if reader.kind()? == Kind::Object => {
                    let inner = |reader: &mut Reader<'a>, path: &Path<'_>| {
                        content(reader, head, calls, Place::Inner, path, |_| {})
                    };
                    block.source = Some(Source::read(reader, &here, inner)?);
                }
                "content" => {
                    let inside = match place {
                        Place::User => Place::ToolResult,
                        _ => Place::Inner,
                    };
                    if !reader.take_null()? {
                        content(reader, head, calls, inside, &here, |_| {})?;
                    }
                }
                "cache_control" if !reader.take_null()? => cache_control(reader, head, &here)?,
                "cache_control" => {}
                key => block.value(reader, key, &here)?,
            }
        }
        Ok(block)
    }

    fn value(&mut self, reader: &mut Reader<'a>, key: &str, path: &Path<'_>) -> Result<(), BoxedError> {
        match key {
            "text" | "thinking" | "source" => {
                reader.string_at(path)?;
            }
            "signature" | "data" => {
                let start = reader.place();
                reader.string_at(path)?;
                self.seal = Some(Span::new(start, reader.end()));
            }
            "id" | "tool_use_id" => self.id = Some(reader.non_empty_string_at(path)?.decoded()),
            "name" => {
                reader.non_empty_string_at(path)?;
            }
            "input" => open_object(reader, path)?,
            "citations" => {
                self.has_citations = reader.kind()? != Kind::Null;
                reader.skip()?;
            }
            _ if reader.take_null()? => {}
            "is_error" => {
                reader.boolean_at(path)?;
            }
            _ => {
                reader.string_at(path)?;
            }
        }
        Ok(())
    }

    fn has(&self, key: &str) -> bool {
        let bit = KEYS.iter().position(|name| *name == key);
        bit.is_some_and(|bit| self.seen & (1 << bit) != 0)
    }

    /// Checks the required fields and the rules of the block's type, counts its media in `head`,
    /// and returns the type.
    fn check(
        &self,
        head: &mut MessagesHead<'_>,
        calls: &Calls<'_>,
        place: Place,
        path: &Path<'_>,
    ) -> Result<&'static str, BoxedError> {
        let Some(kind) = self.kind else {
            return Err(path.missing("type"));
        };
        let required = REQUIRED.iter().find(|(name, _)| *name == kind);
        let missing = required.and_then(|(_, keys)| keys.iter().find(|key| !self.has(key)));
        if let Some(key) = missing {
            return Err(path.missing(key));
        }
        let source_path = path.key("source");
        match (kind, &self.source) {
            ("image", Some(source)) => source.check_image(&mut head.media, &source_path)?,
            // Fetched documents and uploaded files are converted through the common form, which
            // cannot represent citations or a context.
            ("document", Some(source))
                if source.is_remote() && (self.has_citations || self.has("context")) =>
            {
                let problem = "must be 'base64', 'text' or 'content' to use 'citations' or 'context'";
                return unsupported(&source_path.key("type"), problem);
            }
            ("document", Some(source)) => source.check_document(&mut head.media, &source_path)?,
            ("image" | "document", None) => {
                return Err(source_path.invalid("must be an object, not a string"));
            }
            ("text", _) if self.has_unsupported_citations(head.version, place) => {
                return Err(path
                    .key("citations")
                    .invalid("is not allowed on user text with 'anthropic-version: 2026-10-21'; remove it"));
            }
            ("tool_result", _) if self.id.as_ref().is_none_or(|id| !calls.contains(id)) => {
                return Err(path
                    .key("tool_use_id")
                    .invalid("matches no tool call: no earlier message has a 'tool_use' with this id"));
            }
            _ => {}
        }
        Ok(kind)
    }

    fn has_unsupported_citations(&self, version: Version, place: Place) -> bool {
        self.has_citations && place == Place::User && version == Version::V2026_10_21
    }
}

fn block_type(
    reader: &mut Reader<'_>,
    place: Place,
    version: Version,
    path: &Path<'_>,
) -> Result<&'static str, BoxedError> {
    let found = reader.string_at(path)?.decoded();
    let known = TYPES.iter().copied().find(|kind| **kind == *found);
    match known {
        Some(kind) if place.allows(kind, version) => Ok(kind),
        Some(kind) => Err(path.invalid(format_args!("is '{kind}', which is not allowed here"))),
        None if found.starts_with("server_tool")
            || found.ends_with("_tool_result")
            || found.starts_with("mcp_") =>
        {
            unsupported(
                path,
                "belongs to a tool that the provider runs, which is not supported",
            )
        }
        None if found == "container_upload" => unsupported(
            path,
            "requires code execution at the provider, which is not supported",
        ),
        None => Err(path.invalid("is not a valid content block type")),
    }
}
