//! Top-ups through a payment provider: checkout pages, webhook events, and automatic charges of
//! stored cards.

mod plans;

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::gateway::{Gateway, Options, Storage, execute_embedded, nanos};
use tollgate_testkit::upstream::{Card, Event, FakeUpstream, Reply};

use crate::scene::{BINARY, assert_error};

const ENGINES: [Storage; 2] = [Storage::Sqlite, Storage::Postgres];
const KEY: &str = "sk_test_c4n4ry";
const SECRET: &str = "whsec_c4n4ry";
const WEBHOOK: &str = "/webhooks/stripe";
/// A plan that the payment provider bills, one with the same payer but without a price, and one
/// that is paid with credits.
const PLANS: &str = "[plans.team]\nprice = \"15\"\nallowance = \"5\"\npayer = \"provider\"\n\
    [plans.free]\nallowance = \"1\"\npayer = \"provider\"\n[plans.own]\nprice = \"1\"\nallowance = \"1\"\n";

/// A gateway that sells credits at 50 cents, and the scripted payment provider.
struct Shop {
    gateway: Gateway,
    stripe: FakeUpstream,
    account: String,
}

fn options(stripe: &FakeUpstream, storage: Storage) -> Options {
    Options {
        config: format!(
            "[payments]\nprovider = \"stripe\"\ncredit_price = 50\nreturn_url = \"https://example.com/billing\"\n\
             base_url = \"http://{}\"\n\n{PLANS}",
            stripe.address()
        ),
        storage,
        env: [("STRIPE_SECRET_KEY", KEY), ("STRIPE_WEBHOOK_SECRET", SECRET)]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .to_vec(),
        runner: Vec::new(),
    }
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_secs()).unwrap()
}

impl Shop {
    async fn open(storage: Storage) -> Self {
        let stripe = FakeUpstream::start().await;
        stripe.sell(KEY, SECRET);
        let gateway = Gateway::start(BINARY, options(&stripe, storage)).await;
        let account = gateway.account().await;
        Self {
            gateway,
            stripe,
            account,
        }
    }

    /// Runs a `top-ups` command, which must succeed.
    async fn run(&self, command: &[&str]) -> Value {
        let command = [&["top-ups"], command].concat();
        self.gateway.command_line().run(&command).await
    }

    /// Opens the checkout page of a top-up.
    async fn page(&self, credits: &str) -> Value {
        self.run(&["open", &self.account, credits]).await
    }

    async fn send(&self, event: &Event) -> Response {
        let request = Request::post(WEBHOOK, event.body.clone())
            .header("content-type", "application/json; charset=utf-8")
            .header("stripe-signature", event.signature.clone());
        self.gateway.client().send(&request).await
    }

    /// Delivers an event that happened now; it must be accepted.
    async fn delivered(&self, kind: &str, object: &Value) {
        let event = self.stripe.stripe_event(kind, object, now());
        let response = self.send(&event).await;
        assert_eq!(
            (response.status, response.json()),
            (200, json!({"received": true})),
            "{kind}"
        );
    }

    /// Returns the balance in whole credits.
    async fn credits(&self) -> i64 {
        self.gateway.balance(&self.account).await.credits / 1_000_000_000
    }

    /// Returns state and failure of each top-up, newest first.
    async fn states(&self) -> Vec<(String, Option<String>)> {
        let found = self.run(&["list", "--account", &self.account]).await;
        let of = |top_up: &Value| {
            let failure = top_up["failure"].as_str().map(str::to_owned);
            (top_up["state"].as_str().unwrap().to_owned(), failure)
        };
        found.as_array().unwrap().iter().map(of).collect()
    }

    /// Tops up 20 credits with a card, which is stored.
    async fn with_card(&self) {
        self.page("20").await;
        let session = self.stripe.pay(0);
        self.delivered("checkout.session.completed", &session).await;
    }

    /// Runs the check of all balances now.
    async fn fill_up(&self) {
        self.run(&["fill-up"]).await;
    }

    /// Moves the times of requests to the payment provider into the past.
    async fn age(&self, seconds: i64) {
        let statement = format!(
            "UPDATE top_up SET created_at = created_at - {seconds}000000, updated_at = updated_at - {seconds}000000"
        );
        self.execute(&statement).await;
    }

    async fn execute(&self, statement: &str) {
        match self.gateway.database() {
            Some(database) => database.execute(statement).await,
            None => execute_embedded(&self.gateway.data().join("tollgate.db"), statement).await,
        }
    }

