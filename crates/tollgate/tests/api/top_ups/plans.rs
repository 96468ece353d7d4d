//! Plans that the payment provider renews by itself.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::gateway::{Gateway, Storage, eventually};
use tollgate_testkit::upstream::{Event, FakeUpstream, Reply};

use super::{ENGINES, KEY, Shop, WEBHOOK, now, options};
use crate::admin;
use crate::scene::{CHAT, assert_error, hello};

const DAY: i64 = 24 * 60 * 60;
/// A month of the service.
const MONTH: i64 = 30 * DAY;

impl Shop {
    /// Opens a page of a plan; the subscription that it begins.
    async fn plan_page(&self) -> String {
        let open = [
            "subscriptions",
            "open",
            "--account",
            &self.account,
            "--plan",
            "team",
        ];
        let page = self.gateway.command_line().run(&open).await;
        assert!(
            page["url"].as_str().unwrap().starts_with("https://checkout."),
            "{page}"
        );
        page["subscription"].as_str().unwrap().to_owned()
    }

    /// A plan that was begun on a page at an instant, as the service has told; the subscription, and its first invoice.
    async fn with_plan(&self, at: i64) -> (String, Value) {
        let id = self.plan_page().await;
        let invoice = self.stripe.begin_plan(0, at);
        self.told("invoice.paid", &invoice).await;
        (id, invoice)
    }

    async fn subscription(&self, id: &str) -> Value {
        self.gateway
            .command_line()
            .run(&["subscriptions", "show", id])
            .await
    }

    async fn wish(&self, wish: &str, id: &str) -> Value {
        self.gateway
            .command_line()
            .run(&["subscriptions", wish, id])
            .await
    }

    /// What happened to it, without its making.
    async fn events(&self, id: &str) -> Vec<String> {
        let found = self.subscription(id).await;
        let events = found["events"].as_array().unwrap().iter();
        let kinds = events.map(|event| event["kind"].as_str().unwrap().to_owned());
        kinds.skip(1).collect()
    }

    /// The status of a call that nothing but a plan can pay.
    async fn call(&self, key: &str) -> u16 {
        let body = hello(json!({"model": "sim/chat"}));
        let response = self.gateway.client().post_json(CHAT, key, &body).await;
        response.status
    }

    /// Tells of something that cannot be taken.
    async fn refused(&self, kind: &str, object: &Value) -> Response {
        self.tell(&self.stripe.stripe_event(kind, object, now())).await
    }

    /// Waits until the service has a subscription as it should be.
    async fn until_plan(&self, number: usize, is_right: impl Fn(&Value) -> bool) {
        eventually("the service hears of it", async || is_right(&self.plan(number))).await;
    }

    fn plan(&self, number: usize) -> Value {
        let [plans, _] = self.stripe.stripe_plans();
        plans[number].clone()
    }
}

/// State, number of the period that was paid last, and until when that is.
fn standing(found: &Value) -> (&str, i64, String) {
    (
        found["state"].as_str().unwrap(),
        found["period"].as_i64().unwrap(),
        found["paid_through"].as_str().unwrap().to_owned(),
    )
}

/// Until when an invoice pays: a day longer than it says.
fn paid_through(invoice: &Value) -> String {
    let end = invoice["lines"]["data"][0]["period"]["end"].as_i64().unwrap() + DAY;
    tollgate_types::Timestamp::from_micros(end * 1_000_000).to_rfc3339()
}

