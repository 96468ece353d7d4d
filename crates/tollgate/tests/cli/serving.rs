//! `serve` and `migrate`: what a newcomer does first.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::checks::finding;
use crate::commands::everything;
use crate::installation::{Installation, ask};

#[test]
fn the_first_start_prints_a_key_that_works_as_printed() {
    let installation = Installation::new();
    let server = installation.serve();
    let banner = server.banner_until("curl");
    assert!(
        banner.contains(&format!("http://{}/docs", server.address)),
        "{banner}"
    );
    let key = banner
        .split_whitespace()
        .find(|word| word.starts_with("sk-service-"))
        .unwrap();
    let body = r#"{"model":"sim/chat","messages":[{"role":"user","content":"Hello!"}]}"#;
    let answer = server.ask("POST", "/v1/chat/completions", key, body);
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");

    let accounts = installation.json(&["accounts", "list"]);
    let id = accounts[0]["id"].as_str().unwrap();
    let spent = installation.json(&["credits", "balance", id]);
    assert!(spent["credits"].as_str().unwrap().starts_with("9.99"), "{spent}");
    assert_eq!(
        installation.json(&["ledger", "check", "--reprice"])["clean"],
        json!(true)
    );
    assert_eq!(server.stop(), 0);

    let again = installation.serve();
    assert!(
        !again.banner_until("curl").contains("sk-service-"),
        "a key is shown once"
    );
    let answer = again.ask("GET", "/v1/models", key, "");
    assert!(
        answer.starts_with("HTTP/1.1 200 "),
        "the key still works: {answer}"
    );
}

#[test]
fn a_busy_admin_address_is_replaced_and_the_start_says_by_which() {
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = busy.local_addr().unwrap().to_string();
    let installation = Installation::new().with("TOLLGATE_SERVER__ADMIN", &taken);
    let server = installation.serve();
    let banner = server.banner_until("curl");
    let shown = banner
        .split_whitespace()
        .find_map(|word| word.strip_suffix("/metrics"));
    let admin = shown.unwrap().strip_prefix("http://").unwrap();
    assert_ne!(admin, taken);
    let answer = ask(admin, "GET", "/metrics", "", "");
    assert!(answer.contains("tollgate_http_responses_total"), "{answer}");
}

#[test]
fn a_key_that_is_revoked_beside_the_server_stops_to_work() {
    let installation = Installation::new();
    let server = installation.serve();
    let account = installation.json(&["accounts", "create", "acme"]);
    let created = installation.json(&["keys", "create", "--account", account["id"].as_str().unwrap()]);
    let key = created["key"].as_str().unwrap();
    assert!(
        server
            .ask("GET", "/v1/models", key, "")
            .starts_with("HTTP/1.1 200 ")
    );
    installation.fine(&["keys", "revoke", created["id"].as_str().unwrap()]);
    assert!(
        server
            .ask("GET", "/v1/models", key, "")
            .starts_with("HTTP/1.1 401 ")
    );
    let account = account["id"].as_str().unwrap();
    let other = installation.json(&["keys", "create", "--account", account]);
    let other = other["key"].as_str().unwrap();
    assert!(
        server
            .ask("GET", "/v1/models", other, "")
            .starts_with("HTTP/1.1 200 ")
    );
    installation.fine(&["accounts", "suspend", account]);
    assert!(
        server
            .ask("GET", "/v1/models", other, "")
            .starts_with("HTTP/1.1 401 ")
    );
    installation.fine(&["accounts", "suspend", account, "--resume"]);
    assert!(
        server
            .ask("GET", "/v1/models", other, "")
            .starts_with("HTTP/1.1 200 ")
    );
}

#[test]
fn a_second_server_on_the_same_data_is_refused() {
    let installation = Installation::new();
    let server = installation.serve();
    for json in [false, true] {
        let words: &[&str] = if json { &["serve", "--json"] } else { &["serve"] };
        let refused = installation.run(words);
        assert_eq!(refused.code, 1, "{refused:?}");
        assert_eq!(refused.stdout, "");
        assert!(
            refused
                .stderr
                .contains(&format!("another tollgate process (pid {})", server.pid())),
            "{refused:?}"
        );
        if json {
            let last: Value = serde_json::from_str(refused.stderr.lines().last().unwrap()).unwrap();
            assert_eq!(last["error"]["code"], "failed");
        }
    }
    installation.fine(&["accounts", "list"]);
    assert_eq!(server.stop(), 0);
}

