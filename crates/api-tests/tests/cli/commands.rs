//! Operator commands, without a server and beside a running one.

use serde_json::json;
use tollgate_testkit::gateway::execute_embedded;

use crate::installation::Installation;

/// Runs every command once. The output is the same whether the server or the process of the command
/// executes the command.
pub fn run_every_command(installation: &Installation) {
    let created = installation.run(&["accounts", "create", "acme"]);
    assert_eq!(created.code, 0, "{created:?}");
    let id = created.stdout.strip_suffix('\n').unwrap();
    assert!(
        id.starts_with("acct_") && !id.contains(char::is_whitespace),
        "only the id: {created:?}"
    );
    assert!(created.stderr.contains("tollgate keys create"), "{created:?}");

    accounts(installation, id);
    names(installation, id);
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
    let in_force = &shown["limits_in_force"];
    assert_eq!(
        ["rpm", "tpm", "keys", "files"].map(|name| &in_force[name]),
        [&json!(50), &json!(80000), &json!(50), &json!(10_000)]
    );
    let table = installation.fine(&["accounts", "show", id]);
    assert!(
        table.contains("default (50)") && table.contains("80000"),
        "{table}"
    );
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

/// Checks that a unique account name can replace the id, and that tables show both.
fn names(installation: &Installation, id: &str) {
    assert_eq!(installation.json(&["accounts", "show", "acme"])["id"], id);
    let listed = installation.fine(&["audit", "list", "--account", "acme"]);
    assert!(listed.contains(&format!("{id} (acme)")), "{listed}");
    let lines = installation.json(&["audit", "list", "--account", "acme"]);
    assert_eq!(
        (&lines[0]["account"], &lines[0]["account_name"]),
        (&json!(id), &json!("acme"))
    );
    for (words, expected) in [
        (&["credits", "balance", "acme"][..], "credits"),
        (&["subscriptions", "list", "--account", "acme"], ""),
        (&["members", "list", "acme"], ""),
        (&["alerts", "show", "acme"], "off"),
        (&["top-ups", "list", "--account", "acme"], ""),
        (&["batches", "list", "--account", "acme"], ""),
        (&["usage", "export", "--account", "acme"], ""),
        (&["ledger", "audit", "--account", "acme"], "All charges match"),
    ] {
        let answer = installation.fine(words);
        assert!(answer.starts_with(expected), "{words:?}: {answer}");
    }

    let twins = ["one", "two"].map(|_| installation.json(&["accounts", "create", "Twin"])["id"].clone());
    for (name, code, words) in [
        ("Twin", 2, twins.each_ref().map(|id| id.as_str().unwrap())),
        ("twin", 1, ["name 'twin'", "tollgate accounts list"]),
        ("acm", 1, ["name 'acm'", "tollgate accounts list"]),
    ] {
        let refused = installation.run(&["keys", "list", "--account", name]);
        assert_eq!(refused.code, code, "{refused:?}");
        assert!(
            words.iter().all(|word| refused.stderr.contains(word)),
            "{refused:?}"
        );
    }
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
        created.stderr.contains("shown once") && !created.stderr.contains(key),
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
    assert_eq!(of("default")["last_used_at"], json!(null));
    let table = installation.fine(&["keys", "list", "--account", "acme"]);
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

/// Creates a key in every state. `expire_keys` executes statements that let keys expire, since a
/// test cannot wait a day.
pub fn every_state_of_a_key(installation: &Installation, expire_keys: impl FnOnce(&str)) {
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
    expire_keys("UPDATE api_key SET expires_at = created_at + 1 WHERE name IN ('trial', 'both')");
    assert_eq!(states(), ["active", "expired", "revoked"], "revoked is final");
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
fn every_command_works_without_a_server() {
    run_every_command(&Installation::new());
}

#[test]
fn every_command_works_beside_a_server_and_its_data_stays() {
    let installation = Installation::new();
    let before = installation.json(&["accounts", "create", "before"]);
    let server = installation.serve();
    run_every_command(&installation);
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
