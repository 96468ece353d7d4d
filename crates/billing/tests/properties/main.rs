//! Properties of every call, for all requests and outcomes.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod amount;
mod check;
mod counted;
mod ledger;
mod life;
mod model;
mod quote;
mod verdict;

use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Returns the result of a future that never waits.
fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing here waits"),
    }
}
