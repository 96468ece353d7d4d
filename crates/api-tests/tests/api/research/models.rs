//! Research with chat models in the roles of the engine, and a judge.

use serde_json::{Value, json};
use tollgate_testkit::gateway::{Storage, eventually, nanos};
use tollgate_testkit::upstream::{Answer, Gate, ReceivedRequest, Reply};

use super::folders::handbook;
use super::server::{notes_with, prompt};
use super::{RESEARCH, Scene};
use crate::scene::{GRANTED, MODEL, PLAIN, assert_error, with};

const QUESTION: &str = "When does the nightly backup of the orders database start?";

/// Returns the settings of a research model with these roles.
fn engine(roles: &str) -> String {
    format!("[models.\"acme/deep\"]\nresearch = {{ {roles} }}\n")
}

fn question(members: Value) -> Value {
    with(
        json!({"model": "acme/deep", "query": QUESTION, "reasoning_effort": "minimal"}),
        members,
    )
}

/// Answers as a model that makes mistakes: an invented quote, a wrong figure, and a statement that
/// no quote supports.
fn answer(request: &ReceivedRequest) -> Option<Reply> {
    let (name, material) = prompt(request)?;
    let answer = match name.as_str() {
        "plan" => json!({
            "questions": ["When does the backup start?"],
            "queries": ["nightly backup orders database", "orders backup stored days"],
        }),
        "notes" => {
            let passages = material["page"]["passages"].as_array().unwrap().iter();
            let text = passages
                .map(|passage| passage.as_str().unwrap())
                .collect::<String>();
            let sentences = text.split_inclusive(". ").map(str::trim);
            let found = sentences.filter(|sentence| sentence.contains("backup"));
            let mut notes: Vec<Value> = found
                .map(|sentence| json!({"claim": sentence, "quote": sentence}))
                .collect();
            notes.push(json!({"claim": "It starts at 09:99.", "quote": "The nightly backup starts at 09:99 on Mondays."}));
            json!({"notes": notes})
        }
        "reflection" => json!({"gaps": [], "contradictions": [], "queries": []}),
        "outline" => {
            let all: Vec<usize> = (0..material["notes"].as_array().unwrap().len()).collect();
            json!({"sections": [{"title": "start of the backup", "notes": all}]})
        }
        "section" => {
            let start = notes_with(&material, "02:30");
            json!({"paragraphs": [
                {"sentences": [
                    {"text": "The nightly backup starts at 02:30.", "notes": start},
                    {"text": "It takes about 45 minutes.", "notes": start},
                ]},
                {"sentences": [
                    {"text": "Everybody praises the backup.", "notes": start},
                    {"text": "See [our site](https://evil.example/x) <img src=x> for more.", "notes": []},
                ]},
            ]})
        }
        "corrections" => {
            let sentences = material["sentences"].as_array().unwrap().iter();
            let wrong =
                sentences.filter(|sentence| sentence["text"].as_str().unwrap().contains("45 minutes"));
            let corrected = wrong.map(|sentence| {
                let ids = notes_with(sentence, "40 minutes");
                json!({"id": sentence["id"], "text": "It takes about 40 minutes.", "notes": ids})
            });
            json!({"sentences": corrected.collect::<Vec<_>>()})
        }
        other => panic!("unexpected prompt {other}"),
    };
    Some(Reply::answer(Answer::text(&answer.to_string())))
}

/// Models plan, read and write. Wrong sentences are corrected once, else removed. Each call is a
/// part of the single charge, at the prices of its model.
#[tokio::test]
async fn models_write_a_report_that_the_judge_accepts() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let (folder, corpora) = handbook();
        // The simulated judge reads its decisions in the quotes.
        let text = "The nightly backup of the orders database starts at 02:30 and takes about 40 minutes \
                    [[decide q0 yes=1]] [[decide q1 yes=0]].\n";
        std::fs::write(folder.path().join("handbook").join("backups.md"), text).unwrap();
        let roles = format!("writer = \"{MODEL}\", reader = \"{PLAIN}\", judge = \"sim/decide\"");
        let scene = Scene::start_on(storage, &(corpora + &engine(&roles))).await;
        scene.upstream.set_judge(answer);
        scene.indexed().await;
        let quote = scene
            .post(
                "/v1/quote",
                &json!({"endpoint": RESEARCH, "request": question(json!({}))}),
            )
            .await
            .json();
        let id = scene
            .research(&question(json!({"instructions": "Be brief.", "language": "en"})))
            .await;
        let job = scene.researched(&id).await;
        assert_eq!(job["status"], "completed", "{job}");
        let result = &job["result"];
        scene.assert_cited(&id, result).await;
        let report = result["report"].as_str().unwrap();
        assert!(
            report.starts_with(
                "## Start of the backup\n\nThe nightly backup starts at 02:30.[1] It takes about 40 minutes."
            ),
            "{report}"
        );
        for wrong in ["09:99", "45 minutes", "Everybody", "evil.example", "<img"] {
            assert!(!report.contains(wrong), "{wrong}: {report}");
        }
        assert_eq!(
            (&result["stats"]["repaired"], &result["stats"]["removed"]),
            (&json!(1), &json!(2)),
            "{result}"
        );
        assert!(
            result["citations"][0]["support"].as_f64().unwrap() >= 0.7,
            "{result}"
        );
        assert_eq!(result["degraded"], false, "{result}");

        let row = scene.row(job["request_id"].as_str().unwrap()).await;
        let parts = row["parts"].as_array().unwrap();
        let models: Vec<(&str, &str)> = parts
            .iter()
            .map(|part| (part["name"].as_str().unwrap(), part["model"].as_str().unwrap()))
            .collect();
        assert_eq!(
            models,
            [
                ("plan", MODEL),
                ("search", "acme/deep"),
                ("read", PLAIN),
                ("write", MODEL),
                ("judge", "sim/decide"),
            ],
            "{row}"
        );
        let sum: i64 = parts.iter().map(|part| nanos(&part["cost"])).sum();
        assert_eq!(sum, nanos(&job["cost"]));
        assert!(sum > 0 && sum <= nanos(&quote["most"]), "{quote}");
        assert!(scene.finish().await.clean);
    }
}

