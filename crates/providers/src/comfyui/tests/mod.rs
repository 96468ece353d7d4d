//! Tests of the adapter against a server that implements ComfyUI's API, with the workflows in the
//! folder `workflows`.

use serde_json::{Value, json};
use tempfile::tempdir;
use tollgate_testkit::upstream::{FakeUpstream, MediaFault, Reply, SocketFault};
use tollgate_upstream::{GenerationState, ImageTask, UpstreamCause, UpstreamErrorKind};

use super::workflow::{Values, Workflow};
use super::{PRESET, read_all};
use crate::media::tests::calls::{
    KEY, check_ends, check_faults, context, fetched, image_call, images_of, provider_at, root_of, source,
    states, submission, video_call, videos_of, words,
};

#[tokio::test]
async fn a_graph_is_filled_and_queued() {
    let upstream = FakeUpstream::start().await;
    let provider = provider_at(PRESET, &root_of(&upstream));
    let mut call = image_call("gates");
    call.prompt = "a \"tall\" gate\n{{seed}} \\".to_owned();
    images_of(&*provider).check(&call).unwrap();
    submission(images_of(&*provider), &call).await.unwrap();
    let asked = upstream.requests().remove(0);
    let body = asked.json().unwrap();
    assert_eq!(
        (asked.path.as_str(), &body["client_id"]),
        ("/prompt", &json!("key-1"))
    );
    let inputs = |node: &str| body["prompt"][node]["inputs"].clone();
    let latent = json!({"width": 64, "height": 32, "batch_size": 2});
    assert_eq!(
        (inputs("5"), &inputs("3")["seed"], &inputs("3")["cfg"]),
        (latent, &json!(7), &json!(7.5))
    );
    let text = "a \"tall\" gate\n{{seed}} \\, in the style of {{style";
    assert_eq!(
        (&inputs("6")["text"], &inputs("7")["note"]),
        (&json!(text), &json!("blurry, people"))
    );

    // Without a seed in the call, the seed depends only on the idempotency key.
    let mut seeds = Vec::new();
    call.seed = None;
    for key in ["a", "b", "a"] {
        images_of(&*provider)
            .submit(&context(), &call, key)
            .await
            .unwrap();
        let body = upstream.requests().pop().unwrap().json().unwrap();
        seeds.push(body["prompt"]["3"]["inputs"]["seed"].as_u64().unwrap());
    }
    assert!(
        seeds[0] == seeds[2] && seeds[0] != seeds[1] && seeds[0] < 1 << 48,
        "{seeds:?}"
    );
}

#[tokio::test]
async fn images_are_uploaded_before_their_graph() {
    let upstream = FakeUpstream::start().await;
    let provider = provider_at(PRESET, &root_of(&upstream));
    let mut call = image_call("repaint");
    (call.task, call.negative_prompt, call.count) = (ImageTask::Inpaint, None, 1);
    (call.images, call.mask) = (vec![source(b"image")], Some(source(b"mask")));
    images_of(&*provider).check(&call).unwrap();
    submission(images_of(&*provider), &call).await.unwrap();
    let asked = upstream.requests();
    let paths: Vec<&str> = asked.iter().map(|request| request.path.as_str()).collect();
    assert_eq!(paths, ["/upload/image", "/upload/image", "/prompt"]);
    let parts = asked[0].form().expect("a form");
    assert_eq!(
        (parts[0].name.as_str(), parts[0].text()),
        ("image", "image".to_owned())
    );
    assert_eq!(parts[0].file_name.as_deref(), Some("tollgate-key-1-image.png"));
    assert_eq!(
        (parts[1].name.as_str(), parts[1].text()),
        ("overwrite", "true".to_owned())
    );
    let body = asked[2].json().unwrap();
    let image = |node: &str| body["prompt"][node]["inputs"]["image"].clone();
    assert_eq!(
        (image("1"), image("2")),
        (
            json!("tollgate-key-1-image.png"),
            json!("tollgate-key-1-mask.png")
        )
    );

    // A failed upload submits nothing.
    upstream.set_hook(
        "/upload/image",
        [Reply::raw("no HTTP"), Reply::error(500, "x", "y")],
    );
    for (cause, status) in [(UpstreamCause::Connect, None), (UpstreamCause::Status, Some(500))] {
        let error = submission(images_of(&*provider), &call).await.unwrap_err();
        assert_eq!((error.cause, error.status), (cause, status));
    }
    assert_eq!(upstream.media_submissions(), 1);
}

