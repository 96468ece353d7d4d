//! What operators do, without a server and beside one.

use serde_json::json;
use tollgate_testkit::gateway::execute_embedded;

use crate::installation::Installation;

/// Everything once: whoever carries it out, the server or the command itself, the answers are the same.
pub fn everything(installation: &Installation) {
    let created = installation.run(&["accounts", "create", "acme"]);
    assert_eq!(created.code, 0, "{created:?}");
    let id = created.stdout.strip_suffix('\n').unwrap();
    assert!(
        id.starts_with("acct_") && !id.contains(char::is_whitespace),
        "only the id: {created:?}"
    );
    assert!(created.stderr.contains("tollgate keys create"), "{created:?}");

    accounts(installation, id);
    credits(installation, id);
    keys(installation, id);
    let models = installation.json(&["models", "list"]);
    let simulator = models
        .as_array()
        .unwrap()
        .iter()
        .find(|model| model["id"] == "sim/chat")
        .unwrap();
    assert_eq!(simulator["targets"], json!(["sim/chat"]));
    assert!(installation.fine(&["models", "list"]).contains("sim/chat"));

    assert!(
        installation
            .fine(&["ledger", "check"])
            .starts_with("The ledger is clean.\n")
    );
    let check = installation.json(&["ledger", "check", "--reprice"]);
    assert_eq!(
        (&check["clean"], &check["fault_count"], &check["faults"]),
        (&json!(true), &json!(0), &json!([]))
    );
    assert!(check["transfers"].as_u64().unwrap() >= 2, "{check}");
}

fn accounts(installation: &Installation, id: &str) {
    let other = installation.json(&["accounts", "create", "Other, quoted \"name\""]);
    assert_eq!(
        (&other["name"], &other["state"], &other["rpm"]),
        (&json!("Other, quoted \"name\""), &json!("active"), &json!(null))
    );
    let listed = installation.json(&["accounts", "list"]);
    let ids: Vec<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|account| account["id"].as_str())
        .collect();
    assert!(
        ids.contains(&id) && ids.contains(&other["id"].as_str().unwrap()),
        "{listed}"
    );
    assert!(installation.fine(&["accounts", "list"]).contains(id));

    installation.fine(&["accounts", "set-limits", id, "--rpm", "7"]);
    let limited = installation.json(&["accounts", "set-limits", id, "--tpm", "70000"]);
    assert_eq!(
        (&limited["rpm"], &limited["tpm"]),
        (&json!(7), &json!(70000)),
        "the one that is not given stays"
    );
    let own = installation.fine(&["accounts", "set-limits", id, "--rpm", "default", "--tpm", "80000"]);
    let default_and_own = |shown: &str| {
        let line = |name: &str| {
            shown
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .map(str::trim)
        };
        (line("rpm") == Some("default"), line("tpm") == Some("80000"))
    };
    assert_eq!(default_and_own(&own), (true, true), "{own}");
    let shown = installation.json(&["accounts", "show", id]);
    assert_eq!((&shown["rpm"], &shown["tpm"]), (&json!(null), &json!(80000)));
    let back = installation.json(&["accounts", "set-limits", id, "--tpm", "default"]);
    assert_eq!((&back["rpm"], &back["tpm"]), (&json!(null), &json!(null)));
    assert_eq!(
        installation.json(&["accounts", "suspend", id])["state"],
        "suspended"
    );
    assert_eq!(
        installation.json(&["accounts", "suspend", id, "--resume"])["state"],
        "active"
    );
}

fn credits(installation: &Installation, id: &str) {
    assert_eq!(
        installation.json(&["credits", "balance", id]),
        json!({"credits": "0", "held": "0"})
    );
    for repeated in [false, true] {
        let granted = installation.json(&["credits", "grant", id, "12.5", "--id", "invoice-17"]);
        assert_eq!(
            (&granted["credits"], &granted["held"], &granted["repeated"]),
            (&json!("12.5"), &json!("0"), &json!(repeated))
        );
    }
    installation.fine(&["credits", "grant", id, "0.000000001"]);
    let shown = installation.json(&["accounts", "show", id]);
    assert_eq!(shown["balance"], json!({"credits": "12.500000001", "held": "0"}));
    assert_eq!(
        installation.fine(&["credits", "balance", id]),
        "credits  12.500000001\nheld     0\n"
    );
}

