//! Plans that the payment provider renews.

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::{Request, Response};
use tollgate_testkit::gateway::{Gateway, Storage, eventually};
use tollgate_testkit::upstream::{Event, FakeUpstream, Reply};

use super::{ENGINES, KEY, Shop, WEBHOOK, now, options};
use crate::admin;
use crate::scene::{CHAT, assert_error, hello};

const DAY: i64 = 24 * 60 * 60;
/// Length of a month at the scripted payment provider, in seconds.
const MONTH: i64 = 30 * DAY;

impl Shop {
    /// Opens the checkout page of a plan and returns the id of the new subscription.
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

    /// Starts a plan on a checkout page at this time and delivers its events. Returns the
    /// subscription id and the first invoice.
    async fn with_plan(&self, at: i64) -> (String, Value) {
        let id = self.plan_page().await;
        let invoice = self.stripe.begin_plan(0, at);
        self.delivered("invoice.paid", &invoice).await;
        (id, invoice)
    }

    async fn subscription(&self, id: &str) -> Value {
        self.gateway
            .command_line()
            .run(&["subscriptions", "show", id])
            .await
    }

    async fn change(&self, change: &str, id: &str) -> Value {
        self.gateway
            .command_line()
            .run(&["subscriptions", change, id])
            .await
    }

    /// Returns the kinds of the subscription's events, without its creation.
    async fn events(&self, id: &str) -> Vec<String> {
        let found = self.subscription(id).await;
        let events = found["events"].as_array().unwrap().iter();
        let kinds = events.map(|event| event["kind"].as_str().unwrap().to_owned());
        kinds.skip(1).collect()
    }

    /// Returns the status of a call that only a plan can pay.
    async fn call(&self, key: &str) -> u16 {
        let body = hello(json!({"model": "sim/chat"}));
        let response = self.gateway.client().post_json(CHAT, key, &body).await;
        response.status
    }

    /// Delivers an event that is expected to be refused.
    async fn refused(&self, kind: &str, object: &Value) -> Response {
        self.send(&self.stripe.stripe_event(kind, object, now())).await
    }

    /// Waits until the plan at the payment provider satisfies a condition.
    async fn until_plan(&self, number: usize, is_right: impl Fn(&Value) -> bool) {
        eventually("the provider is notified", async || is_right(&self.plan(number))).await;
    }

    fn plan(&self, number: usize) -> Value {
        let [plans, _] = self.stripe.stripe_plans();
        plans[number].clone()
    }
}

/// Returns the state, the number of the last paid period, and its end.
fn standing(found: &Value) -> (&str, i64, String) {
    (
        found["state"].as_str().unwrap(),
        found["period"].as_i64().unwrap(),
        found["paid_through"].as_str().unwrap().to_owned(),
    )
}

/// Returns the end of the access that an invoice pays for: one day after its period.
fn paid_through(invoice: &Value) -> String {
    let end = invoice["lines"]["data"][0]["period"]["end"].as_i64().unwrap() + DAY;
    jiff::Timestamp::from_second(end).unwrap().to_string()
}

