//! An interrupted move leaves the source unchanged, and the target empty or unusable.

use std::path::Path;
use std::process::Stdio;

use tokio::process::{Child, Command};
use tollgate_testkit::gateway::{Database, Storage, eventually};

use super::{EXPORTS, exported, migrate, sqlite};
use crate::scene::{BINARY, Scene, hello};

/// Statements that make the copy of the last table hang.
const STALL: &str = "CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_sleep(600); RETURN NEW; END $$;
    CREATE TRIGGER stalled BEFORE INSERT ON usage_row FOR EACH ROW EXECUTE FUNCTION stall()";
const UNSTALL: &str = "DROP TRIGGER stalled ON usage_row; DROP FUNCTION stall()";
/// Statement that waits until a move hangs at the last table.
const STALLED: &str = "DO $$ BEGIN
    WHILE NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database()
        AND application_name = 'tollgate-move' AND wait_event = 'PgSleep')
    LOOP PERFORM pg_sleep(0.01); PERFORM pg_stat_clear_snapshot(); END LOOP; END $$";
/// Statement that terminates the connection of the move and waits until it has ended.
const END: &str = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'tollgate-move'";
/// Statement that fails if the target has rows.
const EMPTY: &str = "DO $$ BEGIN
    IF EXISTS (SELECT FROM account) OR EXISTS (SELECT FROM transfer) OR EXISTS (SELECT FROM price_version)
    THEN RAISE EXCEPTION 'the target is not empty'; END IF; END $$";

fn begin(folder: &Path, from: &str, to: &str) -> Child {
    let mut command = Command::new(BINARY);
    command
        .env_clear()
        .current_dir(folder)
        .args(["move", "--from", from, "--to", to])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command.spawn().unwrap()
}

async fn signal(child: &Child, name: &str) {
    let id = child.id().unwrap().to_string();
    let sent = Command::new("sh")
        .args(["-c", "kill -s \"$0\" \"$1\"", name, &id])
        .status();
    assert!(sent.await.unwrap().success());
}

#[tokio::test]
async fn an_interrupted_move_to_postgresql_writes_nothing() {
    let mut scene = Scene::start().await;
    let database = Database::create().await;
    let response = scene.chat(&hello(serde_json::json!({}))).await;
    scene.row(response.request_id()).await;
    scene.gateway.stop().await;
    let data = scene.gateway.data();
    let (file, there) = (data.join("tollgate.db"), database.url());
    migrate(&mut scene, &database, &data.join("secrets/pepper")).await;
    let here = sqlite(&file);
    let command_line = scene.gateway.command_line();
    let before = exported(&command_line, &EXPORTS[0]).await;

    database.execute(STALL).await;
    for how in ["TERM", "INT", "KILL"] {
        let moving = begin(scene.gateway.folder(), &here, &there);
        database.execute(STALLED).await;
        // The server ends the connection, or the command is killed.
        if how != "TERM" {
            signal(&moving, how).await;
        }
        database.execute(END).await;
        let ended = moving.wait_with_output().await.unwrap();
        if how == "TERM" {
            let said = String::from_utf8(ended.stderr).unwrap();
            assert_eq!(ended.status.code(), Some(1), "{said}");
            assert!(said.contains("error: nothing was moved: "), "{said}");
        }
        assert!(!ended.status.success(), "{how}");
        database.execute(EMPTY).await;
        assert_eq!(exported(&command_line, &EXPORTS[0]).await, before, "{how}");
    }
    database.execute(UNSTALL).await;
    let moved = command_line.run(&["move", "--from", &here, "--to", &there]).await;
    assert_eq!(moved["ledger"]["clean"], true, "{moved}");
    scene.finish().await;
}

#[tokio::test]
async fn an_interrupted_move_to_sqlite_is_unusable() {
    let mut node = Scene::start_on(Storage::Postgres, "").await;
    node.gateway.stop().await;
    let database = node.gateway.database().unwrap();
    // Enough rows to interrupt the copy in the middle.
    let many = "INSERT INTO response SELECT decode(lpad(to_hex(n), 32, '0'), 'hex'), (SELECT id FROM account), NULL, 0,
        9000000000000000, decode(repeat('ab', 400), 'hex') FROM generate_series(1, 100000) AS n";
    database.execute(many).await;
    let (there, new) = (database.url(), node.gateway.data().join("new"));
    let (file, unfinished) = (new.join("tollgate.db"), new.join("tollgate.db.moving"));
    let mut moving = begin(node.gateway.folder(), &there, &sqlite(&file));
    eventually("the move has started", async || unfinished.exists()).await;
    moving.kill().await.unwrap();
    assert!(unfinished.exists() && !file.exists());

    let command_line = node.gateway.command_line();
    node.gateway
        .change_config(&format!("[storage]\nurl = \"{}\"\n", sqlite(&file)));
    let refused = command_line.try_run(&["accounts", "list"]).await;
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused
            .stderr
            .contains("did not finish: run `tollgate move` again"),
        "{refused:?}"
    );
    assert!(!file.exists());
    let moved = command_line
        .run(&["move", "--from", &there, "--to", &sqlite(&file)])
        .await;
    assert_eq!(moved["ledger"]["clean"], true, "{moved}");
    assert!(!unfinished.exists() && file.exists());
    let accounts = command_line.run(&["accounts", "list"]).await;
    assert_eq!(accounts[0]["id"], node.account.as_str(), "{accounts}");
}
