//! Data that an earlier version wrote. The names of stored fields must remain readable.
//!
//! The archive is the data directory of a build of November 2026 that was killed while it ran a
//! batch of 40 requests, an image, a video, a composition, a background response and a streamed
//! call.

use std::process::Command;
use std::time::{Duration, SystemTime};

use serde_json::json;
use tollgate_testkit::clock::FakeClock;
use tollgate_testkit::gateway::{Gateway, Options, eventually};

use crate::scene::BINARY;

const ARCHIVE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/killed-in-2026-11.tar.gz");
/// Time of the restart, in seconds since 1970: ten minutes after the end of the process that wrote
/// the archive, when nothing has expired yet.
const RESTARTED_AT: Duration = Duration::from_secs(1_795_521_600);
const KEY: &str = "sk-service-St54YJvFe6gkBOH78bviGcWcjcNZ4T21XQVmpbiz1iraZ9";
const BATCH: &str = "/v1/batches/batch_01a20d63cbca7cec8f7dcd30f8ab93ec";
const RESPONSE: &str = "/v1/responses/resp_01a20d63cc187cec9edb8621ba9d2b02";
const JOBS: [&str; 3] = [
    "/v1/jobs/job_01a20d63cbe27cec82d306be3a3c738f",
    "/v1/jobs/job_01a20d63cbf67cec97cab18a890dafe4",
    "/v1/jobs/job_01a20d63cc0c7cec9bdc87e37465af93",
];

#[tokio::test]
async fn work_of_an_earlier_version_is_completed() {
    let clock = FakeClock::make().unwrap_or_else(|| panic!("scripts/with-services.sh installs libfaketime"));
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH + RESTARTED_AT);
    clock.set(-i64::try_from(since.unwrap().as_secs()).unwrap());
    let mut options = Options {
        // The simulator's videos need ffmpeg.
        env: vec![("PATH".to_owned(), std::env::var("PATH").unwrap())],
        ..Options::default()
    };
    options.env.extend(clock.env());
    let mut gateway = Gateway::start(BINARY, options).await;
    gateway.kill().await;
    std::fs::remove_dir_all(gateway.data()).unwrap();
    std::fs::create_dir(gateway.data()).unwrap();
    let unpacked = Command::new("tar")
        .args(["xzf", ARCHIVE, "-C"])
        .arg(gateway.data())
        .status()
        .unwrap();
    assert!(unpacked.success());
    gateway.restart().await;
    let status = async |path: &str| {
        let answer = gateway.client().get(path, KEY).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.json()["status"].as_str().unwrap().to_owned()
    };
    for path in JOBS.into_iter().chain([BATCH]) {
        eventually(path, async || status(path).await == "completed").await;
    }
    eventually(RESPONSE, async || status(RESPONSE).await == "failed").await;
    let batch = gateway.client().get(BATCH, KEY).await.json();
    // The 16 requests that ran when the process died have failed and cost nothing.
    let counts = json!({"total": 40, "completed": 24, "failed": 16});
    assert_eq!(batch["request_counts"], counts, "{batch}");
    gateway.finish().await;
}
