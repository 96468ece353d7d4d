//! Requests to Stripe. Requests that create a customer, a Checkout session or a charge have an
//! idempotency key derived from the account, top-up or subscription. A repeated request therefore
//! has no second effect if the first response was lost.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use secrecy::SecretString;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tollgate_types::{Money, RenewalState, TopUpId};
use tollgate_upstream::{
    BillingInterval, ChargeOutcome, Checkout, NewCheckout, NewPayer, NewPlanCheckout, Paid, PaymentError,
    PlanStatus, SavedCharge, UpstreamError,
};
use url::form_urlencoded::Serializer;

use super::event::{Intent, Invoice};
use crate::http::{
    BaseUrl, Credential, Endpoint, EndpointError, HttpClient, Response, Timeouts, Variant, escape,
};

/// API version of the requests and responses.
const VERSION: &str = "2025-09-30.clover";
/// Maximum size of a response, in bytes.
const LIMIT: usize = 1 << 20;

pub(super) struct Client {
    base: BaseUrl,
    endpoint: Endpoint,
    http: Arc<HttpClient>,
    timeout: Duration,
}

/// Fields of a form body.
type Form<'a> = Vec<(&'a str, String)>;

#[derive(Deserialize)]
struct Created {
    id: String,
}

#[derive(Deserialize)]
struct Page {
    id: String,
    url: Option<String>,
    /// Status of a Checkout session: `open`, `complete` or `expired`.
    status: Option<String>,
}

/// A `subscription` object.
#[derive(Deserialize)]
struct Subscription {
    status: String,
    #[serde(default)]
    cancel_at_period_end: bool,
    /// End date of the subscription in Unix seconds, which the customer portal sets instead of
    /// `cancel_at_period_end`.
    cancel_at: Option<i64>,
    #[serde(default)]
    items: Items,
    latest_invoice: Option<Box<RawValue>>,
}

#[derive(Default, Deserialize)]
struct Items {
    data: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    current_period_end: Option<i64>,
}

#[derive(Deserialize)]
struct List {
    data: Vec<Created>,
}

#[derive(Deserialize)]
struct Refused {
    error: Refusal,
}

/// Machine-readable fields of an error. The message is ignored.
#[derive(Deserialize)]
struct Refusal {
    #[serde(rename = "type")]
    kind: Option<String>,
    code: Option<String>,
    decline_code: Option<String>,
    param: Option<String>,
}

/// Outcome of a request that received a response.
enum Answer<T> {
    Done(T),
    Refused { status: u16, refusal: Refusal },
}

impl Client {
    pub(super) fn new(
        base: BaseUrl,
        key: &SecretString,
        timeout: Duration,
        http: Arc<HttpClient>,
    ) -> Result<Self, EndpointError> {
        let header = |name, value: &str| Credential::header(name, &SecretString::from(value));
        let headers = [
            Credential::bearer(key)?,
            header("content-type", "application/x-www-form-urlencoded")?,
            header("stripe-version", VERSION)?,
        ];
        Ok(Self {
            endpoint: Endpoint::new(&base, "", &headers)?,
            base,
            http,
            timeout,
        })
    }

    pub(super) async fn create_customer(&self, payer: &NewPayer) -> Result<String, PaymentError> {
        let account = payer.account.to_string();
        let form = vec![
            ("name", payer.name.clone()),
            ("metadata[account]", account.clone()),
        ];
        let created: Created = self.post("/v1/customers", &account, &form).await?.done()?;
        Ok(created.id)
    }

    pub(super) async fn create_session(&self, checkout: &NewCheckout) -> Result<Checkout, PaymentError> {
        let Money { amount, currency } = checkout.money;
        let item = |name: &'static str, value: String| (name, value);
        let form = vec![
            item("mode", "payment".to_owned()),
            item("client_reference_id", checkout.top_up.to_string()),
            item("customer", checkout.payer.clone()),
            item("success_url", checkout.success_url.clone()),
            item("cancel_url", checkout.cancel_url.clone()),
            item("line_items[0][quantity]", "1".to_owned()),
            item("line_items[0][price_data][currency]", currency.to_string()),
            item("line_items[0][price_data][unit_amount]", amount.to_string()),
            item(
                "line_items[0][price_data][product_data][name]",
                checkout.title.clone(),
            ),
            // Saves the card for automatic top-ups.
            item(
                "payment_intent_data[setup_future_usage]",
                "off_session".to_owned(),
            ),
        ];
        let key = checkout.top_up.to_string();
        let page: Page = self.post("/v1/checkout/sessions", &key, &form).await?.done()?;
        let url = page
            .url
            .ok_or_else(|| unreadable("a checkout page without a URL"))?;
        let reference = page.id;
        Ok(Checkout { reference, url })
    }

