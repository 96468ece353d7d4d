//! The same on PostgreSQL, where commands open the database beside the server.

use serde_json::json;
use tollgate_testkit::gateway::Database;

use crate::checks::finding;
use crate::commands::{every_state_of_a_key, everything};
use crate::installation::Installation;

/// An installation on a database of its own, which is dropped with it.
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
fn a_worker_that_would_do_nothing_is_refused() {
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
fn a_database_without_a_schema_is_told_how_to_get_one() {
    let (installation, _database) = installation();
    let refused = installation.run(&["accounts", "list"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("tollgate migrate"), "{refused:?}");
    let refused = installation.run(&["doctor"]);
    assert_eq!(refused.code, 3, "{refused:?}");
    assert!(refused.stdout.contains("run `tollgate migrate`"), "{refused:?}");
    assert_eq!(
        installation.json(&["migrate"]),
        json!({"storage": "postgres", "schema": "current"})
    );
    let report = installation.json(&["doctor"]);
    assert_eq!(
        (&report["clean"], &finding(&report, "storage")["state"]),
        (&json!(true), &json!("fine")),
        "{report}"
    );
    assert!(!report.to_string().contains("canary"), "{report}");
}

#[test]
fn everything_works_on_postgresql_beside_a_server_and_is_still_there_after_it() {
    let (installation, _database) = installation();
    installation.fine(&["migrate"]);
    let server = installation.serve();
    assert!(
        !installation.data().join("tollgate.sock").exists(),
        "a socket would belong to one of several nodes"
    );
    everything(&installation);
    assert_eq!(server.stop(), 0);
    assert_eq!(installation.json(&["ledger", "check"])["clean"], json!(true));
    assert_eq!(
        installation.json(&["accounts", "list"]).as_array().unwrap().len(),
        2
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
        // The schema needs no secret, everything else does.
        let expected = if command[0] == "migrate" { 0 } else { 2 };
        assert_eq!(ended.code, expected, "{command:?}: {ended:?}");
    }
    let ended = installation.run(&["config", "check"]);
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.stdout.contains("service.pepper_env (PEPPER)"), "{ended:?}");
}

#[test]
fn a_broken_promise_of_the_books_exits_3() {
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
        people.stdout.starts_with("The ledger has ") && people.stdout.contains("FAULT I1: "),
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
