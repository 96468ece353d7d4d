//! Images and documents that callers reference by URL: the gateway fetches them for upstreams that
//! accept only bytes.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::gateway::{Balance, Gateway, eventually};
use tollgate_testkit::upstream::{At, FakeUpstream, Gate, How, ReceivedRequest, Reply};

use crate::scene::{BINARY, CHAT, GRANTED, PROVIDER_KEY, Scene, assert_error, credits, flat_bound, with};

/// A model of a server that accepts images only as bytes.
const SEEING: &str = "acme/seeing";
/// A model whose provider uses the Messages format and accepts image URLs.
const NATIVE: &str = "acme/native";
/// A model whose provider uses the Responses format.
const RESPONDING: &str = "acme/responding";
/// Price of one token of these models, in nano-credits.
const PRICE: i64 = 1_000;
/// Output token limit of these models.
const MAX_OUTPUT: i64 = 4_096;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\nabc";
const PNG_URL: &str = "data:image/png;base64,iVBORw0KGgphYmM=";
const PDF: &[u8] = b"%PDF-1.7";
const PDF_DATA: &str = "JVBERi0xLjc=";

/// Starts a scene whose callers may reference files of the upstream by URL.
async fn scene() -> Scene {
    let upstream = FakeUpstream::start().await;
    upstream.set_api_key(PROVIDER_KEY);
    upstream.set_file("/a.png", Reply::body(200, "image/png", PNG));
    upstream.set_file("/a.pdf", Reply::body(200, "application/pdf", PDF));
    upstream.set_file("/a.txt", Reply::body(200, "text/plain", "plain words"));
    let (address, base_url) = (upstream.address(), upstream.base_url());
    let model = |name: &str, target: &str| {
        format!(
            r#"
[models."{name}"]
targets = ["{target}"]
prices = {{ input = "1", output = "1" }}
limits = {{ context_window = 200000, max_output_tokens = {MAX_OUTPUT} }}
input = ["text", "image", "file"]
"#
        )
    };
    let provider = |name: &str, preset: &str| {
        format!(
            "[providers.{name}]\npreset = \"{preset}\"\nbase_url = \"{base_url}\"\napi_key_env = \"PROVIDER_KEY\"\n"
        )
    };
    let config = [
        format!("[egress]\nallow = [\"{address}\"]\n"),
        provider("eastwind", "vllm"),
        provider("southwind", "anthropic"),
        provider("westwind", "openai-responses"),
        model(SEEING, "eastwind/seeing-v1"),
        model(NATIVE, "southwind/native-v1"),
        model(RESPONDING, "westwind/responding-v1"),
    ];
    let options = Scene::options(&upstream, Default::default(), &config.concat());
    let gateway = Gateway::start(BINARY, options).await;
    let account = gateway.account().await;
    let key = gateway.key(&account).await;
    gateway.grant(&account, "1000").await;
    Scene {
        gateway,
        upstream,
        account,
        key,
    }
}

impl Scene {
    /// Returns the URL of a file that the upstream serves.
    fn at(&self, path: &str) -> String {
        format!("http://{}{path}", self.upstream.address())
    }

    fn received(&self, method: &str) -> Vec<ReceivedRequest> {
        let mut requests = self.upstream.requests();
        requests.retain(|request| request.method == method);
        requests
    }
}

fn image(url: &str) -> Value {
    json!({"type": "image_url", "image_url": {"url": url, "detail": "low"}})
}

fn document(url: &str) -> Value {
    json!({"type": "document", "source": {"type": "url", "url": url}})
}

/// Builds a request whose only turn has these parts.
fn asking(model: &str, parts: &[Value]) -> Value {
    json!({"model": model, "max_tokens": 200, "messages": [{"role": "user", "content": parts}]})
}

fn look() -> Value {
    json!({"type": "text", "text": "look"})
}

#[tokio::test]
async fn a_self_hosted_server_receives_the_bytes_of_an_image() {
    let scene = scene().await;
    for stream in [false, true] {
        let url = scene.at("/a.png?size=1");
        let members = json!({"stream": stream, "seed": 7, "temperature": 0.5});
        let body = with(asking(SEEING, &[look(), image(&url), image(PNG_URL)]), members);
        let response = scene.post(CHAT, &body).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let sent = scene.received("POST").pop().unwrap().json().unwrap();
        assert_eq!(
            sent["messages"],
            json!([{"role": "user", "content": [look(), image(PNG_URL), image(PNG_URL)]}])
        );
        assert_eq!((&sent["seed"], &sent["model"]), (&json!(7), &json!("seeing-v1")));
        let asked = scene.received("GET").pop().unwrap();
        assert_eq!(asked.path, "/a.png?size=1");
        for secret in ["authorization", "x-api-key", "cookie"] {
            assert_eq!(asked.header(secret), None);
        }
    }
    // The gateway also fetches URLs in requests of the Messages format.
    let source = json!({"type": "url", "url": scene.at("/a.png")});
    let body = asking(SEEING, &[json!({"type": "image", "source": source}), look()]);
    let response = scene.post("/v1/messages", &body).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let sent = scene.received("POST").pop().unwrap().json().unwrap();
    assert_eq!(sent["messages"][0]["content"][0]["image_url"]["url"], PNG_URL);
    assert_eq!(scene.received("GET").len(), 3, "each file was fetched once");
    scene.finish().await;
}

