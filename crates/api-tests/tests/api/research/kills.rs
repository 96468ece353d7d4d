//! The process is killed around each kind of call of a report with models. No recorded call is
//! repeated, and each report is charged once.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::gateway::{Storage, nanos};

use super::server::{CALL_PRICE, Kind, QUERY_PRICE, ResearchServer, question};
use crate::scene::{GRANTED, Scene};

/// Numbers of calls between the answers to held calls and the death of the process.
const LATER_CALLS: [usize; 6] = [0, 1, 4, 9, 18, 30];

/// A report of one unit.
struct Report {
    unit: String,
    kind: Kind,
    id: String,
}

/// A gateway with reports whose calls are held.
struct Killing {
    scene: Scene,
    server: ResearchServer,
    reports: Vec<Report>,
}

#[tokio::test]
async fn lost_calls_of_models_are_made_again() {
    let mut killing = Killing::start(Storage::Sqlite).await;
    killing.hold_each("", &[Kind::Notes, Kind::SecondJudgement]).await;
    killing.kill().await;
    killing.assert_repeated_once().await;
    killing.finish().await;
}

#[tokio::test]
#[ignore = "a proof: make prove"]
async fn prove_research_kill_with_models() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        killed_before_answers(storage).await;
        killed_after_answers(storage).await;
    }
    killed_between_sections().await;
    killed_at_every_kind().await;
}

/// Kills the process while a call of each kind is unanswered, in one report each.
async fn killed_before_answers(storage: Storage) {
    let mut killing = Killing::start(storage).await;
    killing.hold_each("", &Kind::ALL).await;
    killing.kill().await;
    killing.assert_repeated_once().await;
    killing.finish().await;
}

/// Kills the process after the same calls were answered, and after some further calls.
async fn killed_after_answers(storage: Storage) {
    let mut killing = Killing::start(storage).await;
    // On PostgreSQL, a job continues when the lease of the dead process has expired.
    let rounds = match storage {
        Storage::Sqlite => &LATER_CALLS[..],
        Storage::Postgres => &LATER_CALLS[2..4],
    };
    for (later, name) in rounds.iter().zip(["A", "B", "C", "D", "E", "F"]) {
        killing.reports.clear();
        killing.hold_each(name, &Kind::ALL).await;
        let received = killing.server.received();
        killing.server.release();
        killing.server.until_received(received + later).await;
        killing.kill().await;
        killing.assert_complete(2).await;
    }
    killing.finish().await;
}

/// Kills the process after the first section was sent to the owner of the job, before the second.
async fn killed_between_sections() {
    let mut killing = Killing::start(Storage::Sqlite).await;
    killing
        .server
        .hold_subject("Unit", Kind::SecondJudgement, "35 days");
    let id = killing.scene.research(&question("Unit", json!({}))).await;
    killing.server.until_held("Unit", 1).await;
    let request = Request::get(&format!("/v1/jobs/{id}/events")).key(&killing.scene.key.secret);
    let mut events = killing.scene.client().open(&request).await;
    let mut sent = String::new();
    while !sent.contains("event: research.delta") {
        let chunk = events.next_chunk().await.unwrap();
        sent.push_str(&String::from_utf8_lossy(&chunk));
    }
    killing.kill().await;
    let calls = killing.server.calls("Unit");
    let job = killing.scene.researched(&id).await;
    assert_eq!(job["status"], "completed", "{job}");
    assert_eq!(job["result"]["stats"]["lost_calls"], 1, "{job}");
    let repeated = killing
        .server
        .calls("Unit")
        .into_iter()
        .filter(|(_, count)| *count > 1);
    let repeated: Vec<_> = repeated.map(|(call, _)| call).collect();
    assert_eq!(
        repeated,
        [("Unit".to_owned(), Kind::SecondJudgement, "35 days")],
        "{calls:?}"
    );
    let events = killing.scene.read(&format!("/v1/jobs/{id}/events")).await;
    assert_eq!(
        events.text().matches("event: research.delta").count(),
        2,
        "{}",
        events.text()
    );
    killing.finish().await;
}

/// Kills the process of one report at every kind of call.
async fn killed_at_every_kind() {
    let mut killing = Killing::start(Storage::Sqlite).await;
    let mut id = String::new();
    for kind in Kind::ALL {
        killing.server.hold("Unit", kind);
        if kind == Kind::Plan {
            id = killing.scene.research(&question("Unit", json!({}))).await;
        } else {
            killing.scene.gateway.restart().await;
        }
        killing.server.until_held("Unit", kind.count()).await;
        killing.scene.gateway.kill().await;
        killing.server.release();
    }
    killing.scene.gateway.restart().await;
    let job = killing.scene.researched(&id).await;
    assert_eq!(job["status"], "completed", "{job}");
    let result = &job["result"];
    let paid = Kind::ALL.into_iter().filter(|kind| kind.is_paid());
    let lost: usize = paid.map(Kind::count).sum();
    assert_eq!(
        (&result["degraded"], &result["stats"]["lost_calls"]),
        (&json!(false), &json!(lost))
    );
    // The calls of the second round were not held.
    for ((_, kind, subject), count) in killing.server.calls("Unit") {
        let is_later = matches!((kind, subject), (Kind::Reflection, "complete") | (_, "restored"));
        assert_eq!(count, if is_later { 1 } else { 2 }, "{kind:?} {subject}");
    }
    killing.scene.assert_cited(&id, result).await;
    killing.finish().await;
}

