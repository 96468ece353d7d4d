//! The HTTP shell that all rooms share. A request passes [`shell`] (id, panic guard, log, headers), [`auth`] (who is
//! calling, requests per minute) and [`body`] (size, time, type), and [`idempotency`] when it has a key for that; an answer leaves as [`sse`], JSON or [`error`].

pub mod auth;
pub mod body;
pub mod context;
pub mod error;
pub mod failed_keys;
pub mod family;
pub mod form;
pub mod idempotency;
pub mod json;
pub mod limits;
pub mod max_cost;
pub mod object;
pub mod operator;
pub mod origin;
pub mod query;
mod range;
pub mod shell;
pub mod sse;
pub mod upload;
mod values;
pub mod websocket;

pub use auth::{ControlCaller, Gate, WorkCaller};
pub use body::JsonBody;
pub use context::RequestContext;
pub use error::{ApiError, ErrorBody};
pub use family::Family;
pub use form::{FormBody, FormField};
pub use idempotency::Idempotency;
pub use operator::{Operator, OperatorGate};
pub use origin::{Origin, PublicUrl};
pub use query::Query;
pub use shell::{AccessLog, Shell};
pub use upload::{Part, Upload};
