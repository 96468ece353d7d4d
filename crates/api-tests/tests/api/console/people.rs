//! Members, invitations and roles.

use serde_json::{Value, json};
use tollgate_testkit::gateway::Storage;

use super::browser::{API, Browser};
use super::{PASSWORD, link, owner};
use crate::scene::{PLAIN, Scene, hello};

const ROLES: [&str; 5] = ["owner", "admin", "billing", "member", "viewer"];

/// Returns the token of an invitation's link.
fn token_of(invitation: &Value) -> String {
    let url = invitation["url"].as_str().unwrap();
    url.split_once('#').unwrap().1.to_owned()
}

/// Invites a person with this role and returns the person's browser, signed in.
pub(super) async fn invited(scene: &Scene, owner: &mut Browser, email: &str, role: &str) -> Browser {
    let body = json!({"email": email, "role": role});
    let invitation = owner.done("POST", &format!("{API}/invitations"), &body).await;
    let mut browser = Browser::new(scene.client());
    let session = browser.redeem(&token_of(&invitation)).await;
    assert_eq!(session["person"]["email"], email);
    browser.set_password(PASSWORD).await;
    browser.account = scene.account.clone();
    browser
}

async fn a_person_accepts_an_invitation(storage: Storage) {
    let scene = Scene::start_on(storage, "").await;
    let mut jo = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    let invitations = format!("{API}/invitations");
    for (body, param) in [
        (json!({"email": "al@example.com"}), "role"),
        (json!({"role": "member"}), "email"),
        (json!({"email": "al", "role": "member"}), "email"),
        (json!({"email": "al@example.com", "role": "boss"}), "role"),
    ] {
        let (status, _, found) = jo.refused("POST", &invitations, &body).await;
        assert_eq!((status, &*found), (400, param), "{body}");
    }
    let body = json!({"email": "Al@example.com", "role": "member"});
    let first = jo.done("POST", &invitations, &body).await;
    assert_eq!(first["member"]["status"], "invited");
    assert_eq!(first["mailed"], false);
    let again = jo.refused("POST", &invitations, &body).await;
    assert_eq!((again.0, &*again.2), (409, "email"));
    let id = first["member"]["id"].as_str().unwrap();
    let renewed = jo
        .done("POST", &format!("{invitations}/{id}/renew"), &Value::Null)
        .await;
    let mut al = Browser::new(scene.client());
    let path = format!("{API}/sign-in/link");
    let replaced = al
        .refused("POST", &path, &json!({"token": token_of(&first)}))
        .await;
    assert_eq!(replaced.0, 410);
    let session = al.redeem(&token_of(&renewed)).await;
    assert_eq!(session["accounts"][0]["role"], "member");
    assert_eq!(session["person"]["email"], "al@example.com");
    al.set_password(PASSWORD).await;
    let members = jo.done("GET", &format!("{API}/members"), &Value::Null).await;
    assert_eq!(members["data"][1]["status"], "active");
    let renew = jo
        .refused("POST", &format!("{invitations}/{id}/renew"), &Value::Null)
        .await;
    assert_eq!(renew.0, 409, "the person has accepted");

    // Another account knows the address. Its invitation signs no one in but the person itself.
    let foreign = scene.gateway.command_line().create_account("foreign").await;
    let mut eve = owner(&scene.gateway, &foreign, "eve@example.com").await;
    let invitation = eve.done("POST", &invitations, &body).await;
    let token = json!({"token": token_of(&invitation)});
    for browser in [&mut Browser::new(scene.client()), &mut eve] {
        let refused = browser.refused("POST", &path, &token).await;
        assert_eq!((refused.0, &*refused.2), (403, "sign_in"));
    }
    let session = al.redeem(&token_of(&invitation)).await;
    assert_eq!(session["accounts"].as_array().unwrap().len(), 2, "{session}");
    let mut elsewhere = Browser::new(scene.client());
    assert_eq!(elsewhere.sign_in("al@example.com", PASSWORD).await.status, 200);

    // A removed member loses the account immediately.
    al.account = scene.account.clone();
    al.done("GET", &format!("{API}/account"), &Value::Null).await;
    jo.done("DELETE", &format!("{API}/members/{id}"), &Value::Null)
        .await;
    assert_eq!(
        al.refused("GET", &format!("{API}/account"), &Value::Null).await.0,
        404
    );
    let call = al
        .send(
            "POST",
            "/console/v1/chat/completions",
            &hello(json!({"model": PLAIN})),
        )
        .await;
    assert_eq!(call.status, 404);
    assert_eq!(al.session().await["accounts"].as_array().unwrap().len(), 1);

    let log = scene
        .gateway
        .command_line()
        .run(&[
            "audit",
            "list",
            "--account",
            &scene.account,
            "--action",
            "member.remove",
        ])
        .await;
    assert_eq!(log[0]["actor"], "jo@example.com");
    assert!(log[0]["member_id"].as_str().unwrap().starts_with("mem_"));
    assert_eq!(log[0]["role"], "owner");
    let log = scene
        .gateway
        .command_line()
        .run(&["audit", "list", "--action", "member.invite", "--limit", "100"])
        .await;
    assert!(!log.to_string().contains(&token_of(&invitation)), "{log}");
    scene.finish().await;
}

