//! `tollgate move`: an installation with real data moves to PostgreSQL and back without visible
//! changes.

mod interrupted;
mod refusals;

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::gateway::{
    CommandLine, Database, Gateway, Storage, eventually, execute_embedded, nanos,
};
use tollgate_testkit::upstream::{FakeUpstream, Gate, Reply};

use crate::scene::{BINARY, CHAT, GRANTED, MODEL, PLAIN, Scene, assert_error, hello, saying, with};

const RESPONSES: &str = "/v1/responses";
const STRIPE: [(&str, &str); 2] = [
    ("STRIPE_SECRET_KEY", "sk_test_c4n4ry"),
    ("STRIPE_WEBHOOK_SECRET", "whsec_c4n4ry"),
];
const EXPORTS: [[&str; 5]; 2] = [
    ["ledger", "export", "--all", "--format", "csv"],
    ["usage", "export", "--all", "--format", "jsonl"],
];

/// A gateway on SQLite with every kind of data that an installation can have.
struct UsedInstallation {
    scene: Scene,
    stripe: FakeUpstream,
    config: String,
    other_account: String,
    keys: Keys,
    /// Id of the last of two stored responses.
    stored_id: String,
    /// The response to a request with an idempotency key.
    keyed: Response,
}

struct Keys {
    other: String,
    test: String,
    revoked: String,
}