#[tokio::test]
async fn a_provider_that_accepts_urls_receives_them() {
    let scene = scene().await;
    let url = scene.at("/a.png");
    let response = scene.post(CHAT, &asking(NATIVE, &[look(), image(&url)])).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let sent = scene.received("POST").pop().unwrap().json().unwrap();
    assert_eq!(
        sent["messages"][0]["content"][1]["source"],
        json!({"type": "url", "url": url})
    );
    assert_eq!(scene.received("GET").len(), 0);
    scene.finish().await;
}

#[tokio::test]
async fn documents_are_fetched_for_every_provider() {
    let scene = scene().await;
    let parts = |scene: &Scene| {
        [
            document(&scene.at("/a.pdf")),
            document(&scene.at("/a.txt")),
            json!({"type": "text", "text": "look", "cache_control": {"type": "ephemeral"}}),
        ]
    };
    let response = scene.post("/v1/messages", &asking(NATIVE, &parts(&scene))).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let sent = scene.received("POST").pop().unwrap().json().unwrap();
    assert_eq!(
        sent["messages"][0]["content"],
        json!([
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": PDF_DATA}},
            {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "plain words"}},
            {"type": "text", "text": "look", "cache_control": {"type": "ephemeral"}},
        ])
    );
    // The chat completions format supports only PDF documents.
    let response = scene
        .post(
            "/v1/messages",
            &asking(SEEING, &[parts(&scene)[0].clone(), look()]),
        )
        .await;
    assert_eq!(response.status, 200, "{}", response.text());
    let sent = scene.received("POST").pop().unwrap().json().unwrap();
    assert_eq!(
        sent["messages"][0]["content"][0]["file"]["file_data"],
        format!("data:application/pdf;base64,{PDF_DATA}")
    );
    // The Responses format also supports only PDF documents. Requests in the Responses format may
    // reference documents by URL, too.
    let address = scene.at("/a.pdf");
    let own = json!({"model": RESPONDING, "max_output_tokens": 200, "input": [{"role": "user", "content": [
        {"type": "input_file", "file_url": address}, {"type": "input_text", "text": "look"}
    ]}]});
    let others = asking(RESPONDING, &[document(&address), look()]);
    for (path, body) in [("/v1/responses", own), ("/v1/messages", others)] {
        let response = scene.post(path, &body).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let sent = scene.received("POST").pop().unwrap().json().unwrap();
        assert_eq!(
            sent["input"][0]["content"][0]["file_data"],
            format!("data:application/pdf;base64,{PDF_DATA}")
        );
    }
    let response = scene.post("/v1/messages", &asking(SEEING, &parts(&scene))).await;
    assert_eq!(
        (response.status, &response.json()["error"]["param"]),
        (400, &json!("messages[0].content[1]")),
        "{}",
        response.text()
    );
    scene.finish().await;
}

#[tokio::test]
async fn a_failed_fetch_names_its_parameter_and_costs_nothing() {
    let scene = scene().await;
    let port = scene.upstream.address().port();
    scene.upstream.set_file(
        "/away",
        Reply::body(302, "", "").header("location", "http://169.254.169.254/"),
    );
    scene
        .upstream
        .set_file("/fake.png", Reply::body(200, "image/png", "root:x:0:0"));
    scene.upstream.set_file(
        "/cut.png",
        Reply::body(200, "image/png", PNG).cut(At::End, How::Close),
    );
    let addresses = [
        scene.at("/missing.png"),
        scene.at("/away"),
        scene.at("/fake.png"),
        scene.at("/cut.png"),
        scene.at("/a.pdf"),
        format!("http://user@127.0.0.1:{port}/a.png"),
        format!("http://127.0.0.2:{port}/a.png"),
        format!("http://[::1]:{port}/a.png"),
        "http://127.0.0.1/a.png".to_owned(),
        "http://169.254.169.254/latest/meta-data/".to_owned(),
        "http://127.0.0.1:9464/metrics".to_owned(),
    ];
    for url in addresses {
        let good = scene.at("/a.png");
        let response = scene
            .post(CHAT, &asking(SEEING, &[look(), image(&good), image(&url)]))
            .await;
        assert_error(
            &url,
            &response,
            "invalid_parameter",
            Some("messages[0].content[2]"),
        );
    }
    let many = vec![image(&scene.at("/a.png")); 17];
    let before = scene.received("GET").len();
    let response = scene.post(CHAT, &asking(SEEING, &many)).await;
    assert_error(
        "17 images",
        &response,
        "invalid_parameter",
        Some("messages[0].content[16]"),
    );
    assert_eq!(
        scene.received("GET").len(),
        before,
        "too many images are not fetched"
    );
    let response = scene.post(CHAT, &asking(SEEING, &many[..16])).await;
    assert_eq!(response.status, 200, "{}", response.text());

    assert_eq!(scene.received("POST").len(), 1);
    assert_eq!(scene.rows().await.len(), 1);
    scene.finish().await;
}

