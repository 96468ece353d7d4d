//! The upstream as Stripe's Billing: subscriptions that start on a Checkout page, their invoices,
//! and changes in the customer portal. A month has 30 days, so that tests detect code that computes
//! the end of a period instead of reading it from Stripe's objects.

use serde_json::{Value, json};

use super::{Form, StripeServer, check, invalid, whole};

const DAY: i64 = 24 * 60 * 60;

impl StripeServer {
    /// Creates a Checkout session in subscription mode.
    pub(super) fn create_plan_session(&mut self, form: &Form) -> Result<Value, (u16, Value)> {
        let price = |rest: &str| format!("line_items[0][price_data]{rest}");
        let (amount, currency) = (price("[unit_amount]"), price("[currency]"));
        let (interval, name) = (price("[recurring][interval]"), price("[product_data][name]"));
        let needed = [
            "mode",
            "customer",
            "client_reference_id",
            "success_url",
            "cancel_url",
            "line_items[0][quantity]",
            amount.as_str(),
            currency.as_str(),
            interval.as_str(),
            name.as_str(),
        ];
        check(form, &needed, &["subscription_data[metadata][subscription]"])?;
        self.known(&form["customer"])?;
        let total = whole(form, &amount)?;
        if !["month", "year"].contains(&form[&interval].as_str()) {
            return Err(invalid(400, "parameter_invalid", Some(&interval)));
        }
        let id = self.id("cs_test");
        let object = json!({
            "id": id, "object": "checkout.session", "mode": "subscription", "status": "open", "payment_status": "unpaid",
            "payment_intent": null, "subscription": null, "invoice": null, "client_reference_id": form["client_reference_id"],
            "customer": form["customer"], "amount_subtotal": total, "amount_total": total,
            "currency": form[&currency], "total_details": {"amount_tax": 0, "amount_discount": 0, "amount_shipping": 0},
            "metadata": {}, "url": format!("https://checkout.stripe.test/c/pay/{id}"),
        });
        let terms = json!({
            "interval": form[&interval],
            "metadata": {"subscription": form.get("subscription_data[metadata][subscription]")},
        });
        self.terms.insert(id, terms);
        self.sessions.push(object.clone());
        Ok(object)
    }

    /// Finds a session by its id.
    pub(super) fn session(&mut self, id: &str) -> Result<&mut Value, (u16, Value)> {
        let found = self.sessions.iter_mut().find(|session| session["id"] == id);
        found.ok_or_else(|| invalid(404, "resource_missing", Some("session")))
    }

    /// Expires an open session.
    pub(super) fn expire_session(&mut self, id: &str) -> Result<Value, (u16, Value)> {
        let session = self.session(id)?;
        if session["status"] != "open" {
            return Err(invalid(400, "checkout_session_not_open", None));
        }
        session["status"] = json!("expired");
        session["url"] = Value::Null;
        Ok(session.clone())
    }

    /// Starts a subscription on the page of a session; returns its first invoice, which is paid.
    pub(in super::super) fn begin_plan(&mut self, session: usize, at: i64) -> Value {
        let id = self.id("sub");
        let session = &mut self.sessions[session];
        session["status"] = json!("complete");
        session["payment_status"] = json!("paid");
        session["subscription"] = json!(id);
        session["url"] = Value::Null;
        let session = session.clone();
        let terms = self.terms[session["id"].as_str().unwrap_or_default()].clone();
        let item = self.id("si");
        self.subscriptions.push(json!({
            "id": id, "object": "subscription", "status": "active", "billing_mode": {"type": "flexible"},
            "cancel_at": null, "cancel_at_period_end": false, "canceled_at": null, "ended_at": null,
            "customer": session["customer"], "currency": session["currency"], "metadata": terms["metadata"],
            "latest_invoice": null,
            "items": {"object": "list", "has_more": false, "data": [{
                "id": item, "object": "subscription_item", "quantity": 1, "subscription": id,
                "price": {"object": "price", "unit_amount": session["amount_total"], "recurring": {
                    "interval": terms["interval"], "interval_count": 1,
                }},
                "current_period_start": at, "current_period_end": at,
            }]},
        }));
        let number = self.subscriptions.len() - 1;
        self.bill_plan(number, true)
    }

