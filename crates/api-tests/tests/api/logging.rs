//! Log output that cannot be written does not stop the gateway. A journal that cannot be synced
//! ends the process.

use serde_json::json;
use tollgate_testkit::disk::{Disk, FailingSync};
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::gateway::{Gateway, Options, Storage, eventually};
use tollgate_testkit::upstream::FakeUpstream;

use crate::scene::{BINARY, CHAT, Scene, hello, metrics};

/// Paths that callers can read with GET.
const READS: [&str; 11] = [
    "/v1/account/usage",
    "/v1/account/usage?group_by=model",
    "/v1/account/webhook_secret",
    "/v1/models",
    "/v1/models/sim/chat",
    "/v1/jobs",
    "/v1/files",
    "/v1/batches",
    "/v1/messages/batches",
    "/v1/templates",
    "/v1/videos",
];

/// Returns the value of a metric without labels.
fn value(shown: &str, name: &str) -> u64 {
    let line = shown
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} in {shown}"))
        .parse()
        .unwrap()
}

#[tokio::test]
async fn an_unwritable_log_fails_no_request() {
    let mut scene = Scene::start().await;
    scene.gateway.stop().await;
    let (log, aside) = (
        scene.gateway.folder().join("stderr.log"),
        scene.gateway.folder().join("aside"),
    );
    std::fs::rename(&log, &aside).unwrap();
    std::os::unix::fs::symlink("/dev/full", &log).unwrap();
    scene.gateway.restart().await;
    let failing = json!({"model": "sim/chat", "max_tokens": 10,
        "messages": [{"role": "user", "content": "[[sim error=upstream_error]]"}]});
    for _ in 0..6 {
        assert_eq!(scene.chat(&failing).await.status, 502);
    }
    assert_eq!(scene.settled().await.held, 0);
    assert_eq!(scene.client().send(&Request::get("/healthz")).await.status, 200);
    let shown = metrics(&scene.gateway).await;
    assert!(
        value(&shown, "tollgate_log_lines_lost_total") >= 6,
        "each failure is a line"
    );
    assert_eq!(value(&shown, "tollgate_panics_total"), 0);
    scene.gateway.stop().await;
    std::fs::rename(&aside, &log).unwrap();
    scene.finish().await;
}

/// The log file is on the full disk, too.
#[tokio::test]
async fn the_gateway_survives_a_full_disk_with_its_log() {
    let options = Options {
        config: "[server]\naccess_log = \"all\"\n".to_owned(),
        ..Options::default()
    };
    let mut gateway = Gateway::start(BINARY, options).await;
    gateway.stop().await;
    let Some(disk) = Disk::mount_of(&gateway.data(), 48) else {
        gateway.finish().await;
        return;
    };
    let log = gateway.folder().join("stderr.log");
    std::fs::remove_file(&log).unwrap();
    std::os::unix::fs::symlink(gateway.data().join("serve.log"), &log).unwrap();
    gateway.restart().await;
    let account = gateway.account().await;
    let key = gateway.key(&account).await;
    gateway.grant(&account, "10").await;
    let body =
        json!({"model": "sim/chat", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]});
    let chat = async || gateway.client().post_json(CHAT, &key.secret, &body).await.status;
    assert_eq!(chat().await, 200);
    disk.fill();
    eventually("calls are refused", async || {
        let status = chat().await;
        assert!(matches!(status, 200 | 503), "{status}");
        status == 503
    })
    .await;
    for _ in 0..10 {
        assert_eq!(chat().await, 503);
    }
    for path in READS {
        let response = gateway.client().get(path, &key.secret).await;
        assert!(
            matches!(response.status, 200 | 503),
            "{path}: {}",
            response.text()
        );
    }
    let probe = async |path: &str| gateway.client().send(&Request::get(path)).await.status;
    assert_eq!((probe("/healthz").await, probe("/readyz").await), (200, 503));
    disk.clear();
    eventually("calls are served again", async || chat().await == 200).await;
    assert_eq!(probe("/readyz").await, 200);
    eventually("nothing is held", async || {
        gateway.balance(&account).await.held == 0
    })
    .await;
    gateway.finish().await;
}

/// After a failed sync, the state of the disk is unknown. The process ends, and the next one
/// recovers from the stored data.
#[tokio::test]
async fn a_journal_that_cannot_be_synced_ends_the_process() {
    let upstream = FakeUpstream::start().await;
    let sync = FailingSync::make();
    let mut options = Scene::options(&upstream, Storage::Sqlite, "");
    options.env.extend(sync.env());
    let mut gateway = Gateway::start(BINARY, options).await;
    let account = gateway.account().await;
    let key = gateway.key(&account).await;
    gateway.grant(&account, "10").await;
    let body =
        json!({"model": "sim/chat", "max_tokens": 10, "messages": [{"role": "user", "content": "hi"}]});
    assert_eq!(
        gateway.client().post_json(CHAT, &key.secret, &body).await.status,
        200
    );
    sync.fail();
    let last = gateway.client().try_post_json(CHAT, &key.secret, &body).await;
    assert!(last.is_none_or(|response| response.status != 500));
    assert_eq!(gateway.wait_for_exit().await, Some(1));
    sync.mend();
    gateway.restart().await;
    assert_eq!(gateway.balance(&account).await.held, 0);
    assert_eq!(
        gateway
            .client()
            .post_json(CHAT, &key.secret, &hello(json!({"model": "sim/chat"})))
            .await
            .status,
        200
    );
    gateway.finish().await;
}

#[tokio::test]
async fn the_gateway_serves_with_an_unwritable_stdout() {
    let folder = tempfile::tempdir().unwrap();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut child = tokio::process::Command::new(BINARY)
        .args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
            "--data",
        ])
        .arg(folder.path().join("data"))
        .env_clear()
        .stdout(full)
        .stderr(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let socket = folder.path().join("data").join("tollgate.sock");
    eventually("it serves commands", async || {
        assert!(child.try_wait().unwrap().is_none(), "it runs");
        std::os::unix::net::UnixStream::connect(&socket).is_ok()
    })
    .await;
    child.kill().await.unwrap();
}
