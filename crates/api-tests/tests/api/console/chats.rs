//! Saved chats of the playground, for sessions and for API keys.

use serde_json::{Value, json};
use tollgate_testkit::gateway::Storage;
use tollgate_testkit::gateway::http::Request;

use super::browser::{API, Browser};
use super::owner;
use super::people::invited;
use crate::scene::Scene;

const CHATS: &str = "/console/api/v1/chats";
const PUBLIC: &str = "/v1/playground/conversations";

/// Returns a valid id: `chat_` and a UUIDv7 that ends with this number.
fn id(number: u32) -> String {
    format!("chat_019a3c5e7b1c7d2f8a4e6b9c{number:08x}")
}

fn path(number: u32) -> String {
    format!("{CHATS}/{}", id(number))
}

fn turn(text: &str) -> Value {
    json!({
        "input": {"content": text},
        "answers": [{"model": "sim/chat", "content": format!("You said {text}."), "status": "completed",
            "request_id": "req_019a3c5e7b1c7d2f8a4e6b9c0d1e2f3a", "usage": {"total_tokens": 3}, "cost": "0.0001"}],
    })
}

/// Builds a save that replaces the turns from `from` on.
fn save(base_revision: u32, from: u32, turns: &[Value]) -> Value {
    json!({"base_revision": base_revision, "from": from, "turns": turns, "kind": "chat", "settings": {"temperature": "0.5"}})
}

async fn get(browser: &mut Browser, path: &str) -> Value {
    browser.done("GET", path, &Value::Null).await
}

async fn a_chat_is_saved_read_renamed_and_deleted(storage: Storage) {
    let scene = Scene::start_on(storage, "").await;
    let mut jo = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    let first = save(0, 0, &[turn("hello")]);
    let saved = jo.done("PUT", &path(1), &first).await;
    assert_eq!(
        (
            &saved["revision"],
            &saved["turns"],
            &saved["title"],
            &saved["models"]
        ),
        (&json!(1), &json!(1), &json!("hello"), &json!(["sim/chat"]))
    );
    // The same save again, as after a lost response.
    assert_eq!(jo.done("PUT", &path(1), &first).await, saved);

    let second = jo
        .done("PUT", &path(1), &save(1, 1, &[turn("and"), turn("then")]))
        .await;
    assert_eq!((&second["revision"], &second["turns"]), (&json!(2), &json!(3)));
    // An edit replaces a turn and all behind it.
    let edit = jo.done("PUT", &path(1), &save(2, 1, &[turn("edited")])).await;
    assert_eq!((&edit["revision"], &edit["turns"]), (&json!(3), &json!(2)));
    let whole = get(&mut jo, &path(1)).await;
    assert_eq!(whole["content"], json!([turn("hello"), turn("edited")]));
    assert_eq!(whole["settings"], json!({"temperature": "0.5"}));

    // Another tab has the old revision, and a deleted chat has none.
    for (number, base, code) in [
        (1, 2, "conflict"),
        (1, 0, "conflict"),
        (1, 9, "conflict"),
        (7, 3, "conflict"),
    ] {
        let refused = jo
            .refused("PUT", &path(number), &save(base, 0, &[turn("x")]))
            .await;
        assert_eq!(
            (refused.0, &*refused.1, &*refused.2),
            (409, code, "base_revision"),
            "{number} {base}"
        );
    }
    let gap = jo.refused("PUT", &path(1), &save(3, 3, &[turn("x")])).await;
    assert_eq!((gap.0, &*gap.2), (400, "from"));

    let renamed = jo.done("PATCH", &path(1), &json!({"title": "Größe & <b>"})).await;
    assert_eq!(
        (&renamed["title"], &renamed["revision"]),
        (&json!("Größe & <b>"), &json!(3))
    );
    let titled = jo.done("PUT", &path(1), &save(3, 2, &[turn("more")])).await;
    assert_eq!(titled["title"], "Größe & <b>", "a save retains the title");

    jo.done("PUT", &path(2), &save(0, 0, &[turn("second chat")]))
        .await;
    let list = get(&mut jo, CHATS).await;
    let ids: Vec<&str> = list["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|chat| chat["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, [id(2), id(1)], "the last changed first");
    assert_eq!(
        (&list["count"], &list["limit"], &list["has_more"]),
        (&json!(2), &json!(50), &json!(false))
    );
    let page = get(&mut jo, &format!("{CHATS}?limit=1")).await;
    assert_eq!(
        (&page["data"][0]["id"], &page["has_more"]),
        (&json!(id(2)), &json!(true))
    );
    let page = get(&mut jo, &format!("{CHATS}?limit=1&after={}", id(2))).await;
    assert_eq!(
        (&page["data"][0]["id"], &page["has_more"]),
        (&json!(id(1)), &json!(false))
    );
    let found = get(&mut jo, &format!("{CHATS}?search=GR%C3%96SSE")).await;
    assert_eq!(
        found["data"].as_array().unwrap().len(),
        0,
        "ß is not SS in lower case"
    );
    let found = get(&mut jo, &format!("{CHATS}?search=gr%C3%96%C3%9F")).await;
    assert_eq!(found["data"][0]["id"], id(1));

    let exported = jo.send("GET", &format!("{CHATS}/export"), &Value::Null).await;
    assert_eq!(
        exported.header("content-disposition"),
        Some("attachment; filename=\"chats.jsonl\"")
    );
    let lines: Vec<Value> = exported
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!((lines.len(), &lines[1]["content"][0]), (2, &turn("hello")));

    jo.done("DELETE", &path(1), &Value::Null).await;
    assert_eq!(jo.refused("GET", &path(1), &Value::Null).await.0, 404);
    assert_eq!(jo.refused("DELETE", &path(1), &Value::Null).await.0, 404);
    assert_eq!(
        jo.done("DELETE", CHATS, &Value::Null).await,
        json!({"deleted": 1})
    );
    assert_eq!(get(&mut jo, CHATS).await["count"], 0);
    scene.finish().await;
}

