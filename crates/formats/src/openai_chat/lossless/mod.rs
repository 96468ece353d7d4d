//! Relays chat requests and responses between a caller and an upstream of the same format, with the
//! minimum of changed bytes.

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
