//! The admin API of a complete gateway.

mod accounts;
mod audit;
mod bad_input;
mod batches;
mod members;
mod prices;
mod reach;
mod research;
mod roles;

use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use serde_json::Value;
use tollgate_storage::{NoFiles, Role, Storage};
use tollgate_types::AdminId;

use crate::app::{Answer, Scene};

/// A gateway with one administrator for each role.
pub struct Office {
    pub scene: Scene,
    tokens: Vec<(Role, AdminId, String)>,
}

impl Office {
    pub async fn open() -> Self {
        Self::open_on(|_| {}).await
    }

    /// Opens a gateway whose storage `change` has modified.
    pub async fn open_on(change: impl Fn(&mut Storage)) -> Self {
        let scene = Scene::new(Arc::new(NoFiles), change).await;
        let mut tokens = Vec::new();
        for role in [Role::Viewer, Role::Support, Role::Billing, Role::Owner] {
            let made = scene.app_state.admins.create(role.as_str(), role).await;
            let (admin, token) = made.unwrap();
            tokens.push((role, admin.id, token.reveal().to_owned()));
        }
        Self { scene, tokens }
    }

    pub fn token(&self, role: Role) -> &str {
        let found = self.tokens.iter().find(|(known, ..)| *known == role);
        &found.unwrap().2
    }

    pub fn id(&self, role: Role) -> AdminId {
        self.tokens.iter().find(|(known, ..)| *known == role).unwrap().1
    }

    /// Sends a request with the token of an administrator with this role. A null body is not sent.
    pub async fn send(&self, role: Role, method: &str, path: &str, body: &Value) -> Answer {
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        self.send_text(Some(self.token(role)), method, path, body).await
    }

    pub async fn send_text(&self, token: Option<&str>, method: &str, path: &str, body: String) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        self.scene
            .administer(request.body(Body::from(body)).unwrap())
            .await
    }

    pub async fn get(&self, path: &str) -> Value {
        let answer = self.send(Role::Viewer, "GET", path, &Value::Null).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
        answer.body
    }

    /// Sends a request as owner, asserts status 200 and returns the body.
    pub async fn done(&self, method: &str, path: &str, body: Value) -> Value {
        let answer = self.send(Role::Owner, method, path, &body).await;
        assert_eq!(answer.status, 200, "{method} {path} {body}: {}", answer.text);
        answer.body
    }

    /// Creates an account and returns its path.
    pub async fn account(&self) -> String {
        let body = serde_json::json!({"name": "acme"});
        let made = self.done("POST", "/admin/v1/accounts", body).await;
        format!("/admin/v1/accounts/{}", made["id"].as_str().unwrap())
    }

    /// Asserts that the ledger is valid.
    pub async fn close(self) {
        use tollgate_operations::{Actor, CheckLedger};
        let command = CheckLedger { reprice: true };
        let checked = self
            .scene
            .app_state
            .operations
            .execute(&Actor::command_line(), command)
            .await;
        let checked = checked.unwrap();
        assert!(checked.clean, "{checked:?}");
    }
}