/// The job verifies from the time when its last section is written.
#[tokio::test]
async fn a_job_verifies_after_its_last_section() {
    let (_folder, corpora) = handbook();
    let roles = format!("writer = \"{MODEL}\", judge = \"{PLAIN}\"");
    let scene = Scene::start_with(&(corpora + &engine(&roles))).await;
    let (writer, judge) = (Gate::new(), Gate::new());
    let gates = (writer.clone(), judge.clone());
    scene.upstream.set_judge(move |request| match prompt(request) {
        Some((name, _)) if name == "section" => answer(request).map(|reply| reply.hold_head(&gates.0)),
        Some((name, _)) if ["plan", "notes", "outline"].contains(&&*name) => answer(request),
        _ => Some(Reply::words(1).hold_head(&gates.1)),
    });
    scene.indexed().await;
    let id = scene.research(&question(json!({}))).await;
    let phase_is = async |phase: &str| {
        eventually(phase, async || {
            let job = scene.read(&format!("/v1/jobs/{id}")).await.json();
            job["phase"] == phase
        })
        .await;
    };
    phase_is("writing").await;
    writer.open();
    phase_is("verifying").await;
    let cancelled = scene.post(&format!("/v1/jobs/{id}/cancel"), &json!({})).await;
    assert_eq!(cancelled.status, 200, "{}", cancelled.text());
    assert_eq!(scene.researched(&id).await["status"], "cancelled");
    judge.open();
    assert!(scene.finish().await.clean);
}

/// Without a working model, the engine writes the report extractively, and says so.
#[tokio::test]
async fn a_report_is_extractive_if_its_models_fail() {
    let (_folder, corpora) = handbook();
    let roles = format!("writer = \"{MODEL}\"");
    let scene = Scene::start_with(&(corpora + &engine(&roles))).await;
    scene
        .upstream
        .set_judge(|_| Some(Reply::error(400, "invalid_request", "fake")));
    scene.indexed().await;
    let id = scene.research(&question(json!({}))).await;
    let job = scene.researched(&id).await;
    assert_eq!(job["status"], "completed", "{job}");
    assert_eq!(
        (&job["result"]["degraded"], &job["cost"]),
        (&json!(true), &json!("0"))
    );
    assert!(
        job["result"]["report"].as_str().unwrap().contains("02:30"),
        "{job}"
    );

    // The models fail after the notes.
    scene.upstream.set_judge(|request| {
        let (name, _) = prompt(request)?;
        match name.as_str() {
            "plan" | "notes" | "reflection" => answer(request),
            _ => Some(Reply::error(400, "invalid_request", "fake")),
        }
    });
    let id = scene.research(&question(json!({}))).await;
    let job = scene.researched(&id).await;
    assert_eq!(job["status"], "completed", "{job}");
    let result = &job["result"];
    assert_eq!(result["degraded"], true);
    assert!(result["report"].as_str().unwrap().contains("02:30"), "{result}");
    scene.assert_cited(&id, result).await;
    assert!(scene.finish().await.clean);
}

/// A missing model of a role refuses the request before a hold.
#[tokio::test]
async fn a_missing_model_of_a_role_refuses_requests() {
    let (_folder, corpora) = handbook();
    for roles in [
        "writer = \"acme/none\"".to_owned(),
        format!("writer = \"{MODEL}\", judge = \"sim/embeddings\""),
        format!("writer = \"{MODEL}\", planner = \"sim/image\""),
    ] {
        let scene = Scene::start_with(&(corpora.clone() + &engine(&roles))).await;
        let response = scene.post(RESEARCH, &question(json!({}))).await;
        assert_error(&roles, &response, "model_unavailable", None);
        scene.nothing_happened().await;
        assert_eq!(scene.settled().await.credits, GRANTED);
        assert!(scene.finish().await.clean);
    }
}
