//! Changes of the settings while the server runs.

use serde_json::json;
use tollgate_testkit::gateway::{eventually, nanos};
use tollgate_testkit::upstream::{Gate, Reply};

use crate::scene::{Classes, GRANTED, MODEL, PRICES, PROVIDER, Scene, assert_error, hello, saying, settings};

const REFUSED: &str = "the new settings are rejected";

/// Returns the scene's settings with another input price and a new model.
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
async fn a_change_of_the_file_is_applied() {
    let mut scene = Scene::start().await;
    let before = scene.chat(&hello(json!({}))).await;
    scene.gateway.change_config(&changed(&scene));
    eventually("the new model exists", async || {
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

    // The first price again is the first price version, and every row can still be priced.
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
    // Only the referenced file has changed, so only the signal makes the gateway notice the change.
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
        // The valid part of the file is not applied either.
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
async fn a_running_call_keeps_its_terms() {
    let mut scene = Scene::start().await;
    let gate = Gate::new();
    scene.upstream.push(Reply::words(5).hold_event(3, &gate));
    let mut answer = scene.open(&saying("Hi there", true)).await;
    let id = answer.head.header("x-request-id").unwrap().to_owned();
    answer.next_json().await;
    // The model and the provider of the call are removed before the call ends.
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
async fn default_limits_follow_the_file() {
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
    // Kubernetes mounts settings as a link into `..data`, which is a link to a dated folder.
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
        eventually("the new price applies", async || {
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

/// Replaces the file in every possible way; the new price applies after each.
#[tokio::test]
async fn the_file_is_reloaded_after_any_replacement() {
    let scene = Scene::start().await;
    let folder = scene.gateway.folder().to_owned();
    let file = folder.join("tollgate.toml");
    let whole = std::fs::read_to_string(&file).unwrap();
    let priced = |price: &str| whole.replace("input = \"1\"", &format!("input = \"{price}\""));
    let in_service = async |price: &str| {
        eventually(&format!("the price is {price}"), async || {
            let record = scene
                .client()
                .get(&format!("/v1/models/{MODEL}"), &scene.key.secret)
                .await;
            record.json()["pricing"]["input"] == price
        })
        .await;
    };
    std::fs::write(&file, priced("2")).unwrap();
    in_service("2").await;

    // After removal, the old settings stay until the file exists again.
    let refused = scene.gateway.log().matches(REFUSED).count();
    std::fs::remove_file(&file).unwrap();
    scene.gateway.wait_for_log(REFUSED, refused).await;
    in_service("2").await;
    std::fs::write(&file, priced("3")).unwrap();
    in_service("3").await;

    // A link into another directory, whose file is edited and replaced.
    let elsewhere = tempfile::tempdir().unwrap();
    let real = elsewhere.path().join("real.toml");
    std::fs::write(&real, priced("4")).unwrap();
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(&real, &file).unwrap();
    in_service("4").await;
    std::fs::write(&real, priced("5")).unwrap();
    in_service("5").await;
    let beside = elsewhere.path().join("beside.toml");
    std::fs::write(&beside, priced("6")).unwrap();
    std::fs::rename(&beside, &real).unwrap();
    in_service("6").await;

    // The directory of the linked file is replaced by another of the same name.
    let moved = elsewhere.path().join("moved");
    let place = elsewhere.path().join("place");
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("t.toml"), priced("7")).unwrap();
    std::fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink(place.join("t.toml"), &file).unwrap();
    in_service("7").await;
    std::fs::rename(&place, &moved).unwrap();
    std::fs::create_dir(&place).unwrap();
    std::fs::write(place.join("t.toml"), priced("8")).unwrap();
    in_service("8").await;
    std::fs::write(place.join("t.toml"), priced("9")).unwrap();
    in_service("9").await;
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, &whole).unwrap();
    in_service("1").await;
    scene.finish().await;
}

#[tokio::test]
async fn a_change_of_a_startup_setting_asks_for_a_restart() {
    const ASKED: &str = "needs a restart";
    let mut scene = Scene::start().await;
    let reloaded = settings(&scene.upstream) + "[limits]\nrpm = 9000\n";
    scene.gateway.change_config(&reloaded);
    scene.gateway.wait_for_log("settings reloaded", 0).await;
    assert!(!scene.gateway.log().contains(ASKED));
    let canary = "canary-of-a-secret";
    scene.gateway.change_config(&format!(
        "{reloaded}keys = 7\n[egress]\nallow = [\"10.1.2.0/24\"]\n[service]\nsupport = \"{canary}\"\n"
    ));
    scene
        .gateway
        .wait_for_log(
            "needs a restart: egress.allow, limits.keys, service.support (read at the start only)",
            0,
        )
        .await;
    assert!(
        !scene.gateway.log().contains(canary),
        "keys are named, not values"
    );
    scene.finish().await;
}