#[tokio::test]
async fn the_bytes_of_a_document_are_held() {
    let scene = scene().await;
    let mut pdf = PDF.to_vec();
    pdf.resize(3_000, b'x');
    scene
        .upstream
        .set_file("/large.pdf", Reply::body(200, "application/pdf", pdf));
    let gate = Gate::new();
    scene.upstream.push(Reply::words(1).hold_head(&gate));
    let body = asking(NATIVE, &[document(&scene.at("/large.pdf")), look()]);
    let encoded = i64::try_from("data:application/pdf;base64,".len() + 4_000).unwrap();
    let bound = flat_bound(&body, PRICE, 200) + encoded * PRICE;
    let (response, ()) = tokio::join!(scene.post("/v1/messages", &body), async {
        scene
            .upstream
            .wait_until("the call", |upstream| {
                upstream.requests().iter().any(|request| request.method == "POST")
            })
            .await;
        let held = Balance {
            credits: GRANTED - bound,
            held: bound,
        };
        assert_eq!(scene.balance().await, held);
        gate.open();
    });
    assert_eq!(response.status, 200, "{}", response.text());

    // A balance below the cost of the text is refused before the fetch, a balance below the cost of
    // the bytes after it.
    let poor = scene.gateway.account().await;
    let key = scene.gateway.key(&poor).await;
    let send = async || {
        scene
            .client()
            .send(&Request::json("/v1/messages", &body).key(&key.secret))
            .await
    };
    let before = scene.received("GET").len();
    let response = send().await;
    assert_eq!((response.status, scene.received("GET").len()), (402, before));
    scene.gateway.grant(&poor, &credits(bound - 1)).await;
    let response = send().await;
    assert_eq!((response.status, scene.received("GET").len()), (402, before + 1));
    scene.gateway.grant(&poor, &credits(1)).await;
    let response = send().await;
    assert_eq!(response.status, 200, "{}", response.text());
    scene.finish().await;
}

/// An account whose servers answer slowly uses a few fetch slots, waits for free ones, and delays
/// no other account.
#[tokio::test]
async fn slow_servers_of_one_account_delay_no_other_account() {
    let scene = scene().await;
    let gate = Gate::new();
    scene
        .upstream
        .set_file("/slow.png", Reply::body(200, "image/png", PNG).hold_head(&gate));
    let slow = scene.at("/slow.png");
    let started = || {
        let asked = scene.received("GET");
        asked.iter().filter(|request| request.path == "/slow.png").count()
    };
    let slow_body = asking(SEEING, &[look(), image(&slow)]);
    let attack = async {
        let calls = (0..20).map(|_| scene.post(CHAT, &slow_body));
        futures_util::future::join_all(calls).await
    };
    let other = async {
        eventually("the attack has started", async || started() == 4).await;
        let account = scene.gateway.account().await;
        let key = scene.gateway.key(&account).await;
        scene.gateway.grant(&account, "10").await;
        let body = asking(SEEING, &[look(), image(&scene.at("/a.png"))]);
        let answer = scene.client().post_json(CHAT, &key.secret, &body).await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert_eq!(
            started(),
            4,
            "no slow fetch has ended, and none has started beyond the slots"
        );
    };
    let (answers, ()) = tokio::join!(attack, other);
    let mut refused = 0;
    for answer in answers {
        if answer.status == 503 {
            refused += 1;
            let error = answer.error();
            assert_eq!(error.code, "overloaded");
            assert_eq!(answer.header("retry-after"), Some("5"));
        } else {
            assert_eq!(answer.status, 400, "{}", answer.text());
        }
    }
    assert!(refused >= 12, "calls that wait for a slot are refused: {refused}");
    gate.open();
    scene.finish().await;
}
