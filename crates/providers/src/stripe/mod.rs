//! Payments by Stripe: Checkout for interactive payments, saved cards for automatic charges,
//! subscriptions, the customer portal, and signed events (docs.stripe.com/api,
//! docs.stripe.com/webhooks).
//!
//! Suggested reading order: `client`, `event`.

mod client;
mod event;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use secrecy::SecretString;
use tollgate_types::{RenewalState, Timestamp};
use tollgate_upstream::{
    ChargeOutcome, Checkout, EventError, NewCheckout, NewPayer, NewPlanCheckout, PaymentError, PaymentEvent,
    PaymentProvider, PlanStatus, SavedCharge,
};

use crate::http::{BaseUrl, EndpointError, HttpClient};
use client::Client;

/// Base URL of Stripe's API.
pub const BASE_URL: &str = "https://api.stripe.com";

/// Base URL, keys and timeout of the adapter.
#[derive(Debug)]
pub struct StripeSettings {
    /// Base URL, which tests replace; normally [`BASE_URL`].
    pub base_url: String,
    /// A secret or restricted key, `sk_…` or `rk_…`.
    pub secret_key: SecretString,
    /// Signing secret of the webhook endpoint, `whsec_…`.
    pub webhook_secret: SecretString,
    /// Maximum wait for the headers and for each chunk of a response.
    pub timeout: Duration,
}

/// Adapter of Stripe's API and webhook events.
pub struct Stripe {
    client: Client,
    webhook_secret: SecretString,
}

impl fmt::Debug for Stripe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stripe").finish_non_exhaustive()
    }
}

impl Stripe {
    /// Builds the adapter without connecting to Stripe. Returns an error if the base URL is
    /// unencrypted and not on this machine.
    pub fn new(settings: StripeSettings, http: Arc<HttpClient>) -> Result<Self, EndpointError> {
        let base = BaseUrl::parse(&settings.base_url)?;
        if !base.is_secure() && !base.is_local() {
            return Err(EndpointError::new(format!(
                "`{base}` is not https: the key would be sent unencrypted"
            )));
        }
        Ok(Self {
            client: Client::new(base, &settings.secret_key, settings.timeout, http)?,
            webhook_secret: settings.webhook_secret,
        })
    }
}

#[async_trait]
impl PaymentProvider for Stripe {
    fn name(&self) -> &'static str {
        "stripe"
    }

    async fn create_payer(&self, payer: &NewPayer) -> Result<String, PaymentError> {
        self.client.create_customer(payer).await
    }

    async fn open_checkout(&self, checkout: &NewCheckout) -> Result<Checkout, PaymentError> {
        self.client.create_session(checkout).await
    }

    async fn open_portal(&self, payer: &str, return_url: &str) -> Result<String, PaymentError> {
        self.client.create_portal_session(payer, return_url).await
    }

    async fn charge_saved(&self, charge: &SavedCharge) -> Result<ChargeOutcome, PaymentError> {
        self.client.charge(charge).await
    }

    async fn open_plan_checkout(&self, checkout: &NewPlanCheckout) -> Result<Checkout, PaymentError> {
        self.client.create_plan_session(checkout).await
    }

    async fn close_checkout(&self, reference: &str) -> Result<bool, PaymentError> {
        self.client.expire_session(reference).await
    }

    async fn plan_status(&self, reference: &str) -> Result<PlanStatus, PaymentError> {
        self.client.plan_status(reference).await
    }

    async fn set_renewal_state(
        &self,
        reference: &str,
        course: RenewalState,
    ) -> Result<RenewalState, PaymentError> {
        self.client.set_renewal_state(reference, course).await
    }

    async fn is_invoice_payment(&self, reference: &str) -> Result<bool, PaymentError> {
        self.client.is_invoice_payment(reference).await
    }

    fn read_event(
        &self,
        signature: Option<&str>,
        body: &[u8],
        now: Timestamp,
    ) -> Result<PaymentEvent, EventError> {
        event::check_signature(&self.webhook_secret, signature, body, now)?;
        event::read(body)
    }

    fn signature_header(&self) -> &'static str {
        "stripe-signature"
    }

    async fn probe(&self) -> Result<(), PaymentError> {
        self.client.probe().await
    }
}

#[cfg(test)]
mod tests;