#[tokio::test]
async fn a_plan_begins_when_it_is_paid_and_goes_on_with_every_invoice() {
    for storage in ENGINES {
        let shop = Shop::open(storage).await;
        let id = shop.plan_page().await;
        let command_line = shop.gateway.command_line();
        let show = ["subscriptions", "show", id.as_str()];
        assert!(
            command_line
                .try_run(&show)
                .await
                .stderr
                .contains("no such subscription")
        );
        let first = shop.stripe.begin_plan(0, now());
        assert_eq!(
            (&first["amount_paid"], &first["currency"]),
            (&json!(750), &json!("usd"))
        );
        let [_, sessions, _] = shop.stripe.stripe_objects();
        let page = shop
            .stripe
            .stripe_event("checkout.session.completed", &sessions[0], now());
        let event = shop.stripe.stripe_event("invoice.paid", &first, now());
        let (one, two, three) = tokio::join!(shop.tell(&event), shop.tell(&page), shop.tell(&event));
        assert_eq!([one.status, two.status, three.status], [200; 3]);
        let begun = shop.subscription(&id).await;
        assert_eq!(standing(&begun), ("active", 0, paid_through(&first)));
        assert_eq!(
            (&begun["subject"], &begun["payer"], &begun["week"]["limit"]),
            (&json!("team"), &json!("provider"), &json!("5"))
        );
        assert_eq!(
            begun["renewed_by"],
            json!({"provider": "stripe", "reference": shop.plan(0)["id"], "amount": 750, "currency": "usd",
                "invoice": first["id"], "course": "renews"})
        );

        let second = shop.stripe.bill_plan(0, true);
        let event = shop.stripe.stripe_event("invoice.paid", &second, now());
        let (one, two) = tokio::join!(shop.tell(&event), shop.tell(&event));
        assert_eq!([one.status, two.status], [200; 2]);
        shop.told("invoice.paid", &first).await;
        assert_eq!(
            standing(&shop.subscription(&id).await),
            ("active", 1, paid_through(&second))
        );
        // The later one comes first, and as it was told before 2025.
        let third = shop.stripe.bill_plan(0, true);
        let mut fourth = shop.stripe.bill_plan(0, true);
        fourth["subscription"] = fourth["parent"]["subscription_details"]["subscription"].take();
        fourth["lines"]["data"][0]["type"] = json!("subscription");
        fourth["lines"]["data"][0]["parent"] = Value::Null;
        fourth["parent"] = Value::Null;
        for invoice in [&fourth, &third, &fourth] {
            shop.told("invoice.paid", invoice).await;
        }
        let found = shop.subscription(&id).await;
        assert_eq!(standing(&found), ("active", 2, paid_through(&fourth)));
        assert_eq!(shop.events(&id).await, ["renewed", "renewed"]);
        assert_eq!(found["renewed_by"]["invoice"], fourth["id"]);
        assert_eq!(shop.credits().await, 0, "no credits move");
        let log = command_line
            .run(&["audit", "list", "--action", "subscription.open"])
            .await;
        assert_eq!(
            (&log[0]["object"], &log[0]["outcome"]),
            (&json!(id), &json!("done"))
        );
        shop.gateway.finish().await;
    }
}

#[tokio::test]
async fn what_is_not_paid_is_owed_until_it_is() {
    for storage in ENGINES {
        let mut shop = Shop::open(storage).await;
        let id = shop.plan_page().await;
        let key = shop.gateway.key(&shop.account).await.secret;
        assert_eq!(shop.call(&key).await, 402);
        // A card that is declined on the page: there is nothing yet that could be owed.
        let first = shop.stripe.begin_plan(0, now() - MONTH);
        shop.told("invoice.payment_failed", &first).await;
        shop.told("invoice.paid", &first).await;
        assert_eq!(shop.subscription(&id).await["state"], "active");
        // Its month is over, and it is asked for the next one; it lasts a day longer.
        assert_eq!(shop.call(&key).await, 200);
        let second = shop.stripe.bill_plan(0, false);
        for _ in 0..2 {
            shop.told("invoice.payment_failed", &second).await;
            assert_eq!(shop.subscription(&id).await["state"], "past_due");
        }
        assert_eq!(shop.call(&key).await, 402);
        let paid = shop.stripe.settle_invoice(second["id"].as_str().unwrap());
        shop.told("invoice.paid", &paid).await;
        shop.told("invoice.payment_failed", &second).await;
        assert_eq!(
            standing(&shop.subscription(&id).await),
            ("active", 1, paid_through(&second))
        );
        assert_eq!(shop.call(&key).await, 200);
        let third = shop.stripe.bill_plan(0, false);
        shop.told("invoice.payment_failed", &third).await;
        // A week later nobody has paid, and the service need not ask any more.
        shop.gateway.stop().await;
        let week = 7 * DAY;
        shop.execute(&format!(
            "UPDATE subscription SET past_due_since = past_due_since - {week}000000, \
             paid_through = paid_through - {}000000",
            2 * MONTH
        ))
        .await;
        shop.gateway.restart().await;
        shop.until_plan(0, |plan| plan["status"] == "canceled").await;
        assert_eq!(shop.subscription(&id).await["state"], "expired");
        let all = ["past_due", "renewed", "past_due", "expired"];
        assert_eq!(shop.events(&id).await, all);
        // Too late: it is not begun anew, and somebody has to know.
        let late = shop.stripe.settle_invoice(third["id"].as_str().unwrap());
        shop.told("invoice.paid", &late).await;
        let ended = shop.plan(0);
        shop.told("customer.subscription.deleted", &ended).await;
        assert_eq!(shop.events(&id).await, all);
        assert!(shop.gateway.log().contains("give it back"));
        shop.gateway.finish().await;
    }
}

