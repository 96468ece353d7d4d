//! Moves that are refused before any write.

use serde_json::json;
use tollgate_testkit::gateway::{CommandLine, Database, Storage, execute_embedded};

use super::{migrate, sqlite};
use crate::scene::{Scene, hello};

async fn expect(command_line: &CommandLine, from: &str, to: &str, text: &str) {
    let refused = command_line.try_run(&["move", "--from", from, "--to", to]).await;
    assert_eq!(refused.code, 2, "{from} to {to}: {refused:?}");
    assert!(refused.stderr.contains(text), "{text:?} in {refused:?}");
    assert!(
        refused.stdout.is_empty() && !refused.stderr.contains("copied"),
        "{refused:?}"
    );
}

#[tokio::test]
async fn invalid_moves_are_refused() {
    let mut scene = Scene::start().await;
    scene.gateway.stop().await;
    let database = Database::create().await;
    let (here, there) = (sqlite(&scene.gateway.data().join("tollgate.db")), database.url());
    let command_line = scene.gateway.command_line();
    let nowhere = sqlite(&scene.gateway.data().join("nowhere/tollgate.db"));
    for (from, to, text) in [
        (here.as_str(), nowhere.as_str(), "both sides are SQLite"),
        (&there, &there, "both sides are PostgreSQL"),
        (&nowhere, &there, "found no database at"),
        (
            "tollgate-data",
            &there,
            "--from: the URL is invalid: write sqlite:DIR/tollgate.db",
        ),
        ("sqlite:other.db", &there, "the file must be named tollgate.db"),
        (
            &here,
            "mysql://db/tollgate",
            "--to: the URL is invalid: write sqlite:DIR/tollgate.db",
        ),
        (
            &here,
            "postgres://u:canary@:abc/d",
            "postgres://user:password@host:5432/database",
        ),
        // Neither database may have an old schema.
        (&here, &there, "the target: the database has schema version 0"),
        (&there, &nowhere, "the source: the database has schema version 0"),
    ] {
        expect(&command_line, from, to, text).await;
    }
    assert!(!scene.gateway.data().join("nowhere/tollgate.db").exists());
    let pepper = scene.gateway.data().join("secrets/pepper");
    migrate(&mut scene, &database, &pepper).await;
    let behind = "CREATE TABLE kept AS SELECT * FROM _sqlx_migrations;
        DELETE FROM _sqlx_migrations WHERE version = (SELECT MAX(version) FROM _sqlx_migrations)";
    let file = scene.gateway.data().join("tollgate.db");
    execute_embedded(&file, behind).await;
    expect(&command_line, &here, &there, "run `tollgate migrate` first").await;
    let restored = "INSERT OR IGNORE INTO _sqlx_migrations SELECT * FROM kept; DROP TABLE kept";
    execute_embedded(&file, restored).await;
    command_line.run(&["move", "--from", &here, "--to", &there]).await;
    // A second move, and a move back into the source, find a target that is not empty.
    expect(
        &command_line,
        &here,
        &there,
        "the target is not empty (account has rows)",
    )
    .await;
    expect(&command_line, &there, &here, "is not empty (account has rows)").await;
    scene.finish().await;
}

#[tokio::test]
async fn a_database_in_use_is_not_moved() {
    let mut scene = Scene::start().await;
    let database = Database::create().await;
    let data = scene.gateway.data();
    let (here, there) = (sqlite(&data.join("tollgate.db")), database.url());
    migrate(&mut scene, &database, &data.join("secrets/pepper")).await;
    let command_line = scene.gateway.command_line();
    expect(
        &command_line,
        &here,
        &there,
        "is used by another tollgate process (pid ",
    )
    .await;
    let served = scene.chat(&hello(json!({}))).await;
    assert_eq!(served.status, 200, "the server still works: {}", served.text());
    scene.finish().await;

    let node = Scene::start_on(Storage::Postgres, "").await;
    let (there, elsewhere) = (
        node.gateway.database().unwrap().url(),
        data.with_file_name("elsewhere"),
    );
    let new = sqlite(&elsewhere.join("tollgate.db"));
    let command_line = node.gateway.command_line();
    expect(
        &command_line,
        &there,
        &new,
        "the source is used by a gateway or a command",
    )
    .await;
    node.finish().await;
}

/// A migrated target without rows is replaced. A target with a journal is refused.
#[tokio::test]
async fn an_empty_directory_may_have_been_migrated() {
    let mut node = Scene::start_on(Storage::Postgres, "").await;
    node.gateway.stop().await;
    let there = node.gateway.database().unwrap().url();
    let new = node.gateway.data().join("new");
    let (target, command_line) = (sqlite(&new.join("tollgate.db")), node.gateway.command_line());
    node.gateway
        .change_config(&format!("[storage]\nurl = \"{target}\"\n"));
    command_line.run(&["migrate"]).await;
    assert!(new.join("tollgate.db").exists());
    std::fs::create_dir_all(new.join("journal")).unwrap();
    std::fs::write(new.join("journal/00000000000000000001"), "of another database").unwrap();
    expect(
        &command_line,
        &there,
        &target,
        "has the journal of another database",
    )
    .await;
    std::fs::remove_dir_all(new.join("journal")).unwrap();
    command_line
        .run(&["move", "--from", &there, "--to", &target])
        .await;
    let accounts = command_line.run(&["accounts", "list"]).await;
    assert_eq!(accounts[0]["id"], json!(node.account), "{accounts}");
}