#[tokio::test]
async fn a_plan_starts_when_paid_and_continues_with_every_invoice() {
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
                .contains("subscription does not exist")
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
        let (one, two, three) = tokio::join!(shop.send(&event), shop.send(&page), shop.send(&event));
        assert_eq!([one.status, two.status, three.status], [200; 3]);
        let created = shop.subscription(&id).await;
        assert_eq!(standing(&created), ("active", 0, paid_through(&first)));
        assert_eq!(
            (&created["subject"], &created["payer"], &created["week"]["limit"]),
            (&json!("team"), &json!("provider"), &json!("5"))
        );
        assert_eq!(
            created["renewed_by"],
            json!({"provider": "stripe", "reference": shop.plan(0)["id"], "amount": 750, "currency": "usd",
                "invoice": first["id"], "course": "renews"})
        );

        let second = shop.stripe.bill_plan(0, true);
        let event = shop.stripe.stripe_event("invoice.paid", &second, now());
        let (one, two) = tokio::join!(shop.send(&event), shop.send(&event));
        assert_eq!([one.status, two.status], [200; 2]);
        shop.delivered("invoice.paid", &first).await;
        assert_eq!(
            standing(&shop.subscription(&id).await),
            ("active", 1, paid_through(&second))
        );
        // The later invoice arrives first, in the format from before 2025.
        let third = shop.stripe.bill_plan(0, true);
        let mut fourth = shop.stripe.bill_plan(0, true);
        fourth["subscription"] = fourth["parent"]["subscription_details"]["subscription"].take();
        fourth["lines"]["data"][0]["type"] = json!("subscription");
        fourth["lines"]["data"][0]["parent"] = Value::Null;
        fourth["parent"] = Value::Null;
        for invoice in [&fourth, &third, &fourth] {
            shop.delivered("invoice.paid", invoice).await;
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
async fn an_unpaid_invoice_is_owed_until_it_is_paid() {
    for storage in ENGINES {
        let mut shop = Shop::open(storage).await;
        let id = shop.plan_page().await;
        let key = shop.gateway.key(&shop.account).await.secret;
        assert_eq!(shop.call(&key).await, 402);
        // The card is declined on the page: no amount is owed yet.
        let first = shop.stripe.begin_plan(0, now() - MONTH);
        shop.delivered("invoice.payment_failed", &first).await;
        shop.delivered("invoice.paid", &first).await;
        assert_eq!(shop.subscription(&id).await["state"], "active");
        // The month is over and the next one is invoiced. Access lasts one more day.
        assert_eq!(shop.call(&key).await, 200);
        let second = shop.stripe.bill_plan(0, false);
        for _ in 0..2 {
            shop.delivered("invoice.payment_failed", &second).await;
            assert_eq!(shop.subscription(&id).await["state"], "past_due");
        }
        assert_eq!(shop.call(&key).await, 402);
        let paid = shop.stripe.settle_invoice(second["id"].as_str().unwrap());
        shop.delivered("invoice.paid", &paid).await;
        shop.delivered("invoice.payment_failed", &second).await;
        assert_eq!(
            standing(&shop.subscription(&id).await),
            ("active", 1, paid_through(&second))
        );
        assert_eq!(shop.call(&key).await, 200);
        let third = shop.stripe.bill_plan(0, false);
        shop.delivered("invoice.payment_failed", &third).await;
        // A week later the invoice is unpaid, and the payment provider stops collecting.
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
        // A late payment does not restart the plan, and the operator is alerted.
        let late = shop.stripe.settle_invoice(third["id"].as_str().unwrap());
        shop.delivered("invoice.paid", &late).await;
        let ended = shop.plan(0);
        shop.delivered("customer.subscription.deleted", &ended).await;
        assert_eq!(shop.events(&id).await, all);
        assert!(shop.gateway.log().contains("refund it"));
        shop.gateway.finish().await;
    }
}

#[tokio::test]
async fn changes_in_the_portal_apply_here() {
    for storage in ENGINES {
        let shop = Shop::open(storage).await;
        let (id, first) = shop.with_plan(now()).await;
        let before = shop.plan(0);
        let cancelled = shop.stripe.cancel_in_portal(0, true);
        shop.delivered("customer.subscription.updated", &cancelled).await;
        assert_eq!(shop.subscription(&id).await["cancel_at_period_end"], true);
        shop.stripe.cancel_in_portal(0, false);
        // The current state at the payment provider counts, not the content of a late event.
        shop.delivered("customer.subscription.updated", &cancelled).await;
        assert_eq!(shop.subscription(&id).await["cancel_at_period_end"], false);
        shop.stripe.cancel_in_portal(0, true);
        for _ in 0..2 {
            shop.delivered("customer.subscription.updated", &before).await;
        }
        let found = shop.subscription(&id).await;
        assert_eq!(standing(&found), ("active", 0, paid_through(&first)));
        assert_eq!(found["cancel_at_period_end"], true);
        let ended = shop.stripe.end_plan(0);
        for _ in 0..2 {
            shop.delivered("customer.subscription.deleted", &ended).await;
        }
        assert_eq!(shop.subscription(&id).await["state"], "canceled");
        assert_eq!(
            shop.events(&id).await,
            ["cancel_requested", "resumed", "cancel_requested", "canceled"]
        );
        // The account can subscribe to another plan.
        let next = shop.plan_page().await;
        let first = shop.stripe.begin_plan(1, now());
        shop.delivered("invoice.paid", &first).await;
        // The operator ends this plan immediately in the dashboard of the payment provider.
        let ended = shop.stripe.end_plan(1);
        shop.delivered("customer.subscription.deleted", &ended).await;
        assert_eq!(shop.subscription(&next).await["state"], "canceled");
        shop.gateway.finish().await;
    }
}

#[tokio::test]
async fn changes_are_sent_once_the_provider_is_available() {
    for storage in ENGINES {
        let mut shop = Shop::open(storage).await;
        let (id, _) = shop.with_plan(now()).await;
        for (change, ends) in [("cancel", true), ("resume", false)] {
            shop.change(change, &id).await;
            let plan = shop.plan(0);
            assert_eq!(plan["cancel_at_period_end"], ends, "{change}");
            shop.delivered("customer.subscription.updated", &plan).await;
            assert_eq!(shop.subscription(&id).await["cancel_at_period_end"], ends);
        }
        // A cancellation in the portal is reverted here.
        let plan = shop.stripe.cancel_in_portal(0, true);
        shop.delivered("customer.subscription.updated", &plan).await;
        shop.change("resume", &id).await;
        assert_eq!(shop.plan(0)["cancel_at"], Value::Null);
        // The payment provider is unavailable.
        shop.stripe
            .push_for_stripe(Reply::body(503, "text/plain", "busy"), false);
        shop.change("cancel", &id).await;
        assert_eq!(shop.plan(0)["cancel_at_period_end"], false);
        shop.delivered("customer.subscription.updated", &plan).await;
        assert_eq!(
            shop.subscription(&id).await["cancel_at_period_end"],
            true,
            "the provider has not received the cancellation"
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
            other.code == 2 && other.stderr.contains("provider bills"),
            "{other:?}"
        );
        shop.gateway.finish().await;
    }
}

#[tokio::test]
async fn a_paid_page_starts_only_its_own_plan() {
    let shop = Shop::open(Storage::Sqlite).await;
    let id = shop.plan_page().await;
    let first = shop.stripe.begin_plan(0, now());
    let [_, sessions, _] = shop.stripe.stripe_objects();
    let mut cheaper = sessions[0].clone();
    // A session of another page can reference this plan, so the gateway does not trust it.
    cheaper["subscription"] = json!("sub_9");
    let unknown = shop.refused("checkout.session.completed", &cheaper).await;
    assert_error("no subscription", &unknown, "upstream_error", None);
    shop.stripe
        .push_for_stripe(Reply::body(503, "text/plain", "busy"), false);
    let away = shop.refused("checkout.session.completed", &sessions[0]).await;
    assert_error("away", &away, "overloaded", None);
    for _ in 0..2 {
        shop.delivered("checkout.session.completed", &sessions[0]).await;
        assert_eq!(
            standing(&shop.subscription(&id).await),
            ("active", 0, paid_through(&first))
        );
    }
    shop.gateway.finish().await;
}

#[tokio::test]
async fn a_lost_event_is_queried_before_a_debt_is_recorded() {
    for storage in ENGINES {
        let mut shop = Shop::open(storage).await;
        // The month and the extra day ended long ago.
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
async fn forged_and_unknown_events_change_nothing() {
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
        assert_error(what, &shop.send(&event).await, "invalid_parameter", signature);
    }
    // Invoices of another subscription name this subscription in their metadata.
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
            shop.delivered(kind, &stranger).await;
        }
        let mut one_off = second.clone();
        one_off["parent"] = Value::Null;
        shop.delivered(kind, &one_off).await;
        // A prorated line is not a period.
        let mut prorated = second.clone();
        prorated["lines"]["data"][0]["parent"]["subscription_item_details"]["proration"] = json!(true);
        shop.delivered(kind, &prorated).await;
    }
    for kind in ["customer.subscription.updated", "customer.subscription.deleted"] {
        let refused = shop
            .refused(
                kind,
                &json!({"id": "sub_9", "metadata": {"subscription": unknown}}),
            )
            .await;
        assert_error("unknown", &refused, "not_found", None);
        shop.delivered(kind, &json!({"id": "sub_9", "metadata": {}}))
            .await;
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
async fn an_account_never_pays_for_two_plans() {
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
        shop.delivered("checkout.session.expired", &sessions[0]).await;
        // The page is paid, and the event is still on its way.
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
        // Meanwhile the operator has subscribed the account manually.
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
            shop.delivered("invoice.paid", &first).await;
        }
        assert!(shop.gateway.log().contains("refund it"));
        assert_eq!(shop.plan(0)["status"], "active", "the service was away");
        shop.gateway.stop().await;
        shop.gateway.restart().await;
        shop.until_plan(0, |plan| plan["status"] == "canceled").await;
        let ended = shop.plan(0);
        shop.delivered("customer.subscription.deleted", &ended).await;
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
async fn a_refunded_invoice_moves_no_credits() {
    let shop = Shop::open(Storage::Sqlite).await;
    let (id, first) = shop.with_plan(now()).await;
    shop.gateway.grant(&shop.account, "3").await;
    let [_, payments] = shop.stripe.stripe_plans();
    let intent = payments[0]["payment"]["payment_intent"].clone();
    let refund = json!({"payment_intent": intent, "amount_refunded": 750, "currency": "usd"});
    shop.delivered("charge.refunded", &refund).await;
    let dispute = json!({"payment_intent": intent, "amount": 750, "currency": "usd"});
    shop.delivered("charge.dispute.funds_withdrawn", &dispute).await;
    assert_eq!(shop.credits().await, 3);
    assert_eq!(
        standing(&shop.subscription(&id).await),
        ("active", 0, paid_through(&first))
    );
    assert!(shop.gateway.log().contains("was refunded"));
    // While the payment provider is unavailable, the owner of the event is unknown, so the event is
    // delivered again.
    shop.stripe
        .push_for_stripe(Reply::body(503, "text/plain", "busy"), false);
    let again = shop.refused("charge.refunded", &refund).await;
    assert_error("away", &again, "overloaded", None);
    shop.gateway.finish().await;
}

#[tokio::test]
async fn several_nodes_with_the_same_event_renew_once() {
    let mut shop = Shop::open(Storage::Postgres).await;
    let id = shop.plan_page().await;
    shop.gateway.stop().await;
    let options = || options(&shop.stripe, Storage::Postgres);
    let nodes = tokio::join!(
        shop.gateway.start_node(options()),
        shop.gateway.start_node(options()),
        shop.gateway.start_node(options()),
    );
    let deliver = async |node: &Gateway, event: &Event| {
        let request = Request::post(WEBHOOK, event.body.clone())
            .header("content-type", "application/json; charset=utf-8")
            .header("stripe-signature", event.signature.clone());
        node.client().send(&request).await.status
    };
    let mut last = shop.stripe.begin_plan(0, now());
    for period in 0..4 {
        let event = shop.stripe.stripe_event("invoice.paid", &last, now());
        let delivered = tokio::join!(
            deliver(&nodes.0, &event),
            deliver(&nodes.1, &event),
            deliver(&nodes.2, &event),
            deliver(&nodes.0, &event),
        );
        assert_eq!(delivered, (200, 200, 200, 200));
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
async fn invalid_plans_are_refused_before_any_provider_call() {
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
    let unknown = format!("acct_{}", "0".repeat(32));
    for (account, plan, code, said) in [
        (&shop.account, "gold", 2, "plan does not exist"),
        (&shop.account, "own", 2, "paid with credits"),
        (&shop.account, "free", 2, "plan is free"),
        (&subscribed, "team", 2, "one plan at a time"),
        (&ahead, "team", 2, "test clock"),
        (&unknown, "team", 1, "account does not exist"),
    ] {
        let open = ["subscriptions", "open", "--account", account, "--plan", plan];
        let finished = command_line.try_run(&open).await;
        assert_eq!(finished.code, code, "{account} {plan} {finished:?}");
        assert!(finished.stderr.contains(said), "{account} {plan} {finished:?}");
    }
    assert_eq!(shop.stripe.request_count(), 0);
    // A page that was not created has no effect.
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
        down.code == 1 && down.stderr.contains("payment provider is unavailable"),
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
    shop.delivered("invoice.paid", &year).await;
    let found = shop.subscription(page["id"].as_str().unwrap()).await;
    assert_eq!(
        (standing(&found), &found["cadence"]),
        (("active", 0, paid_through(&year)), &json!("yearly"))
    );
    shop.gateway.finish().await;
}
