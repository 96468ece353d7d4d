//! Mail, by a server that speaks SMTP (RFC 5321).

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use lettre::message::Mailbox;
use lettre::message::header::ContentType;
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{Address, AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use secrecy::{ExposeSecret, SecretString};
use tollgate_upstream::{Mail, Mailer, NotifyError};

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailTls {
    /// Over TLS from the beginning; the usual port is 465.
    Always,
    /// Over TLS after the greeting, or not at all; the usual port is 587.
    StartTls,
    /// In the open.
    Never,
}

/// The server, and as whom it is spoken to.
#[derive(Debug)]
pub struct MailSettings {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How it is spoken to.
    pub tls: MailTls,
    /// User and password.
    pub login: Option<(String, SecretString)>,
    /// Who mails are from, such as `Tollgate <billing@example.com>`.
    pub from: String,
    /// How long an exchange may take.
    pub timeout: Duration,
}

/// What is wrong with the settings; for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailSettingsError(String);

impl fmt::Display for MailSettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MailSettingsError {}

/// Sends mail through one server.
pub struct SmtpMailer {
    from: Mailbox,
    transport: AsyncSmtpTransport<Tokio1Executor>,
}

impl SmtpMailer {
    /// A mailer that has connected nowhere yet.
    pub fn new(settings: MailSettings) -> Result<Self, MailSettingsError> {
        let from: Mailbox = settings.from.parse().map_err(|_| {
            MailSettingsError(format!(
                "'{}' is not who mail can be from: write Name <name@example.com>",
                settings.from
            ))
        })?;
        let host = settings.host.as_str();
        let tls = || {
            let made = TlsParameters::new(host.to_owned());
            made.map_err(|error| MailSettingsError(format!("TLS cannot be set up: {error}")))
        };
        let tls = match settings.tls {
            MailTls::Always => Tls::Wrapper(tls()?),
            MailTls::StartTls => Tls::Required(tls()?),
            MailTls::Never => Tls::None,
        };
        let mut transport = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(host)
            .port(settings.port)
            .tls(tls)
            .timeout(Some(settings.timeout));
        if let Some((user, password)) = settings.login {
            let password = password.expose_secret().trim().to_owned();
            transport = transport.credentials(Credentials::new(user, password));
        }
        Ok(Self {
            from,
            transport: transport.build(),
        })
    }
}

#[async_trait]
impl Mailer for SmtpMailer {
    fn check(&self, mailbox: &str) -> Result<(), NotifyError> {
        address(mailbox).map(drop)
    }

    async fn send(&self, mail: &Mail) -> Result<(), NotifyError> {
        let message = Message::builder()
            .from(self.from.clone())
            .to(Mailbox::new(None, address(&mail.to)?))
            .subject(mail.subject.clone())
            .header(ContentType::TEXT_PLAIN)
            .body(mail.text.clone())
            .map_err(|error| NotifyError::for_good(format!("the mail cannot be written: {error}")))?;
        match self.transport.send(message).await {
            Ok(_) => Ok(()),
            // The server's words stay there: some repeat who has signed in.
            Err(error) if error.is_permanent() => {
                let status = error
                    .status()
                    .map_or(String::new(), |code| format!(" with {code}"));
                Err(NotifyError::for_good(format!(
                    "the mail server refuses the mail{status}"
                )))
            }
            Err(error) if error.is_transient() => {
                let status = error
                    .status()
                    .map_or(String::new(), |code| format!(" with {code}"));
                Err(NotifyError::for_now(format!(
                    "the mail server puts the mail off{status}"
                )))
            }
            Err(error) if error.is_timeout() => Err(NotifyError::for_now("the mail server does not answer")),
            Err(_) => Err(NotifyError::for_now("the mail server cannot be reached")),
        }
    }
}

fn address(mailbox: &str) -> Result<Address, NotifyError> {
    let parsed = mailbox.parse();
    parsed.map_err(|_| NotifyError::for_good("it is not a mailbox such as name@example.com"))
}
