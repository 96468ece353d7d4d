//! The disk of media is full: nobody pays for what is not there, what its provider still has is kept when there is room, and
//! everything else goes on.

use serde_json::json;
use tollgate_testkit::disk::Disk;
use tollgate_testkit::gateway::Storage;

use super::{FILM, FILMS, PICTURE, PICTURES, SECOND_PRICE};
use crate::scene::{GRANTED, Scene, hello};

#[tokio::test]
async fn without_room_nothing_is_charged_and_what_can_wait_waits() {
    let scene = Scene::studio(Storage::Postgres, "").await;
    let media = scene.gateway.data().join("media");
    std::fs::create_dir_all(&media).unwrap();
    let Some(disk) = Disk::mount(&media) else {
        scene.finish().await;
        return;
    };
    disk.fill();
    scene.upstream.set_media_polls(1);
    // A picture that comes with the answer to its submission, and a film that can be asked for again.
    let picture = scene
        .accept(PICTURES, &json!({"model": PICTURE, "prompt": "a cat"}))
        .await;
    let film = scene
        .accept(FILMS, &json!({"model": FILM, "prompt": "waves", "duration": 2}))
        .await;
    scene.gateway.wait_for_log("what was made is kept later", 1).await;
    let chat = scene.chat(&hello(json!({"stream": false}))).await;
    assert_eq!(chat.status, 200, "{}", chat.text());
    let balance = scene.balance().await;
    let spent = GRANTED - balance.credits - balance.held;

    let lost = scene.ended(&picture).await;
    assert_eq!(
        (&lost["status"], &lost["error"]["code"], &lost["cost"]),
        (&json!("failed"), &json!("internal_error"), &json!("0")),
        "{lost}"
    );
    let waiting = scene.job(&film).await;
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
    let kept = scene.ended(&film).await;
    assert_eq!(
        (&kept["status"], &kept["cost"]),
        (&json!("completed"), &json!("0.2")),
        "{kept}"
    );
    let opened = scene.open_address(kept["result"]["url"].as_str().unwrap()).await;
    assert_eq!(opened.status, 200);
    assert_eq!(scene.upstream.media_submissions(), 2, "each was submitted once");
    assert_eq!(scene.settled().await.credits, GRANTED - spent - 2 * SECOND_PRICE);
    scene.finish().await;
}