#[tokio::test]
async fn a_person_accepts_an_invitation_on_sqlite() {
    a_person_accepts_an_invitation(Storage::Sqlite).await;
}

#[tokio::test]
async fn a_person_accepts_an_invitation_on_postgres() {
    a_person_accepts_an_invitation(Storage::Postgres).await;
}

#[tokio::test]
async fn roles_limit_what_members_can_do() {
    let scene = Scene::start().await;
    let mut jo = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    let target = jo
        .done(
            "POST",
            &format!("{API}/invitations"),
            &json!({"email": "target@example.com", "role": "viewer"}),
        )
        .await;
    let target = target["member"]["id"].as_str().unwrap();
    let members = jo.done("GET", &format!("{API}/members"), &Value::Null).await;
    let first = members["data"][0]["id"].as_str().unwrap();
    let usage = "/console/v1/account/usage";
    let secret = "/console/v1/account/webhook_secret";
    let chat = "/console/v1/chat/completions";
    let account = format!("{API}/account");
    let invitations = format!("{API}/invitations");
    let (target, first) = (
        format!("{API}/members/{target}"),
        format!("{API}/members/{first}"),
    );
    let renew = format!("{}/renew", target.replace("members", "invitations"));
    let owners: &[&str] = &["owner"];
    let managers: &[&str] = &["owner", "admin"];
    let users: &[&str] = &["owner", "admin", "member"];
    let requests = [
        ("GET", usage, Value::Null, &ROLES[..]),
        ("GET", &*account, Value::Null, &ROLES[..]),
        ("GET", "/console/api/v1/members", Value::Null, &ROLES[..]),
        ("GET", "/console/v1/models", Value::Null, &ROLES[..]),
        ("GET", "/console/v1/files", Value::Null, &ROLES[..]),
        ("GET", "/console/v1/jobs", Value::Null, users),
        ("POST", chat, hello(json!({"model": PLAIN})), users),
        (
            "POST",
            "/console/v1/quote",
            json!({"endpoint": "/v1/chat/completions", "request": hello(json!({"model": PLAIN}))}),
            users,
        ),
        ("GET", secret, Value::Null, managers),
        ("PATCH", &*account, json!({"name": "renamed"}), managers),
        ("PATCH", &*target, json!({"role": "member"}), managers),
        ("PATCH", &*target, json!({"role": "viewer"}), managers),
        ("PATCH", &*target, json!({"role": "admin"}), owners),
        ("PATCH", &*target, json!({"role": "viewer"}), owners),
        ("PATCH", &*first, json!({"role": "owner"}), owners),
        ("POST", &*renew, Value::Null, managers),
    ];
    for role in ["owner", "admin", "billing", "member", "viewer"] {
        let email = format!("{role}@example.com");
        let mut browser = invited(&scene, &mut jo, &email, role).await;
        for (method, path, body, allowed) in &requests {
            // Owners prepare the state of the requests that only they may send.
            if *allowed == owners && role != "owner" && method == &"PATCH" && *path == target {
                jo.done("PATCH", &target, &json!({"role": "admin"})).await;
            }
            let response = browser.send(method, path, body).await;
            match allowed.contains(&role) {
                true => assert_eq!(
                    response.status,
                    200,
                    "{role} {method} {path} {body}: {}",
                    response.text()
                ),
                false => {
                    let error = response.error();
                    assert_eq!(response.status, 403, "{role} {method} {path} {body}");
                    assert_eq!(
                        (&*error.code, error.param.as_deref()),
                        ("permission_denied", Some("role"))
                    );
                }
            }
            if *path == target {
                jo.done("PATCH", &target, &json!({"role": "viewer"})).await;
            }
        }
        for (invited, allowed) in [
            ("viewer", managers),
            ("member", managers),
            ("admin", owners),
            ("owner", owners),
        ] {
            let body = json!({"email": format!("{role}-{invited}@example.com"), "role": invited});
            let response = browser.send("POST", &invitations, &body).await;
            let expected = if allowed.contains(&role) { 200 } else { 403 };
            assert_eq!(response.status, expected, "{role} invites {invited}");
        }
        browser
            .done("GET", &format!("{API}/sessions"), &Value::Null)
            .await;
        browser
            .done("PATCH", &format!("{API}/person"), &json!({"name": "New"}))
            .await;
        browser
            .done("POST", &format!("{API}/sign-out"), &Value::Null)
            .await;
    }
    scene.finish().await;
}

