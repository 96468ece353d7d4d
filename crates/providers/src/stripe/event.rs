//! Parses Stripe's events (docs.stripe.com/webhooks, docs.stripe.com/api/events). Only the object
//! of an event is read. Ids of the gateway are read from metadata and references, but amounts only
//! from fields that Stripe itself sets.

use std::str::FromStr;

use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::Sha256;
use tollgate_types::{Currency, Money, SubscriptionId, Timestamp, TopUpId};
use tollgate_upstream::{EventError, Paid, PaymentEvent, PlanInvoice, PlanReference};

/// Maximum difference between a signature's time and the current time, in seconds. The limit
/// prevents replays of old events.
const TOLERANCE: u64 = 300;

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(rename = "type")]
    kind: String,
    #[serde(borrow)]
    data: Data<'a>,
}

#[derive(Deserialize)]
struct Data<'a> {
    #[serde(borrow)]
    object: &'a RawValue,
}

/// A `checkout.session` object.
#[derive(Deserialize)]
struct Session {
    client_reference_id: Option<String>,
    payment_status: String,
    payment_intent: Option<String>,
    subscription: Option<String>,
    amount_total: Option<i64>,
    currency: Option<String>,
    total_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default)]
    amount_tax: i64,
}

/// A `payment_intent` object.
#[derive(Deserialize)]
pub(super) struct Intent {
    pub(super) id: String,
    pub(super) status: Option<String>,
    amount_received: Option<i64>,
    currency: Option<String>,
    #[serde(default)]
    metadata: Metadata,
    last_payment_error: Option<LastError>,
}

/// Metadata that the gateway has set. It contains only ids, never amounts.
#[derive(Default, Deserialize)]
pub(super) struct Metadata {
    top_up: Option<String>,
    subscription: Option<String>,
}

#[derive(Deserialize)]
struct LastError {
    code: Option<String>,
    decline_code: Option<String>,
}

/// A `charge` object.
#[derive(Deserialize)]
struct Charge {
    payment_intent: Option<String>,
    amount_refunded: i64,
    currency: String,
}

/// A `dispute` object.
#[derive(Deserialize)]
struct Dispute {
    payment_intent: Option<String>,
    amount: i64,
    currency: String,
}

/// An `invoice` object.
#[derive(Deserialize)]
pub(super) struct Invoice {
    id: Option<String>,
    pub(super) status: Option<String>,
    amount_paid: Option<i64>,
    currency: Option<String>,
    parent: Option<InvoiceParent>,
    /// Subscription in API versions before 2025-03-31, which webhook endpoints may still use.
    subscription: Option<String>,
    /// Details of the subscription in API versions before 2025-03-31.
    subscription_details: Option<SubscriptionDetails>,
    #[serde(default)]
    lines: Lines,
}

#[derive(Deserialize)]
struct InvoiceParent {
    subscription_details: Option<SubscriptionDetails>,
}

#[derive(Default, Deserialize)]
struct SubscriptionDetails {
    subscription: Option<String>,
    metadata: Option<Metadata>,
}

#[derive(Default, Deserialize)]
struct Lines {
    data: Vec<Line>,
}

#[derive(Deserialize)]
struct Line {
    period: Period,
    parent: Option<LineParent>,
    /// Type of the line in API versions before 2025-03-31.
    #[serde(rename = "type")]
    kind: Option<String>,
    /// Whether the line is prorated, in API versions before 2025-03-31.
    #[serde(default)]
    proration: bool,
}

#[derive(Deserialize)]
struct LineParent {
    subscription_item_details: Option<ItemDetails>,
}

#[derive(Deserialize)]
struct ItemDetails {
    #[serde(default)]
    proration: bool,
}

#[derive(Clone, Copy, Deserialize)]
struct Period {
    start: i64,
    end: i64,
}

/// A `subscription` object. Only its id is read, because events may arrive out of order.
#[derive(Deserialize)]
struct NamedSubscription {
    id: String,
    metadata: Option<Metadata>,
}