#[tokio::test]
async fn a_chat_is_saved_read_renamed_and_deleted_on_sqlite() {
    a_chat_is_saved_read_renamed_and_deleted(Storage::Sqlite).await;
}

#[tokio::test]
async fn a_chat_is_saved_read_renamed_and_deleted_on_postgres() {
    a_chat_is_saved_read_renamed_and_deleted(Storage::Postgres).await;
}

#[tokio::test]
async fn invalid_saves_write_nothing() {
    let scene = Scene::start().await;
    let mut jo = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    let with = |change: &dyn Fn(&mut Value)| {
        let mut body = save(0, 0, &[turn("hello")]);
        change(&mut body);
        body
    };
    let long = "x".repeat(201);
    for (body, param) in [
        (json!({}), "turns"),
        (with(&|body| body["kind"] = json!("")), "kind"),
        (with(&|body| body["kind"] = json!("x".repeat(33))), "kind"),
        (with(&|body| body["kind"] = json!("Chat")), "kind"),
        (with(&|body| body["title"] = json!(long)), "title"),
        (with(&|body| body["title"] = json!("a\nb")), "title"),
        (with(&|body| body["title"] = json!("")), "title"),
        (with(&|body| body["settings"] = json!([])), "settings"),
        (
            with(&|body| body["settings"] = json!({"x": "y".repeat(70_000)})),
            "settings",
        ),
        (with(&|body| body["turns"] = json!([])), "turns"),
        (with(&|body| body["from"] = json!(1)), "from"),
        (with(&|body| body["from"] = json!(-1)), "from"),
        (with(&|body| body["extra"] = json!(1)), "extra"),
        (
            with(&|body| body["turns"][0]["input"] = json!("hi")),
            "turns[0].input",
        ),
        (
            with(&|body| body["turns"][0]["input"]["content"] = json!(7)),
            "turns[0].input.content",
        ),
        (
            with(&|body| body["turns"][0]["answers"] = json!([])),
            "turns[0].answers",
        ),
        (
            with(&|body| body["turns"][0]["answers"] = json!([{}, {}, {}, {}, {}])),
            "turns[0].answers",
        ),
        (
            with(&|body| body["turns"][0]["answers"][0]["model"] = json!("")),
            "turns[0].answers[0].model",
        ),
        (
            with(&|body| body["turns"][0]["answers"][0]["status"] = json!("done")),
            "turns[0].answers[0].status",
        ),
        (
            with(&|body| body["turns"][0]["answers"][0]["cost"] = json!(0.1)),
            "turns[0].answers[0].cost",
        ),
        (
            with(&|body| body["turns"][0]["answers"][0]["usage"] = json!("x")),
            "turns[0].answers[0].usage",
        ),
        (
            with(&|body| body["turns"][0]["answers"][0]["content"] = json!(1)),
            "turns[0].answers[0].content",
        ),
        (
            with(&|body| body["turns"][0]["answers"][0]["request_id"] = json!(1)),
            "turns[0].answers[0].request_id",
        ),
    ] {
        let (status, _, found) = jo.refused("PUT", &path(1), &body).await;
        assert_eq!((status, &*found), (400, param), "{body:.200}");
    }
    for bad in ["chat_1", "x", "job_019a3c5e7b1c7d2f8a4e6b9c00000001"] {
        let refused = jo
            .refused("PUT", &format!("{CHATS}/{bad}"), &save(0, 0, &[turn("x")]))
            .await;
        assert_eq!(refused.0, 404, "{bad}");
    }
    for (query, param) in [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("after=x", "after"),
        ("x=1", "x"),
    ] {
        assert_eq!(
            jo.refused("GET", &format!("{CHATS}?{query}"), &Value::Null)
                .await
                .2,
            param,
            "{query}"
        );
    }
    let unknown = jo
        .refused("GET", &format!("{CHATS}?after={}", id(9)), &Value::Null)
        .await;
    assert_eq!((unknown.0, &*unknown.2), (400, "after"));
    assert_eq!(get(&mut jo, CHATS).await["count"], 0);

    // Both sides of the limits: 500 turns, 4 MiB, 4 answers.
    let turns: Vec<Value> = (0..500).map(|_| turn("t")).collect();
    jo.done("PUT", &path(1), &save(0, 0, &turns)).await;
    let refused = jo.refused("PUT", &path(1), &save(1, 500, &[turn("t")])).await;
    assert_eq!((refused.0, &*refused.1), (413, "request_too_large"));
    let empty = turn("").to_string().len();
    let sized = |bytes: usize| {
        let text = "a".repeat((bytes - empty) / 2);
        let mut sized = turn(&text);
        let missing = bytes - sized.to_string().len();
        sized["input"]["content"] = json!(format!("{text}{}", "b".repeat(missing)));
        sized
    };
    let refused = jo
        .refused("PUT", &path(2), &save(0, 0, &[sized((4 << 20) + 1)]))
        .await;
    assert_eq!((refused.0, &*refused.1), (413, "request_too_large"));
    jo.done("PUT", &path(2), &save(0, 0, &[sized(4 << 20)])).await;
    let mut four = turn("four");
    four["answers"] = json!(vec![four["answers"][0].clone(); 4]);
    jo.done("PUT", &path(3), &save(0, 0, &[four])).await;
    scene.finish().await;
}

