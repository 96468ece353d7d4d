//! Research commands for operators.

use serde_json::{Value, json};
use tollgate_testkit::gateway::{Storage, eventually};

use super::folders::handbook;
use super::{QUESTION, minimal};
use crate::scene::Scene;

#[tokio::test]
async fn research_commands_show_jobs_and_sources() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let (_folder, corpora) = handbook();
        // No server listens on this port.
        let search =
            "[search.own]\nkind = \"searxng\"\nbase_url = \"http://127.0.0.1:9\"\nprice = \"0.005\"\n";
        let private = "private = true\n";
        let scene = Scene::start_on(storage, &format!("{corpora}{private}{search}")).await;
        let command_line = scene.gateway.command_line();
        assert_eq!(command_line.run(&["research", "list"]).await, json!([]));
        let query = format!("[[sim delay=600000]] {QUESTION}");
        let id = scene.research(&minimal(json!({"query": query}))).await;
        let mut shown = Value::Null;
        eventually("the report is planned", async || {
            shown = command_line.run(&["research", "show", &id]).await;
            shown["phase"] == "planning"
        })
        .await;
        assert_eq!(
            [
                &shown["status"],
                &shown["account"],
                &shown["model"],
                &shown["cost"]
            ],
            [
                &json!("in_progress"),
                &json!(scene.account),
                &json!("sim/research"),
                &Value::Null
            ]
        );
        assert!(!shown.to_string().contains("Orsel"), "{shown}");
        let listed = command_line.run(&["research", "list"]).await;
        assert_eq!(
            (&listed[0]["id"], listed.as_array().unwrap().len()),
            (&json!(id), 1)
        );
        let table = command_line.try_run(&["research", "list"]).await.stdout;
        assert!(table.contains(&id) && table.contains(" planning "), "{table}");
        let other = scene.gateway.account().await;
        let theirs = command_line.run(&["research", "list", "--account", &other]).await;
        assert_eq!(theirs, json!([]));
        let unknown = "job_00000000000000000000000000000001";
        let missing = command_line.try_run(&["research", "show", unknown]).await;
        assert!(
            missing.code == 1 && missing.stderr.contains("research list"),
            "{missing:?}"
        );

        // A failed search is counted by the circuit breaker.
        let web = json!({"model": "tollgate/extractive", "sources": [{"type": "web"}]});
        let failed = scene.research(&minimal(web)).await;
        assert_eq!(scene.researched(&failed).await["status"], "failed");
        let shown = command_line.run(&["research", "show", &failed]).await;
        assert!(
            shown["failure"].is_string() && shown["ended_at"].is_string(),
            "{shown}"
        );
        assert_eq!(
            command_line
                .run(&["research", "list"])
                .await
                .as_array()
                .unwrap()
                .len(),
            1
        );
        let mut sources = Value::Null;
        eventually("both corpora have an index", async || {
            sources = command_line.run(&["research", "sources"]).await;
            let corpora = sources["corpora"].as_array().unwrap().iter();
            corpora.filter(|corpus| corpus["is_built"] == true).count() == 2
        })
        .await;
        let own = &sources["search"][0];
        assert_eq!(
            [&own["name"], &own["kind"], &own["price"]],
            [&json!("own"), &json!("searxng"), &json!("0.005")]
        );
        assert!(
            own["failures_in_a_row"].as_u64().unwrap() > 0 && own["last_error"].is_string(),
            "{own}"
        );
        let corpora: Vec<(&Value, &Value, &Value)> = sources["corpora"]
            .as_array()
            .unwrap()
            .iter()
            .map(|corpus| (&corpus["name"], &corpus["documents"], &corpus["is_private"]))
            .collect();
        assert_eq!(
            corpora,
            [
                (&json!("archive"), &json!(1), &json!(true)),
                (&json!("handbook"), &json!(2), &json!(false)),
            ]
        );
        let tables = command_line.try_run(&["research", "sources"]).await.stdout;
        for part in ["searxng", "BREAKER", "handbook", "PRIVATE"] {
            assert!(tables.contains(part), "{tables}");
        }

        let cancelled = scene.post(&format!("/v1/jobs/{id}/cancel"), &json!({})).await;
        assert_eq!(cancelled.status, 200, "{}", cancelled.text());
        assert_eq!(scene.researched(&id).await["status"], "cancelled");
        assert!(scene.finish().await.clean);
    }
}
