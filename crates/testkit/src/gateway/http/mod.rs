//! An HTTP/1.1 client on a bare socket. It receives every chunk as it arrives, and can send
//! malformed requests.

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

/// HTTP client that sends each request on a new connection.
#[derive(Debug, Clone, Copy)]
pub struct Client {
    address: SocketAddr,
}

impl Client {
    /// Creates a client of the server at this address.
    pub fn new(address: SocketAddr) -> Self {
        Self { address }
    }

    /// Opens a new connection.
    ///
    /// # Panics
    /// If the connection is refused.
    pub async fn connect(&self) -> Connection {
        Connection::to(self.address).await
    }

    /// Sends a request and returns the whole response.
    pub async fn send(&self, request: &Request) -> Response {
        self.connect().await.respond(request).await
    }

    /// Sends a request and returns the response once its head has been read.
    pub async fn open(&self, request: &Request) -> Answer {
        self.connect().await.open(request).await
    }

    /// Sends a `GET` with a key.
    pub async fn get(&self, path: &str, key: &str) -> Response {
        self.send(&Request::get(path).key(key)).await
    }

    /// Sends a JSON body by `POST` with a key, to a server that may crash at any time. `None` if no
    /// response arrives.
    pub async fn try_post_json(&self, path: &str, key: &str, body: &Value) -> Option<Response> {
        let mut connection = Connection::try_to(self.address).await.ok()?;
        connection.try_respond(&Request::json(path, body).key(key)).await
    }

    /// Sends a JSON body by `POST` with a key.
    pub async fn post_json(&self, path: &str, key: &str, body: &Value) -> Response {
        self.send(&Request::json(path, body).key(key)).await
    }
}
