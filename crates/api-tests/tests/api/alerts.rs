//! Notifications of a low balance: signed webhook posts and e-mails.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::Sha256;
use tollgate_testkit::gateway::{Gateway, Options, Storage, execute_embedded};
use tollgate_testkit::mail::MailServer;
use tollgate_testkit::upstream::{FakeUpstream, ReceivedRequest, Reply};

use crate::scene::BINARY;

const ENGINES: [Storage; 2] = [Storage::Sqlite, Storage::Postgres];
const HOOK: &str = "/hooks/tollgate";

/// A gateway, a webhook receiver, a mail server, and an account with ten credits.
struct Scene {
    gateway: Gateway,
    receiver: FakeUpstream,
    mail: MailServer,
    account: String,
}

fn options(receiver: &FakeUpstream, mail: &MailServer, storage: Storage) -> Options {
    Options {
        config: format!(
            "[egress]\nallow = [\"{}\"]\n[mail]\nserver = \"{}\"\ntls = \"never\"\nfrom = \"Acme Gateway <billing@example.com>\"\n",
            receiver.address(),
            mail.address()
        ),
        storage,
        ..Options::default()
    }
}

impl Scene {
    async fn start(storage: Storage) -> Self {
        let (receiver, mail) = (FakeUpstream::start().await, MailServer::start().await);
        receiver.set_hook(HOOK, []);
        let gateway = Gateway::start(BINARY, options(&receiver, &mail, storage)).await;
        let account = gateway.account().await;
        gateway.grant(&account, "10").await;
        Self {
            gateway,
            receiver,
            mail,
            account,
        }
    }

    fn url(&self) -> String {
        format!("http://{}{HOOK}", self.receiver.address())
    }

    async fn run(&self, command: &[&str]) -> Value {
        let command = [&["alerts"], command].concat();
        self.gateway.command_line().run(&command).await
    }

    /// Checks all balances immediately and sends the notifications that are due.
    async fn send(&self) {
        self.run(&["send"]).await;
    }

    async fn notices(&self) -> Vec<Value> {
        let found = self.run(&["list", &self.account]).await;
        found.as_array().unwrap().clone()
    }

    /// Makes all pending notifications due immediately.
    async fn hurry(&self) {
        let statement = "UPDATE notice SET due_at = 0";
        match self.gateway.database() {
            Some(database) => database.execute(statement).await,
            None => execute_embedded(&self.gateway.data().join("tollgate.db"), statement).await,
        }
    }
}

/// Asserts that a post has a valid Standard Webhooks signature by this secret.
pub fn assert_signed(request: &ReceivedRequest, secret: &str) {
    use hmac::{Hmac, KeyInit, Mac};
    let header = |name| request.header(name).unwrap();
    let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
    mac.update(format!("{}.{}.", header("webhook-id"), header("webhook-timestamp")).as_bytes());
    mac.update(&request.body);
    let signature = STANDARD
        .decode(header("webhook-signature").strip_prefix("v1,").unwrap())
        .unwrap();
    mac.verify_slice(&signature).unwrap();
    assert_eq!(header("content-type"), "application/json");
}