fn keys(installation: &Installation, id: &str) {
    let created = installation.run(&["keys", "create", "--account", id]);
    assert_eq!(created.code, 0, "{created:?}");
    let key = created.stdout.strip_suffix('\n').unwrap();
    assert!(
        key.starts_with("sk-service-") && !key.contains(char::is_whitespace),
        "only the key: {created:?}"
    );
    assert!(
        created.stderr.contains("shown this once") && !created.stderr.contains(key),
        "{created:?}"
    );

    let second = installation.json(&[
        "keys",
        "create",
        "--account",
        id,
        "--name",
        "second",
        "--expires-in-days",
        "9",
    ]);
    let names: Vec<&String> = second.as_object().unwrap().keys().collect();
    assert_eq!(names, ["id", "key"]);
    let listed = installation.json(&["keys", "list", "--account", id]);
    let listed = listed.as_array().unwrap();
    let of = |name: &str| listed.iter().find(|key| key["name"] == name).unwrap();
    assert_eq!(
        (&of("default")["expires_at"], &of("default")["state"]),
        (&json!(null), &json!("active"))
    );
    assert!(of("second")["expires_at"].is_string());
    assert!(key.ends_with(of("default")["last4"].as_str().unwrap()));
    let table = installation.fine(&["keys", "list", "--account", id]);
    assert!(
        !table.contains(key) && table.contains(second["id"].as_str().unwrap()),
        "{table}"
    );

    let revoked = installation.json(&["keys", "revoke", second["id"].as_str().unwrap()]);
    assert_eq!(
        (&revoked["id"], &revoked["state"]),
        (&second["id"], &json!("revoked"))
    );
}

/// There is no waiting for a day: `turn_forward` executes statements that let keys expire.
pub fn every_state_of_a_key(installation: &Installation, turn_forward: impl FnOnce(&str)) {
    let account = installation.json(&["accounts", "create", "states"]);
    let account = account["id"].as_str().unwrap();
    let create = |name: &str| {
        let command = [
            "keys",
            "create",
            "--account",
            account,
            "--expires-in-days",
            "1",
            "--name",
            name,
        ];
        installation.json(&command)["id"].as_str().unwrap().to_owned()
    };
    create("lasting");
    let (trial, both) = (create("trial"), create("both"));
    installation.fine(&["keys", "revoke", &both]);
    let states = || {
        let listed = installation.json(&["keys", "list", "--account", account]);
        let table = installation.fine(&["keys", "list", "--account", account]);
        ["lasting", "trial", "both"].map(|name| {
            let key = listed.as_array().unwrap().iter().find(|key| key["name"] == name);
            let state = key.unwrap()["state"].as_str().unwrap().to_owned();
            let row = table.lines().find(|line| line.ends_with(name)).unwrap();
            assert_eq!(row.split_whitespace().nth(2), Some(&*state), "{table}");
            state
        })
    };
    assert_eq!(states(), ["active", "active", "revoked"]);
    turn_forward("UPDATE api_key SET expires_at = created_at + 1 WHERE name IN ('trial', 'both')");
    assert_eq!(states(), ["active", "expired", "revoked"], "revoked is for ever");
    assert_eq!(installation.json(&["keys", "revoke", &trial])["state"], "revoked");
    assert_eq!(states(), ["active", "revoked", "revoked"]);
}

#[test]
fn an_expired_key_is_listed_as_such() {
    let installation = Installation::new();
    every_state_of_a_key(&installation, |statements| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(execute_embedded(
            &installation.data().join("tollgate.db"),
            statements,
        ));
    });
}

#[test]
fn everything_works_while_no_server_runs() {
    everything(&Installation::new());
}

#[test]
fn everything_works_beside_a_server_and_is_still_there_after_it() {
    let installation = Installation::new();
    let before = installation.json(&["accounts", "create", "before"]);
    let server = installation.serve();
    everything(&installation);
    let listed = installation.json(&["accounts", "list"]);
    assert_eq!(server.stop(), 0);
    assert_eq!(installation.json(&["accounts", "list"]), listed);
    assert!(
        listed
            .as_array()
            .unwrap()
            .iter()
            .any(|account| account["id"] == before["id"]),
        "{listed}"
    );
    assert_eq!(installation.json(&["ledger", "check"])["clean"], json!(true));
}
