//! The admin API lists batches of all accounts without their contents.

use serde_json::{Value, json};
use tollgate_storage::Role;

use super::Office;
use crate::app::MODELS;

const BATCHES: &str = "/admin/v1/batches";

#[tokio::test]
async fn batches_of_every_account_are_seen_and_nothing_that_they_say() {
    let office = Office::open().await;
    let (tenant, other) = (office.scene.tenant(1_000).await, office.scene.tenant(1_000).await);
    let body = |text: &str| {
        let params =
            json!({"model": MODELS[1], "max_tokens": 9, "messages": [{"role": "user", "content": text}]});
        json!({"requests": [{"custom_id": "canary-name", "params": params}]})
    };
    let mut made = Vec::new();
    for (tenant, text) in [
        (&tenant, "canary one"),
        (&other, "canary two"),
        (&tenant, "canary three"),
    ] {
        let path = "/v1/messages/batches";
        let answer = office.scene.post(tenant, path, &body(text)).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        made.insert(0, answer.body["id"].clone());
    }
    let ids = |list: &Value| -> Vec<Value> {
        let data = list["data"].as_array().unwrap();
        data.iter().map(|batch| batch["id"].clone()).collect()
    };
    let all = office.get(BATCHES).await;
    assert_eq!((ids(&all), &all["has_more"]), (made.clone(), &json!(false)));
    assert!(!all.to_string().contains("canary"), "{all}");
    let first = office.get(&format!("{BATCHES}?limit=1")).await;
    assert_eq!(
        (ids(&first), &first["has_more"]),
        (made[..1].to_vec(), &json!(true))
    );
    let after = made[0].as_str().unwrap();
    let rest = office.get(&format!("{BATCHES}?after={after}")).await;
    assert_eq!(ids(&rest), made[1..]);
    let theirs = office.get(&format!("{BATCHES}?account={}", other.id)).await;
    assert_eq!(ids(&theirs), made[1..2]);

    let shown = office.get(&format!("{BATCHES}/{after}")).await;
    assert_eq!(
        (&shown["account"], &shown["account_name"]),
        (&json!(tenant.id), &json!("tenant"))
    );
    assert_eq!(
        [
            &shown["state"],
            &shown["endpoint"],
            &shown["total"],
            &shown["model"]
        ],
        [
            &json!("validating"),
            &json!("/v1/messages"),
            &json!(1),
            &json!(MODELS[1])
        ]
    );
    for (path, status) in [
        (format!("{BATCHES}/batch_00000000000000000000000000000001"), 404),
        (format!("{BATCHES}/x"), 404),
        (format!("{BATCHES}?after=x"), 400),
        (format!("{BATCHES}?account=x"), 400),
        (format!("{BATCHES}?limit=0"), 400),
        (format!("{BATCHES}?limit=101"), 400),
        (format!("{BATCHES}?state=x"), 400),
    ] {
        let answer = office.send(Role::Viewer, "GET", &path, &Value::Null).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text);
    }
}
