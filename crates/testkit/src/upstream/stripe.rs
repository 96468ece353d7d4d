//! The upstream as Stripe: customers, Checkout sessions, the portal, payment methods, payment
//! intents and subscriptions. Requests are forms and responses are objects (docs.stripe.com/api).
//! The server stores all objects, refuses invalid requests as Stripe does, stores idempotency keys,
//! and signs events.

mod plans;

use std::collections::{BTreeMap, VecDeque};

use aws_lc_rs::hmac;
use serde_json::{Value, json};

use super::received::ReceivedRequest;
use super::reply::Reply;

/// The outcome of an off-session charge of a saved card.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Card {
    /// The payment succeeds.
    Pays,
    /// The payment is processing. A later event reports the result.
    Processing,
    /// The card is declined for insufficient funds.
    Declined,
    /// The cardholder must authenticate.
    NeedsOwner,
}

/// An event as Stripe sends it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The JSON body.
    pub body: String,
    /// The value of `stripe-signature`.
    pub signature: String,
}

type Form = BTreeMap<String, String>;

/// The state of the payment service.
#[derive(Debug)]
pub(super) struct StripeServer {
    key: String,
    webhook_secret: String,
    count: u64,
    pub(super) customers: Vec<Value>,
    cards: BTreeMap<String, Card>,
    pub(super) sessions: Vec<Value>,
    pub(super) intents: Vec<Value>,
    /// The subscription parameters of each session.
    terms: BTreeMap<String, Value>,
    pub(super) subscriptions: Vec<Value>,
    invoices: Vec<Value>,
    pub(super) invoice_payments: Vec<Value>,
    remembered: BTreeMap<String, (String, Form, Value)>,
    /// Replies that replace the normal ones. The flag states whether the request is executed.
    pub(super) queue: VecDeque<(Reply, bool)>,
}

impl StripeServer {
    pub(super) fn new(key: &str, webhook_secret: &str) -> Self {
        Self {
            key: key.to_owned(),
            webhook_secret: webhook_secret.to_owned(),
            count: 0,
            customers: Vec::new(),
            cards: BTreeMap::new(),
            sessions: Vec::new(),
            intents: Vec::new(),
            terms: BTreeMap::new(),
            subscriptions: Vec::new(),
            invoices: Vec::new(),
            invoice_payments: Vec::new(),
            remembered: BTreeMap::new(),
            queue: VecDeque::new(),
        }
    }

    /// Returns the reply to a request of Stripe's API; `None` for other paths.
    pub(super) fn reply(&mut self, request: &ReceivedRequest) -> Option<Reply> {
        let path = request.bare_path().to_owned();
        let is_own = [
            "/v1/customers",
            "/v1/checkout/",
            "/v1/billing_portal/",
            "/v1/payment_intents",
            "/v1/subscriptions/",
            "/v1/invoice_payments",
        ]
        .iter()
        .any(|own| path.starts_with(own));
        if !is_own {
            return None;
        }
        match self.queue.pop_front() {
            Some((reply, false)) => return Some(reply),
            Some((reply, true)) => {
                let _ = self.execute(request, &path);
                return Some(reply);
            }
            None => {}
        }
        Some(match self.execute(request, &path) {
            Ok(object) => Reply::body(200, "application/json", object.to_string()),
            Err((status, error)) => {
                Reply::body(status, "application/json", json!({"error": error}).to_string())
            }
        })
    }

    fn execute(&mut self, request: &ReceivedRequest, path: &str) -> Result<Value, (u16, Value)> {
        if request.header("authorization") != Some(&format!("Bearer {}", self.key)) {
            return Err(invalid(401, "api_key_invalid", None));
        }
        let query = request.path.split_once('?').map_or("", |(_, query)| query);
        match (request.method.as_str(), path.strip_prefix("/v1/subscriptions/")) {
            ("GET", Some(id)) => return self.look_at_plan(id, query),
            ("DELETE", Some(id)) => return self.change_plan(id, None),
            ("GET", None) if path == "/v1/invoice_payments" => return Ok(self.look_at_payments(query)),
            ("GET", None) => return self.look(path),
            _ => {}
        }
        if request.header("content-type") != Some("application/x-www-form-urlencoded") {
            return Err(invalid(400, "not_a_form", None));
        }
        let form = read_form(&request.body).ok_or_else(|| invalid(400, "not_a_form", None))?;
        let Some(key) = request.header("idempotency-key") else {
            return self.create(path, &form);
        };
        if let Some((earlier, earlier_form, object)) = self.remembered.get(key) {
            let same = earlier == path && *earlier_form == form;
            return match same {
                true if object.get("error").is_some() => Err((402, object["error"].clone())),
                true => Ok(object.clone()),
                false => Err((400, json!({"type": "idempotency_error"}))),
            };
        }
        let made = self.create(path, &form);
        let object = match &made {
            Ok(object) => Some(object.clone()),
            Err((402, error)) => Some(json!({"error": error})),
            Err(_) => None,
        };
        if let Some(object) = object {
            self.remembered
                .insert(key.to_owned(), (path.to_owned(), form, object));
        }
        made
    }

