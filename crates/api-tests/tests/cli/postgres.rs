//! The same commands on PostgreSQL, where they open the database beside the server.

use serde_json::json;
use tollgate_testkit::gateway::Database;

use crate::checks::finding;
use crate::commands::{every_state_of_a_key, run_every_command};
use crate::installation::Installation;

/// Creates an installation with a separate database, which is dropped with it.
fn installation() -> (Installation, Database) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let database = runtime.block_on(Database::create());
    let installation = Installation::new()
        .with("TOLLGATE_STORAGE__URL", &database.url())
        .with("TOLLGATE_SERVICE__PEPPER_ENV", "PEPPER")
        .with("PEPPER", "canary-0123456789abcdef0123456789");
    (installation, database)
}

fn execute(database: &Database, statements: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(database.execute(statements));
}

#[test]
fn a_worker_without_jobs_is_refused() {
    let (installation, _database) = installation();
    let idle = installation.with("TOLLGATE_JOBS__CONCURRENCY", "0");
    let refused = idle.run(&["worker"]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(
        refused.stderr.contains("jobs.concurrency") && refused.stderr.contains("run_here = false"),
        "{refused:?}"
    );
}

#[test]
fn a_database_without_a_schema_is_refused_with_a_hint() {
    let (installation, _database) = installation();
    let refused = installation.run(&["accounts", "list"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("tollgate migrate"), "{refused:?}");
    let refused = installation.run(&["doctor"]);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.stdout.contains("run `tollgate migrate`"), "{refused:?}");
    let made = installation.json(&["migrate"]);
    assert_eq!((&made["storage"], &made["from"]), (&json!("postgres"), &json!(0)));
    let again = installation.fine(&["migrate"]);
    let shown = format!(
        "The schema of the PostgreSQL database is up to date (version {}).\n",
        made["to"]
    );
    assert_eq!(again, shown);
    let report = installation.json(&["doctor"]);
    assert_eq!(
        (&report["clean"], &finding(&report, "storage")["state"]),
        (&json!(true), &json!("fine")),
        "{report}"
    );
    assert!(!report.to_string().contains("canary"), "{report}");
}

#[test]
fn every_command_works_on_postgresql_beside_a_server() {
    let (installation, _database) = installation();
    installation.fine(&["migrate"]);
    let server = installation.serve();
    // Only a running server can list its providers. Other commands query the database.
    let providers = installation.json(&["providers", "list"]);
    assert_eq!(providers[0]["name"], "sim", "{providers}");
    let report = installation.json(&["doctor"]);
    assert_eq!(
        finding(&report, "server")["detail"],
        format!("a gateway is ready at {}", server.address)
    );
    // A second node in the same directory does not replace the socket of the first.
    let second = installation.serve();
    assert_eq!(second.stop(), 0);
    assert_eq!(installation.json(&["providers", "list"]), providers);
    run_every_command(&installation);
    assert_eq!(server.stop(), 0);
    assert_eq!(installation.json(&["providers", "list"]), json!([]));
    assert_eq!(installation.json(&["ledger", "check"])["clean"], json!(true));
    assert_eq!(
        installation.json(&["accounts", "list"]).as_array().unwrap().len(),
        4
    );
}

#[test]
fn an_expired_key_is_listed_as_such_on_postgresql() {
    let (installation, database) = installation();
    installation.fine(&["migrate"]);
    every_state_of_a_key(&installation, |statements| execute(&database, statements));
}

#[test]
fn a_secret_is_required() {
    let (installation, _database) = installation();
    let installation = installation.with("PEPPER", "");
    for command in [&["migrate"][..], &["accounts", "list"]] {
        let ended = installation.run(command);
        // Only `migrate` works without a secret.
        let expected = if command[0] == "migrate" { 0 } else { 2 };
        assert_eq!(ended.code, expected, "{command:?}: {ended:?}");
    }
    let ended = installation.run(&["config", "check"]);
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.stdout.contains("service.pepper_env (PEPPER)"), "{ended:?}");
}

#[test]
fn a_violated_ledger_invariant_exits_3() {
    let (installation, database) = installation();
    installation.fine(&["migrate"]);
    let account = installation.json(&["accounts", "create", "acme"]);
    installation.fine(&["credits", "grant", account["id"].as_str().unwrap(), "5"]);
    execute(
        &database,
        "UPDATE ledger_account SET balance = balance + 1 WHERE kind = 'credits'",
    );
    let people = installation.run(&["ledger", "check"]);
    assert_eq!(people.code, 3, "{people:?}");
    assert!(
        people.stdout.starts_with("Faults in the ledger: ") && people.stdout.contains("FAULT I1: "),
        "{people:?}"
    );
    let programs = installation.run(&["ledger", "check", "--json"]);
    let check: serde_json::Value = serde_json::from_str(&programs.stdout).unwrap();
    assert_eq!(
        (programs.code, &check["clean"]),
        (3, &json!(false)),
        "{programs:?}"
    );
    assert_eq!(
        check["fault_count"],
        json!(check["faults"].as_array().unwrap().len()),
        "{check}"
    );
    assert!(programs.stderr.is_empty(), "{programs:?}");
}