#[tokio::test]
async fn videos_fill_the_frames_slot() {
    let upstream = FakeUpstream::start().await;
    let provider = provider_at(PRESET, &root_of(&upstream));
    let handle = submission(videos_of(&*provider), &video_call("opening"))
        .await
        .unwrap();
    let body = upstream.requests().remove(0).json().unwrap();
    assert_eq!(body["prompt"]["1"]["inputs"]["length"], 129);
    assert_eq!(
        body["prompt"]["2"]["inputs"]["text"],
        "a gate opens for 8 seconds"
    );
    let Some(GenerationState::Completed(made)) = states(videos_of(&*provider), &handle).await.pop() else {
        panic!("it is made");
    };
    let making = upstream.made().remove(0);
    assert_eq!((made.items.len(), making.seconds, making.is_video), (1, 8, true));
    assert_eq!(
        fetched(videos_of(&*provider), &made.items[0].content).await,
        making.output(0)
    );
}

#[tokio::test]
async fn final_states_are_reported() {
    let expected: [(Option<MediaFault>, &[&str]); 4] = [
        (None, &["waiting after 0", "running at 30", "2 made"]),
        (
            Some(MediaFault::Fails("a gate too far".to_owned())),
            &["waiting after 0", "running at 30", "failed: Unavailable"],
        ),
        (Some(MediaFault::Lost), &["lost"]),
        (Some(MediaFault::Endless), &["cancelled"]),
    ];
    check_ends(PRESET, "", &image_call("gates"), images_of, &expected).await;
}

#[tokio::test]
async fn previews_are_not_outputs() {
    let upstream = FakeUpstream::start().await;
    upstream.set_media_polls(0);
    let provider = provider_at(PRESET, &root_of(&upstream));
    let handle = submission(images_of(&*provider), &image_call("gates"))
        .await
        .unwrap();
    let Some(GenerationState::Completed(made)) = states(images_of(&*provider), &handle).await.pop() else {
        panic!("it is made");
    };
    let making = upstream.made().remove(0);
    assert_eq!(made.items.len(), 2);
    for (item, index) in made.items.iter().zip(0..) {
        assert_eq!(
            fetched(images_of(&*provider), &item.content).await,
            making.output(index)
        );
    }
}

#[tokio::test]
async fn only_own_jobs_are_interrupted() {
    let upstream = FakeUpstream::start().await;
    upstream.push_for_media(MediaFault::Endless);
    let provider = provider_at(PRESET, &root_of(&upstream));
    let media_provider = images_of(&*provider);
    let running = submission(media_provider, &image_call("gates")).await.unwrap();
    for expected in ["waiting after 0", "running at 30"] {
        let state = media_provider.poll(&context(), &running).await.unwrap();
        assert_eq!(words(&[state]), [expected]);
    }
    let waiting = submission(media_provider, &image_call("gates")).await.unwrap();
    let state = media_provider.poll(&context(), &waiting).await.unwrap();
    assert_eq!(words(&[state]), ["waiting after 1"]);
    let interrupts = || {
        upstream
            .requests()
            .iter()
            .filter(|request| request.path == "/interrupt")
            .count()
    };
    media_provider.cancel(&context(), &waiting).await.unwrap();
    assert_eq!(interrupts(), 0);
    media_provider.cancel(&context(), &running).await.unwrap();
    assert_eq!(interrupts(), 1);
    let cancelled: Vec<bool> = upstream.made().iter().map(|making| making.is_cancelled).collect();
    assert_eq!(cancelled, [true, true]);
    assert_eq!(words(&states(media_provider, &running).await), ["cancelled"]);
}

#[tokio::test]
async fn submission_faults_report_retry_safety() {
    check_faults(PRESET, "", &image_call("gates"), images_of).await;
    let upstream = FakeUpstream::start().await;
    let provider = provider_at(PRESET, &root_of(&upstream));
    let error = submission(images_of(&*provider), &image_call("unknown"))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind, error.cause),
        (UpstreamErrorKind::Unavailable, UpstreamCause::Connect)
    );
    assert_eq!(upstream.request_count(), 0);
    // The operator wrote the graph, so its rejection is not an error of the caller.
    upstream.set_hook(
        "/prompt",
        [Reply::body(
            400,
            "application/json",
            "{\"error\": {\"type\": \"invalid_prompt\"}}",
        )],
    );
    let error = submission(images_of(&*provider), &image_call("gates"))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind, error.status),
        (UpstreamErrorKind::Unavailable, Some(400))
    );
}