    pub(super) async fn create_plan_session(
        &self,
        checkout: &NewPlanCheckout,
    ) -> Result<Checkout, PaymentError> {
        let Money { amount, currency } = checkout.money;
        let interval = match checkout.interval {
            BillingInterval::Month => "month",
            BillingInterval::Year => "year",
        };
        let item = |name: &'static str, value: String| (name, value);
        let id = checkout.subscription.to_string();
        let form = vec![
            item("mode", "subscription".to_owned()),
            item("client_reference_id", id.clone()),
            item("customer", checkout.payer.clone()),
            item("success_url", checkout.success_url.clone()),
            item("cancel_url", checkout.cancel_url.clone()),
            item("line_items[0][quantity]", "1".to_owned()),
            item("line_items[0][price_data][currency]", currency.to_string()),
            item("line_items[0][price_data][unit_amount]", amount.to_string()),
            item(
                "line_items[0][price_data][recurring][interval]",
                interval.to_owned(),
            ),
            item(
                "line_items[0][price_data][product_data][name]",
                checkout.title.clone(),
            ),
            // Every invoice of the subscription contains a copy of this metadata.
            item("subscription_data[metadata][subscription]", id.clone()),
        ];
        let page: Page = self.post("/v1/checkout/sessions", &id, &form).await?.done()?;
        let url = page
            .url
            .ok_or_else(|| unreadable("a checkout page without a URL"))?;
        let reference = page.id;
        Ok(Checkout { reference, url })
    }

    pub(super) async fn expire_session(&self, reference: &str) -> Result<bool, PaymentError> {
        let path = format!("/v1/checkout/sessions/{}", escape(reference, ""));
        let refused = match self
            .post::<Page>(&format!("{path}/expire"), "", &Form::new())
            .await?
        {
            Answer::Done(_) => return Ok(true),
            Answer::Refused { status, refusal } => refusal.error(status),
        };
        let page: Page = self.get(&path).await?.done()?;
        match page.status.as_deref() {
            Some("expired") => Ok(true),
            Some("complete") => Ok(false),
            _ => Err(refused),
        }
    }

    pub(super) async fn plan_status(&self, reference: &str) -> Result<PlanStatus, PaymentError> {
        let path = format!("{}?expand%5B%5D=latest_invoice", of_subscription(reference));
        let found: Subscription = self.get(&path).await?.done()?;
        let invoice = found.latest_invoice.as_ref().map(|invoice| {
            let invoice = serde_json::from_str::<Invoice>(invoice.get()).ok();
            invoice.ok_or_else(|| unreadable("a malformed invoice"))
        });
        let paid = invoice
            .transpose()?
            .filter(|invoice| invoice.status.as_deref() == Some("paid"));
        let paid = paid.map(Invoice::of_plan).transpose();
        Ok(PlanStatus {
            course: found.course(),
            paid: paid
                .map_err(|fault| unreadable(&format!("an invalid invoice: {fault}")))?
                .flatten(),
        })
    }

