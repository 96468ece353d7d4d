//! Sessions of administrators on the admin listener.

use serde_json::{Value, json};
use tollgate_testkit::gateway::Storage;

use super::browser::{API, Browser};
use super::{link, owner};
use crate::admin::admin_of;
use crate::scene::Scene;

const OPERATOR: &str = "/console/admin/v1";

async fn an_administrator_signs_in(storage: Storage) {
    let scene = Scene::start_on(storage, "").await;
    let commands = scene.gateway.command_line();
    let jo = commands
        .run(&["admins", "create", "jo", "--role", "support"])
        .await;
    let (id, token) = (jo["id"].as_str().unwrap(), jo["token"].as_str().unwrap());
    let mut browser = Browser::new(admin_of(&scene.gateway).await);
    let session = format!("{OPERATOR}/session");
    assert_eq!(
        browser.done("GET", &session, &Value::Null).await["session"],
        Value::Null
    );
    let by_token = format!("{OPERATOR}/sign-in/token");
    for wrong in ["", "adm-service-x", &scene.key.secret] {
        let refused = browser.refused("POST", &by_token, &json!({"token": wrong})).await;
        assert_eq!((refused.0, &*refused.2), (403, "token"));
    }
    let signed_in = browser.done("POST", &by_token, &json!({"token": token})).await;
    assert_eq!(signed_in["session"]["admin"]["name"], "jo");
    assert!(browser.cookies.contains_key("tollgate-operator"));

    // The admin API answers to the session, with the permissions of the administrator.
    let account = format!("{OPERATOR}/accounts/{}", scene.account);
    let shown = browser.done("GET", &account, &Value::Null).await;
    assert_eq!(shown["id"], scene.account.as_str());
    browser.done("PATCH", &account, &json!({"rpm": 7})).await;
    let grant = browser
        .refused("POST", &format!("{account}/grants"), &json!({"amount": "5"}))
        .await;
    assert_eq!((grant.0, &*grant.1), (403, "permission_denied"));
    let log = commands
        .run(&["audit", "list", "--actor", "jo", "--account", &scene.account])
        .await;
    assert_eq!(log.as_array().unwrap().len(), 2, "{log}");
    let other_page = browser
        .request("GET", &account, &Value::Null)
        .without("sec-fetch-site")
        .header("sec-fetch-site", "cross-site");
    assert_eq!(admin_of(&scene.gateway).await.send(&other_page).await.status, 401);
    let without_session = browser.request("GET", &account, &Value::Null).without("cookie");
    assert_eq!(
        admin_of(&scene.gateway).await.send(&without_session).await.status,
        401
    );

    // Links of one console are unknown to the other.
    let by_link = format!("{OPERATOR}/sign-in/link");
    let token = link(&scene.gateway, &["--admin", "jo"]).await;
    let mut public = Browser::new(scene.client());
    let refused = public
        .refused("POST", &format!("{API}/sign-in/link"), &json!({"token": token}))
        .await;
    assert_eq!(refused.0, 410);
    let foreign = link(&scene.gateway, &["--account", &scene.account]).await;
    let refused = browser
        .refused("POST", &by_link, &json!({"token": foreign}))
        .await;
    assert_eq!(refused.0, 410);
    let mut second = Browser::new(admin_of(&scene.gateway).await);
    second.done("POST", &by_link, &json!({"token": token})).await;
    let again = second.refused("POST", &by_link, &json!({"token": token})).await;
    assert_eq!(again.0, 410);
    public.redeem(&foreign).await;

    // Sessions of one console are no sessions of the other.
    let mut person = owner(&scene.gateway, &scene.account, "al@example.com").await;
    let cookie = person.cookies["tollgate"].clone();
    let mut crossed = Browser::new(admin_of(&scene.gateway).await);
    crossed.cookies.insert("tollgate-operator".to_owned(), cookie);
    assert_eq!(
        crossed.done("GET", &session, &Value::Null).await["session"],
        Value::Null
    );
    assert_eq!(crossed.refused("GET", &account, &Value::Null).await.0, 401);
    person.cookies.insert(
        "tollgate".to_owned(),
        browser.cookies["tollgate-operator"].clone(),
    );
    assert_eq!(person.session().await, Value::Null);

    let sessions = browser
        .done("GET", &format!("{OPERATOR}/sessions"), &Value::Null)
        .await;
    assert_eq!(sessions["data"].as_array().unwrap().len(), 2);
    let ended = browser
        .done("DELETE", &format!("{OPERATOR}/sessions"), &Value::Null)
        .await;
    assert_eq!(ended["ended"], 1);
    assert_eq!(second.refused("GET", &account, &Value::Null).await.0, 401);
    // A revocation ends the sessions.
    commands.run(&["admins", "revoke", id]).await;
    assert_eq!(browser.refused("GET", &account, &Value::Null).await.0, 401);
    assert_eq!(
        browser.done("GET", &session, &Value::Null).await["session"],
        Value::Null
    );
    scene.finish().await;
}

#[tokio::test]
async fn an_administrator_signs_in_on_sqlite() {
    an_administrator_signs_in(Storage::Sqlite).await;
}

#[tokio::test]
async fn an_administrator_signs_in_on_postgres() {
    an_administrator_signs_in(Storage::Postgres).await;
}
