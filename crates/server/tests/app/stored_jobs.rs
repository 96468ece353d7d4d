//! Responses that cannot be stored.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};
use tollgate_storage::{
    ChainLimits, NewResponse, NoFiles, ResponseStore, Result, StorageError, StorageErrorKind, StoredResponse,
};
use tollgate_types::{AccountId, ResponseId, Timestamp};

use crate::app::{MODELS, Scene};

const PATH: &str = "/v1/responses";

/// A store that reads normally and rejects every write.
struct Full(Arc<dyn ResponseStore>);

#[async_trait]
impl ResponseStore for Full {
    async fn save(&self, _: NewResponse) -> Result<()> {
        Err(StorageError::new(
            StorageErrorKind::Unavailable,
            "the disk is full",
        ))
    }

    async fn get(
        &self,
        account: AccountId,
        id: ResponseId,
        now: Timestamp,
    ) -> Result<Option<StoredResponse>> {
        self.0.get(account, id, now).await
    }

    async fn with_item(
        &self,
        account: AccountId,
        item: &str,
        now: Timestamp,
    ) -> Result<Option<StoredResponse>> {
        self.0.with_item(account, item, now).await
    }

    async fn chain(
        &self,
        account: AccountId,
        id: ResponseId,
        now: Timestamp,
        limits: ChainLimits,
    ) -> Result<Vec<StoredResponse>> {
        self.0.chain(account, id, now, limits).await
    }

    async fn delete(&self, account: AccountId, id: ResponseId, now: Timestamp) -> Result<bool> {
        self.0.delete(account, id, now).await
    }

    async fn sweep(&self, now: Timestamp, limit: u32) -> Result<u64> {
        self.0.sweep(now, limit).await
    }
}

fn asking(model: &str, members: &Value) -> Value {
    let mut body = json!({"model": model, "input": "hello", "max_output_tokens": 100});
    for (name, value) in members.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

/// Returns the response in the last event of a stream.
fn last(events: &str) -> Value {
    let data = events
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .next_back();
    let event: Value = serde_json::from_str(data.unwrap()).unwrap();
    assert_eq!(event["type"], "response.completed", "{event}");
    event["response"].clone()
}

/// Creates a response and returns it, from the body or the last event of the stream.
async fn made(scene: &Scene, model: &str, members: Value) -> Value {
    let tenant = scene.tenant(10).await;
    let answer = scene.post(&tenant, PATH, &asking(model, &members)).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let response = match members["stream"] == true {
        true => last(&answer.text),
        false => answer.body,
    };
    assert_eq!(response["status"], "completed");
    assert!(
        response["output"].to_string().contains("hello"),
        "the response is complete: {response}"
    );
    let running = json!({"previous_response_id": response["id"]});
    let next = scene.post(&tenant, PATH, &asking(model, &running)).await;
    assert_eq!(
        next.status,
        if response["store"] == true { 200 } else { 404 },
        "{}",
        next.text
    );
    response
}

#[tokio::test]
async fn an_answer_reports_whether_it_is_stored() {
    let fine = Scene::new(Arc::new(NoFiles), |_| {}).await;
    let full = Scene::new(Arc::new(NoFiles), |storage| {
        storage.responses = Arc::new(Full(storage.responses.clone()));
    })
    .await;
    for model in MODELS {
        for stream in [false, true] {
            for (scene, store, stored_jobs) in
                [(&fine, true, true), (&full, true, false), (&full, false, false)]
            {
                let response = made(scene, model, json!({"stream": stream, "store": store})).await;
                assert_eq!(response["store"], stored_jobs, "{model} {stream} {store}");
            }
        }
    }
}
