//! The HTTP layer that all API crates share. A request passes [`request_layer`] (id, panic guard,
//! log, headers), [`auth`] (authentication, requests per minute), [`body`] (size, time, type), and
//! [`idempotency`] if it has an idempotency key. A response leaves as [`sse`], JSON or [`error`].

pub mod auth;
pub mod body;
pub mod client_dialect;
pub mod context;
pub mod error;
pub mod failed_keys;
pub mod form;
mod header_values;
pub mod idempotency;
pub mod job_reference;
pub mod json;
pub mod limits;
pub mod list;
pub mod max_cost;
pub mod members;
pub mod object;
pub mod object_body;
pub mod operator;
pub mod origin;
pub mod query;
mod range;
pub mod request_layer;
pub mod scopes;
pub mod session;
pub mod sse;
pub mod upload;
pub mod websocket;

pub use auth::{Authenticator, ConsoleSession, ControlCaller, OpeningCaller, WorkCaller};
pub use body::JsonBody;
pub use client_dialect::{Action, ClientDialect};
pub use context::RequestContext;
pub use error::{ApiError, ErrorBody};
pub use form::{FormBody, FormField};
pub use idempotency::Idempotency;
pub use job_reference::JobReference;
pub use operator::{Operator, OperatorAuthenticator};
pub use origin::{Origin, PublicUrl};
pub use query::Query;
pub use request_layer::{AccessLog, RequestLayer};
pub use upload::{Part, Upload};
