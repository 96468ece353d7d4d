//! Decoding of the state: JSON is indented, parts of text are joined by blank lines, and media are
//! replaced with markers. Other text stays unchanged, except for the brackets of text that looks
//! like a marker.

use std::borrow::Cow;

use tollgate_types::decide::{State, StateMedia, StateMediaKind};

use super::super::marker::{Counts, marker, without_markers};
use super::super::{Dialect, FileKinds, NamedFile};
use super::media::{self, FoundMedium, Source};
use crate::error::{BoxedError, DecodeError};
use crate::json::{Node, Path};

/// Types of text parts, in all dialects.
const TEXTS: &[&str] = &["text", "input_text", "output_text"];

/// Part types that `input` allows in Google's dialect.
const GOOGLE_PARTS: &[&str] = &["text", "image", "audio", "video", "document"];

/// Reads a state and its uploaded files. `kinds` contains the kinds of files whose parts do not
/// declare one.
pub(super) fn read(
    node: Node<'_>,
    dialect: Dialect,
    kinds: &FileKinds,
    path: &Path<'_>,
) -> Result<(State, Vec<NamedFile>), BoxedError> {
    check_form(&node, dialect, path)?;
    if is_empty_state(&node) {
        return Err(path.invalid("must not be empty"));
    }
    let mut extractor = MediaExtractor {
        media: Vec::new(),
        files: Vec::new(),
        counts: Counts::default(),
        dialect,
        kinds,
    };
    let text = match node {
        Node::List(items) => extractor.list(items, path)?,
        node => to_text(&extractor.extract(node, path)?).into_owned(),
    };
    if text.trim().is_empty() {
        return Err(path.invalid("must not be empty"));
    }
    let state = State {
        text,
        media: extractor.media,
    };
    Ok((state, extractor.files))
}

/// Checks that `state` or `input` has a type that the dialect allows.
fn check_form(node: &Node<'_>, dialect: Dialect, path: &Path<'_>) -> Result<(), BoxedError> {
    let form = match dialect {
        Dialect::Native => "must be a string, an object or an array",
        Dialect::OpenAi => "must be a string or an array of items",
        Dialect::Google => "must be a string, a part or an array of parts",
    };
    let is_valid = match node {
        Node::Text(_) | Node::List(_) => true,
        Node::Object(_) => dialect != Dialect::OpenAi,
        _ => false,
    };
    if !is_valid {
        return Err(path.invalid(form));
    }
    match (node, dialect) {
        (Node::List(items), Dialect::OpenAi | Dialect::Google) => {
            let mut places = items.iter().enumerate();
            places.try_for_each(|(place, item)| check_item(item, dialect, &path.index(place as u32)))
        }
        (Node::Object(_), Dialect::Google) => check_item(node, dialect, path),
        _ => Ok(()),
    }
}

fn check_item(node: &Node<'_>, dialect: Dialect, path: &Path<'_>) -> Result<(), BoxedError> {
    node.object_at(path)?;
    if dialect == Dialect::Google {
        let kind = node
            .need("type", path)?
            .word_at(GOOGLE_PARTS, &path.key("type"))?;
        if kind == "text" {
            node.need("text", path)?.text_at(&path.key("text"))?;
        }
    }
    Ok(())
}

/// Whether the state has no content to decide about. An object with keys is not empty: questions
/// may be about an empty message.
fn is_empty_state(node: &Node<'_>) -> bool {
    match node {
        Node::Null => true,
        Node::Text(text) => text.trim().is_empty(),
        Node::List(items) => items.iter().all(is_empty_state),
        Node::Object(members) => members.is_empty(),
        Node::Bool(_) | Node::Number(_) => false,
    }
}

/// Converts a value to text: a text verbatim, a part by its text, any other value as JSON.
fn to_text<'n>(node: &'n Node<'_>) -> Cow<'n, str> {
    match node.as_text().or_else(|| part_text(node)) {
        Some(text) => text.into(),
        None => node.pretty().into(),
    }
}

fn part_text<'n>(node: &'n Node<'_>) -> Option<&'n str> {
    let kind = node.get("type")?.as_text()?;
    let text = node.get("text")?.as_text()?;
    TEXTS.contains(&kind).then_some(text)
}

