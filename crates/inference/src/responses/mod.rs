//! `/v1/responses`: made in one answer, in a stream, in a session over a WebSocket ([`socket`]) or while nobody waits
//! ([`background`]), kept ([`kept`]), and gone on from ([`recall`]).

mod background;
mod compact;
mod count;
mod events;
mod kept;
mod listing;
mod recall;
mod routes;
pub(crate) mod service;
mod socket;
mod wire;

pub use background::Background;
pub use kept::Kept;
pub use routes::routes;
