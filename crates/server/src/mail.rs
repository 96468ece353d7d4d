//! Builds the mail client from `[mail]`.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tollgate_providers::mail::{MailSettings, MailTls, SmtpMailer};
use tollgate_upstream::Mailer;

use crate::config::file::{MailSection, MailTlsSetting};
use crate::config::{Config, ConfigError};

/// Timeout of the delivery of one mail to the server.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Builds the mail client; `None` if no server is configured. Does not connect to the server.
///
/// # Errors
///
/// Returns the first invalid setting in `[mail]`.
pub fn build(config: &Config) -> Result<Option<Arc<dyn Mailer>>, ConfigError> {
    let section = &config.file.mail;
    let Some(server) = &section.server else {
        return Ok(None);
    };
    let fault = |key: &str, message: &str| ConfigError::new(format!("mail.{key}"), message);
    let invalid = "must be an address with a port, such as smtp.example.com:587";
    let (host, port) = address(server).ok_or_else(|| fault("server", invalid))?;
    let tls = match section.tls {
        MailTlsSetting::Starttls => MailTls::StartTls,
        MailTlsSetting::Always => MailTls::Always,
        MailTlsSetting::Never if is_local(host) => MailTls::Never,
        MailTlsSetting::Never => {
            return Err(fault(
                "tls",
                "can be \"never\" only for a server on this machine, because the mails are not encrypted",
            ));
        }
    };
    let from = section.from.clone();
    let settings = MailSettings {
        host: host.to_owned(),
        port,
        tls,
        login: login(config, section)?,
        from: from.ok_or_else(|| {
            fault(
                "from",
                "is required with a mail server, such as Name <name@example.com>",
            )
        })?,
        timeout: TIMEOUT,
    };
    let mailer = SmtpMailer::new(settings).map_err(|error| ConfigError::new("mail", error.to_string()))?;
    Ok(Some(Arc::new(mailer)))
}

fn login(
    config: &Config,
    section: &MailSection,
) -> Result<Option<(String, secrecy::SecretString)>, ConfigError> {
    let Some(user) = &section.user else {
        return Ok(None);
    };
    let variable = &*section.password_env;
    let password = config.key("mail.password_file", [variable], section.password_file.as_deref())?;
    let password = password.ok_or_else(|| {
        let message = format!("a password is required with mail.user: set {variable} or mail.password_file");
        ConfigError::new("mail.password_env", message)
    })?;
    Ok(Some((user.clone(), password)))
}

fn address(server: &str) -> Option<(&str, u16)> {
    let (host, port) = server.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = port.parse().ok().filter(|port| *port > 0)?;
    (!host.is_empty()).then_some((host, port))
}

fn is_local(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}
