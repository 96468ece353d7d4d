//! Check of the payment provider.

use crate::assemble::http_client;
use crate::config::Config;
use crate::payments;

use super::Finding;

const SUBJECT: &str = "payments";

/// Checks that the payment provider responds and accepts the key. Returns `None` if none is
/// configured.
pub async fn check(config: &Config) -> Option<Finding> {
    let provider = match payments::build(config, &http_client(config)) {
        Ok(None) => return None,
        Ok(Some(sales)) => sales.provider,
        Err(error) => return Some(super::unreadable(&error)),
    };
    let name = provider.name();
    Some(match provider.probe().await {
        Ok(()) => {
            let events = format!("{}/webhooks/{name}", public_url(config));
            Finding::fine(
                SUBJECT,
                format!("{name} answers and accepts the key; send its webhook events to {events}"),
            )
        }
        Err(error) if error.is_transient => Finding::fault(
            SUBJECT,
            format!("{name} cannot be reached: {error}"),
            "check the network of this machine and payments.base_url; credits cannot be sold while the payment provider is unreachable",
        ),
        Err(error) => Finding::fault(
            SUBJECT,
            format!("{name} rejects the key: {error}"),
            "check the key in [payments]; it needs permissions for customers, checkout sessions, the customer portal, payment intents, subscriptions and invoices",
        ),
    })
}

fn public_url(config: &Config) -> String {
    let configured_url = config.file.server.public_url.as_deref();
    configured_url.map_or_else(
        || format!("http://{}", config.listen),
        |url| url.trim_end_matches('/').to_owned(),
    )
}