    fn intents(&self) -> usize {
        let [_, _, intents] = self.stripe.stripe_objects();
        intents.len()
    }
}

fn state(state: &str, failure: Option<&str>) -> (String, Option<String>) {
    (state.to_owned(), failure.map(str::to_owned))
}

#[tokio::test]
async fn a_paid_page_adds_its_credits_once() {
    for storage in ENGINES {
        let shop = Shop::open(storage).await;
        let page = shop.page("25.5").await;
        assert!(
            page["url"].as_str().unwrap().starts_with("https://checkout."),
            "{page}"
        );
        assert_eq!(
            (&page["top_up"]["amount"], &page["top_up"]["state"]),
            (&json!(1_275), &json!("pending"))
        );
        assert_eq!(shop.credits().await, 0);
        let session = shop.stripe.pay(0);
        assert_eq!(session["amount_total"], 1_275);
        let event = shop
            .stripe
            .stripe_event("checkout.session.completed", &session, now());
        let (one, two, three) = tokio::join!(shop.send(&event), shop.send(&event), shop.send(&event));
        assert_eq!([one.status, two.status, three.status], [200; 3]);
        // The event is delivered again, in another form, and finally as a failure.
        shop.delivered("checkout.session.async_payment_succeeded", &session)
            .await;
        shop.delivered("checkout.session.expired", &session).await;
        let balance = shop.gateway.balance(&shop.account).await;
        assert_eq!(balance.credits, 25_500_000_000);
        assert_eq!(shop.states().await, [state("paid", None)]);
        let lots = shop
            .gateway
            .command_line()
            .run(&["credits", "list", &shop.account])
            .await;
        assert_eq!(
            (&lots[0]["kind"], lots.as_array().unwrap().len()),
            (&json!("purchase"), 1)
        );
        let note = format!("stripe {}", session["payment_intent"].as_str().unwrap());
        assert_eq!(lots[0]["note"], note);
        shop.gateway.finish().await;
    }
}

#[tokio::test]
async fn the_paid_amount_counts_and_not_the_requested_one() {
    let shop = Shop::open(Storage::Sqlite).await;
    for (number, (total, tax, credits)) in [(3_000, 0, 60), (1_000, 0, 80), (2_400, 400, 120)]
        .into_iter()
        .enumerate()
    {
        shop.page("20").await;
        let mut session = shop.stripe.pay(number);
        session["amount_total"] = json!(total);
        session["total_details"]["amount_tax"] = json!(tax);
        session["metadata"] = json!({"credits": "1000000", "amount_total": "100000000"});
        shop.delivered("checkout.session.completed", &session).await;
        assert_eq!(shop.credits().await, credits, "{total}");
    }
    shop.page("20").await;
    let mut session = shop.stripe.pay(3);
    session["currency"] = json!("jpy");
    let event = shop
        .stripe
        .stripe_event("checkout.session.completed", &session, now());
    assert_error("another currency", &shop.send(&event).await, "conflict", None);
    assert_eq!(shop.credits().await, 120);
    shop.gateway.finish().await;
}

#[tokio::test]
async fn forged_stale_and_broken_events_are_refused() {
    let shop = Shop::open(Storage::Sqlite).await;
    shop.page("20").await;
    let session = shop.stripe.pay(0);
    let paid = |at| {
        shop.stripe
            .stripe_event("checkout.session.completed", &session, at)
    };
    let good = paid(now());
    let signature = Some("stripe-signature");
    let changed = Event {
        body: good.body.replace("1000", "9000"),
        ..good.clone()
    };
    assert_ne!(changed.body, good.body);
    let unsigned = Event {
        signature: String::new(),
        ..good.clone()
    };
    let other = FakeUpstream::start().await;
    other.sell(KEY, "whsec_guessed");
    let guessed = other.stripe_event("checkout.session.completed", &session, now());
    for (what, event) in [
        ("changed", changed),
        ("unsigned", unsigned),
        ("another secret", guessed),
        ("replayed", paid(now() - 400)),
        ("from the future", paid(now() + 400)),
    ] {
        assert_error(what, &shop.send(&event).await, "invalid_parameter", signature);
    }
    let lacking = shop.stripe.stripe_event(
        "checkout.session.completed",
        &json!({"payment_status": "paid"}),
        now(),
    );
    assert_eq!(shop.send(&lacking).await.status, 200);
    let broken = shop
        .stripe
        .stripe_event("checkout.session.completed", &json!([]), now());
    assert_error("broken", &shop.send(&broken).await, "invalid_parameter", None);
    let mut unknown = session.clone();
    unknown["client_reference_id"] = json!(format!("topup_{}", "0".repeat(32)));
    let unknown = shop
        .stripe
        .stripe_event("checkout.session.completed", &unknown, now());
    assert_error("unknown", &shop.send(&unknown).await, "not_found", None);
    let elsewhere = Request::post("/webhooks/other", "{}").header("content-type", "application/json");
    let elsewhere = shop.gateway.client().send(&elsewhere).await;
    assert_error("another provider", &elsewhere, "not_found", None);
    let large = Request::post(WEBHOOK, vec![b' '; (1 << 20) + 1]).header("content-type", "application/json");
    let large = shop.gateway.client().send(&large).await;
    assert_error("large", &large, "request_too_large", None);
    assert_eq!(shop.credits().await, 0);
    assert_eq!(shop.states().await, [state("pending", None)]);
    assert!(!shop.gateway.log().contains("c4n4ry"));
    shop.gateway.finish().await;
}

