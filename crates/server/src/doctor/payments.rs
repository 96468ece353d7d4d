//! Payments: whether credits can be sold.

use crate::assemble::http_client;
use crate::config::Config;
use crate::payments;

use super::Finding;

const WHAT: &str = "payments";

/// Asks the payment provider whether it knows the key, where there is to be one.
pub async fn look(config: &Config) -> Option<Finding> {
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
                WHAT,
                format!("{name} answers and knows the key; its events go to {events}"),
            )
        }
        Err(error) if error.is_transient => Finding::fault(
            WHAT,
            format!("{name} cannot be reached: {error}"),
            "check the network of this machine and payments.base_url; credits cannot be bought meanwhile",
        ),
        Err(error) => Finding::fault(
            WHAT,
            format!("{name} refuses the key: {error}"),
            "check the key that [payments] names: it needs customers, checkout sessions, the portal, payment intents, subscriptions and invoices",
        ),
    })
}

fn public_url(config: &Config) -> String {
    let said = config.file.server.public_url.as_deref();
    said.map_or_else(
        || format!("http://{}", config.listen),
        |url| url.trim_end_matches('/').to_owned(),
    )
}