/// Reduces a part of OpenAI's dialect to its text or JSON data. Drops cache breakpoints.
fn simplify_part<'a>(mut members: Vec<(Cow<'a, str>, Node<'a>)>) -> Node<'a> {
    members.retain(|(key, _)| key != "prompt_cache_breakpoint");
    let node = Node::Object(members);
    if let Some(text) = part_text(&node) {
        return Node::Text(text.to_owned().into());
    }
    match (node.get("type").and_then(Node::as_text), node.get("data")) {
        (Some("input_json"), Some(data)) => data.clone(),
        _ => node,
    }
}

/// Replaces the media of a state with markers and collects them.
struct MediaExtractor<'k> {
    media: Vec<StateMedia>,
    files: Vec<NamedFile>,
    counts: Counts,
    dialect: Dialect,
    kinds: &'k FileKinds,
}

impl MediaExtractor<'_> {
    /// Returns the text of a list: its parts, joined by blank lines, if all items are text parts or
    /// media parts; otherwise JSON.
    fn list(&mut self, items: Vec<Node<'_>>, path: &Path<'_>) -> Result<String, BoxedError> {
        let (mut extracted, mut has_only_parts) = (Vec::with_capacity(items.len()), true);
        for (place, item) in items.into_iter().enumerate() {
            let is_object = matches!(item, Node::Object(_));
            let item = self.extract(item, &path.index(place as u32))?;
            has_only_parts &= is_object && (item.as_text().is_some() || part_text(&item).is_some());
            extracted.push(item);
        }
        match has_only_parts {
            true => Ok(extracted.iter().map(to_text).collect::<Vec<_>>().join("\n\n")),
            false => Ok(Node::List(extracted).pretty()),
        }
    }

    /// Replaces each medium with its marker, and the brackets of text that looks like a marker with
    /// parentheses.
    fn extract<'a>(&mut self, node: Node<'a>, path: &Path<'_>) -> Result<Node<'a>, BoxedError> {
        if let Some(found) = media::find(&node, path)? {
            return Ok(Node::Text(self.take(found)?.into()));
        }
        Ok(match node {
            Node::Text(text) => Node::Text(without_markers(text)),
            Node::List(items) => {
                let items = items.into_iter().enumerate();
                let items = items.map(|(place, item)| self.extract(item, &path.index(place as u32)));
                Node::List(items.collect::<Result<_, BoxedError>>()?)
            }
            Node::Object(members) if self.dialect == Dialect::OpenAi => match simplify_part(members) {
                Node::Object(members) => self.members(members, path)?,
                other => self.extract(other, path)?,
            },
            Node::Object(members) => self.members(members, path)?,
            other => other,
        })
    }

    fn members<'a>(
        &mut self,
        members: Vec<(Cow<'a, str>, Node<'a>)>,
        path: &Path<'_>,
    ) -> Result<Node<'a>, BoxedError> {
        let extracted = members.into_iter().map(|(key, value)| {
            let value = self.extract(value, &path.key(&key))?;
            Ok((without_markers(key), value))
        });
        Ok(Node::Object(extracted.collect::<Result<_, BoxedError>>()?))
    }

    /// Adds a medium and returns its marker.
    fn take(&mut self, found: FoundMedium) -> Result<String, BoxedError> {
        let (url, file) = match found.source {
            Source::Url(url) => (url, None),
            Source::File(id) => (String::new(), Some(id)),
        };
        let known = found.kind.or_else(|| self.kinds.get(file.as_ref()?).copied());
        let kind = known.unwrap_or(StateMediaKind::Image);
        // The marker of a file of unknown kind has the number 0.
        let number = known.map_or(0, |kind| self.counts.next(kind));
        if number > kind.max() {
            let (param, word, max) = (found.param, kind.as_str(), kind.max());
            let message = format!("'{param}' is over the limit of {max} {word} parts. Remove some.");
            return Err(Box::new(DecodeError::invalid(param, message)));
        }
        if let Some(id) = file {
            self.files.push(NamedFile {
                medium: self.media.len(),
                id,
                kind: found.kind,
            });
        }
        self.media.push(StateMedia {
            kind,
            url,
            param: found.param,
        });
        Ok(marker(kind, number))
    }
}
