//! Context of an upstream call: permission, timeouts and request id.

use std::time::Duration;

use tollgate_types::{HoldId, RequestId};

/// Proof that a call may be made. Only the pipeline's admission creates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// A hold covers the cost.
    Hold(HoldId),
    /// The call is free of charge, for this reason.
    Free(&'static str),
}

/// Context of one upstream call.
#[derive(Clone, Debug)]
pub struct CallContext {
    /// Id of the API request that the call serves.
    pub request: RequestId,
    /// Permission for the call.
    pub permit: Permit,
    /// Maximum wait for the response headers.
    pub header_timeout: Duration,
    /// Maximum time between two chunks of the body.
    pub idle_timeout: Duration,
    /// Whether the gateway inspects the response, and so needs it in the common form even if the
    /// upstream speaks the caller's format.
    pub inspected: bool,
}
