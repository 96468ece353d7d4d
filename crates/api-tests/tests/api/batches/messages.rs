//! `/v1/messages/batches`: batches in the format of the Messages API.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::gateway::{Gateway, eventually, nanos};
use tollgate_testkit::upstream::{FakeUpstream, Gate, Reply};

use super::{BATCHES, at_65};
use crate::files::FILES;
use crate::scene::{BINARY, GRANTED, MODEL, PLAIN, PROVIDER_KEY, Scene};

const MESSAGES: &str = "/v1/messages/batches";
/// A model whose provider uses the same format.
const NATIVE: &str = "acme/native";

fn request(name: &str, model: &str, text: &str) -> Value {
    json!({"custom_id": name, "params": {"model": model, "max_tokens": 50,
        "messages": [{"role": "user", "content": text}]}})
}

impl Scene {
    async fn message_batch(&self, requests: &[Value]) -> Value {
        let body = json!({"requests": requests});
        let created = self.client().post_json(MESSAGES, &self.key.secret, &body).await;
        assert_eq!(created.status, 200, "{}", created.text());
        created.json()
    }

    async fn of_batch(&self, method: &str, id: &Value, rest: &str) -> Response {
        let path = format!("{MESSAGES}/{}{rest}", id.as_str().unwrap());
        self.ask(method, &path, &[]).await
    }

    async fn until_batch_ended(&self, batch: &Value) -> Value {
        let mut seen = Value::Null;
        eventually("the batch has ended", async || {
            seen = self.of_batch("GET", &batch["id"], "").await.json();
            seen["processing_status"] == "ended"
        })
        .await;
        seen
    }
}

/// Returns the status and the error type of a response in Anthropic's format.
fn error_of(response: &Response) -> (u16, Value) {
    (response.status, response.json()["error"]["type"].clone())
}

#[tokio::test]
async fn message_batches_run_and_are_listed_separately() {
    let scene = Scene::start().await;
    let body = json!({"requests": [request("a", PLAIN, "one\ntwo"), request("b", PLAIN, "three")]});
    let created = scene.client().post_json(MESSAGES, &scene.key.secret, &body).await;
    assert_eq!(created.status, 200, "{}", created.text());
    let batch = created.json();
    assert_eq!(
        (
            &batch["type"],
            &batch["request_counts"]["processing"],
            &batch["results_url"]
        ),
        (&json!("message_batch"), &json!(2), &Value::Null)
    );
    let path = format!("{MESSAGES}/{}", batch["id"].as_str().unwrap());
    let mut done = Value::Null;
    eventually("the batch has ended", async || {
        done = scene.ask("GET", &path, &[]).await.json();
        done["processing_status"] == "ended"
    })
    .await;
    let counts = json!({"processing": 0, "succeeded": 2, "errored": 0, "canceled": 0, "expired": 0});
    assert_eq!(done["request_counts"], counts);
    assert!(
        done["results_url"]
            .as_str()
            .unwrap()
            .ends_with(&format!("{path}/results")),
        "{done}"
    );
    let results = scene.ask("GET", &format!("{path}/results"), &[]).await;
    let mut cost = 0;
    let mut names = Vec::new();
    for text in results.text().lines() {
        let line: Value = serde_json::from_str(text).unwrap();
        names.push(line["custom_id"].as_str().unwrap().to_owned());
        let message = &line["result"]["message"];
        assert_eq!(
            (&line["result"]["type"], &message["type"]),
            (&json!("succeeded"), &json!("message"))
        );
        let count = |name: &str| message["usage"][name].as_i64().unwrap();
        let tokens = count("input_tokens") + count("output_tokens");
        assert_eq!(nanos(&message["usage"]["cost"]), at_65(1_000 * tokens));
        cost += at_65(1_000 * tokens);
    }
    assert_eq!(names, ["a", "b"]);
    assert_eq!(
        (nanos(&done["cost"]), scene.settled().await.credits),
        (cost, GRANTED - cost)
    );
    let list = scene.ask("GET", &format!("{MESSAGES}?limit=1"), &[]).await.json();
    assert_eq!(
        (&list["data"][0]["id"], &list["has_more"]),
        (&batch["id"], &json!(false))
    );
    assert_eq!(
        scene.ask("GET", BATCHES, &[]).await.json()["data"],
        json!([]),
        "they are not mixed"
    );

    for (body, param) in [
        (json!({}), "requests"),
        (json!({"requests": [{"custom_id": "a"}]}), "requests[0].params"),
        (
            json!({"requests": [request("a", PLAIN, "x"), {"params": {}}]}),
            "requests[1].custom_id",
        ),
    ] {
        let response = scene.client().post_json(MESSAGES, &scene.key.secret, &body).await;
        assert_eq!(response.status, 400, "{}", response.text());
        let error = &response.json()["error"];
        assert_eq!(
            (&error["param"], &error["code"]),
            (&json!(param), &json!("missing_required_parameter")),
            "{}",
            response.text()
        );
    }
    for (body, param) in [
        (json!({"requests": []}), "requests"),
        (
            json!({"requests": [request("a", PLAIN, "x"), request("a", PLAIN, "x")]}),
            "requests[1].custom_id",
        ),
        (
            json!({"requests": [request("a", PLAIN, "x"), request("b", MODEL, "x")]}),
            "requests[1].params.model",
        ),
        (
            json!({"requests": [request("a", "none", "x")]}),
            "requests[0].params.model",
        ),
    ] {
        let response = scene.client().post_json(MESSAGES, &scene.key.secret, &body).await;
        assert_eq!(response.json()["error"]["param"], *param, "{}", response.text());
        assert!(response.status == 400 || response.status == 404);
        let message = response.json()["error"]["message"].to_string();
        assert!(!message.contains("line"), "{message}");
    }
    assert_eq!(scene.settled().await.credits, GRANTED - cost);
    scene.finish().await;
}

