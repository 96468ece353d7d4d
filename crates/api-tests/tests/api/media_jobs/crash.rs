//! The process is killed while jobs are accepted, submitted, polled and stored. No job is lost,
//! submitted twice or charged twice, and polls still work.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tollgate_testkit::gateway::{Storage, eventually};
use tollgate_testkit::upstream::MediaFault;

use super::{SECOND_PRICE, VIDEO_MODEL, VIDEOS};
use crate::scene::{GRANTED, Scene};

/// Limits that let one account run all jobs concurrently.
const SETTINGS: &str = "[jobs]\nper_account = 100\n[limits]\nrpm = 100000\n";

#[tokio::test]
async fn fifty_jobs_survive_the_death_of_their_process() {
    killed(Storage::Sqlite, 50).await;
}

#[tokio::test]
#[ignore = "a proof: make prove"]
async fn prove_five_hundred_jobs_survive_the_death_of_their_process() {
    killed(Storage::Sqlite, 500).await;
    killed(Storage::Postgres, 100).await;
}

impl Scene {
    /// Waits until every job of the account has ended and returns all records.
    async fn all_ended(&self) -> Vec<Value> {
        for status in ["queued", "in_progress"] {
            eventually("every job has ended", async || {
                let open = self
                    .get(&format!("/v1/jobs?limit=1&status={status}"))
                    .await
                    .json();
                match open["data"][0]["job_id"].as_str() {
                    Some(id) => {
                        self.ended(id).await;
                        false
                    }
                    None => true,
                }
            })
            .await;
        }
        let mut jobs = Vec::new();
        let mut page = self.get("/v1/jobs?limit=100").await.json();
        loop {
            jobs.extend(page["data"].as_array().unwrap().clone());
            if page["has_more"] == false {
                return jobs;
            }
            let last = page["last_id"].as_str().unwrap().to_owned();
            page = self.get(&format!("/v1/jobs?limit=100&after={last}")).await.json();
        }
    }
}

impl Scene {
    /// Waits until the videos of a round are in the phase in which the process is killed. Continues
    /// as long as the provider receives requests.
    async fn reaches(&self, round: usize, number: usize) {
        let name = format!("video {round} ");
        let look = || {
            let made = self.upstream.made();
            let asked: u64 = made.iter().map(|making| 1 + u64::from(making.polls)).sum();
            let of_round = made.iter().filter(|making| making.prompt.starts_with(&name));
            let polls: Vec<u32> = of_round.map(|making| making.polls).collect();
            let is_reached = match round {
                0 => !polls.is_empty(),
                1 => polls.len() == number,
                2 => polls.iter().any(|polls| *polls > 0),
                3 => polls.len() == number && polls.iter().all(|polls| *polls > 0),
                _ => polls.iter().any(|polls| *polls > 2),
            };
            (is_reached, asked)
        };
        let (mut is_reached, mut asked) = look();
        while !is_reached {
            eventually("jobs make progress", async || look() > (false, asked)).await;
            (is_reached, asked) = look();
        }
    }
}

async fn killed(storage: Storage, count: usize) {
    let mut scene = Scene::studio(storage, SETTINGS).await;
    scene.upstream.set_media_polls(2);
    let mut ids = Vec::new();
    // Each round has a few jobs, and the process dies in a different phase.
    for round in 0..5 {
        for n in 0..count / 5 {
            let body = json!({"model": VIDEO_MODEL, "prompt": format!("video {round} {n}"), "duration": 2});
            ids.push(scene.accept(VIDEOS, &body).await);
        }
        scene.reaches(round, count / 5).await;
        scene.gateway.kill().await;
        scene.gateway.restart().await;
        for id in ids.iter().rev().take(3) {
            assert!(scene.job(id).await["status"].is_string(), "polls still work");
        }
    }
    for id in ids.iter().rev().take(3) {
        scene.ended(id).await;
    }
    let jobs = scene.all_ended().await;
    assert_eq!(jobs.len(), count, "no job is lost");
    let mut outcomes: BTreeMap<String, usize> = BTreeMap::new();
    let mut by_phase: BTreeMap<(usize, String), usize> = BTreeMap::new();
    let mut charged = 0;
    for job in jobs {
        let status = job["status"].as_str().unwrap().to_owned();
        match &*status {
            "completed" => {
                charged += 2 * SECOND_PRICE;
                assert_eq!(job["cost"], "0.2", "{job}");
            }
            // The gateway cannot determine whether the job was submitted, so the job fails without
            // a charge and is not submitted again.
            "failed" => assert_eq!(
                (&job["cost"], &job["error"]["code"]),
                (&json!("0"), &json!("internal_error")),
                "{job}"
            ),
            other => panic!("{other}: {job}"),
        }
        let id = job["job_id"].as_str().unwrap();
        let round = ids.iter().position(|known| known == id).unwrap() / (count / 5);
        by_phase
            .entry((round, status.clone()))
            .and_modify(|jobs| *jobs += 1)
            .or_insert(1);
        *outcomes.entry(status).or_default() += 1;
    }
    println!("by the phase in which the process died: {by_phase:?}");
    assert!(
        outcomes
            .get("completed")
            .is_some_and(|completed| *completed >= count / 3),
        "{outcomes:?}"
    );
    let mut submitted: BTreeMap<String, usize> = BTreeMap::new();
    for making in scene.upstream.made() {
        *submitted.entry(making.prompt).or_default() += 1;
    }
    assert!(submitted.values().all(|times| *times == 1), "{submitted:?}");
    assert_eq!(scene.settled().await.credits, GRANTED - charged);
    let check = scene.finish().await;
    assert!(check.clean);
    assert_eq!((check.usage_rows, check.open_holds), (count as u64, 0));
}

