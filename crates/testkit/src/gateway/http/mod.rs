//! An HTTP/1.1 client on a bare socket: it sees every chunk as it comes, and sends requests that no library would.

mod answer;
mod connection;
mod incoming;
mod request;
mod response;

use std::net::SocketAddr;

use serde_json::Value;

pub use answer::{Answer, End, Event};
pub use connection::Connection;
pub use request::Request;
pub use response::{ErrorObject, Head, Response};

/// Sends each request on a connection of its own.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    address: SocketAddr,
}

impl Client {
    /// A client of the server at this address.
    pub fn new(address: SocketAddr) -> Self {
        Self { address }
    }

    /// A connection on which nothing was sent yet.
    ///
    /// # Panics
    /// When it is refused.
    pub async fn connect(&self) -> Connection {
        Connection::to(self.address).await
    }

    /// The whole response to a request.
    pub async fn send(&self, request: &Request) -> Response {
        self.connect().await.respond(request).await
    }

    /// The response to a request, from its head on.
    pub async fn open(&self, request: &Request) -> Answer {
        self.connect().await.open(request).await
    }

    /// `GET` with a key.
    pub async fn get(&self, path: &str, key: &str) -> Response {
        self.send(&Request::get(path).key(key)).await
    }

    /// `POST` of a JSON body with a key, to a server that may die at any moment: `None` when no response begins.
    pub async fn try_post_json(&self, path: &str, key: &str, body: &Value) -> Option<Response> {
        let mut connection = Connection::try_to(self.address).await.ok()?;
        connection.try_respond(&Request::json(path, body).key(key)).await
    }

    /// `POST` of a JSON body with a key.
    pub async fn post_json(&self, path: &str, key: &str, body: &Value) -> Response {
        self.send(&Request::json(path, body).key(key)).await
    }
}