#[test]
fn parameters_without_a_slot_are_refused() {
    let provider = provider_at(PRESET, "http://127.0.0.1:9");
    let media_provider = images_of(&*provider);
    let mut edit = image_call("gates");
    edit.images = vec![source(b"x")];
    let mut quality = image_call("gates");
    quality.quality = Some("high".into());
    let mut two = image_call("repaint");
    (two.negative_prompt, two.images) = (None, vec![source(b"x"), source(b"y")]);
    for (call, param) in [
        (edit, "image"),
        (quality, "quality"),
        (image_call("repaint"), "negative_prompt"),
        (two, "image"),
    ] {
        assert_eq!(
            media_provider.check(&call).unwrap_err().param.as_deref(),
            Some(param)
        );
    }
    assert_eq!(
        (
            media_provider.max_outputs("gates"),
            media_provider.max_outputs("repaint")
        ),
        (4, 1)
    );
    let mut video = video_call("opening");
    video.image = Some(source(b"x"));
    assert_eq!(
        videos_of(&*provider).check(&video).unwrap_err().param.as_deref(),
        Some("image")
    );
}

#[test]
fn invalid_workflow_folders_are_reported() {
    let node = |inputs: Value| json!({"1": {"class_type": "X", "inputs": inputs}}).to_string();
    for (text, expected) in [
        ("{", "the file is not JSON"),
        ("{}", "Export (API)"),
        ("{\"nodes\": [], \"links\": []}", "Export (API)"),
        (&node(json!({"a": "{{style}}"})), "{{style}}"),
        (&node(json!({"a": "{{frames@}}"})), "{{frames@}}"),
    ] {
        let error = Workflow::parse(text).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    let workflow = Workflow::parse(&node(
        json!({"a": ["{{seed}}{{seed}}", {"b": "{{mask}}"}], "c": "{{"}),
    ))
    .unwrap();
    let filled = workflow.filled(&Values::from([("seed", json!(7))]));
    assert_eq!(filled["1"]["inputs"], json!({"a": ["77", {"b": ""}], "c": "{{"}));

    let folder = tempdir().unwrap();
    assert!(
        read_all(&folder.path().join("none"))
            .unwrap_err()
            .contains("cannot read")
    );
    std::fs::write(folder.path().join("notes.txt"), "x").unwrap();
    assert!(
        read_all(folder.path())
            .unwrap_err()
            .contains("contains no workflow")
    );
    std::fs::write(folder.path().join("a.json"), node(json!({}))).unwrap();
    assert_eq!(
        read_all(folder.path()).unwrap().into_keys().collect::<Vec<_>>(),
        ["a"]
    );
    std::fs::write(folder.path().join("b.json"), "[]").unwrap();
    assert!(read_all(folder.path()).unwrap_err().contains("b.json"));
}

/// Jobs are polled even without progress messages. Neither a message nor a fault of the socket ends
/// a job.
#[tokio::test]
async fn jobs_are_polled_without_a_socket() {
    for (fault, expected) in [
        (SocketFault::None, "running at 30"),
        (SocketFault::Refused, "running"),
        (SocketFault::Closed, "running"),
        (SocketFault::Garbage, "running"),
    ] {
        let upstream = FakeUpstream::start().await;
        upstream.set_api_key(KEY);
        upstream.set_media_socket(fault);
        let provider = provider_at(PRESET, &root_of(&upstream));
        let media_provider = images_of(&*provider);
        let handle = submission(media_provider, &image_call("gates")).await.unwrap();
        let states_in_words = words(&states(media_provider, &handle).await);
        assert_eq!(
            states_in_words,
            ["waiting after 0", expected, "2 made"],
            "{fault:?}"
        );
        let sockets = upstream.requests();
        let mut sockets = sockets.iter().filter(|request| request.path.starts_with("/ws?"));
        let socket = sockets.next().expect("it listens while it runs");
        assert_eq!(socket.path, "/ws?clientId=key-1");
        assert!(socket.header("authorization").is_some(), "as every request");
        assert!(sockets.next().is_none());
    }
}

/// Handles of older versions have no client id; their jobs are polled without a socket.
#[tokio::test]
async fn handles_without_a_client_are_polled() {
    let upstream = FakeUpstream::start().await;
    let provider = provider_at(PRESET, &root_of(&upstream));
    let media_provider = images_of(&*provider);
    let handle = submission(media_provider, &image_call("gates")).await.unwrap();
    let mut old: Value = serde_json::from_slice(&handle).unwrap();
    old.as_object_mut().unwrap().remove("client").unwrap();
    let states_in_words = words(&states(media_provider, old.to_string().as_bytes()).await);
    assert_eq!(states_in_words, ["waiting after 0", "running", "2 made"]);
}