    /// Ends a period of a subscription; returns the invoice of the next one, paid or not.
    pub(in super::super) fn bill_plan(&mut self, subscription: usize, is_paid: bool) -> Value {
        let (id, line, intent) = (self.id("in"), self.id("il"), self.id("pi"));
        let subscription = &mut self.subscriptions[subscription];
        let item = &mut subscription["items"]["data"][0];
        let start = item["current_period_end"].as_i64().unwrap_or_default();
        let days = if item["price"]["recurring"]["interval"] == "year" {
            365
        } else {
            30
        };
        let end = start + days * DAY;
        item["current_period_start"] = json!(start);
        item["current_period_end"] = json!(end);
        let (item, amount) = (item["id"].clone(), item["price"]["unit_amount"].clone());
        let reason = if subscription["latest_invoice"].is_null() {
            "subscription_create"
        } else {
            "subscription_cycle"
        };
        subscription["latest_invoice"] = json!(id);
        subscription["status"] = json!(if is_paid { "active" } else { "past_due" });
        let name = subscription["id"].clone();
        let invoice = json!({
            "id": id, "object": "invoice", "billing_reason": reason, "customer": subscription["customer"],
            "currency": subscription["currency"], "amount_due": amount,
            "amount_paid": if is_paid { amount.clone() } else { json!(0) },
            "status": if is_paid { "paid" } else { "open" }, "attempted": true, "metadata": {},
            "parent": {"type": "subscription_details", "quote_details": null, "subscription_details": {
                "metadata": subscription["metadata"], "subscription": name,
            }},
            "lines": {"object": "list", "has_more": false, "total_count": 1, "data": [{
                "id": line, "object": "line_item", "amount": amount, "currency": subscription["currency"], "invoice": id,
                "metadata": subscription["metadata"], "period": {"start": start, "end": end}, "quantity": 1,
                "parent": {"type": "subscription_item_details", "invoice_item_details": null, "subscription_item_details": {
                    "invoice_item": null, "proration": false, "subscription": name, "subscription_item": item,
                }},
            }]},
            // The period of the invoice is the previous one, as on every invoice that is created
            // when a period ends.
            "period_start": start, "period_end": start,
        });
        self.invoice_payments.push(
            json!({"id": format!("inpay_{id}"), "object": "invoice_payment", "invoice": id, "status": "paid",
                "payment": {"type": "payment_intent", "payment_intent": intent}}),
        );
        self.invoices.push(invoice.clone());
        invoice
    }

    /// Pays an open invoice.
    pub(in super::super) fn settle_invoice(&mut self, id: &str) -> Value {
        let Some(invoice) = self.invoices.iter_mut().find(|invoice| invoice["id"] == id) else {
            return Value::Null;
        };
        invoice["status"] = json!("paid");
        invoice["amount_paid"] = invoice["amount_due"].clone();
        let invoice = invoice.clone();
        let paid = &invoice["parent"]["subscription_details"]["subscription"];
        for subscription in self.subscriptions.iter_mut().filter(|own| own["id"] == *paid) {
            subscription["status"] = json!("active");
        }
        invoice
    }

    /// Cancels a subscription in the portal at the end of its period. The cancellation has a date,
    /// as in the current billing mode.
    pub(in super::super) fn cancel_in_portal(&mut self, subscription: usize, cancel: bool) -> Value {
        let subscription = &mut self.subscriptions[subscription];
        let end = subscription["items"]["data"][0]["current_period_end"].clone();
        subscription["cancel_at"] = if cancel { end } else { Value::Null };
        subscription["cancel_at_period_end"] = json!(false);
        subscription.clone()
    }

    /// Ends a subscription immediately.
    pub(in super::super) fn end_plan(&mut self, subscription: usize) -> Value {
        let subscription = &mut self.subscriptions[subscription];
        subscription["status"] = json!("canceled");
        subscription.clone()
    }

    /// Returns a subscription, with its latest invoice if the query expands it.
    pub(super) fn look_at_plan(&mut self, id: &str, query: &str) -> Result<Value, (u16, Value)> {
        let mut found = self.plan(id)?.clone();
        if query.contains("expand%5B%5D=latest_invoice") {
            let latest = self
                .invoices
                .iter()
                .find(|invoice| invoice["id"] == found["latest_invoice"]);
            found["latest_invoice"] = latest.cloned().unwrap_or_default();
        }
        Ok(found)
    }

    /// Returns the invoice payments for the payment intent in a query.
    pub(super) fn look_at_payments(&self, query: &str) -> Value {
        let is_requested = |payment: &&Value| {
            let intent = payment["payment"]["payment_intent"].as_str().unwrap_or_default();
            query.contains(&format!("payment%5Bpayment_intent%5D={intent}"))
        };
        let data: Vec<&Value> = self.invoice_payments.iter().filter(is_requested).collect();
        json!({"object": "list", "data": data, "has_more": false})
    }

    /// Changes or ends a subscription that has not ended.
    pub(super) fn change_plan(&mut self, id: &str, form: Option<&Form>) -> Result<Value, (u16, Value)> {
        let subscription = self.plan(id)?;
        if subscription["status"] == "canceled" {
            return Err(invalid(404, "resource_missing", Some("id")));
        }
        let Some(form) = form else {
            subscription["status"] = json!("canceled");
            return Ok(subscription.clone());
        };
        check(form, &[], &["cancel_at_period_end", "cancel_at"])?;
        match (form.get("cancel_at_period_end"), form.get("cancel_at")) {
            (Some(flag), None) => subscription["cancel_at_period_end"] = json!(flag == "true"),
            (None, Some(date)) if date.is_empty() => subscription["cancel_at"] = Value::Null,
            _ => return Err(invalid(400, "parameter_invalid", Some("cancel_at"))),
        }
        Ok(subscription.clone())
    }

    fn plan(&mut self, id: &str) -> Result<&mut Value, (u16, Value)> {
        let found = self.subscriptions.iter_mut().find(|found| found["id"] == id);
        found.ok_or_else(|| invalid(404, "resource_missing", Some("id")))
    }
}