/// The database says which server is meant: its directory has the lock and the socket, wherever `--data` is.
#[test]
fn a_database_elsewhere_has_its_server_beside_it() {
    let elsewhere = tempfile::tempdir().unwrap();
    let home = elsewhere.path().join("books");
    let url = format!("sqlite:{}/tollgate.db", home.display());
    let installation = Installation::new().with("TOLLGATE_STORAGE__URL", &url);
    let server = installation.serve();
    let banner = server.banner_until("curl");
    assert!(banner.contains(&*home.to_string_lossy()), "{banner}");
    let socket = std::fs::metadata(home.join("tollgate.sock")).unwrap();
    assert_eq!(socket.permissions().mode() & 0o777, 0o600);
    assert!(!installation.data().join("tollgate.sock").exists());
    everything(&installation);

    // Another data directory, the same database: the server carries out the command, with its own secrets.
    let other = Installation::new().with("TOLLGATE_STORAGE__URL", &url);
    let accounts = other.json(&["accounts", "list"]);
    assert_eq!(accounts, installation.json(&["accounts", "list"]));
    let account = accounts[0]["id"].as_str().unwrap();
    let created = other.json(&["keys", "create", "--account", account]);
    let answer = server.ask("GET", "/v1/models", created["key"].as_str().unwrap(), "");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let report = installation.json(&["doctor"]);
    let storage = finding(&report, "storage")["detail"].as_str().unwrap();
    assert!(storage.ends_with("is open in the server that runs"), "{report}");
    // A start there would make other secrets.
    let looked = other.run(&["doctor"]);
    assert_eq!(looked.code, 3, "{looked:?}");
    assert!(
        looked.stdout.contains("pepper is missing") && looked.stdout.contains("--data DIR"),
        "{looked:?}"
    );
    assert!(!other.data().exists(), "nothing was made there");

    for second in [&installation, &other] {
        let refused = second.run(&["serve"]);
        assert_eq!((refused.code, refused.stdout.as_str()), (1, ""), "{refused:?}");
        let words = format!(
            "another tollgate process (pid {}) is using the data directory {}",
            server.pid(),
            home.display()
        );
        assert!(refused.stderr.contains(&words), "{words}: {refused:?}");
    }
    // The one that runs was not disturbed.
    assert_eq!(other.json(&["ledger", "check"])["clean"], json!(true));
    assert_eq!(server.stop(), 0);
    assert!(!home.join("tollgate.sock").exists());
    assert_eq!(installation.json(&["accounts", "list"]), accounts);
}

#[test]
fn the_data_is_its_owners_alone() {
    let installation = Installation::new();
    let server = installation.serve();
    let mode = |path: &str| {
        std::fs::metadata(installation.data().join(path))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(
        (mode("."), mode("tollgate.sock"), mode("secrets/pepper")),
        (0o700, 0o600, 0o600)
    );
    drop(server);
}

#[test]
fn migrate_makes_a_database_that_the_other_commands_use() {
    let installation = Installation::new();
    assert!(installation.fine(&["migrate"]).ends_with("is up to date.\n"));
    assert_eq!(
        installation.json(&["migrate"]),
        json!({"storage": "sqlite", "schema": "current"})
    );
    assert_eq!(installation.json(&["accounts", "list"]), json!([]));
}

#[test]
fn printed_settings_are_those_in_effect_and_hold_no_secret() {
    let installation = Installation::new()
        .with("OPENAI_API_KEY", "sk-canary-1")
        .with("GROQ_API_KEY", "gsk-canary-4")
        .with("TOLLGATE_PEPPER", "canary-2-0123456789abcdef0123456789")
        .with("TOLLGATE_LIMITS__RPM", "77");
    let settings = "[limits]\nrpm = 1\ntpm = 12345\n[storage]\nurl = \"postgres://me:canary-3@db.invalid/x\"\n\
                    [service]\npepper_env = \"TOLLGATE_PEPPER\"\n[providers.openai]\n";
    let file = installation.write("t.toml", settings);
    let words = [
        "serve",
        "--print-config",
        "--listen",
        "127.0.0.1:4321",
        "--config",
        file.to_str().unwrap(),
    ];
    let shown = installation.fine(&words);
    for line in [
        "rpm = 77",
        "tpm = 12345",
        "listen = \"127.0.0.1:4321\"",
        "pepper_env = \"TOLLGATE_PEPPER\"",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    let json = installation.json(&words);
    assert_eq!(
        (&json["limits"]["rpm"], &json["server"]["listen"]),
        (&json!(77), &json!("127.0.0.1:4321"))
    );
    assert!(
        !shown.contains("canary") && !json.to_string().contains("canary"),
        "{shown}"
    );
    // The block says no more than its name, and of the other one there is only a variable.
    assert_eq!(
        json["providers"],
        json!({
            "openai": {
                "preset": "openai",
                "base_url": "https://api.openai.com/v1",
                "api_key_env": "OPENAI_API_KEY"
            },
            "groq": {
                "preset": "groq",
                "base_url": "https://api.groq.com/openai/v1",
                "api_key_env": "GROQ_API_KEY"
            }
        })
    );
    assert!(
        shown.contains("[providers.groq]") && shown.contains("api_key_env = \"GROQ_API_KEY\""),
        "{shown}"
    );
    assert!(!installation.data().exists(), "nothing was started");
    let reread = installation.write("printed.toml", &shown);
    let again = installation.json(&["serve", "--print-config", "--config", reread.to_str().unwrap()]);
    assert_eq!(
        (&again["limits"], &again["providers"]),
        (&json["limits"], &json["providers"])
    );
}