#[tokio::test]
async fn what_is_done_in_the_portal_is_done_here() {
    for storage in ENGINES {
        let shop = Shop::open(storage).await;
        let (id, first) = shop.with_plan(now()).await;
        let before = shop.plan(0);
        let cancelled = shop.stripe.cancel_in_portal(0, true);
        shop.told("customer.subscription.updated", &cancelled).await;
        assert_eq!(shop.subscription(&id).await["cancel_at_period_end"], true);
        shop.stripe.cancel_in_portal(0, false);
        // What counts is how it is now, whatever an event that comes late says.
        shop.told("customer.subscription.updated", &cancelled).await;
        assert_eq!(shop.subscription(&id).await["cancel_at_period_end"], false);
        shop.stripe.cancel_in_portal(0, true);
        for _ in 0..2 {
            shop.told("customer.subscription.updated", &before).await;
        }
        let found = shop.subscription(&id).await;
        assert_eq!(standing(&found), ("active", 0, paid_through(&first)));
        assert_eq!(found["cancel_at_period_end"], true);
        let ended = shop.stripe.end_plan(0);
        for _ in 0..2 {
            shop.told("customer.subscription.deleted", &ended).await;
        }
        assert_eq!(shop.subscription(&id).await["state"], "canceled");
        assert_eq!(
            shop.events(&id).await,
            ["cancel_requested", "resumed", "cancel_requested", "canceled"]
        );
        // The account is free for another one.
        let next = shop.plan_page().await;
        let first = shop.stripe.begin_plan(1, now());
        shop.told("invoice.paid", &first).await;
        // That ends in the dashboard, at once.
        let ended = shop.stripe.end_plan(1);
        shop.told("customer.subscription.deleted", &ended).await;
        assert_eq!(shop.subscription(&next).await["state"], "canceled");
        shop.gateway.finish().await;
    }
}

#[tokio::test]
async fn what_is_done_here_the_service_hears_of_as_soon_as_it_is_there() {
    for storage in ENGINES {
        let mut shop = Shop::open(storage).await;
        let (id, _) = shop.with_plan(now()).await;
        for (wish, ends) in [("cancel", true), ("resume", false)] {
            shop.wish(wish, &id).await;
            let plan = shop.plan(0);
            assert_eq!(plan["cancel_at_period_end"], ends, "{wish}");
            shop.told("customer.subscription.updated", &plan).await;
            assert_eq!(shop.subscription(&id).await["cancel_at_period_end"], ends);
        }
        // What was cancelled in the portal is resumed here.
        let plan = shop.stripe.cancel_in_portal(0, true);
        shop.told("customer.subscription.updated", &plan).await;
        shop.wish("resume", &id).await;
        assert_eq!(shop.plan(0)["cancel_at"], Value::Null);
        // The service is away.
        shop.stripe
            .push_for_stripe(Reply::body(503, "text/plain", "busy"), false);
        shop.wish("cancel", &id).await;
        assert_eq!(shop.plan(0)["cancel_at_period_end"], false);
        shop.told("customer.subscription.updated", &plan).await;
        assert_eq!(
            shop.subscription(&id).await["cancel_at_period_end"],
            true,
            "it has not heard yet, and so has not said otherwise"
        );
        shop.gateway.stop().await;
        shop.gateway.restart().await;
        shop.until_plan(0, |plan| plan["cancel_at_period_end"] == true)
            .await;
        let events = shop.events(&id).await;
        assert_eq!(events.len(), 5, "{events:?}");
        let other = ["subscriptions", "change-plan", &id, "--plan", "free"];
        let other = shop.gateway.command_line().try_run(&other).await;
        assert!(
            other.code == 2 && other.stderr.contains("provider renews"),
            "{other:?}"
        );
        shop.gateway.finish().await;
    }
}

