//! Tests of the adapter against a server that implements Stripe's API, and tests of signed events.

use serde_json::{Value, json};
use tollgate_testkit::upstream::{Card, FakeUpstream, Reply};
use tollgate_types::{AccountId, Money, RenewalState, SubscriptionId, TopUpId};
use tollgate_upstream::{BillingInterval, Paid, PlanInvoice, PlanReference};

use super::*;
use crate::http::HttpSettings;

const KEY: &str = "sk_test_c4n4ry";
const SECRET: &str = "whsec_c4n4ry";
/// Current time of the tests in Unix seconds: 2026-11-22T00:00:00Z.
const NOW: i64 = 1_795_305_600;

async fn service() -> (FakeUpstream, Stripe) {
    let upstream = FakeUpstream::start().await;
    upstream.sell(KEY, SECRET);
    let stripe = adapter(&upstream, KEY);
    (upstream, stripe)
}

fn adapter(upstream: &FakeUpstream, key: &str) -> Stripe {
    let settings = StripeSettings {
        base_url: format!("http://{}", upstream.address()),
        secret_key: key.into(),
        webhook_secret: SECRET.into(),
        timeout: Duration::from_secs(20),
    };
    Stripe::new(settings, HttpClient::new(HttpSettings::default())).unwrap()
}

fn money(amount: i64) -> Money {
    let currency = "usd".parse().unwrap();
    Money { amount, currency }
}

fn id(number: u128) -> TopUpId {
    TopUpId::from_u128(number)
}

fn payer() -> NewPayer {
    NewPayer {
        account: AccountId::from_u128(1),
        name: "Ünïted & Söns=1".to_owned(),
    }
}

fn checkout(payer: &str, number: u128) -> NewCheckout {
    NewCheckout {
        top_up: id(number),
        payer: payer.to_owned(),
        money: money(2_500),
        title: "25 credits, service".to_owned(),
        success_url: "https://example.com/?a=b&c=d".to_owned(),
        cancel_url: "https://example.com/".to_owned(),
    }
}

