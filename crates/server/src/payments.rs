//! Builds the payment provider from `[payments]`.

use std::sync::Arc;
use std::time::Duration;

use tollgate_billing::TopUpSettings;
use tollgate_providers::HttpClient;
use tollgate_providers::stripe::{self, Stripe, StripeSettings};
use tollgate_types::{CreditPrice, Credits};
use tollgate_upstream::PaymentProvider;

use crate::config::file::{PaymentProviderSetting, PaymentsSection};
use crate::config::{Config, ConfigError, VariableName};

/// Timeout of a request to the payment provider.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Upper bound of `payments.max_amount`, in credits.
const MAX_TOP_UP_CREDITS: i64 = 1_000_000;

/// The payment provider and the terms of top-ups.
pub struct Sales {
    pub provider: Arc<dyn PaymentProvider>,
    /// Price, amounts and return URL.
    pub settings: TopUpSettings,
}

/// Builds the payment provider; `None` if credits are not sold. Does not connect to the provider.
///
/// # Errors
///
/// Returns the first invalid setting in `[payments]`.
pub fn build(config: &Config, http: &Arc<HttpClient>) -> Result<Option<Sales>, ConfigError> {
    let section = &config.file.payments;
    let Some(PaymentProviderSetting::Stripe) = section.provider else {
        return Ok(None);
    };
    check(section)?;
    let key = |place: &str, variable: &VariableName, file: &Option<String>| {
        let found = config.key(&format!("{place}_file"), [&**variable], file.as_deref())?;
        found.ok_or_else(|| {
            let message =
                format!("the secret is required with a payment provider: set {variable} or {place}_file");
            ConfigError::new(format!("{place}_env"), message)
        })
    };
    let secret_key = key(
        "payments.secret_key",
        &section.secret_key_env,
        &section.secret_key_file,
    )?;
    let webhook_secret = key(
        "payments.webhook_secret",
        &section.webhook_secret_env,
        &section.webhook_secret_file,
    )?;
    let base_url = section.base_url.as_deref().unwrap_or(stripe::BASE_URL);
    let settings = StripeSettings {
        base_url: base_url.to_owned(),
        secret_key,
        webhook_secret,
        timeout: TIMEOUT,
    };
    let provider = Stripe::new(settings, http.clone())
        .map_err(|error| ConfigError::new("payments", error.to_string()))?;
    Ok(Some(Sales {
        provider: Arc::new(provider),
        settings: top_up_settings(config)?,
    }))
}

fn top_up_settings(config: &Config) -> Result<TopUpSettings, ConfigError> {
    let section = &config.file.payments;
    let return_url = section
        .return_url
        .as_ref()
        .or(config.file.server.public_url.as_ref());
    let return_url = return_url.ok_or_else(|| {
        let message = "is required for the payment provider's pages: set it or server.public_url";
        ConfigError::new("payments.return_url", message)
    })?;
    let is_web = ["http://", "https://"]
        .iter()
        .any(|scheme| return_url.starts_with(scheme));
    if !is_web {
        return Err(ConfigError::new(
            "payments.return_url",
            "must be a URL that starts with http:// or https://",
        ));
    }
    Ok(TopUpSettings {
        price: CreditPrice {
            amount: section.credit_price,
            currency: section.currency,
        },
        min_amount: section.min_amount,
        max_amount: section.max_amount,
        seller: config.file.service.slug.clone(),
        return_url: return_url.clone(),
    })
}

fn check(section: &PaymentsSection) -> Result<(), ConfigError> {
    let fault = |key: &str, message: &str| Err(ConfigError::new(format!("payments.{key}"), message));
    if !(1..=1_000_000_000).contains(&section.credit_price) {
        return fault(
            "credit_price",
            "must be 1 to 1000000000, in the smallest unit of the currency",
        );
    }
    if section.min_amount <= Credits::ZERO {
        return fault("min_amount", "must be above 0");
    }
    if section.max_amount < section.min_amount
        || Credits::from_whole(MAX_TOP_UP_CREDITS).is_some_and(|max_amount| section.max_amount > max_amount)
    {
        return fault(
            "max_amount",
            "must be from payments.min_amount to 1000000 credits",
        );
    }
    Ok(())
}