#[tokio::test]
async fn the_page_that_was_paid_is_enough_to_begin_and_says_nothing_of_others() {
    let shop = Shop::open(Storage::Sqlite).await;
    let id = shop.plan_page().await;
    let first = shop.stripe.begin_plan(0, now());
    let [_, sessions, _] = shop.stripe.stripe_objects();
    let mut cheaper = sessions[0].clone();
    // Whoever pays on another page of the service can say there whose it is, and it is not.
    cheaper["subscription"] = json!("sub_9");
    let unknown = shop.refused("checkout.session.completed", &cheaper).await;
    assert_error("no subscription", &unknown, "upstream_error", None);
    shop.stripe
        .push_for_stripe(Reply::body(503, "text/plain", "busy"), false);
    let away = shop.refused("checkout.session.completed", &sessions[0]).await;
    assert_error("away", &away, "overloaded", None);
    for _ in 0..2 {
        shop.told("checkout.session.completed", &sessions[0]).await;
        assert_eq!(
            standing(&shop.subscription(&id).await),
            ("active", 0, paid_through(&first))
        );
    }
    shop.gateway.finish().await;
}

#[tokio::test]
async fn an_event_that_was_lost_is_asked_for_before_anything_is_owed() {
    for storage in ENGINES {
        let mut shop = Shop::open(storage).await;
        // Its month and the day after were over long ago.
        let (id, _) = shop.with_plan(now() - MONTH - 3 * DAY).await;
        assert_eq!(shop.subscription(&id).await["state"], "active");
        let second = shop.stripe.bill_plan(0, true);
        shop.gateway.stop().await;
        shop.gateway.restart().await;
        shop.gateway.wait_for_log("a period of sub_", 1).await;
        assert_eq!(
            standing(&shop.subscription(&id).await),
            ("active", 1, paid_through(&second))
        );
        assert_eq!(shop.events(&id).await, ["renewed"]);
        shop.gateway.finish().await;
    }
}

#[tokio::test]
async fn what_is_forged_unknown_or_of_others_changes_nothing() {
    let shop = Shop::open(Storage::Sqlite).await;
    let (id, first) = shop.with_plan(now()).await;
    let second = shop.stripe.bill_plan(0, true);
    let paid = |at| shop.stripe.stripe_event("invoice.paid", &second, at);
    let good = paid(now());
    let changed = Event {
        body: good.body.replace("\"amount_paid\":750", "\"amount_paid\":751"),
        ..good.clone()
    };
    assert_ne!(changed.body, good.body);
    let unsigned = Event {
        signature: String::new(),
        ..good.clone()
    };
    let other = FakeUpstream::start().await;
    other.sell(KEY, "whsec_guessed");
    let guessed = other.stripe_event("invoice.paid", &second, now());
    let signature = Some("stripe-signature");
    for (what, event) in [
        ("changed", changed),
        ("unsigned", unsigned),
        ("another secret", guessed),
        ("replayed", paid(now() - 400)),
        ("from the future", paid(now() + 400)),
    ] {
        assert_error(what, &shop.tell(&event).await, "invalid_parameter", signature);
    }
    // Another subscription says that it pays this one.
    let details = "/parent/subscription_details";
    let said = |reference: &str, ours: Option<&str>| {
        let mut invoice = second.clone();
        *invoice.pointer_mut(details).unwrap() =
            json!({"subscription": reference, "metadata": {"subscription": ours}});
        invoice
    };
    let unknown = format!("sub_{}", "0".repeat(32));
    let another = shop.refused("invoice.paid", &said("sub_9", Some(&id))).await;
    assert_error("another one", &another, "conflict", None);
    for kind in ["invoice.paid", "invoice.payment_failed"] {
        let refused = shop.refused(kind, &said("sub_9", Some(&unknown))).await;
        assert_error("unknown", &refused, "not_found", None);
        for stranger in [said("sub_9", None), said("sub_9", Some("order 66"))] {
            shop.told(kind, &stranger).await;
        }
        let mut one_off = second.clone();
        one_off["parent"] = Value::Null;
        shop.told(kind, &one_off).await;
        // What is prorated is no period.
        let mut prorated = second.clone();
        prorated["lines"]["data"][0]["parent"]["subscription_item_details"]["proration"] = json!(true);
        shop.told(kind, &prorated).await;
    }
    for kind in ["customer.subscription.updated", "customer.subscription.deleted"] {
        let refused = shop
            .refused(
                kind,
                &json!({"id": "sub_9", "metadata": {"subscription": unknown}}),
            )
            .await;
        assert_error("unknown", &refused, "not_found", None);
        shop.told(kind, &json!({"id": "sub_9", "metadata": {}})).await;
        let broken = shop.refused(kind, &json!({})).await;
        assert_error("broken", &broken, "invalid_parameter", None);
    }
    assert_eq!(
        standing(&shop.subscription(&id).await),
        ("active", 0, paid_through(&first))
    );
    shop.gateway.finish().await;
}

