//! The media disk is full: lost results are not charged, results that the provider still has are
//! stored once there is space, and other requests are served.

use serde_json::json;
use tollgate_testkit::disk::Disk;
use tollgate_testkit::gateway::Storage;

use super::{IMAGE_MODEL, IMAGES, SECOND_PRICE, VIDEO_MODEL, VIDEOS};
use crate::scene::{GRANTED, Scene, hello};

#[tokio::test]
async fn on_a_full_disk_nothing_is_charged_and_jobs_wait() {
    let scene = Scene::studio(Storage::Postgres, "").await;
    let media = scene.gateway.data().join("media");
    std::fs::create_dir_all(&media).unwrap();
    let Some(disk) = Disk::mount(&media) else {
        scene.finish().await;
        return;
    };
    disk.fill();
    scene.upstream.set_media_polls(1);
    // An image that arrives with the response to its submission, and a video that can be requested
    // again.
    let image = scene
        .accept(IMAGES, &json!({"model": IMAGE_MODEL, "prompt": "a cat"}))
        .await;
    let video = scene
        .accept(
            VIDEOS,
            &json!({"model": VIDEO_MODEL, "prompt": "waves", "duration": 2}),
        )
        .await;
    scene.gateway.wait_for_log("cannot store an output yet", 1).await;
    let chat = scene.chat(&hello(json!({"stream": false}))).await;
    assert_eq!(chat.status, 200, "{}", chat.text());
    let balance = scene.balance().await;
    let spent = GRANTED - balance.credits - balance.held;

    let lost = scene.ended(&image).await;
    assert_eq!(
        (&lost["status"], &lost["error"]["code"], &lost["cost"]),
        (&json!("failed"), &json!("internal_error"), &json!("0")),
        "{lost}"
    );
    let waiting = scene.job(&video).await;
    assert_eq!(
        (&waiting["status"], &waiting["phase"], &waiting["cost"]),
        (
            &json!("in_progress"),
            &json!("fetching"),
            &serde_json::Value::Null
        ),
        "{waiting}"
    );
    disk.clear();
    let stored = scene.ended(&video).await;
    assert_eq!(
        (&stored["status"], &stored["cost"]),
        (&json!("completed"), &json!("0.2")),
        "{stored}"
    );
    let opened = scene
        .open_address(stored["result"]["url"].as_str().unwrap())
        .await;
    assert_eq!(opened.status, 200);
    assert_eq!(scene.upstream.media_submissions(), 2, "each was submitted once");
    assert_eq!(scene.settled().await.credits, GRANTED - spent - 2 * SECOND_PRICE);
    scene.finish().await;
}
