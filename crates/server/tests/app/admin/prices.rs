//! Changes of prices, rejected price changes, and the health of providers.

use serde_json::{Value, json};
use tollgate_storage::Role;
use tollgate_testkit::upstream::Reply;

use super::Office;
use crate::app::MODELS;

#[tokio::test]
async fn a_price_that_moves_too_far_is_taken_only_when_it_is_said_to_be_meant() {
    let office = Office::open().await;
    let model = MODELS[0];
    let path = format!("/admin/v1/prices/{model}");
    let listed = office.get("/admin/v1/prices").await;
    let prices = listed["data"].as_array().unwrap();
    let found = prices.iter().find(|price| price["model"] == model).unwrap();
    assert_eq!(found["prices"], json!({"input": "1", "output": "1"}));
    let checks = "/admin/v1/price-checks";
    let same = office.done("POST", checks, json!({})).await;
    assert_eq!((&same["clean"], &same["changes"]), (&json!(true), &json!([])));

    // A tenfold price needs no confirmation.
    office.scene.change_prices("input = \"10\", output = \"1\"");
    office.scene.reload().await.unwrap();
    let history = office.get(&path).await;
    assert_eq!(history["data"][0]["prices"]["input"], "10");
    assert_eq!(history["data"][1]["prices"]["input"], "1");
    assert_eq!(history["data"][0]["actor"], "settings");
    let log = office
        .get("/admin/v1/audit-log?action=prices.change&limit=100")
        .await;
    assert_eq!(log["data"].as_array().unwrap().len(), MODELS.len());
    let line = log["data"]
        .as_array()
        .unwrap()
        .iter()
        .find(|line| line["object"] == model);
    let line = line.unwrap();
    assert_eq!(
        (&line["actor"], &line["before"]["input"], &line["after"]["input"]),
        (&json!("settings"), &json!("1"), &json!("10"))
    );

    // A larger change is rejected as a whole, and the catalog stays unchanged.
    office.scene.change_prices("input = \"10\", output = \"0.09\"");
    let refused = office.scene.reload().await.unwrap_err();
    assert!(
        refused.contains("output from 1 to 0.09") && refused.contains("prices check --force"),
        "{refused}"
    );
    let offered = office
        .scene
        .app_state
        .catalog
        .current()
        .resolve(model)
        .unwrap()
        .clone();
    assert_eq!(
        offered
            .prices
            .per_million(tollgate_types::Unit::Output)
            .to_string(),
        "1"
    );
    let check = office.send(Role::Viewer, "POST", checks, &json!({})).await;
    assert_eq!((check.status, &check.body["clean"]), (200, &json!(false)));
    assert_eq!(check.body["changes"].as_array().unwrap().len(), MODELS.len());
    assert_eq!(office.get(&path).await["data"].as_array().unwrap().len(), 2);

    // Only an authorized role can force the prices. The reload then accepts them.
    let force = json!({"force": true});
    let denied = office.send(Role::Support, "POST", checks, &force).await;
    assert_eq!(denied.status, 403);
    let forced = office.send(Role::Billing, "POST", checks, &force).await;
    assert_eq!((forced.status, &forced.body["forced"]), (200, &json!(true)));
    office.scene.reload().await.unwrap();
    let history = office.get(&path).await;
    let newest = &history["data"][0];
    assert_eq!(
        (&newest["actor"], &newest["prices"]["output"]),
        (&json!("billing"), &json!("0.09"))
    );
    let log = office.get("/admin/v1/audit-log?action=prices.force").await;
    assert_eq!(log["data"][0]["outcome"], "done");
    assert_eq!(log["data"][1]["outcome"], "permission_denied");

    for (body, code) in [
        (json!({"force": "yes"}), "invalid_parameter"),
        (json!({"model": model}), "unknown_parameter"),
    ] {
        let answer = office.send(Role::Owner, "POST", checks, &body).await;
        assert_eq!(
            (answer.status, &answer.body["error"]["code"]),
            (400, &json!(code))
        );
    }
    let unknown = office
        .send(Role::Owner, "GET", "/admin/v1/prices/acme/none", &Value::Null)
        .await;
    assert_eq!(unknown.status, 404);
    office.close().await;
}

#[tokio::test]
async fn providers_show_how_their_last_calls_went_and_no_secret() {
    let office = Office::open().await;
    let tenant = office.scene.tenant(10).await;
    let body =
        json!({"model": MODELS[0], "max_tokens": 9, "messages": [{"role": "user", "content": "c4n4ry"}]});
    let target = async || {
        let listed = office.get("/admin/v1/providers").await;
        assert!(!listed.to_string().contains("secret") && !listed.to_string().contains("c4n4ry"));
        let providers = listed["data"].as_array().unwrap().clone();
        let chat = providers
            .into_iter()
            .find(|provider| provider["name"] == "chat")
            .unwrap();
        assert_eq!(chat["preset"], "openai-compatible");
        assert_eq!(chat["base_url"], office.scene.upstream.base_url());
        assert_eq!(chat["models_found"], Value::Null);
        assert_eq!(chat["targets"][0]["models"], json!([MODELS[0]]));
        chat["targets"][0].clone()
    };
    let fresh = target().await;
    assert_eq!(
        (&fresh["breaker"], &fresh["last_error"]),
        (&json!("closed"), &Value::Null)
    );
    office.scene.post(&tenant, "/v1/chat/completions", &body).await;
    assert_eq!(target().await["last_error"], Value::Null);
    office.scene.upstream.push(Reply::error(401, "x", "c4n4ry"));
    office.scene.post(&tenant, "/v1/chat/completions", &body).await;
    let failed = target().await;
    assert_eq!(failed["breaker"], "open");
    assert!(failed["retry_in_ms"].as_u64().unwrap() > 0);
    let error = failed["last_error"].as_str().unwrap();
    assert!(error.contains("401"), "{error}");
    assert!(failed["last_error_at"].is_string());
    office.close().await;
}