#[tokio::test]
async fn nobody_pays_for_two_plans() {
    for storage in ENGINES {
        let mut shop = Shop::open(storage).await;
        let closed = shop.plan_page().await;
        let id = shop.plan_page().await;
        assert_ne!(id, closed);
        let [_, sessions, _] = shop.stripe.stripe_objects();
        assert_eq!(
            (&sessions[0]["status"], &sessions[1]["status"]),
            (&json!("expired"), &json!("open"))
        );
        shop.told("checkout.session.expired", &sessions[0]).await;
        // The page is paid, and the news of it is on its way.
        let first = shop.stripe.begin_plan(1, now());
        let open = [
            "subscriptions",
            "open",
            "--account",
            &shop.account,
            "--plan",
            "team",
        ];
        let again = shop.gateway.command_line().try_run(&open).await;
        assert!(again.code == 2 && again.stderr.contains("just paid"), "{again:?}");
        // Meanwhile the operator has subscribed the account by hand.
        let create = [
            "subscriptions",
            "create",
            "--account",
            &shop.account,
            "--plan",
            "free",
        ];
        shop.gateway.command_line().run(&create).await;
        shop.stripe
            .push_for_stripe(Reply::body(503, "text/plain", "busy"), false);
        for _ in 0..2 {
            shop.told("invoice.paid", &first).await;
        }
        assert!(shop.gateway.log().contains("give it back"));
        assert_eq!(shop.plan(0)["status"], "active", "the service was away");
        shop.gateway.stop().await;
        shop.gateway.restart().await;
        shop.until_plan(0, |plan| plan["status"] == "canceled").await;
        let ended = shop.plan(0);
        shop.told("customer.subscription.deleted", &ended).await;
        let show = ["subscriptions", "show", &id];
        assert_eq!(shop.gateway.command_line().try_run(&show).await.code, 1);
        let list = ["subscriptions", "list", "--account", &shop.account];
        let found = shop.gateway.command_line().run(&list).await;
        assert_eq!(
            (&found[0]["subject"], found.as_array().unwrap().len()),
            (&json!("free"), 1)
        );
        shop.gateway.finish().await;
    }
}

#[tokio::test]
async fn money_of_an_invoice_that_goes_back_moves_no_credits() {
    let shop = Shop::open(Storage::Sqlite).await;
    let (id, first) = shop.with_plan(now()).await;
    shop.gateway.grant(&shop.account, "3").await;
    let [_, payments] = shop.stripe.stripe_plans();
    let intent = payments[0]["payment"]["payment_intent"].clone();
    let refund = json!({"payment_intent": intent, "amount_refunded": 750, "currency": "usd"});
    shop.told("charge.refunded", &refund).await;
    let dispute = json!({"payment_intent": intent, "amount": 750, "currency": "usd"});
    shop.told("charge.dispute.funds_withdrawn", &dispute).await;
    assert_eq!(shop.credits().await, 3);
    assert_eq!(
        standing(&shop.subscription(&id).await),
        ("active", 0, paid_through(&first))
    );
    assert!(shop.gateway.log().contains("went back"));
    // Nobody can say whose it was while the service is away: it tells again.
    shop.stripe
        .push_for_stripe(Reply::body(503, "text/plain", "busy"), false);
    let again = shop.refused("charge.refunded", &refund).await;
    assert_error("away", &again, "overloaded", None);
    shop.gateway.finish().await;
}

