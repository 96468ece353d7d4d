//! The adapter against a server that speaks its wire, with the workflows beside this file.

use serde_json::{Value, json};
use tempfile::tempdir;
use tollgate_testkit::upstream::{FakeUpstream, MediaFault, Reply, SocketFault};
use tollgate_upstream::{ImageTask, State, UpstreamCause, UpstreamErrorKind};

use super::workflow::{Values, Workflow};
use super::{PRESET, read_all};
use crate::media::tests::calls::{
    KEY, a_film, check_ends, check_faults, context, fetched, images_of, pictures, provider_at, root_of,
    source, states, submitted, videos_of, words,
};

#[tokio::test]
async fn a_graph_is_filled_and_queued() {
    let upstream = FakeUpstream::start().await;
    let provider = provider_at(PRESET, &root_of(&upstream));
    let mut call = pictures("gates");
    call.prompt = "a \"tall\" gate\n{{seed}} \\".to_owned();
    images_of(&*provider).check(&call).unwrap();
    submitted(images_of(&*provider), &call).await.unwrap();
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

    // Without a seed it is another one for each key, and the same for the same.
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
async fn pictures_are_uploaded_before_their_graph() {
    let upstream = FakeUpstream::start().await;
    let provider = provider_at(PRESET, &root_of(&upstream));
    let mut call = pictures("repaint");
    (call.task, call.negative_prompt, call.count) = (ImageTask::Inpaint, None, 1);
    (call.images, call.mask) = (vec![source(b"picture")], Some(source(b"mask")));
    images_of(&*provider).check(&call).unwrap();
    submitted(images_of(&*provider), &call).await.unwrap();
    let asked = upstream.requests();
    let paths: Vec<&str> = asked.iter().map(|request| request.path.as_str()).collect();
    assert_eq!(paths, ["/upload/image", "/upload/image", "/prompt"]);
    let parts = asked[0].form().expect("a form");
    assert_eq!(
        (parts[0].name.as_str(), parts[0].text()),
        ("image", "picture".to_owned())
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

    // An upload that breaks off is no submission.
    upstream.set_hook(
        "/upload/image",
        [Reply::raw("no HTTP"), Reply::error(500, "x", "y")],
    );
    for (cause, status) in [(UpstreamCause::Connect, None), (UpstreamCause::Status, Some(500))] {
        let error = submitted(images_of(&*provider), &call).await.unwrap_err();
        assert_eq!((error.cause, error.status), (cause, status));
    }
    assert_eq!(upstream.media_submissions(), 1);
}

#[tokio::test]
async fn a_film_has_frames() {
    let upstream = FakeUpstream::start().await;
    let provider = provider_at(PRESET, &root_of(&upstream));
    let handle = submitted(videos_of(&*provider), &a_film("opening"))
        .await
        .unwrap();
    let body = upstream.requests().remove(0).json().unwrap();
    assert_eq!(body["prompt"]["1"]["inputs"]["length"], 129);
    assert_eq!(
        body["prompt"]["2"]["inputs"]["text"],
        "a gate opens for 8 seconds"
    );
    let Some(State::Made(made)) = states(videos_of(&*provider), &handle).await.pop() else {
        panic!("it is made");
    };
    let making = upstream.made().remove(0);
    assert_eq!((made.pieces.len(), making.seconds, making.is_film), (1, 8, true));
    assert_eq!(
        fetched(videos_of(&*provider), &made.pieces[0].content).await,
        making.piece(0)
    );
}

#[tokio::test]
async fn every_end_is_told() {
    let expected: [(Option<MediaFault>, &[&str]); 4] = [
        (None, &["waiting after 0", "running at 30", "2 made"]),
        (
            Some(MediaFault::Fails("a gate too far".to_owned())),
            &["waiting after 0", "running at 30", "failed: Unavailable"],
        ),
        (Some(MediaFault::Lost), &["lost"]),
        (Some(MediaFault::Endless), &["cancelled"]),
    ];
    check_ends(PRESET, "", &pictures("gates"), images_of, &expected).await;
}

#[tokio::test]
async fn what_is_shown_on_the_way_is_not_what_is_made() {
    let upstream = FakeUpstream::start().await;
    upstream.set_media_polls(0);
    let provider = provider_at(PRESET, &root_of(&upstream));
    let handle = submitted(images_of(&*provider), &pictures("gates"))
        .await
        .unwrap();
    let Some(State::Made(made)) = states(images_of(&*provider), &handle).await.pop() else {
        panic!("it is made");
    };
    let making = upstream.made().remove(0);
    assert_eq!(made.pieces.len(), 2);
    for (piece, index) in made.pieces.iter().zip(0..) {
        assert_eq!(
            fetched(images_of(&*provider), &piece.content).await,
            making.piece(index)
        );
    }
}

#[tokio::test]
async fn only_what_is_ours_is_interrupted() {
    let upstream = FakeUpstream::start().await;
    upstream.push_for_media(MediaFault::Endless);
    let provider = provider_at(PRESET, &root_of(&upstream));
    let maker = images_of(&*provider);
    let running = submitted(maker, &pictures("gates")).await.unwrap();
    for expected in ["waiting after 0", "running at 30"] {
        let state = maker.poll(&context(), &running).await.unwrap();
        assert_eq!(words(&[state]), [expected]);
    }
    let waiting = submitted(maker, &pictures("gates")).await.unwrap();
    let state = maker.poll(&context(), &waiting).await.unwrap();
    assert_eq!(words(&[state]), ["waiting after 1"]);
    let interrupts = || {
        upstream
            .requests()
            .iter()
            .filter(|request| request.path == "/interrupt")
            .count()
    };
    maker.cancel(&context(), &waiting).await.unwrap();
    assert_eq!(interrupts(), 0);
    maker.cancel(&context(), &running).await.unwrap();
    assert_eq!(interrupts(), 1);
    let cancelled: Vec<bool> = upstream.made().iter().map(|making| making.is_cancelled).collect();
    assert_eq!(cancelled, [true, true]);
    assert_eq!(words(&states(maker, &running).await), ["cancelled"]);
}

#[tokio::test]
async fn every_fault_says_whether_it_may_have_been_made() {
    check_faults(PRESET, "", &pictures("gates"), images_of).await;
    let upstream = FakeUpstream::start().await;
    let provider = provider_at(PRESET, &root_of(&upstream));
    let error = submitted(images_of(&*provider), &pictures("unknown"))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind, error.cause),
        (UpstreamErrorKind::Unavailable, UpstreamCause::Connect)
    );
    assert_eq!(upstream.request_count(), 0);
    // A graph that the server refuses is not the caller's fault.
    upstream.set_hook(
        "/prompt",
        [Reply::body(
            400,
            "application/json",
            "{\"error\": {\"type\": \"invalid_prompt\"}}",
        )],
    );
    let error = submitted(images_of(&*provider), &pictures("gates"))
        .await
        .unwrap_err();
    assert_eq!(
        (error.kind, error.status),
        (UpstreamErrorKind::Unavailable, Some(400))
    );
}