/// Checks that the body was signed with the secret, and that the signature's time differs from
/// `now` by at most [`TOLERANCE`] seconds.
pub(super) fn check_signature(
    secret: &SecretString,
    header: Option<&str>,
    body: &[u8],
    now: Timestamp,
) -> Result<(), EventError> {
    let parts = || {
        let pairs = header.unwrap_or_default().split(',');
        pairs.filter_map(|pair| pair.trim().split_once('='))
    };
    let signed_at = parts().find(|(name, _)| *name == "t").map(|(_, value)| value);
    let signed_at = signed_at.ok_or(EventError::Signature)?;
    let seconds: i64 = signed_at.parse().map_err(|_| EventError::Signature)?;
    let digest = || {
        let mac = Hmac::<Sha256>::new_from_slice(secret.expose_secret().trim().as_bytes());
        mac.map(|mac| mac.chain_update(signed_at).chain_update(b".").chain_update(body))
            .map_err(|_| EventError::Signature)
    };
    // The header contains several signatures while a secret is being replaced.
    for (_, signature) in parts().filter(|(name, _)| *name == "v1") {
        let Some(signature) = from_hex(signature) else {
            continue;
        };
        if digest()?.verify_slice(&signature).is_ok() {
            return match now.as_seconds().abs_diff(seconds) <= TOLERANCE {
                true => Ok(()),
                false => Err(EventError::Stale),
            };
        }
    }
    Err(EventError::Signature)
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let digit = |digit: u8| {
        char::from(digit)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
    };
    let byte = |pair: &[u8]| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    };
    (digits.len() == 64).then(|| digits.chunks(2).map(byte).collect())?
}

/// Parses an event whose signature was checked. Events that the gateway does not process become
/// [`PaymentEvent::Other`].
pub(super) fn read(body: &[u8]) -> Result<PaymentEvent, EventError> {
    let event: Event<'_> = serde_json::from_slice(body).map_err(malformed)?;
    let object = event.data.object.get();
    match event.kind.as_str() {
        "checkout.session.completed" | "checkout.session.async_payment_succeeded" => {
            let session: Session = serde_json::from_str(object).map_err(malformed)?;
            if let Some(started) = session.plan() {
                return Ok(PaymentEvent::PlanChanged(started));
            }
            match session.payment_status.as_str() {
                "paid" => session.paid(),
                // The session is paid later, or it is free.
                _ => Ok(other(event.kind)),
            }
        }
        "checkout.session.async_payment_failed" => failed_session(object, "payment_failed"),
        "checkout.session.expired" => failed_session(object, "expired"),
        "payment_intent.succeeded" => {
            let intent: Intent = serde_json::from_str(object).map_err(malformed)?;
            let Some(top_up) = intent.top_up() else {
                return Ok(other(event.kind));
            };
            let money = intent.received().ok_or_else(|| lacks("amount_received"))?;
            let reference = intent.id;
            Ok(PaymentEvent::Paid(Paid {
                top_up,
                reference,
                money,
            }))
        }
        "payment_intent.payment_failed" => {
            let intent: Intent = serde_json::from_str(object).map_err(malformed)?;
            let Some(top_up) = intent.top_up() else {
                return Ok(other(event.kind));
            };
            let error = intent.last_payment_error;
            let why = error.and_then(|error| error.decline_code.or(error.code));
            let why = why.unwrap_or_else(|| "declined".to_owned());
            Ok(PaymentEvent::Failed { top_up, why })
        }
        "invoice.paid" => {
            let invoice = read_invoice(object)?;
            Ok(invoice.map_or_else(|| other(event.kind), PaymentEvent::PlanPaid))
        }
        "invoice.payment_failed" => {
            let invoice = read_invoice(object)?;
            Ok(invoice.map_or_else(|| other(event.kind), PaymentEvent::PlanNotPaid))
        }
        "customer.subscription.updated" => read_subscription(object).map(PaymentEvent::PlanChanged),
        "customer.subscription.deleted" => read_subscription(object).map(PaymentEvent::PlanEnded),
        "charge.refunded" => {
            let charge: Charge = serde_json::from_str(object).map_err(malformed)?;
            returned(
                event.kind,
                charge.payment_intent,
                charge.amount_refunded,
                &charge.currency,
            )
        }
        "charge.dispute.funds_withdrawn" => {
            let dispute: Dispute = serde_json::from_str(object).map_err(malformed)?;
            returned(
                event.kind,
                dispute.payment_intent,
                dispute.amount,
                &dispute.currency,
            )
        }
        _ => Ok(other(event.kind)),
    }
}

impl Session {
    /// Returns the subscription that the session started; `None` if the session was not created for
    /// a subscription of the gateway.
    fn plan(&self) -> Option<PlanReference> {
        Some(PlanReference {
            subscription: Some(own_id(self.client_reference_id.as_deref())?),
            reference: self.subscription.clone()?,
        })
    }