#[tokio::test]
async fn refunds_and_disputes_remove_credits_in_any_event_order() {
    for storage in ENGINES {
        let shop = Shop::open(storage).await;
        shop.page("20").await;
        let session = shop.stripe.pay(0);
        let refund = |total: i64| json!({"payment_intent": session["payment_intent"], "amount_refunded": total, "currency": "usd"});
        let early = shop.stripe.stripe_event("charge.refunded", &refund(250), now());
        assert_error("before the payment", &shop.send(&early).await, "not_found", None);
        shop.delivered("checkout.session.completed", &session).await;
        assert_eq!(shop.credits().await, 20);
        for (total, left) in [(250, 15), (250, 15), (100, 15), (600, 8)] {
            shop.delivered("charge.refunded", &refund(total)).await;
            assert_eq!(shop.credits().await, left, "{total}");
        }
        // A bank reverses the whole payment. Credits that were already spent are the operator's
        // loss, and granted credits stay.
        shop.gateway.grant(&shop.account, "3").await;
        let dispute =
            json!({"payment_intent": session["payment_intent"], "amount": 1_000, "currency": "usd"});
        shop.delivered("charge.dispute.funds_withdrawn", &dispute).await;
        assert_eq!(shop.credits().await, 3);
        let found = shop.run(&["list"]).await;
        assert_eq!(
            (&found[0]["returned"], &found[0]["state"]),
            (&json!(1_000), &json!("paid"))
        );
        shop.gateway.finish().await;
    }
}

#[tokio::test]
async fn a_low_balance_is_topped_up_within_the_monthly_limit() {
    for storage in ENGINES {
        let shop = Shop::open(storage).await;
        shop.with_card().await;
        let account = shop.account.clone();
        let set = |below: &'static str| {
            [
                "auto",
                account.as_str(),
                "--below",
                below,
                "--add",
                "10",
                "--monthly-limit",
                "25",
            ]
            .map(str::to_owned)
        };
        let run = async |shop: &Shop, command: [String; 8]| {
            let command = command.each_ref().map(String::as_str);
            shop.run(&command).await
        };
        let auto = run(&shop, set("20")).await;
        assert_eq!(
            (nanos(&auto["below"]), &auto["failures"]),
            (20_000_000_000, &json!(0))
        );
        shop.fill_up().await;
        assert_eq!(
            (shop.credits().await, shop.intents()),
            (20, 0),
            "20 is not below 20"
        );
        run(&shop, set("100")).await;
        for credits in [30, 40, 40] {
            shop.fill_up().await;
            assert_eq!(shop.credits().await, credits);
        }
        assert_eq!(shop.intents(), 2);
        // The events of the same charges also arrive.
        let [_, _, intents] = shop.stripe.stripe_objects();
        for intent in &intents {
            shop.delivered("payment_intent.succeeded", intent).await;
        }
        assert_eq!(shop.credits().await, 40);
        let paid = state("paid", None);
        assert_eq!(shop.states().await, [paid.clone(), paid.clone(), paid]);
        shop.run(&["auto", &account, "--off"]).await;
        assert_eq!(shop.run(&["auto", &account]).await, Value::Null);
        shop.gateway.finish().await;
    }
}

