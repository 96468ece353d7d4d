//! `/v1/responses`: made in one answer, in a stream, in a session over a WebSocket ([`socket`]) or while nobody waits
//! ([`background`], whose events are written down as they come ([`recording`]) and read again ([`following`])), kept ([`kept`]), and gone on from ([`recall`]).

mod background;
mod compact;
mod count;
mod events;
mod following;
pub(crate) mod kept;
mod listing;
mod recall;
mod recording;
mod routes;
pub(crate) mod service;
mod socket;
mod wire;

pub use background::Background;
pub use kept::Kept;
pub use routes::routes;
