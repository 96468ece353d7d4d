//! E-mails of the console through a mail server: invitations, and links that replace a password.

use futures_util::future::join_all;
use serde_json::{Value, json};
use tollgate_testkit::gateway::{Gateway, Options, Storage, eventually};
use tollgate_testkit::mail::MailServer;

use super::browser::{API, Browser};
use super::{PASSWORD, owner};
use crate::scene::BINARY;

/// Returns the token of the link in a mail.
fn token(mail: &str) -> String {
    // Lines of quoted-printable text end with `=` where the text continues.
    let plain = mail.replace('\r', "").replace("=\n", "").replace("=3D", "=");
    let (_, rest) = plain.split_once("/console/sign-in#").unwrap();
    rest.chars().take_while(|c| !c.is_whitespace()).collect()
}

async fn start(storage: Storage, mail: &MailServer) -> Gateway {
    let config = format!(
        "[mail]\nserver = \"{}\"\ntls = \"never\"\nfrom = \"Acme <gateway@example.com>\"\n",
        mail.address()
    );
    let options = Options {
        config,
        storage,
        ..Options::default()
    };
    Gateway::start(BINARY, options).await
}

async fn invitations_and_forgotten_passwords_are_mailed(storage: Storage) {
    let mail = MailServer::start().await;
    let gateway = start(storage, &mail).await;
    let account = gateway.account().await;
    let mut jo = owner(&gateway, &account, "jo@example.com").await;
    let session = jo.done("GET", &format!("{API}/session"), &Value::Null).await;
    assert_eq!(session["service"]["sends_mail"], true);

    let invitation = json!({"email": "al@example.com", "role": "member"});
    let invited = jo.done("POST", &format!("{API}/invitations"), &invitation).await;
    assert_eq!(invited["mailed"], true);
    let sent = mail.mails();
    assert_eq!(
        (sent.len(), sent[0].to.as_slice()),
        (1, ["al@example.com".to_owned()].as_slice())
    );
    let mut al = Browser::new(gateway.client());
    al.redeem(&token(&sent[0].data)).await;
    al.set_password(PASSWORD).await;

    let reset = format!("{API}/sign-in/reset");
    for (body, param) in [
        (json!({}), "email"),
        (json!({"email": "al"}), "email"),
        (json!({"email": 7}), "email"),
    ] {
        assert_eq!(al.refused("POST", &reset, &body).await.2, param, "{body}");
    }
    let mut forgetful = Browser::new(gateway.client());
    // Unknown addresses get the same response and no mail.
    forgetful
        .done("POST", &reset, &json!({"email": "eve@example.com"}))
        .await;
    for _ in 0..5 {
        forgetful
            .done("POST", &reset, &json!({"email": "Al@Example.com"}))
            .await;
    }
    eventually("three links are sent", async || mail.mails().len() == 4).await;
    let links: Vec<String> = mail.mails()[1..].iter().map(|mail| token(&mail.data)).collect();
    let path = format!("{API}/sign-in/link");
    let redemptions = async {
        let mut redeemed = 0;
        for link in &links {
            // Only the latest link works.
            let body = json!({"token": link});
            redeemed += u32::from(forgetful.send("POST", &path, &body).await.status == 200);
        }
        redeemed
    };
    // Sign-ins that began before the redemption end after it.
    let concurrent = join_all((0..6).map(async |_| {
        let mut browser = Browser::new(gateway.client());
        browser.sign_in("al@example.com", PASSWORD).await;
        browser
    }));
    let (browsers, redeemed) = tokio::join!(concurrent, redemptions);
    assert_eq!(redeemed, 1);
    // The link alone ends the other sessions and the password, which someone else may have set.
    for mut browser in browsers.into_iter().chain([al]) {
        let ended = browser
            .send("GET", &format!("{API}/sessions"), &Value::Null)
            .await;
        assert_eq!(ended.status, 401);
    }
    let mut again = Browser::new(gateway.client());
    assert_eq!(again.sign_in("al@example.com", PASSWORD).await.status, 403);
    forgetful.set_password("another horse battery").await;
    assert_eq!(
        again
            .sign_in("al@example.com", "another horse battery")
            .await
            .status,
        200
    );

    // Each sign-in is in the audit log of the account.
    let log = jo
        .done(
            "GET",
            &format!("{API}/audit-log?action=session.start"),
            &Value::Null,
        )
        .await;
    let of_al = log["data"].as_array().unwrap().iter();
    let of_al = of_al.filter(|entry| entry["actor"] == "al@example.com").count();
    assert!(of_al >= 3, "{log}");
    gateway.finish().await;
}

#[tokio::test]
async fn invitations_and_forgotten_passwords_are_mailed_on_sqlite() {
    invitations_and_forgotten_passwords_are_mailed(Storage::Sqlite).await;
}

#[tokio::test]
async fn invitations_and_forgotten_passwords_are_mailed_on_postgres() {
    invitations_and_forgotten_passwords_are_mailed(Storage::Postgres).await;
}

#[tokio::test]
async fn a_service_without_mail_sends_no_links() {
    let gateway = Gateway::start(BINARY, Options::default()).await;
    let account = gateway.account().await;
    let mut jo = owner(&gateway, &account, "jo@example.com").await;
    let session = jo.done("GET", &format!("{API}/session"), &Value::Null).await;
    assert_eq!(session["service"]["sends_mail"], false);
    let refused = jo
        .refused(
            "POST",
            &format!("{API}/sign-in/reset"),
            &json!({"email": "jo@example.com"}),
        )
        .await;
    assert_eq!((refused.0, &*refused.1), (400, "unsupported_endpoint"));
    gateway.finish().await;
}