async fn the_cap_is_enforced_with_the_save(storage: Storage) {
    let scene = Scene::start_on(storage, "[limits]\nchats = 2\n").await;
    let mut jo = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    jo.done("PUT", &path(1), &save(0, 0, &[turn("one")])).await;
    // Several saves race for the last place.
    let racing = (2..10).map(|number| {
        let mut browser = jo.clone();
        async move {
            browser
                .send("PUT", &path(number), &save(0, 0, &[turn("race")]))
                .await
                .status
        }
    });
    let mut tasks = tokio::task::JoinSet::new();
    for save in racing {
        tasks.spawn(save);
    }
    let mut statuses = tasks.join_all().await;
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 422, 422, 422, 422, 422, 422, 422]);
    let full = jo.refused("PUT", &path(20), &save(0, 0, &[turn("x")])).await;
    assert_eq!((full.0, &*full.1), (422, "chat_limit_reached"));
    let list = get(&mut jo, CHATS).await;
    assert_eq!((&list["count"], &list["limit"]), (&json!(2), &json!(2)));
    let limits = get(&mut jo, &format!("{API}/limits")).await;
    let chats = limits["data"]
        .as_array()
        .unwrap()
        .iter()
        .find(|limit| limit["name"] == "chats")
        .unwrap()
        .clone();
    assert_eq!(chats, json!({"name": "chats", "limit": 2, "used": 2}));

    // Saved chats continue at the cap. Below their number, no chat is saved.
    jo.done("PUT", &path(1), &save(1, 1, &[turn("two")])).await;
    let commands = scene.gateway.command_line();
    commands
        .run(&["accounts", "set-limits", &scene.account, "--chats", "1"])
        .await;
    let over = jo.refused("PUT", &path(1), &save(2, 2, &[turn("three")])).await;
    assert_eq!((over.0, &*over.1), (422, "chat_limit_reached"));
    assert_eq!(get(&mut jo, CHATS).await["limit"], 1);
    commands
        .run(&["accounts", "set-limits", &scene.account, "--chats", "default"])
        .await;
    jo.done("PUT", &path(1), &save(2, 2, &[turn("three")])).await;
    jo.done("DELETE", &path(1), &Value::Null).await;
    jo.done("PUT", &path(20), &save(0, 0, &[turn("x")])).await;
    scene.finish().await;
}

