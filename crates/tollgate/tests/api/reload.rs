//! Settings that change while the server runs.

use serde_json::json;
use tollgate_testkit::gateway::{eventually, nanos};
use tollgate_testkit::upstream::{Gate, Reply};

use crate::scene::{Classes, GRANTED, MODEL, PRICES, PROVIDER, Scene, assert_error, hello, saying, settings};

const REFUSED: &str = "the new settings are refused";

/// The scene's settings with another price for input and a new model.
fn changed(scene: &Scene) -> String {
    let new = format!(
        "[models.\"acme/new\"]\ntargets = [\"{PROVIDER}/new\"]\nprices = {{ input = \"5\", output = \"5\" }}\n"
    );
    settings(&scene.upstream).replace("input = \"1\", cache_read", "input = \"7\", cache_read") + &new
}

async fn has_model(scene: &Scene, model: &str) -> bool {
    scene
        .client()
        .get(&format!("/v1/models/{model}"), &scene.key.secret)
        .await
        .status
        == 200
}

#[tokio::test]
async fn a_change_of_the_file_is_enough() {
    let mut scene = Scene::start().await;
    let before = scene.chat(&hello(json!({}))).await;
    scene.gateway.change_config(&changed(&scene));
    eventually("the new model is there", async || {
        has_model(&scene, "acme/new").await
    })
    .await;
    let record = scene
        .client()
        .get(&format!("/v1/models/{MODEL}"), &scene.key.secret)
        .await
        .json();
    assert_eq!(record["pricing"]["input"], "7");

    let after = scene.chat(&hello(json!({}))).await;
    let (old, new) = (
        scene.row(before.request_id()).await,
        scene.row(after.request_id()).await,
    );
    assert_ne!(old["price_version"], new["price_version"]);
    let classes = Classes::of_row(&old);
    assert_eq!(classes, Classes::of_row(&new));
    assert_eq!(nanos(&old["cost"]), classes.at(PRICES));
    assert_eq!(
        nanos(&new["cost"]),
        classes.at(Classes {
            input: 7_000,
            ..PRICES
        })
    );
    assert_eq!(scene.chat(&hello(json!({"model": "acme/new"}))).await.status, 200);

    // Back to the first price: it is the first version again, and every row can still be priced.
    scene.gateway.change_config(&settings(&scene.upstream));
    eventually("the new model is gone", async || {
        !has_model(&scene, "acme/new").await
    })
    .await;
    let again = scene.chat(&hello(json!({}))).await;
    assert_eq!(
        scene.row(again.request_id()).await["price_version"],
        old["price_version"]
    );
    assert_error(
        "gone",
        &scene.chat(&hello(json!({"model": "acme/new"}))).await,
        "model_not_found",
        Some("model"),
    );
    scene.finish().await;
}

#[tokio::test]
async fn a_signal_reads_the_file_again() {
    // What the file refers to has changed, the file has not: nothing but the signal tells.
    let key_file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key_file.path(), "wrong").unwrap();
    let scene = Scene::start_with(&format!(
        "[providers.locked]\npreset = \"openai-compatible\"\nbase_url = \"http://127.0.0.1:9/v1\"\napi_key_file = \"{}\"\n",
        key_file.path().display()
    ))
    .await;
    let mut scene = scene;
    let config = settings(&scene.upstream).replace(
        "api_key_env = \"PROVIDER_KEY\"",
        &format!("api_key_file = \"{}\"", key_file.path().display()),
    );
    scene.gateway.change_config(&config);
    scene.gateway.wait_for_log("settings reloaded", 0).await;
    assert_error(
        "a wrong key",
        &scene.chat(&hello(json!({}))).await,
        "upstream_error",
        None,
    );
    std::fs::write(key_file.path(), crate::scene::PROVIDER_KEY).unwrap();
    let reloads = scene.gateway.log().matches("settings reloaded").count();
    scene.gateway.signal("HUP").await;
    scene.gateway.wait_for_log("settings reloaded", reloads).await;
    assert_eq!(scene.chat(&hello(json!({}))).await.status, 200);
    scene.finish().await;
}

