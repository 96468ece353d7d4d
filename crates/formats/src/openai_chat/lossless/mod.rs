//! The same format on both sides: bytes are forwarded, changed only where they must be.

mod event;
mod output;
mod request;
mod response;
mod usage_object;

pub use event::{EventEdits, EventHead, EventKind, event_with_cost, inspect_event, splice_event};
pub use request::{CapName, RequestEdits, splice_request};
pub use response::{ResponseHead, inspect_response, splice_response};

#[cfg(test)]
mod tests;