#[tokio::test]
async fn a_declined_card_is_not_retried_forever() {
    let shop = Shop::open(Storage::Sqlite).await;
    shop.with_card().await;
    shop.stripe.keep_cards(Card::Declined);
    let account = shop.account.clone();
    let set = [
        "auto",
        &account,
        "--below",
        "100",
        "--add",
        "10",
        "--monthly-limit",
        "1000",
    ];
    shop.run(&set).await;
    for failures in [1, 2, 3, 3] {
        shop.fill_up().await;
        let auto = shop.run(&["auto", &account]).await;
        assert_eq!(auto["failures"], failures);
    }
    let declined = state("failed", Some("insufficient_funds"));
    let paid = state("paid", None);
    assert_eq!(
        shop.states().await,
        [declined.clone(), declined.clone(), declined, paid]
    );
    shop.stripe.keep_cards(Card::Pays);
    shop.run(&set).await;
    shop.fill_up().await;
    assert_eq!(shop.credits().await, 30);
    assert_eq!(shop.run(&["auto", &account]).await["failures"], 0);
    shop.gateway.finish().await;
}

#[tokio::test]
async fn a_charge_with_a_lost_response_is_retried_and_made_once() {
    for storage in ENGINES {
        let shop = Shop::open(storage).await;
        shop.with_card().await;
        let account = shop.account.clone();
        shop.run(&[
            "auto",
            &account,
            "--below",
            "30",
            "--add",
            "10",
            "--monthly-limit",
            "1000",
        ])
        .await;
        // The list of cards is answered. The charge is made, and its response is lost.
        let list = json!({"object": "list", "data": [{"id": "pm_cus_00000001"}]}).to_string();
        shop.stripe
            .push_for_stripe(Reply::body(200, "application/json", list), false);
        shop.stripe
            .push_for_stripe(Reply::body(502, "text/html", "<html>"), true);
        shop.fill_up().await;
        assert_eq!((shop.credits().await, shop.intents()), (20, 1));
        let before = shop.states().await;
        assert_eq!(before[0], state("pending", None));
        shop.fill_up().await;
        assert_eq!(
            (shop.states().await, shop.intents()),
            (before, 1),
            "no other charge is started meanwhile"
        );
        shop.age(301).await;
        shop.fill_up().await;
        assert_eq!((shop.credits().await, shop.intents()), (30, 1));
        // A charge without any event is abandoned before the payment provider deletes its
        // idempotency key.
        shop.stripe.keep_cards(Card::Processing);
        shop.run(&[
            "auto",
            &account,
            "--below",
            "40",
            "--add",
            "10",
            "--monthly-limit",
            "1000",
        ])
        .await;
        shop.fill_up().await;
        shop.age(23 * 60 * 60).await;
        shop.run(&["auto", &account, "--off"]).await;
        shop.fill_up().await;
        assert_eq!(shop.states().await[0], state("failed", Some("no_answer")));
        assert_eq!(shop.intents(), 2);
        // A late success of the charge is still credited.
        let [_, _, intents] = shop.stripe.stripe_objects();
        let mut late = intents[1].clone();
        late["status"] = json!("succeeded");
        late["amount_received"] = late["amount"].clone();
        shop.delivered("payment_intent.succeeded", &late).await;
        assert_eq!(shop.credits().await, 40);
        shop.gateway.finish().await;
    }
}

#[tokio::test]
async fn several_nodes_top_up_a_balance_once() {
    let mut shop = Shop::open(Storage::Postgres).await;
    shop.with_card().await;
    let account = shop.account.clone();
    shop.run(&[
        "auto",
        &account,
        "--below",
        "30",
        "--add",
        "10",
        "--monthly-limit",
        "1000",
    ])
    .await;
    shop.gateway.stop().await;
    let options = || options(&shop.stripe, Storage::Postgres);
    let nodes = tokio::join!(
        shop.gateway.start_node(options()),
        shop.gateway.start_node(options()),
        shop.gateway.start_node(options()),
    );
    let run = async |node: &Gateway| node.command_line().run(&["top-ups", "fill-up"]).await;
    tokio::join!(run(&nodes.0), run(&nodes.1), run(&nodes.2));
    assert_eq!(shop.intents(), 1);
    assert_eq!(nodes.0.balance(&account).await.credits, 30_000_000_000);
    nodes.1.finish().await;
    nodes.2.finish().await;
    nodes.0.finish().await;
}