/// `cancel_initiated_at` is set by the first cancellation and does not change.
#[tokio::test]
async fn a_canceled_batch_reports_the_time_of_its_cancellation() {
    let scene = Scene::start().await;
    let gate = Gate::new();
    scene.upstream.push(Reply::words(2).hold_head(&gate));
    let batch = scene.message_batch(&[request("a", PLAIN, "one")]).await;
    eventually("it runs", async || scene.upstream.request_count() == 1).await;
    let canceling = scene.of_batch("POST", &batch["id"], "/cancel").await.json();
    assert_eq!(canceling["processing_status"], "canceling", "{canceling}");
    let asked_at = &canceling["cancel_initiated_at"];
    assert!(asked_at.is_string(), "{canceling}");
    let again = scene.of_batch("POST", &batch["id"], "/cancel").await.json();
    assert_eq!(&again["cancel_initiated_at"], asked_at);
    gate.open();
    let ended = scene.until_batch_ended(&batch).await;
    assert_eq!(&ended["cancel_initiated_at"], asked_at);
    assert_eq!(ended["request_counts"]["succeeded"], 1);
    scene.finish().await;
}

/// The files of a deleted batch are deleted, too. Its charge and its usage row remain.
#[tokio::test]
async fn an_ended_batch_is_deleted_with_its_files() {
    let scene = Scene::start().await;
    let gate = Gate::new();
    scene.upstream.push(Reply::words(2).hold_head(&gate));
    let batch = scene.message_batch(&[request("a", PLAIN, "one")]).await;
    let id = &batch["id"];
    eventually("it runs", async || scene.upstream.request_count() == 1).await;
    let early = scene.of_batch("DELETE", id, "").await;
    assert_eq!(error_of(&early).0, 409, "{}", early.text());
    gate.open();
    let done = scene.until_batch_ended(&batch).await;
    let files = scene.ask("GET", FILES, &[]).await.json();
    assert_eq!(files["data"].as_array().unwrap().len(), 2, "{files}");

    let other = scene.gateway.account().await;
    let key = scene.gateway.key(&other).await;
    let path = format!("{MESSAGES}/{}", id.as_str().unwrap());
    let theirs = Request::new("DELETE", &path).key(&key.secret);
    assert_eq!(
        error_of(&scene.client().send(&theirs).await),
        (404, json!("not_found_error"))
    );
    assert_eq!(scene.of_batch("GET", id, "/results").await.status, 200);

    let deleted = scene.of_batch("DELETE", id, "").await;
    assert_eq!(deleted.json(), json!({"id": id, "type": "message_batch_deleted"}));
    for (method, rest) in [
        ("GET", ""),
        ("GET", "/results"),
        ("POST", "/cancel"),
        ("DELETE", ""),
    ] {
        let gone = scene.of_batch(method, id, rest).await;
        assert_eq!(
            error_of(&gone),
            (404, json!("not_found_error")),
            "{method} {rest}"
        );
    }
    assert_eq!(scene.ask("GET", MESSAGES, &[]).await.json()["data"], json!([]));
    assert_eq!(scene.ask("GET", FILES, &[]).await.json()["data"], json!([]));
    assert_eq!(scene.settled().await.credits, GRANTED - nanos(&done["cost"]));
    assert_eq!(
        scene.rows().await.len(),
        1,
        "the charge is still in the usage log"
    );
    let audit = scene.gateway.command_line().run(&["ledger", "audit"]).await;
    assert_eq!(audit["clean"], true, "{audit}");
    scene.finish().await;
}