#[tokio::test]
async fn a_low_balance_notifies_once_until_the_balance_recovers() {
    for storage in ENGINES {
        let scene = Scene::start(storage).await;
        let url = scene.url();
        let set = [
            "set",
            &scene.account,
            "--below",
            "10",
            "--webhook",
            &url,
            "--email",
            "ops@example.org",
        ];
        let alert = scene.run(&set).await;
        let secret = alert["webhook_secret"].as_str().unwrap().to_owned();
        scene.send().await;
        assert_eq!(
            (scene.receiver.request_count(), scene.mail.mails().len()),
            (0, 0),
            "10 is not below 10"
        );
        scene
            .run(&[
                "set",
                &scene.account,
                "--below",
                "10.5",
                "--webhook",
                &url,
                "--email",
                "ops@example.org",
            ])
            .await;
        for _ in 0..3 {
            scene.send().await;
        }
        let posts = scene.receiver.requests();
        assert_eq!((posts.len(), scene.mail.mails().len()), (1, 1));
        assert_signed(&posts[0], &secret);
        let body = posts[0].json().unwrap();
        assert_eq!(body["type"], "balance.low");
        let data = json!({"account": scene.account, "credits": "10", "below": "10.5"});
        assert_eq!(body["data"], data);
        let mail = &scene.mail.mails()[0];
        assert_eq!(
            (mail.from.as_str(), mail.to.as_slice()),
            ("billing@example.com", &["ops@example.org".to_owned()][..])
        );
        assert!(
            mail.data.contains("Subject: service: 10 credits are left"),
            "{}",
            mail.data
        );
        assert!(mail.data.contains(&scene.account), "{}", mail.data);
        let notices = scene.notices().await;
        let states: Vec<&Value> = notices.iter().map(|notice| &notice["state"]).collect();
        assert_eq!(states, ["delivered", "delivered"]);
        assert!(
            notices
                .iter()
                .any(|notice| notice["id"] == posts[0].header("webhook-id").unwrap())
        );
        // A grant lifts the balance over the threshold. A higher threshold makes it low again.
        scene.gateway.grant(&scene.account, "10").await;
        scene.send().await;
        assert_eq!(scene.run(&["show", &scene.account]).await["is_low"], false);
        let again = [
            "set",
            &scene.account,
            "--below",
            "30",
            "--webhook",
            &url,
            "--new-secret",
        ];
        let other = scene.run(&again).await["webhook_secret"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_ne!(other, secret);
        scene.send().await;
        let posts = scene.receiver.requests();
        assert_eq!((posts.len(), scene.mail.mails().len()), (2, 1));
        assert_signed(&posts[1], &other);
        scene.run(&["remove", &scene.account]).await;
        assert_eq!(scene.run(&["show", &scene.account]).await, Value::Null);
        scene.gateway.finish().await;
    }
}

#[tokio::test]
async fn failed_deliveries_are_retried_with_the_same_id_up_to_a_limit() {
    for storage in ENGINES {
        let scene = Scene::start(storage).await;
        let failing = (0..7).map(|_| Reply::body(503, "text/plain", "busy"));
        scene.receiver.set_hook(
            HOOK,
            failing.chain([Reply::body(302, "text/plain", "").header("location", "/elsewhere")]),
        );
        scene
            .run(&["set", &scene.account, "--below", "11", "--webhook", &scene.url()])
            .await;
        for attempt in 1..=8 {
            scene.send().await;
            let notice = scene.notices().await.remove(0);
            assert_eq!(notice["attempts"], attempt);
            let state = if attempt < 8 { "pending" } else { "failed" };
            assert_eq!(notice["state"], state, "{notice}");
            // The next attempt is not due yet.
            scene.send().await;
            assert_eq!(scene.receiver.request_count(), attempt);
            scene.hurry().await;
        }
        let notice = scene.notices().await.remove(0);
        assert_eq!(notice["failure"], "the endpoint returned 302");
        let ids: Vec<String> = scene
            .receiver
            .requests()
            .iter()
            .map(|post| post.header("webhook-id").unwrap().to_owned())
            .collect();
        assert!(ids.iter().all(|id| notice["id"] == *id), "{ids:?}");
        scene.send().await;
        assert_eq!(scene.receiver.request_count(), 8);
        scene.gateway.finish().await;
    }
}

#[tokio::test]
async fn a_gone_receiver_is_not_retried_and_does_not_delay_other_channels() {
    let scene = Scene::start(Storage::Sqlite).await;
    scene
        .receiver
        .set_hook(HOOK, [Reply::body(410, "text/plain", "gone")]);
    scene.mail.refuse("550 no such user");
    let url = scene.url();
    scene
        .run(&[
            "set",
            &scene.account,
            "--below",
            "11",
            "--webhook",
            &url,
            "--email",
            "nobody@example.org",
        ])
        .await;
    scene.send().await;
    let failures = |list: &[Value]| -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        list.iter()
            .map(|notice| (text(&notice["state"]), text(&notice["failure"])))
            .collect()
    };
    let mut found = failures(&scene.notices().await);
    found.sort();
    let failed = |why: &str| ("failed".to_owned(), why.to_owned());
    assert_eq!(
        found,
        [
            failed("the endpoint returned 410"),
            failed("the mail server rejected the message with 550")
        ]
    );
    // A mail that the server defers with 451 is delivered later.
    scene.gateway.grant(&scene.account, "5").await;
    scene.send().await;
    scene.mail.refuse("451 try again");
    scene
        .run(&[
            "set",
            &scene.account,
            "--below",
            "16",
            "--email",
            "ops@example.org",
        ])
        .await;
    scene.send().await;
    let notice = scene.notices().await.remove(0);
    assert_eq!(
        (&notice["state"], &notice["failure"]),
        (
            &json!("pending"),
            &json!("the mail server deferred the message with 451")
        )
    );
    scene.hurry().await;
    scene.send().await;
    assert_eq!(scene.mail.mails().len(), 1);
    assert_eq!(scene.notices().await.remove(0)["state"], "delivered");
    scene.gateway.finish().await;
}

