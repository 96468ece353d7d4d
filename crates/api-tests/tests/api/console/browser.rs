//! A browser with cookies, on a page of the console.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Client, Request, Response};

use super::PASSWORD;

/// Root of the console API.
pub const API: &str = "/console/api/v1";

/// A browser on a page of the console.
#[derive(Clone)]
pub struct Browser {
    client: Client,
    /// Cookies by name.
    pub cookies: BTreeMap<String, String>,
    /// Value of `x-tollgate-account`.
    pub account: String,
}

impl Browser {
    pub fn new(client: Client) -> Self {
        Self {
            client,
            cookies: BTreeMap::new(),
            account: "-".to_owned(),
        }
    }

    /// Returns a browser with the same cookies on another node.
    pub fn at(&self, client: Client) -> Self {
        Self {
            client,
            ..self.clone()
        }
    }

    /// Builds a request of a page of the console. A null body sends no body.
    pub fn request(&self, method: &str, path: &str, body: &Value) -> Request {
        let request = match body {
            Value::Null => Request::new(method, path),
            body => Request::json(path, body).with_method(method),
        };
        let cookies: Vec<String> = self
            .cookies
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        request
            .without("host")
            .header("host", "localhost:8080")
            .header("sec-fetch-site", "same-origin")
            .header("x-tollgate-account", self.account.clone())
            .header("cookie", cookies.join("; "))
            .header(
                "user-agent",
                "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0",
            )
    }

    /// Sends a request and stores the cookies of the response.
    pub async fn send(&mut self, method: &str, path: &str, body: &Value) -> Response {
        let response = self.client.send(&self.request(method, path, body)).await;
        for (name, value) in &response.head.headers {
            if name.eq_ignore_ascii_case("set-cookie") {
                self.store(value);
            }
        }
        response
    }

    fn store(&mut self, cookie: &str) {
        assert!(cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
        assert!(cookie.contains("; Path=/;"), "{cookie}");
        let (pair, _) = cookie.split_once(';').unwrap();
        let (name, value) = pair.split_once('=').unwrap();
        match cookie.contains("Max-Age=0;") {
            true => self.cookies.remove(name),
            false => self.cookies.insert(name.to_owned(), value.to_owned()),
        };
    }

    /// Sends a request that must succeed and returns the body.
    pub async fn done(&mut self, method: &str, path: &str, body: &Value) -> Value {
        let response = self.send(method, path, body).await;
        assert_eq!(response.status, 200, "{method} {path}: {}", response.text());
        assert_eq!(response.header("cache-control"), Some("no-store"), "{path}");
        response.json()
    }

    /// Sends a request that must fail, and returns status, code and parameter.
    pub async fn refused(&mut self, method: &str, path: &str, body: &Value) -> (u16, String, String) {
        let response = self.send(method, path, body).await;
        let error = response.error();
        (response.status, error.code, error.param.unwrap_or_default())
    }

    /// Redeems a sign-in link that must be valid, and returns the session.
    pub async fn redeem(&mut self, token: &str) -> Value {
        let path = format!("{API}/sign-in/link");
        self.done("POST", &path, &json!({"token": token})).await["session"].clone()
    }

    /// Sets address, name and password of the person.
    pub async fn set_up(&mut self, email: &str) {
        let person = json!({"email": email, "name": "Jo"});
        self.done("PATCH", &format!("{API}/person"), &person).await;
        self.set_password(PASSWORD).await;
    }

    pub async fn set_password(&mut self, password: &str) {
        let path = format!("{API}/credentials/password");
        self.done("PUT", &path, &json!({"password": password})).await;
    }

    /// Tries to sign in by password.
    pub async fn sign_in(&mut self, email: &str, password: &str) -> Response {
        let body = json!({"email": email, "password": password});
        self.send("POST", &format!("{API}/sign-in/password"), &body).await
    }

    /// Returns the session of the browser; null if it is not signed in.
    pub async fn session(&mut self) -> Value {
        self.done("GET", &format!("{API}/session"), &Value::Null).await["session"].clone()
    }
}