#[tokio::test]
async fn batches_are_paged_in_both_directions() {
    let scene = Scene::start().await;
    let mut all = Vec::new();
    for number in 0..5 {
        let batch = scene
            .message_batch(&[request("a", PLAIN, &format!("{number}"))])
            .await;
        scene.until_batch_ended(&batch).await;
        all.insert(0, batch["id"].as_str().unwrap().to_owned());
    }
    for (query, expected, has_more) in [
        (format!("limit=2&before_id={}", all[4]), &all[2..4], true),
        (format!("limit=2&before_id={}", all[2]), &all[..2], false),
        (format!("limit=9&before_id={}", all[2]), &all[..2], false),
        (format!("limit=2&before_id={}", all[0]), &[][..], false),
        (format!("limit=2&after_id={}", all[2]), &all[3..], false),
        (format!("limit=1&after_id={}", all[2]), &all[3..4], true),
    ] {
        let page = scene.ask("GET", &format!("{MESSAGES}?{query}"), &[]).await.json();
        let ids: Vec<_> = page["data"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| &one["id"])
            .collect();
        assert_eq!(
            (ids, &page["has_more"]),
            (
                expected
                    .iter()
                    .map(|id| json!(id))
                    .collect::<Vec<_>>()
                    .iter()
                    .collect(),
                &json!(has_more)
            ),
            "{query}"
        );
        assert_eq!(page["first_id"], json!(expected.first()), "{query}");
        assert_eq!(page["last_id"], json!(expected.last()), "{query}");
    }
    for query in [
        format!("before_id={}&after_id={}", all[0], all[4]),
        "before_id=x".to_owned(),
    ] {
        let refused = scene.ask("GET", &format!("{MESSAGES}?{query}"), &[]).await;
        assert_eq!(refused.status, 400, "{query}");
        assert_eq!(refused.json()["error"]["param"], "before_id", "{query}");
    }
    scene.finish().await;
}

/// The headers of the batch apply to each of its requests.
#[tokio::test]
async fn beta_and_version_headers_apply_to_each_request() {
    const PREVIEW: &str = "interleaved-thinking-2025-05-14";
    let upstream = FakeUpstream::start().await;
    upstream.set_api_key(PROVIDER_KEY);
    let config = format!(
        "[providers.southwind]\npreset = \"anthropic\"\nbase_url = \"{}\"\napi_key_env = \"PROVIDER_KEY\"\n\
         [models.\"{NATIVE}\"]\ntargets = [\"southwind/native-v1\"]\nprices = {{ input = \"1\", output = \"2\" }}\n\
         limits = {{ context_window = 200000, max_output_tokens = 4096 }}\n",
        upstream.base_url()
    );
    let gateway = Gateway::start(BINARY, Scene::options(&upstream, Default::default(), &config)).await;
    let account = gateway.account().await;
    let key = gateway.key(&account).await;
    gateway.grant(&account, "1000").await;
    let scene = Scene {
        gateway,
        upstream,
        account,
        key,
    };
    let create = async |requests: &[Value], headers: &[(&str, &str)]| {
        let mut post = Request::json(MESSAGES, &json!({"requests": requests})).key(&scene.key.secret);
        for (name, value) in headers {
            post = post.header(name, *value);
        }
        scene.client().send(&post).await
    };
    let asked = format!("{PREVIEW},unheard-of-2027-01-01");
    let created = create(
        &[request("a", NATIVE, "one"), request("b", NATIVE, "two")],
        &[("anthropic-beta", &asked)],
    )
    .await;
    assert_eq!(created.status, 200, "{}", created.text());
    assert_eq!(
        created.header("x-tollgate-ignored"),
        Some("anthropic-beta.unheard-of-2027-01-01")
    );
    scene.until_batch_ended(&created.json()).await;
    let plain = create(&[request("c", NATIVE, "three")], &[]).await;
    scene.until_batch_ended(&plain.json()).await;
    let sent: Vec<_> = scene
        .upstream
        .requests()
        .iter()
        .map(|sent| sent.header("anthropic-beta").map(str::to_owned))
        .collect();
    assert_eq!(sent, [Some(PREVIEW.to_owned()), Some(PREVIEW.to_owned()), None]);

    let mut warm = request("d", NATIVE, "four");
    warm["params"]["temperature"] = json!(0.5);
    for (version, status) in [("2023-06-01", 200), ("2026-10-21", 400), ("yesterday", 400)] {
        let answer = create(std::slice::from_ref(&warm), &[("anthropic-version", version)]).await;
        assert_eq!(answer.status, status, "{version}: {}", answer.text());
        if status == 200 {
            scene.until_batch_ended(&answer.json()).await;
        }
    }
    scene.finish().await;
}