/// A trigger that prevents jobs from failing. Results of their submissions are still written.
const NO_END: &str = "CREATE FUNCTION no_end() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
    RAISE EXCEPTION 'not now'; END $$; \
    CREATE TRIGGER no_end BEFORE UPDATE ON job FOR EACH ROW \
    WHEN (NEW.status = 'failed') EXECUTE FUNCTION no_end()";
/// Statements that remove the trigger and end all leases, so that any node can run the jobs.
const END: &str = "DROP TRIGGER no_end ON job; UPDATE job SET lease_until = 0";

/// A process that dies between the result of a submission and the end of its job does not submit
/// again. The caller receives the same error as without the crash.
#[tokio::test]
async fn failed_jobs_are_not_submitted_again() {
    let mut scene = Scene::studio(Storage::Postgres, "").await;
    scene.gateway.database().unwrap().execute(NO_END).await;
    let mut jobs = Vec::new();
    for (fault, code, words) in [
        (MediaFault::WrongSize, "upstream_error", "does not match"),
        (MediaFault::Fails("secret words".to_owned()), "upstream_error", ""),
        (MediaFault::Refused, "content_policy_violation", ""),
        (MediaFault::Lost, "upstream_error", "did not complete the job"),
    ] {
        scene.upstream.push_for_media(fault);
        let video = json!({"model": VIDEO_MODEL, "prompt": "waves", "duration": 2});
        jobs.push((scene.accept(VIDEOS, &video).await, code, words));
        scene
            .gateway
            .wait_for_log(
                "cannot store the result of a job or release its lease",
                jobs.len() - 1,
            )
            .await;
    }
    scene.gateway.kill().await;
    scene.gateway.database().unwrap().execute(END).await;
    scene.gateway.restart().await;
    for (id, code, words) in jobs {
        let job = scene.ended(&id).await;
        assert_eq!(
            (&job["status"], &job["error"]["code"], &job["cost"]),
            (&json!("failed"), &json!(code), &json!("0")),
            "{job}"
        );
        let message = job["error"]["message"].as_str().unwrap();
        assert!(message.contains(words) && !message.contains("stopped"), "{job}");
    }
    assert_eq!(scene.upstream.media_submissions(), 4, "each was submitted once");
    assert_eq!(scene.settled().await.credits, GRANTED);
    scene.finish().await;
}

/// A job survives any number of crashes while its provider works on it.
#[tokio::test]
async fn a_running_job_survives_any_number_of_crashes() {
    survives_crashes(Storage::Sqlite).await;
}

// On PostgreSQL the leases of a dead node last half a minute, which makes this test slow.
#[tokio::test]
#[ignore = "a proof: make prove"]
async fn prove_a_running_job_survives_crashes_on_postgresql() {
    survives_crashes(Storage::Postgres).await;
}

async fn survives_crashes(storage: Storage) {
    let mut scene = Scene::studio(storage, SETTINGS).await;
    // The provider completes nothing before the last crash.
    scene.upstream.set_media_polls(u32::MAX);
    let mut ids = Vec::new();
    for n in 0..3 {
        let body = json!({"model": VIDEO_MODEL, "prompt": format!("video {n}"), "duration": 2});
        ids.push(scene.accept(VIDEOS, &body).await);
    }
    for _ in 0..4 {
        let polls = |scene: &Scene| -> Vec<u32> {
            let made = scene.upstream.made();
            made.iter().map(|making| making.polls).collect()
        };
        let before = polls(&scene);
        eventually("every video is polled", async || {
            let now = polls(&scene);
            now.len() == 3
                && now
                    .iter()
                    .zip(before.iter().chain([&0; 3]))
                    .all(|(now, before)| now > before)
        })
        .await;
        scene.gateway.kill().await;
        scene.gateway.restart().await;
    }
    scene.upstream.set_media_polls(0);
    for id in &ids {
        let job = scene.ended(id).await;
        assert_eq!(job["status"], "completed", "{job}");
    }
    assert_eq!(scene.upstream.media_submissions(), 3);
    assert_eq!(scene.settled().await.credits, GRANTED - 3 * 2 * SECOND_PRICE);
    assert!(scene.finish().await.clean);
}