#[tokio::test]
async fn the_last_owner_stays() {
    let scene = Scene::start().await;
    let mut jo = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    let id = jo.session().await["accounts"][0]["member_id"].clone();
    let own = format!("{API}/members/{}", id.as_str().unwrap());
    for (method, body) in [("PATCH", json!({"role": "viewer"})), ("DELETE", Value::Null)] {
        let refused = jo.refused(method, &own, &body).await;
        assert_eq!((refused.0, &*refused.1), (409, "conflict"), "{method}");
    }
    let mut al = invited(&scene, &mut jo, "al@example.com", "owner").await;
    jo.done("PATCH", &own, &json!({"role": "viewer"})).await;
    assert_eq!(jo.session().await["accounts"][0]["role"], "viewer");
    al.done("DELETE", &own, &Value::Null).await;
    assert_eq!(jo.session().await["accounts"], json!([]));
    scene.finish().await;
}

#[tokio::test]
async fn an_account_sends_fifty_invitations_per_day() {
    let scene = Scene::start().await;
    let mut jo = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    let invitations = format!("{API}/invitations");
    let first = jo
        .done(
            "POST",
            &invitations,
            &json!({"email": "a@example.com", "role": "viewer"}),
        )
        .await;
    let renew = format!("{invitations}/{}/renew", first["member"]["id"].as_str().unwrap());
    // Refused invitations do not count.
    for _ in 0..3 {
        let again = json!({"email": "a@example.com", "role": "viewer"});
        assert_eq!(jo.refused("POST", &invitations, &again).await.0, 409);
    }
    for _ in 1..50 {
        jo.done("POST", &renew, &Value::Null).await;
    }
    let refused = jo.refused("POST", &renew, &Value::Null).await;
    assert_eq!((refused.0, &*refused.1), (429, "rate_limit_exceeded"));
    // Operators are not limited.
    scene
        .gateway
        .command_line()
        .run(&[
            "members",
            "add",
            &scene.account,
            "b@example.com",
            "--role",
            "viewer",
        ])
        .await;
    scene.finish().await;
}

#[tokio::test]
async fn a_member_of_the_command_line_signs_in_by_link() {
    let scene = Scene::start().await;
    let commands = scene.gateway.command_line();
    let member = commands
        .run(&[
            "members",
            "add",
            &scene.account,
            "al@example.com",
            "--role",
            "billing",
        ])
        .await;
    assert_eq!(
        (&member["role"], &member["status"]),
        (&json!("billing"), &json!("expired"))
    );
    let id = member["id"].as_str().unwrap();
    let mut browser = Browser::new(scene.client());
    let session = browser
        .redeem(&link(&scene.gateway, &["--member", id]).await)
        .await;
    assert_eq!(session["accounts"][0]["role"], "billing");
    assert_eq!(session["person"]["email"], "al@example.com");
    // A later link signs in the same person, even if another is signed in.
    let mut other = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    let again = other.redeem(&link(&scene.gateway, &["--member", id]).await).await;
    assert_eq!(again["person"]["id"], session["person"]["id"]);
    for arguments in [
        &[
            "console",
            "link",
            "--member",
            "mem_00000000000000000000000000000000",
        ][..],
        &["console", "link", "--account", "missing"],
        &["console", "link", "--admin", "missing"],
    ] {
        let failed = commands.try_run(arguments).await;
        assert_ne!(failed.code, 0, "{arguments:?}");
        assert!(failed.stdout.is_empty());
    }
    for arguments in [
        &["console", "link"][..],
        &["console", "link", "--account", "a", "--admin", "b"],
        &["console", "link", "--account", "a", "--minutes", "0"],
        &["console", "link", "--account", "a", "--minutes", "1441"],
    ] {
        assert_eq!(commands.try_run(arguments).await.code, 2, "{arguments:?}");
    }
    scene.finish().await;
}