    pub(super) async fn set_renewal_state(
        &self,
        reference: &str,
        course: RenewalState,
    ) -> Result<RenewalState, PaymentError> {
        let path = of_subscription(reference);
        let answer = match course {
            RenewalState::Ended => self.delete::<Subscription>(&path).await?,
            RenewalState::Ends => {
                let form = vec![("cancel_at_period_end", "true".to_owned())];
                self.post(&path, "", &form).await?
            }
            RenewalState::Renews => {
                let found: Subscription = self.get(&path).await?.done()?;
                // Stripe rejects a request with both fields.
                let form = match found.cancel_at_period_end {
                    true => vec![("cancel_at_period_end", "false".to_owned())],
                    false => vec![("cancel_at", String::new())],
                };
                match found.course() {
                    RenewalState::Ends => self.post(&path, "", &form).await?,
                    RenewalState::Renews | RenewalState::Ended => Answer::Done(found),
                }
            }
        };
        match answer {
            Answer::Done(changed) => Ok(changed.course()),
            // A subscription that has ended cannot be changed or ended again.
            Answer::Refused { status, refusal } => {
                let found: Subscription = self.get(&path).await?.done()?;
                match found.course() {
                    RenewalState::Ended => Ok(RenewalState::Ended),
                    RenewalState::Renews | RenewalState::Ends => Err(refusal.error(status)),
                }
            }
        }
    }

    pub(super) async fn is_invoice_payment(&self, intent: &str) -> Result<bool, PaymentError> {
        let path = format!(
            "/v1/invoice_payments?limit=1&payment%5Btype%5D=payment_intent&payment%5Bpayment_intent%5D={}",
            escape(intent, "")
        );
        let payments: List = self.get(&path).await?.done()?;
        Ok(!payments.data.is_empty())
    }

    pub(super) async fn create_portal_session(
        &self,
        payer: &str,
        return_url: &str,
    ) -> Result<String, PaymentError> {
        let form = vec![
            ("customer", payer.to_owned()),
            ("return_url", return_url.to_owned()),
        ];
        let page: Page = self
            .post("/v1/billing_portal/sessions", "", &form)
            .await?
            .done()?;
        page.url
            .ok_or_else(|| unreadable("a checkout page without a URL"))
    }

    pub(super) async fn charge(&self, charge: &SavedCharge) -> Result<ChargeOutcome, PaymentError> {
        let path = format!(
            "/v1/customers/{}/payment_methods?limit=1",
            escape(&charge.payer, "")
        );
        let cards: List = self.get(&path).await?.done()?;
        let Some(card) = cards.data.into_iter().next() else {
            let why = "no_payment_method".to_owned();
            return Ok(ChargeOutcome::Declined { why });
        };
        let Money { amount, currency } = charge.money;
        let form = vec![
            ("amount", amount.to_string()),
            ("currency", currency.to_string()),
            ("customer", charge.payer.clone()),
            ("payment_method", card.id),
            ("off_session", "true".to_owned()),
            ("confirm", "true".to_owned()),
            ("description", charge.title.clone()),
            ("metadata[top_up]", charge.top_up.to_string()),
        ];
        let key = charge.top_up.to_string();
        match self.post::<Intent>("/v1/payment_intents", &key, &form).await? {
            Answer::Done(intent) => outcome(intent, charge.top_up),
            // The card was declined, or its owner must confirm the payment.
            Answer::Refused { status: 402, refusal } => Ok(ChargeOutcome::Declined {
                why: refusal.word().unwrap_or_else(|| "declined".to_owned()),
            }),
            Answer::Refused { status, refusal } => Err(refusal.error(status)),
        }
    }

    pub(super) async fn probe(&self) -> Result<(), PaymentError> {
        self.get::<serde::de::IgnoredAny>("/v1/customers?limit=1")
            .await?
            .done()
            .map(drop)
    }

    async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        key: &str,
        form: &Form<'_>,
    ) -> Result<Answer<T>, PaymentError> {
        let body = Serializer::new(String::new())
            .extend_pairs(form.iter().map(|(name, value)| (*name, value.as_str())))
            .finish();
        let mut variant = self.variant(path)?;
        if !key.is_empty() {
            let named = variant.insert("idempotency-key", &SecretString::from(key));
            named.map_err(|error| refused(error.to_string()))?;
        }
        let body = Bytes::from(body).into();
        let timeouts = Timeouts::brief(self.timeout);
        let sent = self
            .http
            .post_variant(&self.endpoint, variant, body, timeouts)
            .await;
        answer(sent).await
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Answer<T>, PaymentError> {
        let timeouts = Timeouts::brief(self.timeout);
        let variant = self.variant(path)?;
        let sent = self.http.get_variant(&self.endpoint, variant, timeouts).await;
        answer(sent).await
    }

    async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<Answer<T>, PaymentError> {
        let timeouts = Timeouts::brief(self.timeout);
        let variant = self.variant(path)?;
        let sent = self.http.delete_variant(&self.endpoint, variant, timeouts).await;
        answer(sent).await
    }

    fn variant(&self, path: &str) -> Result<Variant, PaymentError> {
        Variant::new(&self.base, path).map_err(|error| refused(error.to_string()))
    }
}