fn charge(payer: &str, number: u128) -> SavedCharge {
    SavedCharge {
        top_up: id(number),
        payer: payer.to_owned(),
        money: money(2_500),
        title: "25 credits, service".to_owned(),
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

#[tokio::test]
async fn checkout_creates_the_payer_once() {
    let (upstream, stripe) = service().await;
    let customer = stripe.create_payer(&payer()).await.unwrap();
    assert_eq!(stripe.create_payer(&payer()).await.unwrap(), customer);
    let page = stripe.open_checkout(&checkout(&customer, 7)).await.unwrap();
    assert_eq!(stripe.open_checkout(&checkout(&customer, 7)).await.unwrap(), page);
    let [customers, sessions, _] = upstream.stripe_objects();
    assert_eq!((customers.len(), sessions.len()), (1, 1));
    assert_eq!(customers[0]["name"], "Ünïted & Söns=1");
    assert_eq!(sessions[0]["client_reference_id"], id(7).to_string());
    assert_eq!(
        (&sessions[0]["amount_total"], &sessions[0]["currency"]),
        (&json!(2_500), &json!("usd"))
    );
    assert_eq!(sessions[0]["url"], page.url);
    let portal = stripe
        .open_portal(&customer, "https://example.com")
        .await
        .unwrap();
    assert!(portal.starts_with("https://billing."), "{portal}");
    stripe.probe().await.unwrap();
}

#[tokio::test]
async fn saved_cards_are_never_charged_twice() {
    let (upstream, stripe) = service().await;
    let customer = stripe.create_payer(&payer()).await.unwrap();
    let declined = |why: &str| ChargeOutcome::Declined { why: why.to_owned() };
    let none = stripe.charge_saved(&charge(&customer, 1)).await.unwrap();
    assert_eq!(none, declined("no_payment_method"));
    for (card, number, why) in [
        (Card::Declined, 2, "insufficient_funds"),
        (Card::NeedsOwner, 3, "authentication_required"),
    ] {
        upstream.keep_cards(card);
        for _ in 0..2 {
            let outcome = stripe.charge_saved(&charge(&customer, number)).await.unwrap();
            assert_eq!(outcome, declined(why));
        }
    }
    upstream.keep_cards(Card::Processing);
    let slow = stripe.charge_saved(&charge(&customer, 4)).await.unwrap();
    assert!(matches!(slow, ChargeOutcome::Processing { .. }), "{slow:?}");
    upstream.keep_cards(Card::Pays);
    let paid = stripe.charge_saved(&charge(&customer, 5)).await.unwrap();
    let ChargeOutcome::Paid(paid) = paid else {
        panic!("{paid:?}")
    };
    assert_eq!((paid.top_up, paid.money), (id(5), money(2_500)));
    // The response is lost after the charge. The repeated request does not charge again.
    upstream.push_for_stripe(Reply::body(502, "text/html", "<html>"), false);
    let lost = stripe.charge_saved(&charge(&customer, 5)).await.unwrap_err();
    assert!(lost.is_transient, "{lost}");
    let again = stripe.charge_saved(&charge(&customer, 5)).await.unwrap();
    assert_eq!(again, ChargeOutcome::Paid(paid));
    let [_, _, intents] = upstream.stripe_objects();
    assert_eq!(intents.len(), 2);
}

#[tokio::test]
async fn errors_report_retry_safety_without_secrets() {
    let (upstream, stripe) = service().await;
    let customer = stripe.create_payer(&payer()).await.unwrap();
    let prose = json!({"error": {"type": "api_error", "message": format!("your key {KEY}")}}).to_string();
    for (reply, is_transient) in [
        (Reply::body(500, "application/json", prose.clone()), true),
        (Reply::body(429, "application/json", prose), true),
        (Reply::body(200, "text/html", "<html>"), true),
        (Reply::body(200, "application/json", "{}"), true),
        (Reply::body(400, "application/json", "[]"), false),
        (
            Reply::body(
                400,
                "application/json",
                r#"{"error":{"code":"amount_too_small","param":"amount"}}"#,
            ),
            false,
        ),
    ] {
        upstream.push_for_stripe(reply, false);
        let error = stripe.open_checkout(&checkout(&customer, 9)).await.unwrap_err();
        assert_eq!(error.is_transient, is_transient, "{error}");
        assert!(!error.detail.contains("c4n4ry"), "{error}");
    }
    let stranger = adapter(&upstream, "sk_test_other");
    let error = stranger.probe().await.unwrap_err();
    assert!(
        !error.is_transient && error.detail.contains("401 api_key_invalid"),
        "{error}"
    );
    let unknown = stripe.open_portal("cus_nobody", "https://example.com").await;
    assert!(!unknown.unwrap_err().is_transient);
}

#[tokio::test]
async fn unreachable_service_is_transient() {
    let upstream = FakeUpstream::start().await;
    let stripe = adapter(&upstream, KEY);
    drop(upstream);
    assert!(stripe.probe().await.unwrap_err().is_transient);
}

#[test]
fn keys_are_not_sent_over_plain_http() {
    let settings = StripeSettings {
        base_url: "http://payments.example.com".to_owned(),
        secret_key: KEY.into(),
        webhook_secret: SECRET.into(),
        timeout: Duration::from_secs(1),
    };
    let error = Stripe::new(settings, HttpClient::new(HttpSettings::default())).unwrap_err();
    assert!(error.to_string().contains("not https"), "{error}");
}

/// The signature is an example from Stripe's own libraries: body `{"a":1}`, secret `whsec_test`,
/// time 1492774577.
#[test]
fn signatures_are_those_of_the_service() {
    let check = |header: &str, body: &str, now: i64| {
        event::check_signature(&"whsec_test".into(), Some(header), body.as_bytes(), at(now))
    };
    let (time, good) = (1_492_774_577, SIGNATURE);
    let header =
        format!("t={time},v1={good},v0=6ffbb59b2300aae63f272406069a9788598b792a944a07aba816edb039989a39");
    assert_eq!(check(&header, r#"{"a":1}"#, time), Ok(()));
    for (distance, expected) in [
        (300, Ok(())),
        (301, Err(EventError::Stale)),
        (-300, Ok(())),
        (-301, Err(EventError::Stale)),
    ] {
        assert_eq!(
            check(&header, r#"{"a":1}"#, time + distance),
            expected,
            "{distance}"
        );
    }
    let old = "0".repeat(64);
    assert_eq!(
        check(&format!("t={time}, v1={old}, v1={good}"), r#"{"a":1}"#, time),
        Ok(())
    );
    for (header, body) in [
        (header.as_str(), r#"{"a":2}"#),
        (&format!("t={},v1={good}", time + 1), r#"{"a":1}"#),
        (&format!("t={time},v0={good}"), r#"{"a":1}"#),
        (&format!("t={time},v1={}", &good[..62]), r#"{"a":1}"#),
        (&format!("t={time},v1={}", good.replace('5', "g")), r#"{"a":1}"#),
        (&format!("v1={good}"), r#"{"a":1}"#),
        (&format!("t=,v1={good}"), r#"{"a":1}"#),
        ("", r#"{"a":1}"#),
    ] {
        assert_eq!(
            check(header, body, time),
            Err(EventError::Signature),
            "{header} {body}"
        );
    }
    let missing = event::check_signature(&"whsec_test".into(), None, b"{}", at(time));
    assert_eq!(missing, Err(EventError::Signature));
}

const SIGNATURE: &str = "2a55874e33dedb30da6fac02873208f53a243141599a71c0d52a1d5b89656823";

fn read(kind: &str, object: Value) -> Result<PaymentEvent, EventError> {
    let event = json!({"id": "evt_1", "object": "event", "type": kind, "data": {"object": object}});
    event::read(event.to_string().as_bytes())
}

#[test]
fn amounts_come_only_from_the_event_object() {
    let session = |more: Value| {
        let mut session = json!({
            "id": "cs_1", "client_reference_id": id(7).to_string(), "payment_status": "paid", "payment_intent": "pi_1",
            "amount_total": 2_500, "currency": "usd", "metadata": {"amount": "999999", "credits": "999999"},
        });
        for (name, value) in more.as_object().unwrap() {
            session[name] = value.clone();
        }
        session
    };
    let paid = |amount| {
        Ok(PaymentEvent::Paid(Paid {
            top_up: id(7),
            reference: "pi_1".to_owned(),
            money: money(amount),
        }))
    };
    let completed = |more| read("checkout.session.completed", session(more));
    assert_eq!(completed(json!({})), paid(2_500));
    assert_eq!(
        completed(json!({"total_details": {"amount_tax": 400}})),
        paid(2_100)
    );
    let later = read("checkout.session.async_payment_succeeded", session(json!({})));
    assert_eq!(later, paid(2_500));
    for not_ours in [
        json!({"payment_status": "unpaid"}),
        json!({"payment_status": "no_payment_required", "amount_total": 0}),
        json!({"client_reference_id": null}),
        json!({"client_reference_id": "order 66"}),
    ] {
        assert!(
            matches!(completed(not_ours.clone()), Ok(PaymentEvent::Other { .. })),
            "{not_ours}"
        );
    }
    for broken in [
        json!({"amount_total": null}),
        json!({"amount_total": -1}),
        json!({"amount_total": "2500"}),
        json!({"currency": "dollars"}),
        json!({"payment_intent": null}),
    ] {
        assert!(
            matches!(completed(broken.clone()), Err(EventError::Malformed(_))),
            "{broken}"
        );
    }
    let intent = json!({
        "id": "pi_1", "status": "succeeded", "amount": 9_999, "amount_received": 2_500, "currency": "usd",
        "metadata": {"top_up": id(7).to_string()},
    });
    assert_eq!(read("payment_intent.succeeded", intent), paid(2_500));
    let of_checkout = json!({"id": "pi_1", "amount_received": 2_500, "currency": "usd", "metadata": {}});
    let other = read("payment_intent.succeeded", of_checkout);
    assert!(matches!(other, Ok(PaymentEvent::Other { .. })), "{other:?}");
}

#[test]
fn failed_and_returned_payments_are_reported() {
    let object = json!({"client_reference_id": id(7).to_string(), "payment_status": "unpaid"});
    let expired = PaymentEvent::Failed {
        top_up: id(7),
        why: "expired".to_owned(),
    };
    assert_eq!(read("checkout.session.expired", object), Ok(expired));
    let declined = json!({
        "id": "pi_1", "metadata": {"top_up": id(7).to_string()},
        "last_payment_error": {"code": "card_declined", "decline_code": "lost_card"},
    });
    let failed = PaymentEvent::Failed {
        top_up: id(7),
        why: "lost_card".to_owned(),
    };
    assert_eq!(read("payment_intent.payment_failed", declined), Ok(failed));
    let back = |total| {
        Ok(PaymentEvent::Returned {
            reference: "pi_1".to_owned(),
            total: money(total),
        })
    };
    let refunded =
        json!({"payment_intent": "pi_1", "amount": 2_500, "amount_refunded": 700, "currency": "usd"});
    assert_eq!(read("charge.refunded", refunded), back(700));
    let disputed = json!({"payment_intent": "pi_1", "amount": 2_500, "currency": "usd"});
    assert_eq!(read("charge.dispute.funds_withdrawn", disputed), back(2_500));
    let other = PaymentEvent::Other {
        kind: "invoice.paid".to_owned(),
    };
    assert_eq!(read("invoice.paid", json!({})), Ok(other));
    for body in ["", "{", "[]", "{}", r#"{"type":7,"data":{"object":{}}}"#] {
        assert!(
            matches!(event::read(body.as_bytes()), Err(EventError::Malformed(_))),
            "{body}"
        );
    }
}

#[tokio::test]
async fn an_event_that_was_signed_is_read() {
    let (upstream, stripe) = service().await;
    let customer = stripe.create_payer(&payer()).await.unwrap();
    stripe.open_checkout(&checkout(&customer, 7)).await.unwrap();
    let session = upstream.pay(0);
    let event = upstream.stripe_event("checkout.session.completed", &session, NOW);
    let body = event.body.as_bytes();
    let read = stripe.read_event(Some(&event.signature), body, at(NOW)).unwrap();
    assert!(
        matches!(&read, PaymentEvent::Paid(paid) if paid.money == money(2_500)),
        "{read:?}"
    );
    let late = stripe.read_event(Some(&event.signature), body, at(NOW + 301));
    assert_eq!(late, Err(EventError::Stale));
    assert_eq!(stripe.read_event(None, body, at(NOW)), Err(EventError::Signature));
}

fn plan_checkout(payer: &str, number: u128) -> NewPlanCheckout {
    NewPlanCheckout {
        subscription: SubscriptionId::from_u128(number),
        payer: payer.to_owned(),
        money: money(750),
        interval: BillingInterval::Month,
        title: "Plan team, service".to_owned(),
        success_url: "https://example.com/".to_owned(),
        cancel_url: "https://example.com/".to_owned(),
    }
}

/// Starts a plan and returns its Stripe subscription id.
async fn started(upstream: &FakeUpstream, stripe: &Stripe) -> String {
    let customer = stripe.create_payer(&payer()).await.unwrap();
    stripe
        .open_plan_checkout(&plan_checkout(&customer, 7))
        .await
        .unwrap();
    upstream.begin_plan(0, NOW);
    let [plans, _] = upstream.stripe_plans();
    plans[0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_page_of_a_plan_is_opened_once_and_closed() {
    let (upstream, stripe) = service().await;
    let customer = stripe.create_payer(&payer()).await.unwrap();
    let page = stripe
        .open_plan_checkout(&plan_checkout(&customer, 7))
        .await
        .unwrap();
    let again = stripe
        .open_plan_checkout(&plan_checkout(&customer, 7))
        .await
        .unwrap();
    assert_eq!(again, page);
    let [_, sessions, _] = upstream.stripe_objects();
    assert_eq!(
        (sessions.len(), &sessions[0]["mode"], &sessions[0]["amount_total"]),
        (1, &json!("subscription"), &json!(750))
    );
    for _ in 0..2 {
        assert!(stripe.close_checkout(&page.reference).await.unwrap());
    }
    let other = stripe
        .open_plan_checkout(&plan_checkout(&customer, 8))
        .await
        .unwrap();
    upstream.begin_plan(1, NOW);
    assert!(!stripe.close_checkout(&other.reference).await.unwrap());
    assert!(stripe.close_checkout("cs_nobody").await.is_err());
}

#[tokio::test]
async fn plan_course_changes_until_it_has_ended() {
    let (upstream, stripe) = service().await;
    let plan = started(&upstream, &stripe).await;
    let standing = async || stripe.plan_status(&plan).await.unwrap();
    let first = standing().await;
    assert_eq!(first.course, RenewalState::Renews);
    let paid = first.paid.unwrap();
    assert_eq!(
        (paid.money, paid.start, paid.end),
        (money(750), at(NOW), at(NOW + 30 * 86_400))
    );
    assert_eq!(paid.of.subscription, Some(SubscriptionId::from_u128(7)));
    for (course, flag) in [
        (RenewalState::Ends, true),
        (RenewalState::Ends, true),
        (RenewalState::Renews, false),
    ] {
        assert_eq!(stripe.set_renewal_state(&plan, course).await.unwrap(), course);
        assert_eq!(standing().await.course, course);
        let [plans, _] = upstream.stripe_plans();
        assert_eq!(plans[0]["cancel_at_period_end"], flag);
    }
    upstream.cancel_in_portal(0, true);
    assert_eq!(standing().await.course, RenewalState::Ends);
    assert_eq!(
        stripe
            .set_renewal_state(&plan, RenewalState::Renews)
            .await
            .unwrap(),
        RenewalState::Renews
    );
    assert_eq!(standing().await.course, RenewalState::Renews);
    upstream.bill_plan(0, false);
    assert_eq!(standing().await.paid, None);
    for course in [
        RenewalState::Ended,
        RenewalState::Ended,
        RenewalState::Renews,
        RenewalState::Ends,
    ] {
        assert_eq!(
            stripe.set_renewal_state(&plan, course).await.unwrap(),
            RenewalState::Ended,
            "{course:?}"
        );
    }
    for lost in [true, false] {
        upstream.push_for_stripe(Reply::body(503, "text/plain", "busy"), lost);
        let error = stripe.plan_status(&plan).await.unwrap_err();
        assert!(error.is_transient, "{error}");
    }
    let unknown = stripe.set_renewal_state("sub_nobody", RenewalState::Ended).await;
    assert!(!unknown.unwrap_err().is_transient);
    let [_, payments] = upstream.stripe_plans();
    let intent = payments[0]["payment"]["payment_intent"].as_str().unwrap();
    assert!(stripe.is_invoice_payment(intent).await.unwrap());
    assert!(!stripe.is_invoice_payment("pi_nobody").await.unwrap());
}

/// Returns an invoice in two API versions, which store the subscription id in different fields.
fn invoices(own: Option<&str>) -> [Value; 2] {
    let metadata = own.map_or(json!({}), |own| json!({"subscription": own}));
    let period = json!({"start": NOW, "end": NOW + 86_400});
    let rest = json!({"start": NOW - 86_400, "end": NOW + 999_999});
    let item = |proration: bool| json!({"type": "subscription_item_details", "subscription_item_details": {"proration": proration}});
    [
        json!({
            "id": "in_1", "status": "paid", "amount_paid": 750, "currency": "usd",
            "parent": {"type": "subscription_details", "subscription_details": {
                "subscription": "sub_1", "metadata": metadata,
            }},
            "lines": {"data": [
                {"period": rest, "parent": item(true)},
                {"period": period, "parent": item(false)},
                {"period": rest, "parent": {"type": "invoice_item_details", "subscription_item_details": null}},
            ]},
        }),
        json!({
            "id": "in_1", "status": "paid", "amount_paid": 750, "currency": "usd", "parent": null,
            "subscription": "sub_1", "subscription_details": {"metadata": metadata},
            "lines": {"data": [
                {"period": rest, "type": "subscription", "proration": true},
                {"period": period, "type": "subscription", "proration": false},
                {"period": rest, "type": "invoiceitem", "proration": false},
            ]},
        }),
    ]
}

#[test]
fn invoices_name_plan_and_period() {
    let own = SubscriptionId::from_u128(7);
    let reference = |subscription| PlanReference {
        subscription,
        reference: "sub_1".to_owned(),
    };
    let invoice = |subscription| PlanInvoice {
        invoice: "in_1".to_owned(),
        of: reference(subscription),
        money: money(750),
        start: at(NOW),
        end: at(NOW + 86_400),
    };
    let text = own.to_string();
    for (said, known) in [
        (Some(text.as_str()), Some(own)),
        (Some("order 66"), None),
        (None, None),
    ] {
        for object in invoices(said) {
            let paid = PaymentEvent::PlanPaid(invoice(known));
            assert_eq!(read("invoice.paid", object.clone()), Ok(paid), "{object}");
            let failed = PaymentEvent::PlanNotPaid(invoice(known));
            assert_eq!(read("invoice.payment_failed", object), Ok(failed));
        }
    }
    for (without, is_malformed) in [
        ("id", true),
        ("amount_paid", true),
        ("currency", true),
        ("parent", false),
        ("lines", false),
    ] {
        let [mut object, _] = invoices(None);
        object.as_object_mut().unwrap().remove(without);
        let event = read("invoice.paid", object);
        let fits = match event {
            Err(EventError::Malformed(_)) => is_malformed,
            Ok(PaymentEvent::Other { .. }) => !is_malformed,
            _ => false,
        };
        assert!(fits, "{without}: {event:?}");
    }
    let named = |metadata: Value| json!({"id": "sub_1", "status": "active", "metadata": metadata});
    let object = named(json!({"subscription": text}));
    assert_eq!(
        read("customer.subscription.updated", object.clone()),
        Ok(PaymentEvent::PlanChanged(reference(Some(own))))
    );
    assert_eq!(
        read("customer.subscription.deleted", object),
        Ok(PaymentEvent::PlanEnded(reference(Some(own))))
    );
    assert_eq!(
        read("customer.subscription.deleted", named(Value::Null)),
        Ok(PaymentEvent::PlanEnded(reference(None)))
    );
    let page = json!({"client_reference_id": text, "payment_status": "unpaid"});
    let expired = PaymentEvent::PlanNotStarted {
        subscription: own,
        why: "expired".to_owned(),
    };
    assert_eq!(read("checkout.session.expired", page), Ok(expired));
    let completed = |subscription: Option<&str>, name: &str| {
        let object =
            json!({"client_reference_id": name, "payment_status": "paid", "subscription": subscription});
        read("checkout.session.completed", object)
    };
    assert_eq!(
        completed(Some("sub_1"), &text),
        Ok(PaymentEvent::PlanChanged(reference(Some(own))))
    );
    for (subscription, name) in [(Some("sub_1"), "order 66"), (None, &text)] {
        let other = completed(subscription, name);
        assert!(matches!(other, Ok(PaymentEvent::Other { .. })), "{other:?}");
    }
}
