//! Batch commands for operators, and the batch limits of an account.

use serde_json::{Value, json};
use tollgate_testkit::gateway::Storage;
use tollgate_testkit::gateway::eventually;
use tollgate_testkit::upstream::{Gate, Reply};

use super::lines;
use crate::files::form;
use crate::scene::{CHAT, PLAIN, Scene, assert_error};

#[tokio::test]
async fn batch_commands_show_progress() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "").await;
        let command_line = scene.gateway.command_line();
        assert_eq!(command_line.run(&["batches", "list"]).await, json!([]));
        let done = scene.batch(&scene.input(&lines(PLAIN, 2)).await, CHAT).await;
        let done = scene.until(&done, "completed").await;
        let gate = Gate::new();
        for _ in 0..2 {
            scene.upstream.push(Reply::words(2));
        }
        scene.upstream.push(Reply::words(2).hold_head(&gate));
        scene.upstream.push(Reply::words(2).hold_head(&gate));
        let running = scene.batch(&scene.input(&lines(PLAIN, 4)).await, CHAT).await;
        let id = running["id"].as_str().unwrap();
        let mut shown = Value::Null;
        eventually("two of four are done", async || {
            shown = command_line.run(&["batches", "show", id]).await;
            shown["completed"] == 2
        })
        .await;
        assert_eq!(
            [
                &shown["state"],
                &shown["total"],
                &shown["failed"],
                &shown["account"]
            ],
            [&json!("in_progress"), &json!(4), &json!(0), &json!(scene.account)]
        );
        assert!(
            shown["age_seconds"].is_u64() && shown["cost"].is_null(),
            "{shown}"
        );
        let table = command_line.try_run(&["batches", "list"]).await.stdout;
        assert!(table.contains(" 50 %") && table.contains("100 %"), "{table}");
        assert!(!table.contains('#'), "bars are for terminals: {table}");

        let listed = command_line.run(&["batches", "list"]).await;
        let ids: Vec<_> = listed.as_array().unwrap().iter().map(|one| &one["id"]).collect();
        assert_eq!(ids, [&running["id"], &done["id"]]);
        assert_eq!(listed[1]["cost"], done["cost"]);
        assert_eq!(listed[1]["output_file"], done["output_file_id"]);
        let one = command_line.run(&["batches", "list", "--limit", "1"]).await;
        assert_eq!(one.as_array().unwrap().len(), 1);
        let other = scene.gateway.account().await;
        let theirs = command_line.run(&["batches", "list", "--account", &other]).await;
        assert_eq!(theirs, json!([]));
        let unknown = "batch_00000000000000000000000000000001";
        let missing = command_line.try_run(&["batches", "show", unknown]).await;
        assert!(
            missing.code == 1 && missing.stderr.contains("batches list"),
            "{missing:?}"
        );
        gate.open();
        scene.until(&running, "completed").await;
        scene.finish().await;
    }
}

/// An account's own limits replace those of the settings immediately, whether lower or higher.
#[tokio::test]
async fn account_limits_override_the_settings() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "[limits]\nfiles = 2\nbatch_tokens = 1000\n").await;
        let set = async |name: &str, value: &str| {
            let command = ["accounts", "set-limits", &scene.account, name, value];
            scene.gateway.command_line().run(&command).await
        };
        let upload = async || {
            let content = lines(PLAIN, 2);
            let fields = [
                ("purpose", None, &b"batch"[..]),
                ("file", Some("a.jsonl"), content.as_bytes()),
            ];
            scene.client().send(&form(&fields).key(&scene.key.secret)).await
        };
        let input = upload().await.json()["id"].clone();
        assert_eq!(upload().await.status, 200);
        assert_error("two", &upload().await, "parameter_out_of_range", Some("file"));
        assert_eq!(set("--files", "3").await["files"], 3);
        assert_eq!(upload().await.status, 200);
        assert_error("three", &upload().await, "parameter_out_of_range", Some("file"));
        set("--files", "default").await;
        assert_error(
            "two again",
            &upload().await,
            "parameter_out_of_range",
            Some("file"),
        );
        set("--files", "4").await;
        set("--files-gib", "0").await;
        let refused = upload().await;
        assert_error("no bytes", &refused, "parameter_out_of_range", Some("file"));
        assert!(refused.text().contains("4 files of 0 GiB"), "{}", refused.text());
        set("--files-gib", "default").await;
        assert_eq!(upload().await.status, 200);

        let body = json!({"input_file_id": input, "endpoint": CHAT, "completion_window": "24h"});
        set("--batch-tokens", "10").await;
        let refused = scene.create(&body).await;
        assert_error(
            "ten tokens",
            &refused,
            "parameter_out_of_range",
            Some("input_file_id"),
        );
        assert!(refused.text().contains("10 tokens"), "{}", refused.text());
        let own = set("--batch-tokens", "default").await;
        assert_eq!(own["batch_tokens"], Value::Null);
        let batch = scene.create(&body).await;
        assert_eq!(batch.status, 200, "{}", batch.text());
        scene.until(&batch.json(), "completed").await;
        scene.finish().await;
    }
}
