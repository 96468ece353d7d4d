//! What Stripe's events say (docs.stripe.com/webhooks, docs.stripe.com/api/events). Only the objects in them count, and of
//! these only what Stripe itself writes: amounts are never read from metadata, which others can set.

use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::Sha256;
use tollgate_types::{Currency, Money, Timestamp, TopUpId};
use tollgate_upstream::{EventFault, Paid, PaymentEvent};

/// How old a signature may be, and how far ahead the other clock, in seconds: an event that was overheard is not sent again
/// later.
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

/// A `checkout.session`.
#[derive(Deserialize)]
struct Session {
    client_reference_id: Option<String>,
    payment_status: String,
    payment_intent: Option<String>,
    amount_total: Option<i64>,
    currency: Option<String>,
    total_details: Option<Details>,
}

#[derive(Deserialize)]
struct Details {
    #[serde(default)]
    amount_tax: i64,
}

/// A `payment_intent`.
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

/// The only thing in it that the gateway has put there.
#[derive(Default, Deserialize)]
struct Metadata {
    top_up: Option<String>,
}

#[derive(Deserialize)]
struct LastError {
    code: Option<String>,
    decline_code: Option<String>,
}

/// A `charge`.
#[derive(Deserialize)]
struct Charge {
    payment_intent: Option<String>,
    amount_refunded: i64,
    currency: String,
}

/// A `dispute`.
#[derive(Deserialize)]
struct Dispute {
    payment_intent: Option<String>,
    amount: i64,
    currency: String,
}

/// Checks that a body was signed by whoever has the secret, not long ago.
pub(super) fn check_signature(
    secret: &SecretString,
    header: Option<&str>,
    body: &[u8],
    now: Timestamp,
) -> Result<(), EventFault> {
    let parts = || {
        let pairs = header.unwrap_or_default().split(',');
        pairs.filter_map(|pair| pair.trim().split_once('='))
    };
    let signed_at = parts().find(|(name, _)| *name == "t").map(|(_, value)| value);
    let signed_at = signed_at.ok_or(EventFault::Signature)?;
    let seconds: i64 = signed_at.parse().map_err(|_| EventFault::Signature)?;
    let digest = || {
        let mac = Hmac::<Sha256>::new_from_slice(secret.expose_secret().trim().as_bytes());
        mac.map(|mac| mac.chain_update(signed_at).chain_update(b".").chain_update(body))
            .map_err(|_| EventFault::Signature)
    };
    // There are several while a secret is being replaced.
    for (_, signature) in parts().filter(|(name, _)| *name == "v1") {
        let Some(signature) = from_hex(signature) else {
            continue;
        };
        if digest()?.verify_slice(&signature).is_ok() {
            return match now.as_seconds().abs_diff(seconds) <= TOLERANCE {
                true => Ok(()),
                false => Err(EventFault::Stale),
            };
        }
    }
    Err(EventFault::Signature)
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

/// Reads an event whose signature was checked.
pub(super) fn read(body: &[u8]) -> Result<PaymentEvent, EventFault> {
    let event: Event<'_> = serde_json::from_slice(body).map_err(malformed)?;
    let object = event.data.object.get();
    match event.kind.as_str() {
        "checkout.session.completed" | "checkout.session.async_payment_succeeded" => {
            let session: Session = serde_json::from_str(object).map_err(malformed)?;
            match session.payment_status.as_str() {
                "paid" => session.paid(),
                // It will be paid later, or cost nothing.
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
    fn paid(self) -> Result<PaymentEvent, EventFault> {
        let Some(top_up) = own_id(self.client_reference_id.as_deref()) else {
            return Ok(other("checkout.session of somebody else".to_owned()));
        };
        let tax = self.total_details.map_or(0, |details| details.amount_tax);
        let total = self.amount_total.ok_or_else(|| lacks("amount_total"))?;
        let currency = currency(self.currency.as_deref())?;
        let amount = total.checked_sub(tax).filter(|amount| *amount >= 0);
        Ok(PaymentEvent::Paid(Paid {
            top_up,
            reference: self.payment_intent.ok_or_else(|| lacks("payment_intent"))?,
            money: Money {
                amount: amount.ok_or_else(|| lacks("a sensible amount_total"))?,
                currency,
            },
        }))
    }
}

impl Intent {
    fn top_up(&self) -> Option<TopUpId> {
        own_id(self.metadata.top_up.as_deref())
    }

    /// What was received, if that is said.
    pub(super) fn received(&self) -> Option<Money> {
        let amount = self.amount_received.filter(|amount| *amount >= 0)?;
        let currency = currency(self.currency.as_deref()).ok()?;
        Some(Money { amount, currency })
    }
}

fn own_id(text: Option<&str>) -> Option<TopUpId> {
    text?.parse().ok()
}

fn failed_session(object: &str, why: &str) -> Result<PaymentEvent, EventFault> {
    let session: Session = serde_json::from_str(object).map_err(malformed)?;
    let Some(top_up) = own_id(session.client_reference_id.as_deref()) else {
        return Ok(other("checkout.session of somebody else".to_owned()));
    };
    let why = why.to_owned();
    Ok(PaymentEvent::Failed { top_up, why })
}

fn returned(
    kind: String,
    intent: Option<String>,
    amount: i64,
    code: &str,
) -> Result<PaymentEvent, EventFault> {
    let Some(reference) = intent else {
        return Ok(other(kind));
    };
    let currency = currency(Some(code))?;
    let total = Money { amount, currency };
    Ok(PaymentEvent::Returned { reference, total })
}

fn currency(code: Option<&str>) -> Result<Currency, EventFault> {
    code.and_then(|code| code.parse().ok())
        .ok_or_else(|| lacks("currency"))
}

fn other(kind: String) -> PaymentEvent {
    PaymentEvent::Other { kind }
}

fn lacks(what: &str) -> EventFault {
    EventFault::Malformed(format!("it has no {what}"))
}

fn malformed(error: serde_json::Error) -> EventFault {
    EventFault::Malformed(error.to_string())
}
