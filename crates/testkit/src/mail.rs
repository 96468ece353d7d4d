//! A mail server on loopback that stores received mail (RFC 5321), and refuses recipients on
//! demand.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

/// A mail that the server accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Received {
    /// The envelope's sender.
    pub from: String,
    /// The envelope's recipients.
    pub to: Vec<String>,
    /// Headers and body, verbatim.
    pub data: String,
}

#[derive(Debug, Default)]
struct Mailbox {
    mails: Vec<Received>,
    /// Replies to the next recipients, in place of 250.
    refusals: Vec<String>,
}

/// A running mail server. Dropping it stops the server.
#[derive(Debug)]
pub struct MailServer {
    address: SocketAddr,
    state: Arc<Mutex<Mailbox>>,
    _tasks: JoinSet<()>,
}

impl MailServer {
    /// Starts the server on a free port.
    ///
    /// # Panics
    /// If no port is free.
    #[expect(clippy::expect_used, reason = "a machine without a free port runs no tests")]
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("a listener has an address");
        let state = Arc::new(Mutex::new(Mailbox::default()));
        let (mut tasks, shared) = (JoinSet::new(), state.clone());
        tasks.spawn(async move {
            let mut sessions = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                sessions.spawn(serve(stream, shared.clone()));
            }
        });
        Self {
            address,
            state,
            _tasks: tasks,
        }
    }

    /// Returns the address of the server on loopback.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns all mails received so far, in order.
    pub fn mails(&self) -> Vec<Received> {
        lock(&self.state).mails.clone()
    }

    /// Sets the reply to the next recipient, such as `550 no such user`.
    pub fn refuse(&self, reply: &str) {
        lock(&self.state).refusals.push(reply.to_owned());
    }
}

fn lock(state: &Mutex<Mailbox>) -> std::sync::MutexGuard<'_, Mailbox> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn serve(stream: TcpStream, state: Arc<Mutex<Mailbox>>) {
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    let mut mail = Received {
        from: String::new(),
        to: Vec::new(),
        data: String::new(),
    };
    let mut reply = "220 mail.test ESMTP".to_owned();
    loop {
        if writer.write_all(format!("{reply}\r\n").as_bytes()).await.is_err() {
            return;
        }
        let Ok(Some(line)) = lines.next_line().await else {
            return;
        };
        let upper = line.to_ascii_uppercase();
        reply = if upper.starts_with("EHLO") {
            "250-mail.test\r\n250 8BITMIME".to_owned()
        } else if let Some(from) = line.get(10..).filter(|_| upper.starts_with("MAIL FROM:")) {
            mail.from = mailbox(from);
            "250 ok".to_owned()
        } else if let Some(to) = line.get(8..).filter(|_| upper.starts_with("RCPT TO:")) {
            mail.to.push(mailbox(to));
            let refusal = lock(&state).refusals.pop();
            refusal.unwrap_or_else(|| "250 ok".to_owned())
        } else if upper == "DATA" {
            if writer.write_all(b"354 go on\r\n").await.is_err() {
                return;
            }
            while let Ok(Some(line)) = lines.next_line().await {
                if line == "." {
                    break;
                }
                mail.data.push_str(&line);
                mail.data.push('\n');
            }
            lock(&state).mails.push(mail.clone());
            "250 taken".to_owned()
        } else if upper == "QUIT" {
            "221 bye".to_owned()
        } else {
            "250 ok".to_owned()
        };
    }
}

fn mailbox(text: &str) -> String {
    let text = text.split('>').next().unwrap_or_default();
    text.trim_start_matches('<').to_owned()
}
