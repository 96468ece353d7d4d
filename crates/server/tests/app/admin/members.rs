//! Adding, changing and removing members of an account.

use serde_json::{Value, json};
use tollgate_storage::Role;

use super::Office;

#[tokio::test]
async fn members_come_change_and_go_but_the_last_owner() {
    let office = Office::open().await;
    let account = office.account().await;
    let members = format!("{account}/members");
    let add = |email: &str, role: &str| {
        let body = json!({"email": email, "role": role});
        let (office, members) = (&office, &members);
        async move { office.send(Role::Owner, "POST", members, &body).await }
    };
    let owner = add("Jo@Example.com", "owner").await;
    assert_eq!(
        (owner.status, &owner.body["email"]),
        (200, &json!("jo@example.com"))
    );
    let taken = add("jo@example.COM", "viewer").await;
    assert_eq!(
        (taken.status, &taken.body["error"]["param"]),
        (409, &json!("email"))
    );
    let member = add("al@example.com", "member").await;
    assert_eq!(member.status, 200);
    for (email, role, param) in [
        ("al", "member", "email"),
        ("", "member", "email"),
        ("bo@example.com", "boss", "role"),
        ("bo@example.com", "", "role"),
    ] {
        let answer = add(email, role).await;
        assert_eq!(
            (answer.status, &answer.body["error"]["param"]),
            (400, &json!(param))
        );
    }
    let path = |answer: &crate::app::Answer| format!("{members}/{}", answer.body["id"].as_str().unwrap());
    let (owner, member) = (path(&owner), path(&member));
    for (method, body) in [("PATCH", json!({"role": "admin"})), ("DELETE", Value::Null)] {
        let answer = office.send(Role::Owner, method, &owner, &body).await;
        assert_eq!(
            (answer.status, &answer.body["error"]["code"]),
            (409, &json!("conflict"))
        );
    }
    let made = office.done("PATCH", &member, json!({"role": "owner"})).await;
    assert_eq!(made["role"], "owner");
    let removed = office.done("DELETE", &owner, Value::Null).await;
    assert_eq!(removed["email"], "jo@example.com");
    let gone = office.send(Role::Owner, "DELETE", &owner, &Value::Null).await;
    assert_eq!(gone.status, 404);
    let listed = office.get(&members).await;
    assert_eq!(listed["data"], json!([made]));

    // A member of another account is not found.
    let other = format!(
        "{}/members/{}",
        office.account().await,
        made["id"].as_str().unwrap()
    );
    let answer = office.send(Role::Owner, "DELETE", &other, &Value::Null).await;
    assert_eq!(answer.status, 404);

    let log = office.get("/admin/v1/audit-log?action=member.change").await;
    let changed = &log["data"][0];
    assert_eq!(
        (&changed["before"]["role"], &changed["after"]["role"]),
        (&json!("member"), &json!("owner"))
    );
    let log = office
        .get("/admin/v1/audit-log?action=member.remove&limit=100")
        .await;
    let removed = &log["data"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&removed["outcome"], &removed["after"]),
        (&json!("conflict"), &Value::Null)
    );
    let removed = log["data"]
        .as_array()
        .unwrap()
        .iter()
        .find(|line| line["outcome"] == "done");
    let removed = removed.unwrap();
    assert_eq!(
        (&removed["before"]["email"], &removed["after"]),
        (&json!("jo@example.com"), &Value::Null)
    );
    office.close().await;
}
