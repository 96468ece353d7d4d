//! Webhook deliveries of jobs, which admins see and repeat.

use serde_json::{Value, json};
use tollgate_testkit::gateway::{Storage, eventually};
use tollgate_testkit::upstream::{FakeUpstream, Reply};

use super::browser::{API, Browser};
use super::owner;
use super::people::invited;
use crate::scene::Scene;

const DELIVERIES: &str = "/console/api/v1/deliveries";
const HOOK: &str = "/hooks/jobs";

/// Makes an image whose end is reported to the hook, and returns the id of its job.
async fn job(browser: &mut Browser, hook: &FakeUpstream) -> String {
    let url = format!("http://{}{HOOK}?token=s3cret", hook.address());
    let body = json!({"model": "sim/image", "prompt": "a red square", "webhook_url": url});
    let job = browser
        .done("POST", "/console/v1/images/generations", &body)
        .await;
    job["job_id"].as_str().unwrap().to_owned()
}

/// Returns the delivery of a job once it has this state.
async fn until(browser: &mut Browser, id: &str, state: &str) -> Value {
    let mut found = Value::Null;
    eventually(&format!("the delivery of {id} is {state}"), async || {
        let list = browser.done("GET", DELIVERIES, &Value::Null).await;
        let deliveries = list["data"].as_array().unwrap();
        let own = deliveries.iter().find(|one| one["id"] == *id);
        found = own.cloned().unwrap_or_default();
        found["state"] == *state
    })
    .await;
    found
}

async fn deliveries_are_listed_and_repeated(storage: Storage) {
    let hook = FakeUpstream::start().await;
    hook.set_hook(HOOK, [Reply::error(410, "gone", "gone")]);
    let config = format!("[egress]\nallow = [\"{}\"]\n", hook.address());
    let scene = Scene::start_on(storage, &config).await;
    let mut jo = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    let failing = job(&mut jo, &hook).await;
    let failed = until(&mut jo, &failing, "failed").await;
    assert_eq!(
        (&failed["job_status"], &failed["attempts"], &failed["due_at"]),
        (&json!("completed"), &json!(1), &Value::Null)
    );
    assert!(failed["failure"].as_str().unwrap().contains("410"), "{failed}");
    let shown = format!("http://{}{HOOK}", hook.address());
    assert_eq!(failed["url"], *shown, "the query may contain secrets");

    let again = |id: &str| format!("{DELIVERIES}/{id}/redeliver");
    let due = jo.done("POST", &again(&failing), &json!({})).await;
    assert_eq!((&due["state"], &due["attempts"]), (&json!("pending"), &json!(1)));
    let delivered = until(&mut jo, &failing, "delivered").await;
    assert_eq!(
        (&delivered["attempts"], &delivered["failure"]),
        (&json!(2), &Value::Null)
    );
    assert!(delivered["delivered_at"].is_string());
    // A receiver that has lost the event gets it again, with the same id.
    jo.done("POST", &again(&failing), &json!({})).await;
    hook.wait_for_requests(3).await;
    let requests = hook.requests();
    let ids: Vec<_> = requests.iter().map(|one| one.header("webhook-id")).collect();
    assert_eq!(ids, vec![Some(failed["event_id"].as_str().unwrap()); 3]);

    let second = job(&mut jo, &hook).await;
    until(&mut jo, &second, "delivered").await;
    let page = jo
        .done("GET", &format!("{DELIVERIES}?limit=1"), &Value::Null)
        .await;
    assert_eq!(
        (&page["data"][0]["id"], &page["has_more"]),
        (&json!(second), &json!(true))
    );
    let page = jo
        .done(
            "GET",
            &format!("{DELIVERIES}?limit=1&after={second}"),
            &Value::Null,
        )
        .await;
    assert_eq!(
        (&page["data"][0]["id"], &page["has_more"]),
        (&json!(failing), &json!(false))
    );
    for (query, param) in [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("after=x", "after"),
        ("x=1", "x"),
    ] {
        let refused = jo
            .refused("GET", &format!("{DELIVERIES}?{query}"), &Value::Null)
            .await;
        assert_eq!((refused.0, &*refused.2), (400, param), "{query}");
    }

    let log = jo
        .done(
            "GET",
            &format!("{API}/audit-log?action=webhook.redeliver"),
            &Value::Null,
        )
        .await;
    assert_eq!(log["data"].as_array().unwrap().len(), 2);
    assert_eq!(log["data"][0]["object"], *failing);
    assert!(!log.to_string().contains("s3cret"));

    let missing = format!("job_{:032x}", 7);
    let foreign = scene.gateway.command_line().create_account("foreign").await;
    let mut eve = owner(&scene.gateway, &foreign, "eve@example.com").await;
    for (browser, id) in [(&mut jo, &missing), (&mut eve, &failing)] {
        let refused = browser.refused("POST", &again(id), &json!({})).await;
        assert_eq!((refused.0, &*refused.1), (404, "not_found"), "{id}");
    }
    for role in ["billing", "member", "viewer"] {
        let mut browser = invited(&scene, &mut jo, &format!("{role}@example.com"), role).await;
        let refused = browser.refused("POST", &again(&failing), &json!({})).await;
        assert_eq!((refused.0, &*refused.2), (403, "role"), "{role}");
        let refused = browser.refused("GET", DELIVERIES, &Value::Null).await;
        assert_eq!((refused.0, &*refused.2), (403, "role"), "{role}");
    }
    let suspend = ["accounts", "suspend", &scene.account];
    scene.gateway.command_line().run(&suspend).await;
    assert_eq!(jo.send("POST", &again(&failing), &json!({})).await.status, 403);
    assert_eq!(jo.send("GET", DELIVERIES, &Value::Null).await.status, 200);
    assert_eq!(hook.requests().len(), 4);
    scene.finish().await;
}

#[tokio::test]
async fn deliveries_are_listed_and_repeated_sqlite() {
    deliveries_are_listed_and_repeated(Storage::Sqlite).await;
}

#[tokio::test]
async fn deliveries_are_listed_and_repeated_postgres() {
    deliveries_are_listed_and_repeated(Storage::Postgres).await;
}
