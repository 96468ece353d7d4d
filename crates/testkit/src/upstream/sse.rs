//! The bytes of an event stream (WHATWG HTML, section 9.2), in every spelling that a reader must
//! support.

use serde_json::Value;

use super::delivery::{Dress, LineEnd};

/// Returns one event with its blank line, and with a name if its format has names. `number` counts
/// from 0.
pub(super) fn event(name: Option<&str>, payload: &str, number: usize, dress: Dress) -> Vec<u8> {
    let end = match dress.line_end {
        LineEnd::Lf => "\n",
        LineEnd::CrLf => "\r\n",
        LineEnd::Cr => "\r",
    };
    let mut text = String::with_capacity(payload.len() + 16);
    if dress.byte_order_mark && number == 0 {
        text.push('\u{feff}');
    }
    if dress.comments {
        text.push_str(&format!(": keep-alive {number}{end}{end}"));
    }
    if dress.event_lines {
        let name = name.unwrap_or("message");
        text.push_str(&format!("event: {name}{end}id: {number}{end}retry: 1000{end}"));
    } else if let Some(name) = name {
        text.push_str(&format!("event: {name}{end}"));
    }
    let spread = dress.pretty.then(|| spread(payload));
    for line in spread.as_deref().unwrap_or(payload).lines() {
        text.push_str(if dress.no_space { "data:" } else { "data: " });
        text.push_str(line);
        text.push_str(end);
    }
    text.push_str(end);
    text.into_bytes()
}

fn spread(payload: &str) -> String {
    let value: Result<Value, _> = serde_json::from_str(payload);
    value.map_or_else(|_| payload.to_owned(), |value| format!("{value:#}"))
}
