//! From `[payments]` to what sells credits.

use std::sync::Arc;
use std::time::Duration;

use tollgate_billing::TopUpSettings;
use tollgate_providers::HttpClient;
use tollgate_providers::stripe::{self, Stripe, StripeSettings};
use tollgate_types::{CreditPrice, Credits};
use tollgate_upstream::PaymentProvider;

use crate::config::file::{PaymentProviderSetting, PaymentsSection};
use crate::config::{Config, ConfigError};

/// How long the provider may take for one answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The most credits of one top-up.
const MOST: i64 = 1_000_000;

/// How credits are sold.
pub struct Sales {
    /// Who takes the money.
    pub provider: Arc<dyn PaymentProvider>,
    /// For what.
    pub settings: TopUpSettings,
}

/// How credits are sold; nothing when they are not sold. Nothing is connected to.
pub fn build(config: &Config, http: &Arc<HttpClient>) -> Result<Option<Sales>, ConfigError> {
    let section = &config.file.payments;
    let Some(PaymentProviderSetting::Stripe) = section.provider else {
        return Ok(None);
    };
    check(section)?;
    let key = |place: &str, variable: &String, file: &Option<String>| {
        let found = config.key(&format!("{place}_file"), [variable.as_str()], file.as_deref())?;
        found.ok_or_else(|| {
            let message = format!("with a payment provider this is needed: set {variable}, or {place}_file");
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
        let message = "the provider's pages have to lead somewhere: set it, or server.public_url";
        ConfigError::new("payments.return_url", message)
    })?;
    let is_web = ["http://", "https://"]
        .iter()
        .any(|scheme| return_url.starts_with(scheme));
    if !is_web {
        return Err(ConfigError::new(
            "payments.return_url",
            "is an address that begins with https://",
        ));
    }
    Ok(TopUpSettings {
        price: CreditPrice {
            amount: section.credit_price,
            currency: section.currency,
        },
        least: section.least,
        most: section.most,
        seller: config.file.service.slug.clone(),
        return_url: return_url.clone(),
    })
}

fn check(section: &PaymentsSection) -> Result<(), ConfigError> {
    let fault = |key: &str, message: &str| Err(ConfigError::new(format!("payments.{key}"), message));
    if !(1..=1_000_000_000).contains(&section.credit_price) {
        return fault(
            "credit_price",
            "is 1 to 1000000000, in the smallest unit of the currency",
        );
    }
    if section.least <= Credits::ZERO {
        return fault("least", "is above 0");
    }
    if section.most < section.least || Credits::from_whole(MOST).is_some_and(|most| section.most > most) {
        return fault("most", "is at least payments.least and at most 1000000 credits");
    }
    Ok(())
}
