//! Sends e-mail over SMTP (RFC 5321).

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use lettre::message::Mailbox;
use lettre::message::header::{ContentType, MIME_VERSION_1_0};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Tls, TlsParameters};
use lettre::{Address, AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use secrecy::{ExposeSecret, SecretString};
use tollgate_upstream::{Mail, Mailer, NotifyError};

/// TLS mode of the SMTP connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailTls {
    /// TLS from the start, usually on port 465.
    Always,
    /// STARTTLS after the greeting, usually on port 587. A server without STARTTLS is an error.
    StartTls,
    /// Unencrypted, for a server on this machine.
    Never,
}

/// Settings of the SMTP server, the login and the sender.
#[derive(Debug)]
pub struct MailSettings {
    /// Host name or IP address.
    pub host: String,
    /// TCP port of the SMTP server.
    pub port: u16,
    /// TLS mode, which must match the port.
    pub tls: MailTls,
    /// User name and password; `None` if the server requires no authentication. White space around
    /// the password is removed.
    pub login: Option<(String, SecretString)>,
    /// Sender, such as `Tollgate <billing@example.com>`.
    pub from: String,
    /// Maximum time to establish the TCP connection to an address of the server.
    pub timeout: Duration,
}

/// Error of invalid mail settings, with a message for the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailSettingsError(String);

impl fmt::Display for MailSettingsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MailSettingsError {}

/// Sends e-mail through one SMTP server.
pub struct SmtpMailer {
    from: Mailbox,
    transport: AsyncSmtpTransport<Tokio1Executor>,
}

impl SmtpMailer {
    /// Builds a mailer without connecting to the server.
    pub fn new(settings: MailSettings) -> Result<Self, MailSettingsError> {
        let from: Mailbox = settings.from.parse().map_err(|_| {
            MailSettingsError(format!(
                "'{}' is not a sender address: write Name <name@example.com>",
                settings.from
            ))
        })?;
        let host = settings.host.as_str();
        let tls = || {
            let parameters = TlsParameters::new(host.to_owned());
            parameters.map_err(|error| MailSettingsError(format!("TLS cannot be set up: {error}")))
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
        let message = message(&self.from, mail)?;
        match self.transport.send(message).await {
            Ok(_) => Ok(()),
            // The server's message is not logged: it may contain the user name.
            Err(error) if error.is_permanent() => {
                let status = error
                    .status()
                    .map_or(String::new(), |code| format!(" with {code}"));
                Err(NotifyError::permanent(format!(
                    "the mail server rejected the message{status}"
                )))
            }
            Err(error) if error.is_transient() => {
                let status = error
                    .status()
                    .map_or(String::new(), |code| format!(" with {code}"));
                Err(NotifyError::transient(format!(
                    "the mail server deferred the message{status}"
                )))
            }
            Err(error) if error.is_timeout() => {
                Err(NotifyError::transient("the mail server did not respond in time"))
            }
            Err(_) => Err(NotifyError::transient("the mail server cannot be reached")),
        }
    }
}

/// Builds the message with the required headers (RFC 5322, RFC 2045). The `Message-ID` consists of
/// the mail's id and the sender's domain.
fn message(from: &Mailbox, mail: &Mail) -> Result<Message, NotifyError> {
    Message::builder()
        .from(from.clone())
        .to(Mailbox::new(None, address(&mail.to)?))
        .subject(mail.subject.clone())
        .message_id(Some(format!("<{}@{}>", mail.id, from.email.domain())))
        .header(MIME_VERSION_1_0)
        .header(ContentType::TEXT_PLAIN)
        .body(mail.text.clone())
        .map_err(|error| NotifyError::permanent(format!("the message cannot be encoded: {error}")))
}

fn address(mailbox: &str) -> Result<Address, NotifyError> {
    let parsed = mailbox.parse();
    parsed.map_err(|_| {
        NotifyError::permanent("the recipient is not an e-mail address such as name@example.com")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mails_have_the_required_headers() {
        let from: Mailbox = "Tollgate <billing@example.com>".parse().unwrap();
        let mail = Mail {
            id: "ntc_7".to_owned(),
            to: "me@example.org".to_owned(),
            subject: "Grüße".to_owned(),
            text: "Über alles.\n".to_owned(),
        };
        let sent = || String::from_utf8(message(&from, &mail).unwrap().formatted()).unwrap();
        let headers = sent();
        for header in [
            "From: Tollgate <billing@example.com>\r\n",
            "To: me@example.org\r\n",
            "Subject: =?utf-8?",
            "Message-ID: <ntc_7@example.com>\r\n",
            "MIME-Version: 1.0\r\n",
            "Content-Type: text/plain; charset=utf-8\r\n",
            "Content-Transfer-Encoding: ",
            "Date: ",
        ] {
            assert_eq!(headers.matches(header).count(), 1, "{header}: {headers}");
        }
        let id = |text: &str| {
            text.lines()
                .find(|line| line.starts_with("Message-ID"))
                .map(str::to_owned)
        };
        assert_eq!(id(&headers), id(&sent()), "the Message-ID changed");
    }
}
