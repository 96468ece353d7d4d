//! Credits that are paid for through a payment provider: pages, events, cards that are charged by themselves.

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
/// One that the service renews, and others.
const PLANS: &str = "[plans.team]\nprice = \"15\"\nallowance = \"5\"\npayer = \"provider\"\n\
    [plans.free]\nallowance = \"1\"\npayer = \"provider\"\n[plans.own]\nprice = \"1\"\nallowance = \"1\"\n";

/// A gateway that sells credits at 50 cents, and the service that takes the money.
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

    /// Runs a command of the group that must work.
    async fn run(&self, command: &[&str]) -> Value {
        let command = [&["top-ups"], command].concat();
        self.gateway.command_line().run(&command).await
    }

    /// Opens the page of a top-up.
    async fn page(&self, credits: &str) -> Value {
        self.run(&["open", &self.account, credits]).await
    }

    async fn tell(&self, event: &Event) -> Response {
        let request = Request::post(WEBHOOK, event.body.clone())
            .header("content-type", "application/json; charset=utf-8")
            .header("stripe-signature", event.signature.clone());
        self.gateway.client().send(&request).await
    }

    /// Tells of something that happened now; it must be taken.
    async fn told(&self, kind: &str, object: &Value) {
        let event = self.stripe.stripe_event(kind, object, now());
        let response = self.tell(&event).await;
        assert_eq!(
            (response.status, response.json()),
            (200, json!({"received": true})),
            "{kind}"
        );
    }

    /// Whole credits that can be spent.
    async fn credits(&self) -> i64 {
        self.gateway.balance(&self.account).await.credits / 1_000_000_000
    }

    /// State and failure of each top-up, newest first.
    async fn states(&self) -> Vec<(String, Option<String>)> {
        let found = self.run(&["list", "--account", &self.account]).await;
        let of = |top_up: &Value| {
            let failure = top_up["failure"].as_str().map(str::to_owned);
            (top_up["state"].as_str().unwrap().to_owned(), failure)
        };
        found.as_array().unwrap().iter().map(of).collect()
    }

    /// A balance of 20 credits that was paid with a card, which is kept.
    async fn with_card(&self) {
        self.page("20").await;
        let session = self.stripe.pay(0);
        self.told("checkout.session.completed", &session).await;
    }

    /// Looks at all balances now.
    async fn fill_up(&self) {
        self.run(&["fill-up"]).await;
    }

    /// Makes what was asked of the service look older than it is.
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
async fn what_is_paid_on_a_page_becomes_credits_once() {
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
        let (one, two, three) = tokio::join!(shop.tell(&event), shop.tell(&event), shop.tell(&event));
        assert_eq!([one.status, two.status, three.status], [200; 3]);
        // Told again, in other words, and after all as if it had failed.
        shop.told("checkout.session.async_payment_succeeded", &session)
            .await;
        shop.told("checkout.session.expired", &session).await;
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
async fn what_was_paid_counts_and_not_what_was_asked_for() {
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
        shop.told("checkout.session.completed", &session).await;
        assert_eq!(shop.credits().await, credits, "{total}");
    }
    shop.page("20").await;
    let mut session = shop.stripe.pay(3);
    session["currency"] = json!("jpy");
    let event = shop
        .stripe
        .stripe_event("checkout.session.completed", &session, now());
    assert_error("another currency", &shop.tell(&event).await, "conflict", None);
    assert_eq!(shop.credits().await, 120);
    shop.gateway.finish().await;
}