impl UsedInstallation {
    async fn start() -> UsedInstallation {
        let (upstream, stripe) = (FakeUpstream::start().await, FakeUpstream::start().await);
        stripe.sell(STRIPE[0].1, STRIPE[1].1);
        let more = format!(
            "[plans.week]\nprice = \"1\"\nallowance = \"0.00001\"\nmodels = [\"*/plain\"]\n\
             [payments]\nprovider = \"stripe\"\ncredit_price = 50\nreturn_url = \"https://example.com/billing\"\n\
             base_url = \"http://{}\"\n",
            stripe.address()
        );
        let mut options = Scene::options(&upstream, Storage::Sqlite, &more);
        options
            .env
            .extend(STRIPE.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let config = options.config.clone();
        let gateway = Gateway::start(BINARY, options).await;
        let (account, other_account) = (gateway.account().await, gateway.account().await);
        let key = gateway.key(&account).await;
        let command_line = gateway.command_line();
        for grant in [
            &["1000"][..],
            &[
                "5",
                "--kind",
                "promotion",
                "--expires-in-days",
                "30",
                "--note",
                "launch, \"week\"",
            ],
            &["2", "--priority", "7", "--expires-at", "2999-01-01"],
        ] {
            command_line
                .run(&[&["credits", "grant", &account], grant].concat())
                .await;
        }
        gateway.grant(&other_account, "0.5").await;
        let keys = make_keys(&gateway, &account, &other_account).await;
        let scene = Scene {
            gateway,
            upstream,
            account,
            key,
        };
        let stored_id = calls(&scene, &keys).await;
        let keyed = keyed(&scene).await;
        top_ups(&scene, &stripe).await;
        UsedInstallation {
            scene,
            stripe,
            config,
            other_account,
            keys,
            stored_id,
            keyed,
        }
    }

    fn command_line(&self) -> CommandLine {
        self.scene.gateway.command_line()
    }

    /// Returns the path of the SQLite database that the gateway started with.
    fn embedded(&self) -> PathBuf {
        self.scene.gateway.data().join("tollgate.db")
    }

    /// Changes the database URL in the settings. The path of the pepper stays the same.
    fn settle_at(&mut self, url: &str) {
        let pepper = self.scene.gateway.data().join("secrets/pepper");
        let place = format!(
            "[storage]\nurl = \"{url}\"\nmax_connections = 6\n[service]\npepper_file = \"{}\"\n",
            pepper.display()
        );
        self.scene.gateway.change_config(&(self.config.clone() + &place));
    }

    /// Returns the output of the list and export commands, without time-dependent values.
    async fn seen(&self) -> Vec<(String, Value)> {
        let command_line = self.command_line();
        let mut seen = Vec::new();
        for account in [&self.scene.account, &self.other_account] {
            for command in [
                &["accounts", "show", account][..],
                &["credits", "list", account, "--all"],
                &["keys", "list", "--account", account],
                &["subscriptions", "list", "--account", account],
                &["top-ups", "list", "--account", account],
            ] {
                seen.push((command.join(" "), command_line.run(command).await));
            }
        }
        for export in EXPORTS {
            seen.push((export.join(" "), json!(exported(&command_line, &export).await)));
        }
        seen
    }

    async fn assert_seen(&self, before: &[(String, Value)]) {
        for ((what, before), (_, now)) in before.iter().zip(self.seen().await) {
            assert_eq!(*before, now, "{what}");
        }
        let check = self.command_line().check().await;
        assert!(check.clean && check.transfers > 10, "{check:?}");
    }

    /// Asserts that callers have the same keys and balance, and that earlier conversations and
    /// idempotency keys still work.
    async fn assert_served(&self) {
        let (scene, client) = (&self.scene, self.scene.client());
        let before = scene.balance().await;
        let again = client.send(&keyed_request(scene)).await;
        assert_eq!(
            again.header("idempotency-replayed"),
            Some("true"),
            "{}",
            again.text()
        );
        assert_eq!(
            (again.status, again.body()),
            (self.keyed.status, self.keyed.body())
        );
        assert_eq!(scene.balance().await, before);

        let body = json!({"model": MODEL, "input": "and then?", "previous_response_id": self.stored_id});
        let response = client.post_json(RESPONSES, &scene.key.secret, &body).await;
        assert_eq!(response.status, 200, "{}", response.text());
        let sent = scene.upstream.requests().pop().unwrap().json().unwrap();
        assert_eq!(sent["messages"].as_array().unwrap().len(), 5, "{sent}");

        let used = |usage: Value| nanos(&usage["plan"]["weekly_window"]["used"]);
        let week = used(scene.gateway.usage(&scene.key.secret, "").await);
        assert!(week > 0);
        let covered = client.post_json(CHAT, &scene.key.secret, &covered()).await;
        assert_eq!(covered.status, 200, "{}", covered.text());
        scene.settled().await;
        assert!(used(scene.gateway.usage(&scene.key.secret, "").await) > week);

        let charged = client
            .post_json(CHAT, &self.keys.other, &saying("more", true))
            .await;
        assert_eq!(charged.status, 200, "{}", charged.text());
        let revoked = client
            .post_json(CHAT, &self.keys.revoked, &hello(json!({})))
            .await;
        assert_error("a revoked key", &revoked, "invalid_api_key", None);
        let simulated = hello(json!({"model": "sim/chat"}));
        let simulated = client.post_json(CHAT, &self.keys.test, &simulated).await;
        assert_eq!(simulated.status, 200, "{}", simulated.text());
    }
}

async fn make_keys(gateway: &Gateway, account: &str, other_account: &str) -> Keys {
    let command_line = gateway.command_line();
    let create = [
        "keys",
        "create",
        "--account",
        account,
        "--name",
        "for tests",
        "--test",
    ];
    let test = command_line.run(&create).await;
    let revoked = gateway.key(account).await;
    command_line.run(&["keys", "revoke", &revoked.id]).await;
    Keys {
        other: gateway.key(other_account).await.secret,
        test: test["key"].as_str().unwrap().to_owned(),
        revoked: revoked.secret,
    }
}

fn covered() -> Value {
    with(hello(json!({"model": PLAIN})), json!({"max_tokens": 1}))
}

/// Makes calls that are charged, covered by a plan, refunded and stored. Returns the id of the last
/// stored response.
async fn calls(scene: &Scene, keys: &Keys) -> String {
    let (client, command_line) = (scene.client(), scene.gateway.command_line());
    let create = [
        "subscriptions",
        "create",
        "--account",
        &scene.account,
        "--plan",
        "week",
    ];
    command_line.run(&create).await;
    for body in [hello(json!({})), saying("Hi", true), covered()] {
        for key in [&scene.key.secret, &keys.other] {
            let response = client.post_json(CHAT, key, &body).await;
            assert_eq!(response.status, 200, "{}", response.text());
        }
    }
    let request = scene.chat(&hello(json!({}))).await.request_id().to_owned();
    scene.row(&request).await;
    let refund = ["credits", "refund", &request, "--reason", "slow"];
    command_line.run(&refund).await;
    let mut stored_id = Value::Null;
    for input in ["one", "two"] {
        let body = json!({"model": MODEL, "input": input, "previous_response_id": stored_id});
        let response = client.post_json(RESPONSES, &scene.key.secret, &body).await;
        assert_eq!(response.status, 200, "{}", response.text());
        stored_id = response.json()["id"].clone();
    }
    stored_id.as_str().unwrap().to_owned()
}

fn keyed_request(scene: &Scene) -> Request {
    scene
        .request(&hello(json!({"max_tokens": 17})))
        .header("idempotency-key", "order-17")
}

async fn keyed(scene: &Scene) -> Response {
    let response = scene.client().send(&keyed_request(scene)).await;
    assert_eq!(response.status, 200, "{}", response.text());
    scene.settled().await;
    response
}

/// Makes a paid top-up, an unpaid one, and an automatic top-up.
async fn top_ups(scene: &Scene, stripe: &FakeUpstream) {
    let command_line = scene.gateway.command_line();
    for credits in ["20", "30"] {
        command_line
            .run(&["top-ups", "open", &scene.account, credits])
            .await;
    }
    let auto = [
        "top-ups",
        "auto",
        &scene.account,
        "--below",
        "1",
        "--add",
        "25",
        "--monthly-limit",
        "200",
    ];
    command_line.run(&auto).await;
    let session = stripe.pay(0);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let event = stripe.stripe_event(
        "checkout.session.completed",
        &session,
        i64::try_from(now).unwrap(),
    );
    let request = Request::post("/webhooks/stripe", event.body.clone())
        .header("content-type", "application/json; charset=utf-8")
        .header("stripe-signature", event.signature.clone());
    let delivered = scene.client().send(&request).await;
    assert_eq!(delivered.status, 200, "{}", delivered.text());
}

async fn exported(command_line: &CommandLine, export: &[&str]) -> String {
    let finished = command_line.try_run(export).await;
    assert_eq!(finished.code, 0, "{finished:?}");
    finished.stdout
}

fn sqlite(file: &Path) -> String {
    format!("sqlite:{}", file.display())
}

/// Returns each table in the report of `move`, with its number of rows.
fn rows(moved: &Value) -> Vec<(String, u64)> {
    let tables = moved["tables"].as_array().unwrap().iter();
    tables
        .map(|table| {
            (
                table["table"].as_str().unwrap().to_owned(),
                table["rows"].as_u64().unwrap(),
            )
        })
        .collect()
}

/// Tables that have rows in this installation. A stopped installation has no open holds.
const FILLED: [&str; 16] = [
    "account",
    "api_key",
    "auto_top_up",
    "credit_lot",
    "idempotency",
    "ledger_account",
    "payer",
    "price_version",
    "refund",
    "response",
    "response_item",
    "subscription",
    "subscription_event",
    "top_up",
    "transfer",
    "usage_row",
];

#[tokio::test]
async fn an_installation_moves_to_postgresql_and_back() {
    let mut used = UsedInstallation::start().await;
    let database = Database::create().await;
    let (there, here) = (database.url(), sqlite(&used.embedded()));
    used.scene.gateway.stop().await;
    let before = used.seen().await;
    let embedded = std::fs::read(used.embedded()).unwrap();

    used.settle_at(&there);
    used.command_line().run(&["migrate"]).await;
    let moved = used
        .command_line()
        .run(&["move", "--from", &here, "--to", &there])
        .await;
    assert_eq!(
        (&moved["from"], &moved["to"], &moved["ledger"]["clean"]),
        (&json!("sqlite"), &json!("postgres"), &json!(true)),
        "{moved}"
    );
    assert_eq!(
        moved["accounts"], 3,
        "two accounts, and the one of the first start: {moved}"
    );
    let rows = rows(&moved);
    for table in FILLED {
        let moved = rows.iter().find(|(name, _)| name == table);
        assert!(moved.is_some_and(|(_, rows)| *rows > 0), "{table}: {rows:?}");
    }
    assert_eq!(
        std::fs::read(used.embedded()).unwrap(),
        embedded,
        "the source is unchanged"
    );
    used.assert_seen(&before).await;
    used.scene.gateway.restart().await;
    used.assert_served().await;

    // The old SQLite database does not have these calls, so no gateway may be started on it again.
    used.scene.gateway.stop().await;
    let before = used.seen().await;
    let back = sqlite(&used.embedded().parent().unwrap().join("back/tollgate.db"));
    let moved_back = used
        .command_line()
        .run(&["move", "--from", &there, "--to", &back])
        .await;
    assert_ne!(moved_back["rows"], moved["rows"]);
    used.settle_at(&back);
    used.assert_seen(&before).await;
    used.scene.gateway.restart().await;
    used.assert_served().await;
    assert_eq!(used.stripe.stripe_objects().len(), 3);
    used.scene.finish().await;
}

/// Open holds of a dead node are moved, too, and are released when they expire.
#[tokio::test]
async fn open_holds_move_along() {
    let mut scene = Scene::start_on(Storage::Postgres, "").await;
    scene.upstream.push(Reply::words(3).hold_head(&Gate::new()));
    let mut connection = scene.client().connect().await;
    connection
        .write(&scene.request(&hello(json!({}))).bytes())
        .await
        .unwrap();
    scene.upstream.wait_for_requests(1).await;
    scene.gateway.kill().await;
    let database = scene.gateway.database().unwrap().url();
    let file = scene.gateway.data().join("new/tollgate.db");
    let (new, command_line) = (sqlite(&file), scene.gateway.command_line());
    eventually("the connections of the node are closed", async || {
        let moved = command_line
            .try_run(&["move", "--from", &database, "--to", &new])
            .await;
        moved.code == 0
    })
    .await;
    scene.gateway.change_config(&format!(
        "{}[storage]\nurl = \"{new}\"\n",
        crate::scene::settings(&scene.upstream)
    ));
    scene.gateway.restart().await;
    let held = scene.balance().await;
    assert!(held.held > 0 && held.credits + held.held == GRANTED, "{held:?}");
    scene.gateway.stop().await;
    execute_embedded(&file, "UPDATE hold SET expires_at = created_at").await;
    scene.gateway.restart().await;
    let balance = scene.balance().await;
    assert_eq!((balance.credits, balance.held), (GRANTED, 0));
    assert_eq!(scene.rows().await[0]["outcome"], "crashed");
    scene.finish().await;
}

/// The text output reports the verification of the move and the settings to change. It contains no
/// secret and no database URL.
#[tokio::test]
async fn the_output_names_the_settings_to_change() {
    let mut scene = Scene::start().await;
    let database = Database::create().await;
    scene.chat(&hello(json!({}))).await;
    scene.settled().await;
    // Calls of a dead process are voided before the move.
    scene.gateway.kill().await;
    let pepper = scene.gateway.data().join("secrets/pepper");
    let here = sqlite(&scene.gateway.data().join("tollgate.db"));
    let command_line = scene.gateway.command_line();
    migrate(&mut scene, &database, &pepper).await;
    let moved = command_line
        .try_run(&["move", "--from", &here, "--to", &database.url()])
        .await;
    assert_eq!(moved.code, 0, "{moved:?}");
    for text in [
        "from sqlite to postgres (accounts: 2, rows: ",
        "The ledger is clean.",
        "the address from --to",
        &format!(
            "service.pepper_file = \"{}\"",
            pepper.canonicalize().unwrap().display()
        ),
        "Never start the gateway on the old database again",
        "usage_row",
    ] {
        assert!(moved.stdout.contains(text), "{text:?} in {moved:?}");
    }
    assert!(moved.stderr.contains("copied    transfer"), "{moved:?}");
    let secret = std::fs::read_to_string(&pepper).unwrap();
    for secret in [secret.trim(), &database.url()] {
        assert!(
            !(moved.stdout.clone() + &moved.stderr).contains(secret),
            "{moved:?}"
        );
    }
}

/// Migrates an empty database. The settings are the same before and after.
async fn migrate(scene: &mut Scene, database: &Database, pepper: &Path) {
    let settings = crate::scene::settings(&scene.upstream);
    let place = format!(
        "[storage]\nurl = \"{}\"\n[service]\npepper_file = \"{}\"\n",
        database.url(),
        pepper.display()
    );
    scene.gateway.change_config(&(settings.clone() + &place));
    scene.gateway.command_line().run(&["migrate"]).await;
    scene.gateway.change_config(&settings);
}