#[tokio::test]
async fn several_nodes_that_are_told_the_same_renew_once() {
    let mut shop = Shop::open(Storage::Postgres).await;
    let id = shop.plan_page().await;
    shop.gateway.stop().await;
    let options = || options(&shop.stripe, Storage::Postgres);
    let nodes = tokio::join!(
        shop.gateway.start_node(options()),
        shop.gateway.start_node(options()),
        shop.gateway.start_node(options()),
    );
    let tell = async |node: &Gateway, event: &Event| {
        let request = Request::post(WEBHOOK, event.body.clone())
            .header("content-type", "application/json; charset=utf-8")
            .header("stripe-signature", event.signature.clone());
        node.client().send(&request).await.status
    };
    let mut last = shop.stripe.begin_plan(0, now());
    for period in 0..4 {
        let event = shop.stripe.stripe_event("invoice.paid", &last, now());
        let told = tokio::join!(
            tell(&nodes.0, &event),
            tell(&nodes.1, &event),
            tell(&nodes.2, &event),
            tell(&nodes.0, &event),
        );
        assert_eq!(told, (200, 200, 200, 200));
        let found = nodes.1.command_line().run(&["subscriptions", "show", &id]).await;
        assert_eq!(standing(&found), ("active", period, paid_through(&last)));
        last = shop.stripe.bill_plan(0, true);
    }
    let cancel = async |node: &Gateway| {
        node.command_line()
            .try_run(&["subscriptions", "cancel", &id])
            .await
    };
    let cancelled = tokio::join!(cancel(&nodes.0), cancel(&nodes.1), cancel(&nodes.2));
    let done = [&cancelled.0, &cancelled.1, &cancelled.2].map(|finished| finished.code == 0);
    assert_eq!(done.iter().filter(|done| **done).count(), 1, "{cancelled:?}");
    let [plans, _] = shop.stripe.stripe_plans();
    assert_eq!(plans[0]["cancel_at_period_end"], true);
    nodes.1.finish().await;
    nodes.2.finish().await;
    nodes.0.finish().await;
}

#[tokio::test]
async fn what_cannot_be_begun_is_refused_before_the_service_hears_of_it() {
    let shop = Shop::open(Storage::Sqlite).await;
    let command_line = shop.gateway.command_line();
    let ahead = ["accounts", "create", "ahead", "--test-clock"];
    let ahead = command_line.run(&ahead).await["id"].as_str().unwrap().to_owned();
    let subscribed = shop.gateway.account().await;
    let create = [
        "subscriptions",
        "create",
        "--account",
        &subscribed,
        "--plan",
        "free",
    ];
    command_line.run(&create).await;
    let nobody = format!("acct_{}", "0".repeat(32));
    for (account, plan, code, said) in [
        (&shop.account, "gold", 2, "no such plan"),
        (&shop.account, "own", 2, "Credits pay this plan"),
        (&shop.account, "free", 2, "costs nothing"),
        (&subscribed, "team", 2, "one plan at a time"),
        (&ahead, "team", 2, "test clock"),
        (&nobody, "team", 1, "no such account"),
    ] {
        let open = ["subscriptions", "open", "--account", account, "--plan", plan];
        let finished = command_line.try_run(&open).await;
        assert_eq!(finished.code, code, "{account} {plan} {finished:?}");
        assert!(finished.stderr.contains(said), "{account} {plan} {finished:?}");
    }
    assert_eq!(shop.stripe.request_count(), 0);
    // A page that was not made is nothing.
    shop.stripe
        .push_for_stripe(Reply::body(503, "text/plain", "busy"), false);
    let open = [
        "subscriptions",
        "open",
        "--account",
        &shop.account,
        "--plan",
        "team",
    ];
    let down = command_line.try_run(&open).await;
    assert!(
        down.code == 1 && down.stderr.contains("does not answer; try again later"),
        "{down:?}"
    );
    let create = ["admins", "create", "jo", "--role", "billing"];
    let token = command_line.run(&create).await["token"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("/admin/v1/accounts/{}/subscriptions/open", shop.account);
    let yearly = json!({"plan": "team", "cadence": "yearly"});
    let listener = admin::admin_of(&shop.gateway).await;
    let page = admin::send(&listener, "POST", &path, &token, &yearly)
        .await
        .json();
    let [_, sessions, _] = shop.stripe.stripe_objects();
    assert_eq!(
        (&page["url"], &page["id"]),
        (&sessions[0]["url"], &sessions[0]["client_reference_id"])
    );
    let year = shop.stripe.begin_plan(0, now());
    assert_eq!(year["amount_paid"], 12 * 750);
    shop.told("invoice.paid", &year).await;
    let found = shop.subscription(page["id"].as_str().unwrap()).await;
    assert_eq!(
        (standing(&found), &found["cadence"]),
        (("active", 0, paid_through(&year)), &json!("yearly"))
    );
    shop.gateway.finish().await;
}
