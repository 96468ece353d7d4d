//! What a failure of the connection says about the request: was any of it sent?

use std::error::Error;

use hyper_util::client::legacy;
use tollgate_upstream::UpstreamError;

/// A request that got no response headers over a connection of its own; `was_sent` unless it came back whole.
pub(super) fn of_exchange(error: &hyper::Error, was_sent: bool) -> UpstreamError {
    if was_sent {
        UpstreamError::protocol(chain(error))
    } else {
        UpstreamError::connect(chain(error))
    }
}

/// A request that got no response headers from a client with a pool.
pub(super) fn of_sending(error: legacy::Error) -> UpstreamError {
    let detail = chain(&error);
    if error.is_connect() || was_not_sent(&error) {
        UpstreamError::connect(detail)
    } else {
        UpstreamError::protocol(detail)
    }
}

/// A body that broke off.
pub(super) fn of_body(error: &hyper::Error) -> UpstreamError {
    UpstreamError::protocol(chain(error))
}

/// A pooled connection may die before the request is written to it: hyper says so by cancelling the request. Anything
/// later leaves it open whether the upstream has the request.
fn was_not_sent(error: &legacy::Error) -> bool {
    causes(error).any(|cause| {
        cause
            .downcast_ref::<hyper::Error>()
            .is_some_and(hyper::Error::is_canceled)
    })
}

fn causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error: &&'e (dyn Error + 'static)| {
        Error::source(*error)
    })
}

/// The error and its causes in one line. They speak of sockets and framing, never of what was sent.
pub(super) fn chain(error: &(dyn Error + 'static)) -> String {
    let texts: Vec<String> = causes(error).map(ToString::to_string).collect();
    texts.join(": ")
}