#[tokio::test]
async fn private_addresses_and_invalid_settings_are_refused() {
    let scene = Scene::start(Storage::Sqlite).await;
    let command_line = scene.gateway.command_line();
    let inside = FakeUpstream::start().await;
    inside.set_hook(HOOK, []);
    let unknown = format!("acct_{}", "0".repeat(32));
    let account = scene.account.as_str();
    for (command, code, said) in [
        (
            vec!["set", account, "--below", "0", "--webhook", "https://example.com"],
            2,
            "above 0",
        ),
        (
            vec!["set", account, "--below", "1"],
            2,
            "a webhook, an e-mail address, or both",
        ),
        (
            vec!["set", account, "--below", "1", "--webhook", "ftp://example.com"],
            2,
            "http or https",
        ),
        (
            vec![
                "set",
                account,
                "--below",
                "1",
                "--webhook",
                "https://user:pw@example.com",
            ],
            2,
            "http or https",
        ),
        (
            vec!["set", account, "--below", "1", "--email", "nobody"],
            2,
            "not an e-mail address",
        ),
        (
            vec!["set", account, "--below", "1", "--email", "a@b.c\r\nBcc: d@e.f"],
            2,
            "not an e-mail address",
        ),
        (
            vec!["set", &unknown, "--below", "1", "--email", "a@example.com"],
            1,
            "account does not exist",
        ),
        (vec!["remove", &unknown], 1, "account does not exist"),
    ] {
        let finished = command_line
            .try_run(&[vec!["alerts"], command.clone()].concat())
            .await;
        assert_eq!(finished.code, code, "{command:?} {finished:?}");
        assert!(finished.stderr.contains(said), "{command:?} {finished:?}");
    }
    let port = inside.address().port();
    for private in [
        format!("http://127.0.0.1:{port}{HOOK}"),
        format!("http://0x7f.1:{port}{HOOK}"),
        format!("http://127.0.0.1{HOOK}"),
        format!("http://[::ffff:169.254.169.254]{HOOK}"),
    ] {
        let command = ["alerts", "set", account, "--below", "11", "--webhook", &private];
        let finished = command_line.try_run(&command).await;
        assert_eq!(finished.code, 2, "{private} {finished:?}");
        assert!(
            finished
                .stderr
                .contains("has a private IP address or a port other than 80 and 443"),
            "{finished:?}"
        );
    }
    // A host name is accepted: only the lookup before a delivery shows that its address is private.
    let private = "http://localhost/hooks/tollgate";
    scene
        .run(&["set", account, "--below", "11", "--webhook", private])
        .await;
    scene.send().await;
    let notice = scene.notices().await.remove(0);
    assert_eq!(
        (&notice["state"], &notice["attempts"]),
        (&json!("pending"), &json!(1))
    );
    assert_eq!(notice["failure"], "the endpoint cannot be reached");
    assert_eq!(inside.connection_count(), 0);
    scene.gateway.finish().await;
}

#[tokio::test]
async fn several_nodes_send_one_notification() {
    let scene = Scene::start(Storage::Postgres).await;
    let options = || options(&scene.receiver, &scene.mail, Storage::Postgres);
    let (one, two) = tokio::join!(
        scene.gateway.start_node(options()),
        scene.gateway.start_node(options())
    );
    scene
        .run(&["set", &scene.account, "--below", "11", "--webhook", &scene.url()])
        .await;
    let send = async |node: &Gateway| node.command_line().run(&["alerts", "send"]).await;
    tokio::join!(
        send(&scene.gateway),
        send(&one),
        send(&two),
        send(&one),
        send(&two)
    );
    assert_eq!(scene.receiver.request_count(), 1);
    one.finish().await;
    two.finish().await;
    scene.gateway.finish().await;
}

#[tokio::test]
async fn invalid_mail_settings_are_reported_by_name() {
    let gateway = Gateway::start(BINARY, Options::default()).await;
    let account = gateway.account().await;
    let command_line = gateway.command_line();
    let finished = command_line
        .try_run(&[
            "alerts",
            "set",
            &account,
            "--below",
            "1",
            "--email",
            "a@example.com",
        ])
        .await;
    assert!(
        finished.code == 2 && finished.stderr.contains("[mail]"),
        "{finished:?}"
    );
    for (section, said) in [
        ("server = \"smtp.example.com\"", "mail.server"),
        ("server = \"smtp.example.com:0\"", "mail.server"),
        ("server = \"smtp.example.com:587\"", "mail.from"),
        (
            "server = \"smtp.example.com:587\"\nfrom = \"nobody\"",
            "not a sender address",
        ),
        (
            "server = \"smtp.example.com:25\"\ntls = \"never\"\nfrom = \"a@example.com\"",
            "mail.tls",
        ),
        (
            "server = \"smtp.example.com:587\"\nfrom = \"a@example.com\"\nuser = \"a\"",
            "SMTP_PASSWORD",
        ),
    ] {
        gateway.write_config(&format!("[server]\ndiscover = false\n[mail]\n{section}\n"));
        let finished = command_line.try_run(&["config", "check"]).await;
        let everything = format!("{}{}", finished.stdout, finished.stderr);
        assert_ne!(finished.code, 0, "{section} {everything}");
        assert!(everything.contains(said), "{section}: {everything}");
    }
    gateway.write_config(
        "[server]\ndiscover = false\n[mail]\nserver = \"smtp.example.com:587\"\nfrom = \"a@example.com\"\n",
    );
    assert_eq!(command_line.try_run(&["config", "check"]).await.code, 0);
    gateway.finish().await;
}
