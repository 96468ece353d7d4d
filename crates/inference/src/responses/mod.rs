//! `/v1/responses`: the Responses API. Responses are returned as a whole, streamed, sent over a
//! WebSocket session ([`socket`]) or executed in the background ([`background`]). The events of
//! background responses are recorded ([`event_log`]) and replayed ([`subscription`]). Responses are
//! stored ([`store`]), and requests can continue from them ([`conversation`]).

pub(crate) mod background;
mod compact;
mod conversation;
mod count;
mod event_log;
mod events;
mod listing;
mod routes;
pub(crate) mod service;
mod socket;
pub(crate) mod store;
pub(crate) mod subscription;
mod wire;

pub use background::Background;
pub use routes::routes;
pub use store::Responses;