#[tokio::test]
async fn invalid_top_ups_are_refused_before_any_provider_call() {
    let shop = Shop::open(Storage::Sqlite).await;
    let command_line = shop.gateway.command_line();
    let unknown = format!("acct_{}", "0".repeat(32));
    for (command, code, said) in [
        (
            vec!["open", &shop.account, "4.999999999"],
            2,
            "5 to 10000 credits",
        ),
        (
            vec!["open", &shop.account, "10000.000000001"],
            2,
            "5 to 10000 credits",
        ),
        (vec!["open", &unknown, "20"], 1, "account does not exist"),
        (vec!["portal", &unknown], 1, "account does not exist"),
        (vec!["auto", &unknown, "--off"], 1, "account does not exist"),
        (
            vec![
                "auto",
                &shop.account,
                "--below",
                "0",
                "--add",
                "10",
                "--monthly-limit",
                "10",
            ],
            2,
            "above 0",
        ),
        (
            vec![
                "auto",
                &shop.account,
                "--below",
                "1",
                "--add",
                "10",
                "--monthly-limit",
                "9",
            ],
            2,
            "must be at least 'amount'",
        ),
        (vec!["auto", &shop.account, "--below", "1"], 2, "--add"),
    ] {
        let finished = command_line
            .try_run(&[vec!["top-ups"], command.clone()].concat())
            .await;
        assert_eq!(finished.code, code, "{command:?} {finished:?}");
        assert!(finished.stderr.contains(said), "{command:?} {finished:?}");
    }
    assert_eq!(shop.stripe.request_count(), 0);
    for credits in ["5", "10000"] {
        shop.page(credits).await;
    }
    shop.stripe
        .push_for_stripe(Reply::body(503, "text/plain", "busy"), false);
    let down = command_line
        .try_run(&["top-ups", "open", &shop.account, "20"])
        .await;
    assert_eq!(down.code, 1, "{down:?}");
    assert!(
        down.stderr.contains("payment provider is unavailable"),
        "{down:?}"
    );
    assert_eq!(shop.states().await[0], state("failed", Some("not_opened")));
    let portal = shop.run(&["portal", &shop.account]).await;
    assert!(
        portal["url"].as_str().unwrap().starts_with("https://billing."),
        "{portal}"
    );
    shop.gateway.finish().await;
}

#[tokio::test]
async fn without_payments_top_ups_are_refused_and_setting_faults_are_named() {
    let gateway = Gateway::start(BINARY, Options::default()).await;
    let account = gateway.account().await;
    let command_line = gateway.command_line();
    let finished = command_line.try_run(&["top-ups", "open", &account, "20"]).await;
    assert_eq!(finished.code, 2, "{finished:?}");
    assert!(finished.stderr.contains("Sales are disabled"), "{finished:?}");
    let event = Request::post(WEBHOOK, "{}").header("content-type", "application/json");
    assert_error(
        "nothing is sold",
        &gateway.client().send(&event).await,
        "not_found",
        None,
    );
    let sell = "provider = \"stripe\"\nsecret_key_file = \"key\"\nwebhook_secret_file = \"key\"\n";
    std::fs::write(gateway.folder().join("key"), "sk_test_1\n").unwrap();
    let whole = format!("{sell}return_url = \"https://example.com\"\n");
    for (section, said) in [
        ("provider = \"paypal\"".to_owned(), "not \"paypal\""),
        ("provider = \"stripe\"".to_owned(), "STRIPE_SECRET_KEY"),
        (sell.to_owned(), "payments.return_url"),
        (
            format!("{sell}return_url = \"example.com\""),
            "starts with http:// or https://",
        ),
        (format!("{whole}credit_price = 0"), "payments.credit_price"),
        (format!("{whole}min_amount = \"0\""), "payments.min_amount"),
        (format!("{whole}max_amount = \"4\""), "payments.max_amount"),
        (format!("{whole}max_amount = \"1000001\""), "payments.max_amount"),
        (format!("{whole}currency = \"dollar\""), "three letters"),
        (format!("{whole}base_url = \"http://example.com\""), "not https"),
    ] {
        gateway.write_config(&format!("[server]\ndiscover = false\n[payments]\n{section}\n"));
        let finished = command_line.try_run(&["config", "check"]).await;
        let everything = format!("{}{}", finished.stdout, finished.stderr);
        assert_ne!(finished.code, 0, "{section} {everything}");
        assert!(everything.contains(said), "{section}: {everything}");
    }
    gateway.write_config(&format!("[server]\ndiscover = false\n[payments]\n{whole}"));
    assert_eq!(command_line.try_run(&["config", "check"]).await.code, 0);
    gateway.finish().await;
}