impl Killing {
    async fn start(storage: Storage) -> Self {
        let server = ResearchServer::start().await;
        let scene = Scene::start_on(storage, &server.settings()).await;
        Self {
            scene,
            server,
            reports: Vec::new(),
        }
    }

    /// Starts a report for each kind, and waits until its calls of this kind are held.
    async fn hold_each(&mut self, round: &str, kinds: &[Kind]) {
        let mut kinds = kinds.to_vec();
        // Held pages occupy the connections to their host, and held searches have a timeout.
        kinds.sort_by_key(|kind| (matches!(kind, Kind::Search | Kind::Page), *kind));
        for kind in kinds {
            let unit = format!("Unit{round}{kind:?}");
            self.server.hold(&unit, kind);
            let id = self.scene.research(&question(&unit, json!({}))).await;
            self.server.until_held(&unit, kind.count()).await;
            self.reports.push(Report { unit, kind, id });
        }
    }

    /// Kills the process, answers the held calls, and starts another process.
    async fn kill(&mut self) {
        self.scene.gateway.kill().await;
        self.server.release();
        self.scene.gateway.restart().await;
    }

    /// Asserts that each report made its held calls twice and all other calls once.
    async fn assert_repeated_once(&self) {
        for report in &self.reports {
            let job = self.complete(report).await;
            for ((_, kind, subject), count) in self.server.calls(&report.unit) {
                let is_held = kind == report.kind && !matches!(subject, "restored" | "complete");
                let expected = if is_held { 2 } else { 1 };
                assert_eq!(count, expected, "{}: {kind:?} {subject}", report.unit);
            }
            let lost = if report.kind.is_paid() {
                report.kind.count()
            } else {
                0
            };
            assert_eq!(job["result"]["stats"]["lost_calls"], lost, "{}", report.unit);
        }
    }

    /// Asserts that each report is complete, and that only calls in flight at the death of the
    /// process were made twice: at most `in_flight` of each report.
    async fn assert_complete(&self, in_flight: usize) {
        for report in &self.reports {
            let job = self.complete(report).await;
            let calls = self.server.calls(&report.unit);
            let is_lost = |paid: bool| {
                calls
                    .iter()
                    .filter(move |((_, kind, _), count)| kind.is_paid() == paid && **count > 1)
            };
            assert!(calls.values().all(|count| *count <= 2), "{calls:?}");
            let lost = job["result"]["stats"]["lost_calls"].as_u64().unwrap();
            let lost = usize::try_from(lost).unwrap();
            // A call may be lost before it reaches the server.
            assert!(
                is_lost(true).count() <= lost && lost <= in_flight,
                "{lost} {calls:?}"
            );
            assert!(is_lost(false).count() <= in_flight, "{calls:?}");
        }
    }

    /// Waits for a report, and asserts that it is complete and charged for each of its calls once.
    async fn complete(&self, report: &Report) -> Value {
        let job = self.scene.researched(&report.id).await;
        assert_eq!(job["status"], "completed", "{}: {job}", report.unit);
        let result = &job["result"];
        assert_eq!(result["degraded"], false, "{}: {result}", report.unit);
        self.scene.assert_cited(&report.id, result).await;
        let mut kinds: BTreeMap<Kind, i64> = BTreeMap::new();
        for (_, kind, _) in self.server.calls(&report.unit).into_keys() {
            *kinds.entry(kind).or_default() += 1;
        }
        let calls = |of: &[Kind]| of.iter().filter_map(|kind| kinds.get(kind)).sum::<i64>();
        let row = self.scene.row(job["request_id"].as_str().unwrap()).await;
        let parts = row["parts"].as_array().unwrap();
        let cost = |name: &str| {
            let part = parts.iter().find(|part| part["name"] == name).unwrap();
            nanos(&part["cost"])
        };
        let sum: i64 = parts.iter().map(|part| nanos(&part["cost"])).sum();
        assert_eq!((sum, sum), (nanos(&row["cost"]), nanos(&job["cost"])), "{row}");
        for (name, price, count) in [
            (
                "plan",
                CALL_PRICE,
                calls(&[Kind::Plan, Kind::Reflection, Kind::Outline]),
            ),
            ("search", QUERY_PRICE, calls(&[Kind::Search])),
            ("read", CALL_PRICE, calls(&[Kind::Notes])),
            ("write", CALL_PRICE, calls(&[Kind::Section, Kind::Corrections])),
        ] {
            assert_eq!(cost(name), price * count, "{name} of {}: {row}", report.unit);
        }
        job
    }

    /// Asserts that the charges of all reports are the change of the balance.
    async fn finish(self) {
        let rows = self.scene.rows().await;
        let charged: i64 = rows.iter().map(|row| nanos(&row["cost"])).sum();
        assert_eq!(self.scene.settled().await.credits, GRANTED - charged);
        let check = self.scene.finish().await;
        assert!(check.clean);
        assert_eq!(check.usage_rows, rows.len() as u64);
    }
}