#[tokio::test]
async fn the_cap_is_enforced_with_the_save_on_sqlite() {
    the_cap_is_enforced_with_the_save(Storage::Sqlite).await;
}

#[tokio::test]
async fn the_cap_is_enforced_with_the_save_on_postgres() {
    the_cap_is_enforced_with_the_save(Storage::Postgres).await;
}

#[tokio::test]
async fn roles_and_accounts_limit_access_to_chats() {
    let scene = Scene::start().await;
    let mut jo = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    let mut al = invited(&scene, &mut jo, "al@example.com", "member").await;
    let mut admin = invited(&scene, &mut jo, "ad@example.com", "admin").await;
    al.done("PUT", &path(1), &save(0, 0, &[turn("of al")])).await;
    jo.done("PUT", &path(2), &save(0, 0, &[turn("of jo")])).await;
    let denied = (403, "permission_denied".to_owned(), "role".to_owned());
    let requests = |number: u32| {
        [
            ("PUT", path(number), save(1, 1, &[turn("x")])),
            ("PATCH", path(number), json!({"title": "x"})),
            ("DELETE", path(number), Value::Null),
        ]
    };
    // A member reads the chats of others and changes only its own.
    get(&mut al, &path(2)).await;
    for (method, path, body) in requests(2) {
        assert_eq!(al.refused(method, &path, &body).await, denied, "{method}");
    }
    assert_eq!(
        al.done("DELETE", CHATS, &Value::Null).await,
        json!({"deleted": 1})
    );
    al.done("PUT", &path(1), &save(0, 0, &[turn("of al")])).await;
    for role in ["viewer", "billing"] {
        let mut reader = invited(&scene, &mut jo, &format!("{role}@example.com"), role).await;
        for (method, path, body) in requests(1)
            .into_iter()
            .chain([
                ("GET", path(1), Value::Null),
                ("GET", CHATS.to_owned(), Value::Null),
                ("DELETE", CHATS.to_owned(), Value::Null),
            ])
            .chain([("GET", format!("{CHATS}/export"), Value::Null)])
            .chain([("GET", format!("/console{PUBLIC}"), Value::Null)])
        {
            assert_eq!(
                reader.refused(method, &path, &body).await,
                denied,
                "{role} {method} {path}"
            );
        }
    }
    // The same id in another account is another chat.
    let foreign = scene.gateway.command_line().create_account("foreign").await;
    let mut eve = owner(&scene.gateway, &foreign, "eve@example.com").await;
    for (method, path, body) in requests(1) {
        let expected = if method == "PUT" { 409 } else { 404 };
        assert_eq!(eve.refused(method, &path, &body).await.0, expected, "{method}");
    }
    assert_eq!(eve.refused("GET", &path(1), &Value::Null).await.0, 404);
    eve.done("PUT", &path(1), &save(0, 0, &[turn("of eve")])).await;
    assert_eq!(get(&mut al, &path(1)).await["content"][0], turn("of al"));
    for (method, path, body) in requests(1) {
        admin.done(method, &path, &body).await;
    }
    // A suspended account can only be read.
    scene
        .gateway
        .command_line()
        .run(&["accounts", "suspend", &scene.account])
        .await;
    get(&mut jo, &path(2)).await;
    for (method, path, body) in requests(2) {
        assert_eq!(jo.refused(method, &path, &body).await.2, "account", "{method}");
    }
    scene.finish().await;
}