#[test]
fn what_a_workflow_has_no_slot_for_is_refused() {
    let provider = provider_at(PRESET, "http://127.0.0.1:9");
    let maker = images_of(&*provider);
    let mut edit = pictures("gates");
    edit.images = vec![source(b"x")];
    let mut quality = pictures("gates");
    quality.quality = Some("high".into());
    let mut two = pictures("repaint");
    (two.negative_prompt, two.images) = (None, vec![source(b"x"), source(b"y")]);
    for (call, param) in [
        (edit, "image"),
        (quality, "quality"),
        (pictures("repaint"), "negative_prompt"),
        (two, "image"),
    ] {
        assert_eq!(maker.check(&call).unwrap_err().param.as_deref(), Some(param));
    }
    assert_eq!(
        (maker.most_at_once("gates"), maker.most_at_once("repaint")),
        (4, 1)
    );
    let mut film = a_film("opening");
    film.image = Some(source(b"x"));
    assert_eq!(
        videos_of(&*provider).check(&film).unwrap_err().param.as_deref(),
        Some("image")
    );
}

#[test]
fn a_folder_has_workflows_or_says_what_is_wrong() {
    let node = |inputs: Value| json!({"1": {"class_type": "X", "inputs": inputs}}).to_string();
    for (text, said) in [
        ("{", "it is not JSON"),
        ("{}", "Export (API)"),
        ("{\"nodes\": [], \"links\": []}", "Export (API)"),
        (&node(json!({"a": "{{style}}"})), "{{style}}"),
        (&node(json!({"a": "{{frames@}}"})), "{{frames@}}"),
    ] {
        let error = Workflow::parse(text).unwrap_err();
        assert!(error.contains(said), "{error}");
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
    assert!(read_all(folder.path()).unwrap_err().contains("has no workflow"));
    std::fs::write(folder.path().join("a.json"), node(json!({}))).unwrap();
    assert_eq!(
        read_all(folder.path()).unwrap().into_keys().collect::<Vec<_>>(),
        ["a"]
    );
    std::fs::write(folder.path().join("b.json"), "[]").unwrap();
    assert!(read_all(folder.path()).unwrap_err().contains("b.json"));
}

/// Who cannot be told how far it is asks as before, and nothing that a socket says or does not say ends a job.
#[tokio::test]
async fn without_a_socket_it_is_asked_for() {
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
        let maker = images_of(&*provider);
        let handle = submitted(maker, &pictures("gates")).await.unwrap();
        let told = words(&states(maker, &handle).await);
        assert_eq!(told, ["waiting after 0", expected, "2 made"], "{fault:?}");
        let sockets = upstream.requests();
        let mut sockets = sockets.iter().filter(|request| request.path.starts_with("/ws?"));
        let socket = sockets.next().expect("it listens while it runs");
        assert_eq!(socket.path, "/ws?clientId=key-1");
        assert!(socket.header("authorization").is_some(), "as every request");
        assert!(sockets.next().is_none());
    }
}

/// Handles of before know no client: they are asked for as before.
#[tokio::test]
async fn a_handle_without_a_client_is_followed() {
    let upstream = FakeUpstream::start().await;
    let provider = provider_at(PRESET, &root_of(&upstream));
    let maker = images_of(&*provider);
    let handle = submitted(maker, &pictures("gates")).await.unwrap();
    let mut old: Value = serde_json::from_slice(&handle).unwrap();
    old.as_object_mut().unwrap().remove("client").unwrap();
    let told = words(&states(maker, old.to_string().as_bytes()).await);
    assert_eq!(told, ["waiting after 0", "running", "2 made"]);
}