    fn look(&mut self, path: &str) -> Result<Value, (u16, Value)> {
        if let Some(id) = path.strip_prefix("/v1/checkout/sessions/") {
            return self.session(id).cloned();
        }
        let customer = path
            .strip_prefix("/v1/customers/")
            .and_then(|rest| rest.strip_suffix("/payment_methods"));
        let data = match customer {
            Some(customer) => {
                self.known(customer)?;
                let card = self.cards.get(customer);
                card.map(|_| json!({"id": format!("pm_{customer}"), "object": "payment_method"}))
                    .into_iter()
                    .collect()
            }
            None => self.customers.clone(),
        };
        Ok(json!({"object": "list", "data": data, "has_more": false, "url": path}))
    }

    fn create(&mut self, path: &str, form: &Form) -> Result<Value, (u16, Value)> {
        match path {
            "/v1/customers" => {
                check(form, &["metadata[account]"], &["name"])?;
                let id = self.id("cus");
                let object = json!({"id": id, "object": "customer", "name": form.get("name")});
                self.customers.push(object.clone());
                Ok(object)
            }
            "/v1/checkout/sessions" if form.get("mode").is_some_and(|mode| mode == "subscription") => {
                self.create_plan_session(form)
            }
            "/v1/checkout/sessions" => self.create_session(form),
            "/v1/billing_portal/sessions" => {
                check(form, &["customer", "return_url"], &[])?;
                self.known(&form["customer"])?;
                let id = self.id("bps");
                Ok(json!({"id": id, "url": format!("https://billing.stripe.test/p/session/{id}")}))
            }
            "/v1/payment_intents" => self.charge(form),
            _ if path.starts_with("/v1/subscriptions/") => {
                self.change_plan(&path["/v1/subscriptions/".len()..], Some(form))
            }
            _ if path.starts_with("/v1/checkout/sessions/") && path.ends_with("/expire") => {
                let id = path["/v1/checkout/sessions/".len()..].trim_end_matches("/expire");
                self.expire_session(id)
            }
            _ => Err(invalid(404, "resource_missing", None)),
        }
    }

    fn create_session(&mut self, form: &Form) -> Result<Value, (u16, Value)> {
        let item = |rest: &str| format!("line_items[0]{rest}");
        let (quantity, amount) = (item("[quantity]"), item("[price_data][unit_amount]"));
        let currency = item("[price_data][currency]");
        let name = item("[price_data][product_data][name]");
        let needed = [
            "mode",
            "customer",
            "client_reference_id",
            "success_url",
            "cancel_url",
            quantity.as_str(),
            amount.as_str(),
            currency.as_str(),
            name.as_str(),
        ];
        check(form, &needed, &["payment_intent_data[setup_future_usage]"])?;
        self.known(&form["customer"])?;
        let total = whole(form, &amount)?;
        if total < 50 {
            return Err(invalid(400, "amount_too_small", Some(&amount)));
        }
        let id = self.id("cs_test");
        let object = json!({
            "id": id, "object": "checkout.session", "mode": form["mode"], "status": "open",
            "payment_status": "unpaid", "payment_intent": null, "client_reference_id": form["client_reference_id"],
            "customer": form["customer"], "amount_subtotal": total, "amount_total": total,
            "currency": form[&currency], "total_details": {"amount_tax": 0, "amount_discount": 0, "amount_shipping": 0},
            "metadata": {}, "url": format!("https://checkout.stripe.test/c/pay/{id}"),
        });
        self.sessions.push(object.clone());
        Ok(object)
    }