#[tokio::test]
async fn keys_read_saved_chats() {
    let scene = Scene::start().await;
    let client = scene.client();
    let mut jo = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    let mut two = turn("compare");
    two["answers"] =
        json!([two["answers"][0].clone(), {"model": "sim/other", "content": null, "status": "failed"}]);
    jo.done("PUT", &path(1), &save(0, 0, &[two])).await;
    jo.done("PUT", &path(2), &save(0, 0, &[turn("later")])).await;
    let read = async |path: String| client.get(&path, &scene.key.secret).await;
    let list = read(format!("{PUBLIC}?limit=1")).await.json();
    assert_eq!(
        (&list["object"], &list["has_more"]),
        (&json!("list"), &json!(true))
    );
    let record = &list["data"][0];
    assert_eq!(
        (
            &record["id"],
            &record["object"],
            &record["title"],
            &record["turns"]
        ),
        (
            &json!(id(2)),
            &json!("playground.conversation"),
            &json!("later"),
            &json!(1)
        )
    );
    let list = read(format!("{PUBLIC}?after={}", id(2))).await.json();
    assert_eq!(list["data"][0]["models"], json!(["sim/chat", "sim/other"]));
    let whole = read(format!("{PUBLIC}/{}", id(1))).await.json();
    assert_eq!(whole["settings"], json!({"temperature": "0.5"}));
    let messages = whole["messages"].as_array().unwrap();
    let roles: Vec<&str> = messages
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "assistant"]);
    assert_eq!(messages[0]["content"], "compare");
    assert_eq!(
        (&messages[1]["cost"], &messages[1]["status"]),
        (&json!("0.0001"), &json!("completed"))
    );
    assert_eq!(
        (&messages[2]["model"], &messages[2]["cost"]),
        (&json!("sim/other"), &Value::Null)
    );
    for name in [
        "role",
        "content",
        "model",
        "status",
        "request_id",
        "usage",
        "cost",
        "created_at",
    ] {
        assert!(messages[0].get(name).is_some(), "{name}");
    }
    assert_eq!(read(format!("{PUBLIC}/{}", id(9))).await.status, 404);
    assert_eq!(
        read(format!("{PUBLIC}?limit=101")).await.error().param.as_deref(),
        Some("limit")
    );
    let foreign = scene.gateway.command_line().create_account("foreign").await;
    let foreign = scene.gateway.command_line().create_key(&foreign).await;
    let (own, missing) = (format!("{PUBLIC}/{}", id(1)), format!("{PUBLIC}/{}", id(9)));
    let answers = [
        client.get(&own, &foreign.secret).await,
        client.get(&missing, &foreign.secret).await,
    ];
    assert_eq!((answers[0].status, answers[0].json()), (404, answers[1].json()));
    assert_eq!(
        client.get(PUBLIC, &foreign.secret).await.json()["data"],
        json!([])
    );
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        for path in [PUBLIC, &own] {
            let request = Request::json(path, &json!({}))
                .with_method(method)
                .key(&scene.key.secret);
            let response = client.send(&request).await;
            assert_eq!(
                (response.status, response.header("allow")),
                (405, Some("GET,HEAD")),
                "{method} {path}"
            );
        }
    }
    scene.finish().await;
}

#[tokio::test]
async fn chats_are_encrypted_in_the_database() {
    let scene = Scene::start().await;
    let mut jo = owner(&scene.gateway, &scene.account, "jo@example.com").await;
    let mut body = save(0, 0, &[turn("c4n4ry-turn")]);
    body["title"] = json!("c4n4ry-title");
    body["settings"] = json!({"system": "c4n4ry-settings"});
    jo.done("PUT", &path(1), &body).await;
    for file in crate::scene::files_in(&scene.gateway.data()) {
        let bytes = std::fs::read(&file).unwrap_or_default();
        let found = bytes.windows(7).any(|part| part == b"c4n4ry-");
        assert!(!found, "{}", file.display());
    }
    scene.finish().await;
}
