//! The state: text stays as it is, JSON is indented, parts of text stand below each other, and media go out of it
//! and leave their markers.

use std::borrow::Cow;

use tollgate_types::decide::{State, StateMedia, StateMediaKind};

use super::super::marker::{Counts, marker, without_markers};
use super::super::{Dialect, FileKinds, NamedFile};
use super::media::{self, Found, Source};
use crate::error::{DecodeError, Flaw};
use crate::json::{Node, Path};

/// Types of parts that are text, in any dialect.
const TEXTS: &[&str] = &["text", "input_text", "output_text"];

/// What Google's list may have.
const GOOGLE_PARTS: &[&str] = &["text", "image", "audio", "video", "document"];

/// A state, and which of its media are files. What those are whose parts do not say it is in `kinds`.
pub(super) fn read(
    node: Node<'_>,
    dialect: Dialect,
    kinds: &FileKinds,
    path: &Path<'_>,
) -> Result<(State, Vec<NamedFile>), Flaw> {
    check_form(&node, dialect, path)?;
    if is_hollow(&node) {
        return Err(path.invalid("must not be empty"));
    }
    let mut lifter = Lifter {
        media: Vec::new(),
        files: Vec::new(),
        counts: Counts::default(),
        dialect,
        kinds,
    };
    let text = match node {
        Node::List(items) => lifter.list(items, path)?,
        node => shown(&lifter.lift(node, path)?).into_owned(),
    };
    if text.trim().is_empty() {
        return Err(path.invalid("must not be empty"));
    }
    let state = State {
        text,
        media: lifter.media,
    };
    Ok((state, lifter.files))
}

/// What the dialect's `state` or `input` may be.
fn check_form(node: &Node<'_>, dialect: Dialect, path: &Path<'_>) -> Result<(), Flaw> {
    let form = match dialect {
        Dialect::Native => "must be a string, an object or an array",
        Dialect::OpenAi => "must be a string or an array of items",
        Dialect::Google => "must be a string, a part or an array of parts",
    };
    let is_fine = match node {
        Node::Text(_) | Node::List(_) => true,
        Node::Object(_) => dialect != Dialect::OpenAi,
        _ => false,
    };
    if !is_fine {
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

fn check_item(node: &Node<'_>, dialect: Dialect, path: &Path<'_>) -> Result<(), Flaw> {
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

/// Whether there is nothing to decide about. Keys are something: a message may be empty, and be asked about.
fn is_hollow(node: &Node<'_>) -> bool {
    match node {
        Node::Null => true,
        Node::Text(text) => text.trim().is_empty(),
        Node::List(items) => items.iter().all(is_hollow),
        Node::Object(members) => members.is_empty(),
        Node::Bool(_) | Node::Number(_) => false,
    }
}

/// A text, a part of text by its text, and anything else as JSON.
fn shown<'n>(node: &'n Node<'_>) -> Cow<'n, str> {
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

/// What OpenAI's parts say, without what they say about caches.
fn plainer<'a>(mut members: Vec<(Cow<'a, str>, Node<'a>)>) -> Node<'a> {
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

/// Takes the media out.
struct Lifter<'k> {
    media: Vec<StateMedia>,
    files: Vec<NamedFile>,
    counts: Counts,
    dialect: Dialect,
    kinds: &'k FileKinds,
}

impl Lifter<'_> {
    /// The text of a list: its parts below each other, if it has nothing else.
    fn list(&mut self, items: Vec<Node<'_>>, path: &Path<'_>) -> Result<String, Flaw> {
        let (mut lifted, mut has_parts_alone) = (Vec::with_capacity(items.len()), true);
        for (place, item) in items.into_iter().enumerate() {
            let is_object = matches!(item, Node::Object(_));
            let item = self.lift(item, &path.index(place as u32))?;
            has_parts_alone &= is_object && (item.as_text().is_some() || part_text(&item).is_some());
            lifted.push(item);
        }
        match has_parts_alone {
            true => Ok(lifted.iter().map(shown).collect::<Vec<_>>().join("\n\n")),
            false => Ok(Node::List(lifted).pretty()),
        }
    }

    /// The value with a marker for each medium, and without any other.
    fn lift<'a>(&mut self, node: Node<'a>, path: &Path<'_>) -> Result<Node<'a>, Flaw> {
        if let Some(found) = media::find(&node, path)? {
            return Ok(Node::Text(self.take(found)?.into()));
        }
        Ok(match node {
            Node::Text(text) => Node::Text(without_markers(text)),
            Node::List(items) => {
                let items = items.into_iter().enumerate();
                let items = items.map(|(place, item)| self.lift(item, &path.index(place as u32)));
                Node::List(items.collect::<Result<_, Flaw>>()?)
            }
            Node::Object(members) if self.dialect == Dialect::OpenAi => match plainer(members) {
                Node::Object(members) => self.members(members, path)?,
                other => self.lift(other, path)?,
            },
            Node::Object(members) => self.members(members, path)?,
            other => other,
        })
    }

    fn members<'a>(
        &mut self,
        members: Vec<(Cow<'a, str>, Node<'a>)>,
        path: &Path<'_>,
    ) -> Result<Node<'a>, Flaw> {
        let lifted = members.into_iter().map(|(key, value)| {
            let value = self.lift(value, &path.key(&key))?;
            Ok((without_markers(key), value))
        });
        Ok(Node::Object(lifted.collect::<Result<_, Flaw>>()?))
    }

    /// Keeps a medium; its marker.
    fn take(&mut self, found: Found) -> Result<String, Flaw> {
        let (url, file) = match found.source {
            Source::Url(url) => (url, None),
            Source::File(id) => (String::new(), Some(id)),
        };
        let known = found.kind.or_else(|| self.kinds.get(file.as_ref()?).copied());
        let kind = known.unwrap_or(StateMediaKind::Image);
        // What nobody knows yet is none of the media that are counted.
        let number = known.map_or(0, |kind| self.counts.next(kind));
        if number > kind.most() {
            let (param, word, most) = (found.param, kind.as_str(), kind.most());
            let message = format!("'{param}' is one {word} too many: a request has at most {most}.");
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
