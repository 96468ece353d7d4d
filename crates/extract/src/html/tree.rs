//! The open elements of a page and their visibility. Tags are matched as HTML defines it, with a
//! simplification in doubt: an element that hides its content stays open.

use std::collections::HashMap;

use html5ever::{LocalName, local_name};

use super::elements::{
    closed_by_table_part, closes_paragraph, is_formatting, is_scope, is_special, is_table_part,
};

/// Maximum depth of elements. Deeper tags are counted, but make no elements.
const MAX_DEPTH: usize = 256;

/// Whether readers see the content of an element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Visibility {
    #[default]
    Visible,
    /// The content is no text, such as a script.
    Dropped,
    /// The content is text that readers cannot see.
    Concealed,
}

use Visibility::Visible;

/// An open element.
#[derive(Debug)]
struct Open {
    name: LocalName,
    /// Visibility by the element itself.
    own: Visibility,
    /// Visibility by the element and its ancestors.
    visibility: Visibility,
    /// Whether its tags are written.
    is_written: bool,
}

/// The open elements, outermost first.
#[derive(Debug, Default)]
pub(super) struct Tree {
    open: Vec<Open>,
    counts: HashMap<LocalName, u32>,
    /// Open elements beyond the maximum depth.
    deep: HashMap<LocalName, u32>,
    deep_total: u32,
    deep_visibility: Visibility,
    /// Formatting elements that hide their content and were closed with an ancestor. A browser
    /// opens them again.
    reopened: HashMap<LocalName, u32>,
}

impl Tree {
    /// Returns the visibility of text at this place.
    pub(super) fn visibility(&self) -> Visibility {
        let open = self.open.last().map_or(Visible, |open| open.visibility);
        match (open, self.deep_visibility) {
            (Visible, Visible) if self.reopened.is_empty() => Visible,
            (Visible, Visible) => Visibility::Concealed,
            (Visible, deep) => deep,
            (open, _) => open,
        }
    }

    /// Whether an element of this name is open.
    pub(super) fn has(&self, name: &LocalName) -> bool {
        self.counts.contains_key(name)
    }

    /// Opens an element. Returns whether it is within the maximum depth.
    pub(super) fn open(&mut self, name: &LocalName, own: Visibility, is_written: bool) -> bool {
        if self.deep_total > 0 || self.open.len() >= MAX_DEPTH {
            *self.deep.entry(name.clone()).or_default() += 1;
            self.deep_total += 1;
            if self.deep_visibility == Visible {
                self.deep_visibility = own;
            }
            return false;
        }
        let visibility = match self.visibility() {
            Visible => own,
            hidden => hidden,
        };
        *self.counts.entry(name.clone()).or_default() += 1;
        self.open.push(Open {
            name: name.clone(),
            own,
            visibility,
            is_written,
        });
        true
    }

    /// Closes the elements that this start tag closes. Returns the written ones, innermost first.
    pub(super) fn start(&mut self, name: &str) -> Vec<LocalName> {
        if self.deep_total > 0 || self.open.is_empty() {
            return Vec::new();
        }
        let mut closed = Vec::new();
        if closes_paragraph(name) && self.has(&local_name!("p")) {
            let place = self.find(|open| open == "p", |open| is_scope(open) || open == "button");
            self.close_from(place, &mut closed);
        }
        let place = match name {
            "li" => self.find(|open| open == "li", is_list_boundary),
            "dd" | "dt" => self.find(|open| matches!(open, "dd" | "dt"), is_list_boundary),
            "a" | "button" | "option" => self.find(|open| open == name, is_special),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" => {
                let is_heading = |open: &str| matches!(open.as_bytes(), [b'h', b'1'..=b'6']);
                self.find(is_heading, |_| true)
            }
            _ => None,
        };
        self.close_from(place, &mut closed);
        let parts = closed_by_table_part(name);
        if !parts.is_empty() {
            // Each part is in an outer one: the outermost of them is closed.
            let is_boundary = |open: &str| matches!(open, "table" | "template");
            while let Some(place) = self.find(|open| parts.contains(&open), is_boundary) {
                self.close_from(Some(place), &mut closed);
            }
        }
        closed
    }

    /// Closes an element and everything in it. Returns the written ones, innermost first.
    pub(super) fn end(&mut self, name: &LocalName) -> Vec<LocalName> {
        if self.deep_total > 0 {
            self.end_deep(name);
            return Vec::new();
        }
        let mut closed = Vec::new();
        let is_boundary = |open: &str| match &**name {
            "table" => open == "template",
            part if is_table_part(part) => matches!(open, "table" | "template"),
            inline if !is_special(inline) => is_special(open),
            "p" => is_scope(open) || open == "button",
            other => is_scope(open) && open != other,
        };
        let place = match self.counts.contains_key(name) {
            true => self.find(|open| *open == **name, is_boundary),
            false => None,
        };
        if place.is_some() {
            self.close_from(place, &mut closed);
        } else if let Some(count) = self.reopened.get_mut(name) {
            *count -= 1;
            if *count == 0 {
                self.reopened.remove(name);
            }
        }
        closed
    }

    fn end_deep(&mut self, name: &LocalName) {
        if let Some(count) = self.deep.get_mut(name) {
            *count -= 1;
            self.deep_total -= 1;
            if *count == 0 {
                self.deep.remove(name);
            }
            if self.deep_total == 0 {
                self.deep_visibility = Visible;
            }
        }
    }

    /// Returns the place of the innermost element that `is_sought`, unless a boundary is nearer.
    fn find(&self, is_sought: impl Fn(&str) -> bool, is_boundary: impl Fn(&str) -> bool) -> Option<usize> {
        for (place, open) in self.open.iter().enumerate().rev() {
            if is_sought(&open.name) {
                return Some(place);
            }
            if is_boundary(&open.name) {
                return None;
            }
        }
        None
    }

    /// Closes the element at a place and everything in it.
    fn close_from(&mut self, place: Option<usize>, closed: &mut Vec<LocalName>) {
        let Some(place) = place else { return };
        while self.open.len() > place {
            let Some(open) = self.open.pop() else { return };
            let is_inner = self.open.len() > place;
            if is_inner && open.own != Visible && is_formatting(&open.name) {
                *self.reopened.entry(open.name.clone()).or_default() += 1;
            }
            if let Some(count) = self.counts.get_mut(&open.name) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&open.name);
                }
            }
            if open.is_written {
                closed.push(open.name);
            }
        }
    }

    /// Closes all elements. Returns the written ones, innermost first.
    pub(super) fn close_all(&mut self) -> Vec<LocalName> {
        let mut closed = Vec::new();
        self.close_from(Some(0), &mut closed);
        closed
    }
}

/// Whether a new list item closes no other item beyond this element.
fn is_list_boundary(name: &str) -> bool {
    is_special(name) && !matches!(name, "address" | "div" | "p")
}