    fn paid(self) -> Result<PaymentEvent, EventError> {
        let Some(top_up) = own_id(self.client_reference_id.as_deref()) else {
            return Ok(other("checkout.session of another application".to_owned()));
        };
        let tax = self.total_details.map_or(0, |details| details.amount_tax);
        let total = self.amount_total.ok_or_else(|| lacks("amount_total"))?;
        let currency = currency(self.currency.as_deref())?;
        let amount = total.checked_sub(tax).filter(|amount| *amount >= 0);
        Ok(PaymentEvent::Paid(Paid {
            top_up,
            reference: self.payment_intent.ok_or_else(|| lacks("payment_intent"))?,
            money: Money {
                amount: amount.ok_or_else(|| lacks("valid amount_total"))?,
                currency,
            },
        }))
    }
}

impl Intent {
    fn top_up(&self) -> Option<TopUpId> {
        own_id(self.metadata.top_up.as_deref())
    }

    /// Returns the received amount; `None` if the amount or the currency is absent or invalid.
    pub(super) fn received(&self) -> Option<Money> {
        let amount = self.amount_received.filter(|amount| *amount >= 0)?;
        let currency = currency(self.currency.as_deref()).ok()?;
        Some(Money { amount, currency })
    }
}

impl Invoice {
    /// Returns the subscription period of the invoice; `None` if the invoice is not for a
    /// subscription period. Ignores prorated lines, whose period belongs to another invoice.
    pub(super) fn of_plan(self) -> Result<Option<PlanInvoice>, EventError> {
        let parent = self.parent.and_then(|parent| parent.subscription_details);
        let details = parent.or(self.subscription_details).unwrap_or_default();
        let (Some(reference), Some(period)) = (
            details.subscription.or(self.subscription),
            self.lines
                .data
                .iter()
                .filter_map(Line::period)
                .max_by_key(|period| period.end),
        ) else {
            return Ok(None);
        };
        let amount = self.amount_paid.ok_or_else(|| lacks("amount_paid"))?;
        Ok(Some(PlanInvoice {
            invoice: self.id.ok_or_else(|| lacks("id"))?,
            of: named(details.metadata, reference),
            money: Money {
                amount,
                currency: currency(self.currency.as_deref())?,
            },
            start: at(period.start),
            end: at(period.end),
        }))
    }
}

impl Line {
    fn period(&self) -> Option<Period> {
        let of_item = |parent: &LineParent| {
            let item = parent.subscription_item_details.as_ref();
            item.is_some_and(|item| !item.proration)
        };
        let of_plan = || self.kind.as_deref() == Some("subscription") && !self.proration;
        let is_period = self.parent.as_ref().map_or_else(of_plan, of_item);
        is_period.then_some(self.period)
    }
}

fn read_invoice(object: &str) -> Result<Option<PlanInvoice>, EventError> {
    let invoice: Invoice = serde_json::from_str(object).map_err(malformed)?;
    invoice.of_plan()
}

fn read_subscription(object: &str) -> Result<PlanReference, EventError> {
    let subscription: NamedSubscription = serde_json::from_str(object).map_err(malformed)?;
    Ok(named(subscription.metadata, subscription.id))
}

fn named(metadata: Option<Metadata>, reference: String) -> PlanReference {
    let metadata = metadata.unwrap_or_default();
    PlanReference {
        subscription: own_id(metadata.subscription.as_deref()),
        reference,
    }
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds.saturating_mul(1_000_000))
}

fn own_id<I: FromStr>(text: Option<&str>) -> Option<I> {
    text?.parse().ok()
}

fn failed_session(object: &str, why: &str) -> Result<PaymentEvent, EventError> {
    let session: Session = serde_json::from_str(object).map_err(malformed)?;
    let (name, why) = (session.client_reference_id.as_deref(), why.to_owned());
    if let Some(subscription) = own_id::<SubscriptionId>(name) {
        return Ok(PaymentEvent::PlanNotStarted { subscription, why });
    }
    let Some(top_up) = own_id::<TopUpId>(name) else {
        return Ok(other("checkout.session of another application".to_owned()));
    };
    Ok(PaymentEvent::Failed { top_up, why })
}

fn returned(
    kind: String,
    intent: Option<String>,
    amount: i64,
    code: &str,
) -> Result<PaymentEvent, EventError> {
    let Some(reference) = intent else {
        return Ok(other(kind));
    };
    let currency = currency(Some(code))?;
    let total = Money { amount, currency };
    Ok(PaymentEvent::Returned { reference, total })
}

fn currency(code: Option<&str>) -> Result<Currency, EventError> {
    code.and_then(|code| code.parse().ok())
        .ok_or_else(|| lacks("supported currency"))
}

fn other(kind: String) -> PaymentEvent {
    PaymentEvent::Other { kind }
}

fn lacks(what: &str) -> EventError {
    EventError::Malformed(format!("the event has no {what}"))
}

fn malformed(error: serde_json::Error) -> EventError {
    EventError::Malformed(error.to_string())
}
