//! `serve` and `migrate`: the first steps of a new operator.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::checks::finding;
use crate::commands::run_every_command;
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
fn a_busy_admin_address_is_replaced_and_the_new_one_is_printed() {
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

/// A client that connects to the port can also use the command socket, because that opens first:
/// with both unavailable, the start fails for the socket.
#[test]
fn the_command_socket_opens_before_the_port() {
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = busy.local_addr().unwrap().to_string();
    let installation = Installation::new();
    let serve = ["serve", "--listen", &taken];
    let ended = installation.run(&serve);
    assert!(ended.stderr.contains("cannot listen on"), "{ended:?}");

    let socket = installation.data().join("tollgate.sock");
    std::fs::remove_file(&socket).unwrap();
    std::fs::create_dir(&socket).unwrap();
    let ended = installation.run(&serve);
    assert_eq!(ended.code, 1, "{ended:?}");
    assert!(
        ended.stderr.contains("cannot open the command socket"),
        "{ended:?}"
    );
}

#[test]
fn a_key_that_is_revoked_beside_the_server_stops_working() {
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

/// A database belongs to the server that has the lock and the socket in its directory, wherever
/// `--data` points.
#[test]
fn a_command_finds_the_server_of_a_database_elsewhere() {
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
    run_every_command(&installation);

    // Another data directory and the same database: the server executes the command with its own
    // secrets.
    let other = Installation::new().with("TOLLGATE_STORAGE__URL", &url);
    let accounts = other.json(&["accounts", "list"]);
    assert_eq!(accounts, installation.json(&["accounts", "list"]));
    let account = accounts[0]["id"].as_str().unwrap();
    let created = other.json(&["keys", "create", "--account", account]);
    let answer = server.ask("GET", "/v1/models", created["key"].as_str().unwrap(), "");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let report = installation.json(&["doctor"]);
    let storage = finding(&report, "storage")["detail"].as_str().unwrap();
    assert!(storage.starts_with("the running server has opened "), "{report}");
    // A start there would create other secrets.
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
    // The running server is not affected.
    assert_eq!(other.json(&["ledger", "check"])["clean"], json!(true));
    assert_eq!(server.stop(), 0);
    assert!(!home.join("tollgate.sock").exists());
    assert_eq!(installation.json(&["accounts", "list"]), accounts);
}

#[test]
fn the_data_is_readable_by_its_owner_only() {
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
fn migrate_creates_a_database_that_the_other_commands_use() {
    let installation = Installation::new();
    let made = installation.fine(&["migrate"]);
    assert!(
        made.starts_with("Created the schema of ") && made.contains("tollgate.db (version "),
        "{made}"
    );
    let again = installation.json(&["migrate"]);
    assert_eq!(
        (&again["storage"], &again["schema"]),
        (&json!("sqlite"), &json!("current"))
    );
    assert!(
        again["to"].as_i64().unwrap() > 0 && again["from"] == again["to"],
        "{again}"
    );
    assert!(
        installation
            .fine(&["migrate"])
            .contains(" is up to date (version ")
    );
    assert_eq!(installation.json(&["accounts", "list"]), json!([]));
}

#[test]
fn printed_settings_are_in_effect_and_contain_no_secret() {
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
    // The provider's table has only its name. For the other provider only a variable is set.
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

/// The settings file is created after the start, edited, reloaded by a signal, and edited again.
/// Each change is noticed.
#[test]
fn settings_that_are_written_after_the_start_are_followed() {
    let installation = Installation::new();
    let server = installation.serve();
    let in_service = |price: &str| {
        let text =
            format!("[models.\"acme/late\"]\ntargets = [\"sim/chat\"]\nprices = {{ input = \"{price}\" }}\n");
        installation.write("tollgate.toml", &text);
        for _ in 0..1_000 {
            let models = installation.json(&["models", "list"]);
            let models = models.as_array().unwrap();
            let late = models.iter().find(|model| model["id"] == "acme/late");
            if late.is_some_and(|model| model["input_price"] == price) {
                return;
            }
        }
        panic!("the price of {price} was not noticed");
    };
    in_service("0.41");
    in_service("0.42");
    let signalled = std::process::Command::new("kill")
        .args(["-HUP", &server.pid().to_string()])
        .status();
    assert!(signalled.unwrap().success());
    in_service("0.43");
    assert_eq!(server.stop(), 0);
}

/// The shell has the variables of a caller. The gateway's own key is not sent anywhere, and the
/// start is not refused.
#[test]
fn a_key_of_this_gateway_in_a_providers_variable_enables_no_provider() {
    let installation = Installation::new().with("OPENAI_API_KEY", "sk-service-canary0123456789");
    let server = installation.serve();
    let models = installation.json(&["models", "list"]);
    let models = models.as_array().unwrap();
    assert!(
        models
            .iter()
            .all(|model| model["id"].as_str().unwrap().starts_with("sim/"))
    );
    let log = installation.log();
    assert!(
        log.contains("OPENAI_API_KEY contains a key of this gateway"),
        "{log}"
    );
    assert!(!log.contains("canary"), "{log}");
    let report = installation.json(&["doctor"]);
    assert_eq!(report["clean"], json!(true), "{report}");
    let finding = finding(&report, "providers");
    assert_eq!(finding["state"], "note", "{report}");
    assert!(
        finding["remedy"].as_str().unwrap().contains("OPENAI_API_KEY"),
        "{report}"
    );
    assert_eq!(server.stop(), 0);
}
