//! `/v1/responses`: made in one answer, in a stream or in a session over a WebSocket ([`socket`]), kept ([`kept`]), and
//! gone on from ([`recall`]).

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

pub use kept::Kept;
pub use routes::routes;