    fn charge(&mut self, form: &Form) -> Result<Value, (u16, Value)> {
        let needed = [
            "amount",
            "currency",
            "customer",
            "payment_method",
            "off_session",
            "confirm",
        ];
        check(form, &needed, &["description", "metadata[top_up]"])?;
        self.known(&form["customer"])?;
        let amount = whole(form, "amount")?;
        let card = self.cards.get(&form["customer"]).copied();
        let refused = |code: &str, decline: Option<&str>| {
            let error =
                json!({"type": "card_error", "code": code, "decline_code": decline, "message": "No."});
            Err((402, error))
        };
        let status = match card {
            None => return Err(invalid(400, "payment_method_missing", Some("payment_method"))),
            Some(Card::Declined) => return refused("card_declined", Some("insufficient_funds")),
            Some(Card::NeedsOwner) => return refused("authentication_required", None),
            Some(Card::Processing) => "processing",
            Some(Card::Pays) => "succeeded",
        };
        let id = self.id("pi");
        let received = if status == "succeeded" { amount } else { 0 };
        let object = json!({
            "id": id, "object": "payment_intent", "status": status, "amount": amount, "amount_received": received,
            "currency": form["currency"], "customer": form["customer"], "last_payment_error": null,
            "metadata": {"top_up": form.get("metadata[top_up]")},
        });
        self.intents.push(object.clone());
        Ok(object)
    }

    /// Pays for a session on its page. Saves a card that always pays if the customer has no card
    /// yet.
    pub(super) fn pay(&mut self, session: usize) -> Value {
        let id = self.id("pi");
        let session = &mut self.sessions[session];
        session["status"] = json!("complete");
        session["payment_status"] = json!("paid");
        session["payment_intent"] = json!(id);
        let customer = session["customer"].as_str().unwrap_or_default().to_owned();
        self.cards.entry(customer).or_insert(Card::Pays);
        session.clone()
    }

    /// Saves a card for every customer.
    pub(super) fn keep_cards(&mut self, card: Card) {
        for customer in &self.customers {
            let id = customer["id"].as_str().unwrap_or_default().to_owned();
            self.cards.insert(id, card);
        }
    }

    /// Returns an event about an object, signed at an instant.
    pub(super) fn event(&mut self, kind: &str, object: &Value, at: i64) -> Event {
        let id = self.id("evt");
        let event = json!({
            "id": id, "object": "event", "api_version": "2025-09-30.clover", "created": at, "livemode": false,
            "type": kind, "data": {"object": object},
        });
        let body = event.to_string();
        let signature = format!("t={at},v1={}", self.sign(at, &body));
        Event { body, signature }
    }

    fn sign(&self, at: i64, body: &str) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.webhook_secret.as_bytes());
        let tag = hmac::sign(&key, format!("{at}.{body}").as_bytes());
        tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn known(&self, customer: &str) -> Result<(), (u16, Value)> {
        let is_known = self.customers.iter().any(|known| known["id"] == customer);
        is_known
            .then_some(())
            .ok_or_else(|| invalid(400, "resource_missing", Some("customer")))
    }

    fn id(&mut self, kind: &str) -> String {
        self.count += 1;
        format!("{kind}_{:08}", self.count)
    }
}

fn invalid(status: u16, code: &str, param: Option<&str>) -> (u16, Value) {
    let error = json!({"type": "invalid_request_error", "code": code, "param": param, "message": "No."});
    (status, error)
}

fn check(form: &Form, needed: &[&str], allowed: &[&str]) -> Result<(), (u16, Value)> {
    if let Some(missing) = needed.iter().find(|name| !form.contains_key(**name)) {
        return Err(invalid(400, "parameter_missing", Some(missing)));
    }
    let unknown = form
        .keys()
        .find(|name| !needed.contains(&name.as_str()) && !allowed.contains(&name.as_str()));
    unknown.map_or(Ok(()), |name| Err(invalid(400, "parameter_unknown", Some(name))))
}

fn whole(form: &Form, name: &str) -> Result<i64, (u16, Value)> {
    let number = form.get(name).and_then(|text| text.parse().ok());
    number.ok_or_else(|| invalid(400, "parameter_invalid_integer", Some(name)))
}

fn read_form(body: &[u8]) -> Option<Form> {
    let text = std::str::from_utf8(body).ok()?;
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        Some((decoded(name)?, decoded(value)?))
    };
    text.split('&')
        .filter(|part| !part.is_empty())
        .map(pair)
        .collect()
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}