#[tokio::test]
async fn an_event_that_is_forged_stale_or_broken_moves_nothing() {
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
        assert_error(what, &shop.tell(&event).await, "invalid_parameter", signature);
    }
    let lacking = shop.stripe.stripe_event(
        "checkout.session.completed",
        &json!({"payment_status": "paid"}),
        now(),
    );
    assert_eq!(shop.tell(&lacking).await.status, 200);
    let broken = shop
        .stripe
        .stripe_event("checkout.session.completed", &json!([]), now());
    assert_error("broken", &shop.tell(&broken).await, "invalid_parameter", None);
    let mut unknown = session.clone();
    unknown["client_reference_id"] = json!(format!("topup_{}", "0".repeat(32)));
    let unknown = shop
        .stripe
        .stripe_event("checkout.session.completed", &unknown, now());
    assert_error("unknown", &shop.tell(&unknown).await, "not_found", None);
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
async fn money_that_goes_back_takes_its_credits_along_in_whatever_order_it_is_told() {
    for storage in ENGINES {
        let shop = Shop::open(storage).await;
        shop.page("20").await;
        let session = shop.stripe.pay(0);
        let refund = |total: i64| json!({"payment_intent": session["payment_intent"], "amount_refunded": total, "currency": "usd"});
        let early = shop.stripe.stripe_event("charge.refunded", &refund(250), now());
        assert_error("before the payment", &shop.tell(&early).await, "not_found", None);
        shop.told("checkout.session.completed", &session).await;
        assert_eq!(shop.credits().await, 20);
        for (total, left) in [(250, 15), (250, 15), (100, 15), (600, 8)] {
            shop.told("charge.refunded", &refund(total)).await;
            assert_eq!(shop.credits().await, left, "{total}");
        }
        // A bank takes all of it; what was spent elsewhere is the operator's loss, and other credits stay.
        shop.gateway.grant(&shop.account, "3").await;
        let dispute =
            json!({"payment_intent": session["payment_intent"], "amount": 1_000, "currency": "usd"});
        shop.told("charge.dispute.funds_withdrawn", &dispute).await;
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
async fn a_low_balance_is_filled_up_by_the_card_that_paid_and_within_the_month() {
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
        // The events about the same charges come, too.
        let [_, _, intents] = shop.stripe.stripe_objects();
        for intent in &intents {
            shop.told("payment_intent.succeeded", intent).await;
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
async fn a_card_that_is_declined_is_not_tried_for_ever() {
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
async fn a_charge_whose_answer_was_lost_is_asked_for_again_and_made_once() {
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
        // The list of cards is answered; the charge is made, and its answer is lost.
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
            "no other one is begun meanwhile"
        );
        shop.age(301).await;
        shop.fill_up().await;
        assert_eq!((shop.credits().await, shop.intents()), (30, 1));
        // One that nobody ever told of is given up before the service forgets it.
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
        // And when it was paid after all, it was.
        let [_, _, intents] = shop.stripe.stripe_objects();
        let mut late = intents[1].clone();
        late["status"] = json!("succeeded");
        late["amount_received"] = late["amount"].clone();
        shop.told("payment_intent.succeeded", &late).await;
        assert_eq!(shop.credits().await, 40);
        shop.gateway.finish().await;
    }
}

#[tokio::test]
async fn several_nodes_fill_a_balance_up_once() {
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
async fn what_cannot_be_sold_is_refused_before_the_service_hears_of_it() {
    let shop = Shop::open(Storage::Sqlite).await;
    let command_line = shop.gateway.command_line();
    let nobody = format!("acct_{}", "0".repeat(32));
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
        (vec!["open", &nobody, "20"], 1, "no such account"),
        (vec!["portal", &nobody], 1, "no such account"),
        (vec!["auto", &nobody, "--off"], 1, "no such account"),
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
            "at least one top-up",
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
        down.stderr.contains("does not answer; try again later"),
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
async fn a_gateway_that_sells_nothing_says_so_and_faults_of_the_settings_are_named() {
    let gateway = Gateway::start(BINARY, Options::default()).await;
    let account = gateway.account().await;
    let command_line = gateway.command_line();
    let finished = command_line.try_run(&["top-ups", "open", &account, "20"]).await;
    assert_eq!(finished.code, 2, "{finished:?}");
    assert!(finished.stderr.contains("not sold here"), "{finished:?}");
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
        ("provider = \"paypal\"".to_owned(), "unknown variant `paypal`"),
        ("provider = \"stripe\"".to_owned(), "STRIPE_SECRET_KEY"),
        (sell.to_owned(), "payments.return_url"),
        (
            format!("{sell}return_url = \"example.com\""),
            "begins with https://",
        ),
        (format!("{whole}credit_price = 0"), "payments.credit_price"),
        (format!("{whole}least = \"0\""), "payments.least"),
        (format!("{whole}most = \"4\""), "payments.most"),
        (format!("{whole}most = \"1000001\""), "payments.most"),
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
