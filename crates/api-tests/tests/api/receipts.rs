//! Proofs of charges on the command line beside a running server: audits, receipts, and exports
//! that can be verified without the database.

use serde_json::{Value, json};
use tollgate_testkit::gateway::{CommandLine, Storage, nanos};

use crate::money::holds::account_with;
use crate::scene::{CHAT, PLAIN, Scene, flat_bound, hello, with};

/// Price of a token of [`PLAIN`], in nano-credits.
const PRICE: i64 = 1_000;
/// Cost of the upstream's default answer.
const COST: i64 = 6 * PRICE;

async fn verify(command_line: &CommandLine, file: &std::path::Path, more: &[&str]) -> (i32, Value) {
    let command = [&["ledger", "verify", file.to_str().unwrap(), "--json"], more].concat();
    let finished = command_line.try_run(&command).await;
    let answer = serde_json::from_str(&finished.stdout).unwrap_or_else(|_| json!(finished.stderr));
    (finished.code, answer)
}

#[tokio::test]
async fn charges_are_audited_and_receipts_shown() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = Scene::start_on(storage, "").await;
        let body = with(hello(json!({"model": PLAIN})), json!({"max_tokens": 100}));
        let bound = flat_bound(&body, PRICE, 100);
        let (account, key) = account_with(&scene, 4 * bound).await;
        let command_line = scene.gateway.command_line();
        let mut request = String::new();
        for _ in 0..3 {
            let response = scene.client().post_json(CHAT, &key, &body).await;
            assert_eq!(response.status, 200, "{}", response.text());
            request = response.header("x-request-id").unwrap().to_owned();
        }
        scene.settled().await;

        let audit = command_line
            .run(&["ledger", "audit", "--account", &account])
            .await;
        assert_eq!((&audit["clean"], &audit["calls"]), (&json!(true), &json!(3)));
        assert_eq!(nanos(&audit["charged"]), 3 * COST);
        let later = ["ledger", "audit", "--from", "2999-01-01"];
        assert_eq!(command_line.run(&later).await["calls"], 0);

        let receipt = command_line.run(&["ledger", "receipt", &request]).await;
        assert_eq!(receipt["matches"], true, "{receipt}");
        let [charge, paid, cost] = ["charge", "paid", "cost"].map(|name| nanos(&receipt[name]));
        assert_eq!([charge, paid, cost], [COST; 3]);
        assert_eq!(nanos(&receipt["held_credits"]), bound);
        assert_eq!(receipt["sum"], (COST * 1_000_000).to_string());
        assert_eq!(receipt["transfers"].as_array().unwrap().len(), 3);
        let hold = request.replace("req_", "hold_");
        let shown = command_line.try_run(&["ledger", "receipt", &hold]).await;
        let text = format!("⌈{} ÷ 1000000⌉ = {COST}", COST * 1_000_000);
        assert!(shown.stdout.contains(&text), "{}", shown.stdout);
        assert!(shown.stdout.contains("The ledger agrees."), "{}", shown.stdout);
        let unknown = request.replace(|digit: char| digit.is_ascii_digit(), "0");
        let refused = command_line.try_run(&["ledger", "receipt", &unknown]).await;
        assert_eq!((refused.code, refused.stdout.as_str()), (1, ""), "{refused:?}");
        scene.finish().await;
    }
}

#[tokio::test]
async fn exports_are_verified_without_the_database() {
    for (storage, format) in [(Storage::Sqlite, "jsonl"), (Storage::Postgres, "csv")] {
        let scene = Scene::start_on(storage, "").await;
        let body = with(hello(json!({"model": PLAIN})), json!({"max_tokens": 100}));
        let (account, key) = account_with(&scene, 4 * flat_bound(&body, PRICE, 100)).await;
        for _ in 0..2 {
            assert_eq!(scene.client().post_json(CHAT, &key, &body).await.status, 200);
        }
        scene.settled().await;
        let command_line = scene.gateway.command_line();
        let file = scene.gateway.data().join("ledger.export");
        let out = [
            "ledger",
            "export",
            "--all",
            "--format",
            format,
            "--out",
            file.to_str().unwrap(),
        ];
        assert_eq!(command_line.try_run(&out).await.code, 0);
        let (code, found) = verify(&command_line, &file, &[]).await;
        assert_eq!((code, &found["clean"]), (0, &json!(true)), "{found}");
        let chain = |found: &Value| {
            let chains = found["chains"].as_array().unwrap().iter();
            let mut mine = chains.filter(|chain| chain["account_id"] == account);
            mine.next().cloned().unwrap()
        };
        assert_eq!(
            [&chain(&found)["first"], &chain(&found)["last"]],
            [&json!(1), &json!(7)]
        );

        // The file is changed: another amount, or a missing line.
        let text = std::fs::read_to_string(&file).unwrap();
        let changed = text.replacen("0.000006", "0.000005", 1);
        assert_ne!(changed, text);
        std::fs::write(&file, changed).unwrap();
        let (code, found) = verify(&command_line, &file, &[]).await;
        assert_eq!((code, &found["fault_count"]), (3, &json!(1)), "{found}");
        assert!(
            found["faults"][0].as_str().unwrap().contains("settle at place"),
            "{found}"
        );
        let is_settle = |line: &&str| line.contains("settle") && line.contains(&*account);
        let left_out = text.lines().position(|line| is_settle(&line)).unwrap();
        let lines = text.lines().enumerate().filter(|(number, _)| *number != left_out);
        let remaining: Vec<&str> = lines.map(|(_, line)| line).collect();
        std::fs::write(&file, remaining.join("\n")).unwrap();
        let (code, found) = verify(&command_line, &file, &[]).await;
        assert_eq!((code, &found["fault_count"]), (3, &json!(1)), "{found}");
        assert!(
            found["faults"][0]
                .as_str()
                .unwrap()
                .contains("are missing from the file"),
            "{found}"
        );
        assert_eq!(verify(&command_line, &file, &["--part"]).await.0, 0);
        std::fs::write(&file, "account_id\nx\n").unwrap();
        assert_eq!(verify(&command_line, &file, &[]).await.0, 1);
        scene.finish().await;
    }
}