impl Subscription {
    fn course(&self) -> RenewalState {
        let period_end = self
            .items
            .data
            .iter()
            .filter_map(|item| item.current_period_end)
            .max();
        // A later end date does not affect the current period.
        let ends_with_period = |at: i64| period_end.is_none_or(|end| at <= end);
        match self.status.as_str() {
            "canceled" | "incomplete_expired" => RenewalState::Ended,
            _ if self.cancel_at_period_end || self.cancel_at.is_some_and(ends_with_period) => {
                RenewalState::Ends
            }
            _ => RenewalState::Renews,
        }
    }
}

impl<T> Answer<T> {
    fn done(self) -> Result<T, PaymentError> {
        match self {
            Answer::Done(value) => Ok(value),
            Answer::Refused { status, refusal } => Err(refusal.error(status)),
        }
    }
}

impl Refusal {
    /// Returns the most specific code of the error: the decline code, the code or the type. `None`
    /// if it is not a word of at most 64 lower-case letters, digits and underscores.
    fn word(&self) -> Option<String> {
        let code = self.decline_code.as_ref().or(self.code.as_ref());
        let is_word = |word: &&String| {
            word.len() <= 64
                && word
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        };
        code.or(self.kind.as_ref()).filter(is_word).cloned()
    }

    fn error(&self, status: u16) -> PaymentError {
        let word = self.word().map_or(String::new(), |word| format!(" {word}"));
        let about = self
            .param
            .as_deref()
            .map_or(String::new(), |param| format!(" about {param}"));
        PaymentError {
            // The status is 429 (too many requests), 409 (conflict on the idempotency key) or a
            // server error.
            is_transient: matches!(status, 409 | 429) || status >= 500,
            detail: format!("Stripe returned status {status}{word}{about}"),
        }
    }
}

async fn answer<T: DeserializeOwned>(
    sent: Result<Response, UpstreamError>,
) -> Result<Answer<T>, PaymentError> {
    let lost = |error: UpstreamError| PaymentError {
        is_transient: true,
        detail: format!("the request to Stripe failed: {}", error.detail),
    };
    let response = sent.map_err(lost)?;
    let status = response.status;
    let body = response.whole(LIMIT).await.map_err(lost)?;
    if (200..300).contains(&status) {
        let value = serde_json::from_slice(&body);
        return value
            .map(Answer::Done)
            .map_err(|_| unreadable("an undocumented response body"));
    }
    let refusal = match serde_json::from_slice::<Refused>(&body) {
        Ok(Refused { error }) => error,
        Err(_) => Refusal {
            kind: None,
            code: None,
            decline_code: None,
            param: None,
        },
    };
    Ok(Answer::Refused { status, refusal })
}

fn of_subscription(reference: &str) -> String {
    format!("/v1/subscriptions/{}", escape(reference, ""))
}

fn outcome(intent: Intent, top_up: TopUpId) -> Result<ChargeOutcome, PaymentError> {
    let reference = intent.id.clone();
    match intent.status.as_deref() {
        Some("succeeded") => {
            let money = intent
                .received()
                .ok_or_else(|| unreadable("a charge without an amount"))?;
            Ok(ChargeOutcome::Paid(Paid {
                top_up,
                reference,
                money,
            }))
        }
        Some("processing") => Ok(ChargeOutcome::Processing { reference }),
        status => Ok(ChargeOutcome::Declined {
            why: status.unwrap_or("declined").to_owned(),
        }),
    }
}

/// Returns the error of an unreadable response. The error is transient, because the request may
/// have had an effect and can be repeated.
fn unreadable(what: &str) -> PaymentError {
    PaymentError {
        is_transient: true,
        detail: format!("Stripe returned {what}"),
    }
}

fn refused(detail: String) -> PaymentError {
    PaymentError {
        is_transient: false,
        detail,
    }
}