#[tokio::test]
async fn an_invalid_file_is_refused_as_a_whole() {
    let mut scene = Scene::start().await;
    let good = changed(&scene);
    let faults = [
        ("no TOML", format!("{good}\n[models")),
        ("an unknown key", format!("{good}\n[server]\ncolour = \"red\"\n")),
        ("a type", format!("{good}\n[timeouts]\nidle_ms = \"long\"\n")),
        ("a value", format!("{good}\n[timeouts]\nidle_ms = 0\n")),
        (
            "an unknown provider",
            format!("{good}\n[models.\"acme/x\"]\ntargets = [\"nowhere/x\"]\nprices = {{ input = \"1\" }}\n"),
        ),
        (
            "no price",
            format!("{good}\n[models.\"acme/x\"]\ntargets = [\"{PROVIDER}/x\"]\n"),
        ),
        (
            "a price",
            format!(
                "{good}\n[models.\"acme/x\"]\ntargets = [\"{PROVIDER}/x\"]\nprices = {{ input = \"-1\" }}\n"
            ),
        ),
        (
            "an alias of nothing",
            good.replace("\"large\" = \"acme/large\"", "\"large\" = \"acme/none\""),
        ),
        (
            "a weight",
            format!(
                "{good}\n[models.\"acme/x\"]\ntargets = [{{ provider = \"{PROVIDER}\", model = \"x\", weight = 0 }}]\nprices = {{ input = \"1\" }}\n"
            ),
        ),
        (
            "a preset",
            format!("{good}\n[providers.x]\npreset = \"none\"\nbase_url = \"http://127.0.0.1:1/v1\"\n"),
        ),
        (
            "an address",
            format!("{good}\n[providers.x]\npreset = \"openai-compatible\"\nbase_url = \"not an address\"\n"),
        ),
        ("nothing that is text", "\u{0}".repeat(100)),
    ];
    for (what, text) in faults {
        let refused = scene.gateway.log().matches(REFUSED).count();
        scene.gateway.write_config(&text);
        scene.gateway.wait_for_log(REFUSED, refused).await;
        // What is good about it is not taken either.
        assert!(!has_model(&scene, "acme/new").await, "{what}");
        let response = scene.chat(&hello(json!({"model": "large"}))).await;
        assert_eq!(response.status, 200, "{what}: {}", response.text());
        let cost = nanos(&scene.row(response.request_id()).await["cost"]);
        assert!(cost < 50_000, "{what}: the old price holds: {cost}");
    }
    scene.gateway.change_config(&good);
    eventually("a valid file is taken again", async || {
        has_model(&scene, "acme/new").await
    })
    .await;
    scene.finish().await;
}

#[tokio::test]
async fn a_call_that_runs_keeps_its_terms() {
    let mut scene = Scene::start().await;
    let gate = Gate::new();
    scene.upstream.push(Reply::words(5).hold_event(3, &gate));
    let mut answer = scene.open(&saying("Hi there", true)).await;
    let id = answer.head.header("x-request-id").unwrap().to_owned();
    answer.next_json().await;
    // Its model and its provider are gone when it ends.
    let other = changed(&scene).replace(MODEL, "acme/other");
    scene.gateway.change_config(&other);
    eventually("the model is gone", async || !has_model(&scene, MODEL).await).await;
    gate.open();
    let rest = answer.rest().await;
    assert!(rest.events().last().unwrap().is_done());
    let row = scene.row(&id).await;
    assert_eq!(
        Classes::of_row(&row),
        Classes {
            input: 2,
            output: 5,
            ..Classes::default()
        }
    );
    assert_eq!(
        scene.settled().await.credits,
        GRANTED - 2 * PRICES.input - 5 * PRICES.output
    );
    scene.finish().await;
}

#[tokio::test]
async fn limits_of_everybody_follow_the_file() {
    let mut scene = Scene::start().await;
    assert_eq!(
        scene
            .chat(&hello(json!({})))
            .await
            .header("x-ratelimit-limit-requests"),
        Some("10000")
    );
    scene
        .gateway
        .change_config(&(settings(&scene.upstream) + "[limits]\nrpm = 3\n"));
    eventually("the limit is lower", async || {
        let response = scene.chat(&hello(json!({"n": 0}))).await;
        response.header("x-ratelimit-limit-requests") == Some("3")
    })
    .await;
    scene.finish().await;
}

#[tokio::test]
async fn mounted_settings_are_swapped_by_a_link() {
    // As Kubernetes mounts them: the file is a link into `..data`, which is a link to a folder of the day.
    let mut scene = Scene::start().await;
    let folder = scene.gateway.folder().to_owned();
    let whole = std::fs::read_to_string(folder.join("tollgate.toml")).unwrap();
    let mount = |day: &str, text: &str| {
        std::fs::create_dir(folder.join(day)).unwrap();
        std::fs::write(folder.join(day).join("tollgate.toml"), text).unwrap();
        std::os::unix::fs::symlink(day, folder.join("..new")).unwrap();
        std::fs::rename(folder.join("..new"), folder.join("..data")).unwrap();
    };
    scene.gateway.stop().await;
    mount("..1", &whole);
    std::fs::remove_file(folder.join("tollgate.toml")).unwrap();
    std::os::unix::fs::symlink("..data/tollgate.toml", folder.join("tollgate.toml")).unwrap();
    scene.gateway.restart().await;
    for (day, price) in [("..2", "2"), ("..3", "3"), ("..4", "4")] {
        mount(
            day,
            &whole.replace("input = \"1\"", &format!("input = \"{price}\"")),
        );
        eventually("the new price is there", async || {
            let record = scene
                .client()
                .get(&format!("/v1/models/{MODEL}"), &scene.key.secret)
                .await;
            record.json()["pricing"]["input"] == price
        })
        .await;
    }
    scene.finish().await;
}
