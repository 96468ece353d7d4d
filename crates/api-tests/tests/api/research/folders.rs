//! Research over folders of the operator.

use std::path::Path;

use serde_json::{Value, json};
use tollgate_testkit::gateway::eventually;

use super::RESEARCH;
use crate::scene::{GRANTED, Scene, assert_error, with};

const MODEL: &str = "tollgate/extractive";

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

/// Returns a folder with three documents, and the settings of two corpora.
pub(super) fn handbook() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    for name in ["handbook", "archive"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    let handbook = folder.path().join("handbook");
    write(
        &handbook,
        "backups.md",
        "---\ntitle: Backups\ndate: 2026-03-01\nauthor: Kim Sato\n---\n# Backups\n\nThe nightly backup of the \
         orders database starts at 02:30 and takes about 40 minutes. Backups are stored for 35 days in a second \
         region. The operations team restores one backup every month to prove that it works.\n",
    );
    write(
        &handbook,
        "travel.txt",
        "Employees book journeys through the travel desk. A journey by train is preferred for distances below 600 \
         kilometres. Receipts are due within 30 days.\n",
    );
    write(
        &folder.path().join("archive"),
        "old-backups.md",
        "---\ntitle: Backups of 2019\ndate: 2019-05-01\n---\nIn 2019 the nightly backup of the orders database \
         started at 04:00 and was stored for 7 days on tape.\n",
    );
    let corpus = |name: &str| {
        let path = folder.path().join(name);
        format!("[corpora.{name}]\npath = {:?}\n", path.display().to_string())
    };
    let settings = corpus("handbook") + &corpus("archive");
    (folder, settings)
}

fn question(members: Value) -> Value {
    let plain = json!({"model": MODEL, "query": "When does the nightly backup of the orders database start?",
        "reasoning_effort": "minimal"});
    with(plain, members)
}

impl Scene {
    /// Waits until both corpora are indexed.
    pub(super) async fn indexed(&self) {
        self.gateway.wait_for_log("indexed a corpus", 1).await;
    }

    async fn answer(&self, members: Value) -> Value {
        let id = self.research(&question(members)).await;
        let job = self.researched(&id).await;
        assert_eq!(job["status"], "completed", "{job}");
        job
    }
}

/// Returns the URLs of the sources of a report.
fn urls(job: &Value) -> Vec<&str> {
    let sources = job["result"]["sources"].as_array().unwrap().iter();
    sources.map(|source| source["url"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn reports_cite_documents_of_a_folder() {
    let (_folder, settings) = handbook();
    let scene = Scene::start_with(&settings).await;
    scene.indexed().await;
    let job = scene.answer(json!({})).await;
    let report = job["result"]["report"].as_str().unwrap();
    assert!(report.contains("starts at 02:30"), "{report}");
    assert!(report.contains("started at 04:00"), "{report}");
    scene
        .assert_cited(job["id"].as_str().unwrap(), &job["result"])
        .await;
    let source = job["result"]["sources"].as_array().unwrap().iter();
    let backups = source
        .clone()
        .find(|source| source["url"] == "corpus://handbook/backups.md")
        .unwrap();
    assert_eq!(
        (
            &backups["title"],
            &backups["author"],
            &backups["date"],
            &backups["cited"]
        ),
        (
            &json!("Backups"),
            &json!("Kim Sato"),
            &json!("2026-03-01"),
            &json!(true)
        ),
    );
    assert_eq!(job["cost"], "0");
    for (members, expected) in [
        (
            json!({"sources": [{"type": "corpus", "name": "archive"}]}),
            "archive",
        ),
        (json!({"search_after_date_filter": "2025-01-01"}), "handbook"),
        (json!({"search_before_date_filter": "12/31/2020"}), "archive"),
        (json!({"search_domain_filter": "-archive"}), "handbook"),
    ] {
        let job = scene.answer(members.clone()).await;
        let urls = urls(&job);
        let prefix = format!("corpus://{expected}/");
        assert!(
            !urls.is_empty() && urls.iter().all(|url| url.starts_with(&prefix)),
            "{members} {urls:?}"
        );
    }
    let unknown = question(json!({"sources": [{"type": "corpus", "name": "other"}]}));
    assert_error(
        "unknown",
        &scene.post(RESEARCH, &unknown).await,
        "not_found",
        Some("sources[0].name"),
    );
    assert_eq!(scene.settled().await.credits, GRANTED);
    assert!(scene.finish().await.clean);
}

/// A question without an answer in the corpus completes, and the report says so.
#[tokio::test]
async fn a_report_without_findings_says_so() {
    let (_folder, settings) = handbook();
    let scene = Scene::start_with(&settings).await;
    scene.indexed().await;
    let job = scene.answer(json!({"query": "Xylophone quokka?"})).await;
    let report = job["result"]["report"].as_str().unwrap();
    assert!(report.contains("No source"), "{report}");
    assert_eq!(job["result"]["citations"], json!([]));
    assert!(scene.finish().await.clean);
}

/// The model exists only with a corpus. The command line shows and builds the indexes.
#[tokio::test]
async fn the_command_line_builds_indexes() {
    let (folder, settings) = handbook();
    let scene = Scene::start_with(&settings).await;
    scene.indexed().await;
    let cli = scene.gateway.command_line();
    let listed = cli.run(&["corpus", "list"]).await;
    let names: Vec<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|corpus| corpus["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["archive", "handbook"]);
    write(
        &folder.path().join("handbook"),
        "coffee.md",
        "The coffee machine on the third floor is descaled every second Tuesday by the facilities team.\n",
    );
    let built = cli.run(&["corpus", "rebuild", "handbook"]).await;
    assert_eq!(built["documents"], 3);
    let unknown = cli.try_run(&["corpus", "rebuild", "other"]).await;
    assert!(
        unknown.stderr.contains("there is no corpus 'other'"),
        "{}",
        unknown.stderr
    );
    let without = Scene::start().await;
    let models = without.read("/v1/models").await.text();
    assert!(models.contains("sim/research") && !models.contains(MODEL));
    eventually("the gateway has the model", async || {
        scene.read("/v1/models").await.text().contains(MODEL)
    })
    .await;
    assert!(without.finish().await.clean);
    assert!(scene.finish().await.clean);
}
