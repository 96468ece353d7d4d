//! Classifies connection failures by whether a part of the request was sent.

use std::error::Error;
use std::io::ErrorKind;

use hyper_util::client::legacy;
use tollgate_upstream::UpstreamError;

/// Returns the error of a request without response headers on a connection that the gateway drives
/// itself. `was_sent` is false if hyper returned the request unsent.
pub(super) fn exchange_error(error: &hyper::Error, was_sent: bool) -> UpstreamError {
    if was_sent {
        UpstreamError::protocol(chain(error))
    } else {
        UpstreamError::connect(chain(error))
    }
}

/// Whether the server closed or reset the connection before the end of the response head.
pub(super) fn is_hang_up(error: &hyper::Error) -> bool {
    let is_reset = |cause: &(dyn Error + 'static)| {
        let io = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
        matches!(
            io,
            Some(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe | ErrorKind::ConnectionAborted)
        )
    };
    error.is_incomplete_message() || causes(error).any(is_reset)
}

/// Returns the error of a request without response headers on a connection of hyper's pool.
pub(super) fn send_error(error: legacy::Error) -> UpstreamError {
    let detail = chain(&error);
    if error.is_connect() || was_not_sent(&error) {
        UpstreamError::connect(detail)
    } else {
        UpstreamError::protocol(detail)
    }
}

/// Returns the error of an incomplete body.
pub(super) fn body_error(error: &hyper::Error) -> UpstreamError {
    UpstreamError::protocol(chain(error))
}

/// Whether hyper canceled the request because a pooled connection closed before the request was
/// written. After any later error, the upstream may have received the request.
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

/// Returns the error and its causes on one line. They describe sockets and framing, never the
/// content.
pub(super) fn chain(error: &(dyn Error + 'static)) -> String {
    let texts: Vec<String> = causes(error).map(ToString::to_string).collect();
    texts.join(": ")
}
