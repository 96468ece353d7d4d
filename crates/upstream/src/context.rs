//! What a call to an upstream is allowed and given.

use std::time::Duration;

use tollgate_types::{HoldId, RequestId};

/// Why a call may be made. The pipeline's admission is the only place that makes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// The cost is held.
    Hold(HoldId),
    /// It costs nothing; the reason is named.
    Free(&'static str),
}

/// The frame of one call to an upstream.
#[derive(Clone, Debug)]
pub struct CallContext {
    /// The request it serves.
    pub request: RequestId,
    /// Why it may be made.
    pub permit: Permit,
    /// Longest wait for the response headers.
    pub header_timeout: Duration,
    /// Longest silence between two pieces of the body.
    pub idle_timeout: Duration,
    /// Whether the gateway looks at the answer, and so wants it in the common form although the upstream speaks the
    /// caller's format.
    pub inspected: bool,
}
