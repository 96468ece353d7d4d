//! Charges for speech and transcripts, exact to the nano-credit.

use serde_json::json;
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::gateway::{Balance, Storage, nanos};
use tollgate_testkit::upstream::{Gate, HEARD_SECONDS, Reply, fault};

use super::{
    EARS, PER_CHARACTER, PER_SECOND, SPEECH, TOKEN_EARS, TOKEN_VOICE, TRANSCRIPTIONS, VOICE, form, scene,
    scene_on, scene_with, simulated, speak, speech, transcribe,
};
use crate::scene::{GRANTED, assert_any_error, assert_error, credits};

/// The simulator's price in nano-credits per character: 15 credits per million.
const SIMULATED_CHARACTER: i64 = 15_000;
/// The simulator's price in nano-credits per second: 0.0001 credits.
const SIMULATED_SECOND: i64 = 100_000;

/// Returns the price of a duration in microseconds, rounded up to a nano-credit.
fn price(micros: i64, per_second: i64) -> i64 {
    (micros * per_second + 999_999) / 1_000_000
}

#[tokio::test]
async fn characters_and_seconds_are_charged_exactly_and_reported_consistently() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = scene_on(storage, "").await;
        // The text has nine characters but more bytes; characters are charged.
        let body = speech("sim/speech", "Grüße, 🌍!", json!({"response_format": "wav"}));
        let spoken = speak(&scene, &body).await;
        let cost = 9 * SIMULATED_CHARACTER;
        assert_eq!(spoken.status, 200, "{}", spoken.text());
        assert_eq!(spoken.header("x-tollgate-cost"), Some("0.000135"));
        let row = scene.row(spoken.request_id()).await;
        assert_eq!(
            (row["usage"]["characters"].as_i64(), nanos(&row["cost"])),
            (Some(9), cost)
        );
        assert_eq!(
            (&row["endpoint"], &row["outcome"], &row["estimated"]),
            (&json!(SPEECH), &json!("ok"), &json!(false)),
            "{row}"
        );

        let heard = transcribe(&scene, &spoken.body(), &[("model", "sim/transcribe")]).await;
        let usage = heard.json()["usage"].clone();
        let row = scene.row(heard.request_id()).await;
        let micros = row["usage"]["audio_microseconds"].as_i64().unwrap();
        let also = price(micros, SIMULATED_SECOND);
        assert!(micros > 500_000, "{row}");
        assert_eq!((nanos(&usage["cost"]), nanos(&row["cost"])), (also, also));
        assert_eq!(
            (&usage["type"], usage["seconds"].as_f64()),
            (&json!("duration"), Some(micros as f64 / 1e6))
        );
        assert_eq!(
            (&row["endpoint"], &row["estimated"]),
            (&json!(TRANSCRIPTIONS), &json!(false))
        );

        let streamed = speak(&scene, &speech(VOICE, "Hello", json!({}))).await;
        assert_eq!(
            streamed.header("x-tollgate-cost"),
            None,
            "the cost is unknown when the audio begins"
        );
        let row = scene.row(streamed.request_id()).await;
        assert_eq!(nanos(&row["cost"]), 5 * PER_CHARACTER);
        let paid = cost + also + 5 * PER_CHARACTER;
        let balance = Balance {
            credits: GRANTED - paid,
            held: 0,
        };
        assert_eq!(scene.balance().await, balance);
        let check = scene.finish().await;
        assert_eq!((check.usage_rows, check.revenue, check.overrun), (3, paid, 0));
    }
}

#[tokio::test]
async fn the_measured_length_is_charged_and_not_the_declared_one() {
    let scene = scene().await;
    let audio = simulated(&scene, "Good morning.", "wav").await;
    let response = transcribe(&scene, &audio, &[("model", EARS)]).await;
    let row = scene.row(response.request_id()).await;
    let micros = row["usage"]["audio_microseconds"].as_i64().unwrap();
    // 16-bit mono WAV at 24 kHz has 48,000 bytes per second, plus its header.
    let expected = (audio.len() as i64) * 1_000_000 / 48_000;
    assert!((micros - expected).abs() < 20_000, "{micros} {expected}");
    assert_eq!(nanos(&row["cost"]), price(micros, PER_SECOND));
    scene.finish().await;
}

#[tokio::test]
async fn without_its_programs_the_gateway_charges_the_reported_or_estimated_length() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = scene_with(storage, "", "/nowhere").await;
        // The hold assumes at least 8 kbit/s: 80 kB are at most eighty seconds.
        let audio = vec![7; 80_000];
        let gate = Gate::new();
        let declared =
            format!(r#"{{"text": "Hello", "usage": {{"type": "duration", "seconds": {HEARD_SECONDS}}}}}"#);
        scene
            .upstream
            .push(Reply::body(200, "application/json", declared).hold_head(&gate));
        let request = form(&audio, &[("model", EARS)]).key(&scene.key.secret);
        let client = scene.client();
        let call = tokio::spawn(async move { client.send(&request).await });
        scene.upstream.wait_for_requests(1).await;
        let held = 80 * PER_SECOND;
        let running = Balance {
            credits: GRANTED - held,
            held,
        };
        assert_eq!(scene.balance().await, running);
        gate.open();
        let response = call.await.unwrap();
        let paid = 7 * PER_SECOND;
        assert_eq!(nanos(&response.json()["usage"]["cost"]), paid);
        assert_eq!(scene.row(response.request_id()).await["estimated"], false);

        let silent = Reply::body(200, "application/json", r#"{"text": "Hello"}"#);
        scene.upstream.push(silent);
        let response = transcribe(&scene, &audio, &[("model", EARS)]).await;
        let row = scene.row(response.request_id()).await;
        // The estimate assumes 64 kbit/s: 80 kB are ten seconds.
        assert_eq!(
            (nanos(&row["cost"]), &row["estimated"]),
            (10 * PER_SECOND, &json!(true)),
            "{row}"
        );

        // The caller pays at most the hold. The operator pays the rest of an absurd report.
        let absurd = Reply::body(200, "application/json", r#"{"text": "Hello", "duration": 1000}"#);
        scene.upstream.push(absurd);
        let response = transcribe(&scene, &audio, &[("model", EARS)]).await;
        assert_eq!(nanos(&response.json()["usage"]["cost"]), held);
        let check = scene.finish().await;
        assert_eq!(
            (check.revenue, check.overrun),
            (paid + 10 * PER_SECOND + held, 920 * PER_SECOND)
        );
    }
}

#[tokio::test]
async fn token_priced_models_are_charged_by_reported_usage() {
    let scene = scene().await;
    let audio = simulated(&scene, "Good morning.", "wav").await;
    let reported = json!({"text": "Good morning.", "usage": {"type": "tokens", "input_tokens": 14, "output_tokens": 5,
        "total_tokens": 19, "input_token_details": {"text_tokens": 4, "audio_tokens": 10}}});
    scene
        .upstream
        .push(Reply::body(200, "application/json", reported.to_string()));
    let response = transcribe(&scene, &audio, &[("model", TOKEN_EARS)]).await;
    let usage = response.json()["usage"].clone();
    let cost = 4 * 1_000 + 10 * 3_000 + 5 * 2_000;
    assert_eq!(nanos(&usage["cost"]), cost);
    assert_eq!(
        (&usage["type"], &usage["input_tokens"], &usage["output_tokens"]),
        (&json!("tokens"), &json!(14), &json!(5))
    );
    let row = scene.row(response.request_id()).await;
    assert_eq!(row["estimated"], false, "{row}");
    assert!(row["usage"]["audio_microseconds"].as_i64().unwrap() > 0, "{row}");

    // Speech has no usage report. The estimate is 1.5 output tokens per character.
    let response = speak(&scene, &speech(TOKEN_VOICE, "Hello there!", json!({}))).await;
    assert_eq!(response.status, 200, "{}", response.text());
    let row = scene.row(response.request_id()).await;
    assert_eq!(
        (nanos(&row["cost"]), &row["estimated"]),
        (3 * 1_000 + 18 * 2_000, &json!(true)),
        "{row}"
    );
    scene.finish().await;
}

#[tokio::test]
async fn a_402_writes_nothing_and_sends_nothing() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = scene_on(storage, "").await;
        let poor = scene.gateway.account().await;
        scene.gateway.grant(&poor, &credits(5 * PER_CHARACTER - 1)).await;
        let key = scene.gateway.key(&poor).await.secret;
        let audio = simulated(&scene, "Good morning.", "wav").await;
        scene.settled().await;
        let before = scene.gateway.ledger_check().await;
        let body = speech(VOICE, "Hello", json!({}));
        let spoken = scene.client().post_json(SPEECH, &key, &body).await;
        let heard = form(&audio, &[("model", EARS)]).key(&key);
        let heard = scene.client().send(&heard).await;
        for response in [spoken, heard] {
            let error = assert_error("too little", &response, "insufficient_credits", None);
            assert!(!error.message.contains("output"), "{}", error.message);
        }
        assert_eq!(scene.upstream.request_count(), 0);
        assert_eq!(scene.gateway.ledger_check().await, before, "nothing was written");
        scene.gateway.grant(&poor, "0.000000001").await;
        assert_eq!(scene.client().post_json(SPEECH, &key, &body).await.status, 200);
        scene.finish().await;
    }
}

#[tokio::test]
async fn failed_audio_requests_cost_nothing() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = scene_on(storage, "[retries]\nextra_attempts = 0\n").await;
        let audio = simulated(&scene, "Good morning.", "wav").await;
        let before = scene.settled().await;
        for name in [
            "500",
            "429-long",
            "401",
            "close",
            "reset",
            "html",
            "empty",
            "close-inside-headers",
        ] {
            for is_speech in [true, false] {
                let what = format!("{name}, speech: {is_speech}");
                let sent = scene.upstream.request_count();
                scene.upstream.push(fault(name).unwrap().reply());
                let response = match is_speech {
                    true => speak(&scene, &speech(VOICE, "Hello", json!({}))).await,
                    false => transcribe(&scene, &audio, &[("model", EARS)]).await,
                };
                assert_any_error(&what, &response);
                assert_eq!(
                    scene.upstream.request_count(),
                    sent + 1,
                    "{what}: one upstream request"
                );
                assert_eq!(scene.settled().await, before, "{what}");
            }
        }
        for text in [
            "[[sim error=overloaded]] Hello",
            "[[sim error=upstream_error delay=1]] Hello",
        ] {
            let response = speak(&scene, &speech("sim/speech", text, json!({}))).await;
            assert_any_error(text, &response);
        }
        let asked = [
            ("model", "sim/transcribe"),
            ("prompt", "[[sim error=rate_limit_exceeded]]"),
        ];
        let response = transcribe(&scene, &audio, &asked).await;
        assert_error("asked for", &response, "rate_limit_exceeded", None);
        assert_eq!(scene.settled().await, before);
        scene.finish().await;
    }
}

#[tokio::test]
async fn silence_is_charged_by_its_length() {
    let scene = scene().await;
    let audio = simulated(&scene, "Good morning.", "wav").await;
    let before = scene.settled().await;
    scene.upstream.push(Reply::body(
        200,
        "application/json",
        r#"{"text": "", "segments": []}"#,
    ));
    let fields = [("model", EARS), ("response_format", "vtt")];
    let response = transcribe(&scene, &audio, &fields).await;
    assert_eq!((response.status, response.text().as_str()), (200, "WEBVTT\n\n"));
    let cost = nanos(&scene.row(response.request_id()).await["cost"]);
    assert!(cost > 0);
    assert_eq!(scene.settled().await.credits, before.credits - cost);
    scene.finish().await;
}

#[tokio::test]
async fn test_keys_use_audio_for_free() {
    let scene = scene().await;
    let create = ["keys", "create", "--account", &scene.account, "--test"];
    let created = scene.gateway.command_line().run(&create).await;
    let key = created["key"].as_str().unwrap();
    let body = speech("sim/speech", "Hello", json!({"response_format": "wav"}));
    let spoken = scene.client().post_json(SPEECH, key, &body).await;
    assert_eq!(spoken.status, 200, "{}", spoken.text());
    let heard = form(&spoken.body(), &[("model", "sim/transcribe")]).key(key);
    let heard = scene.client().send(&heard).await;
    assert_eq!(heard.json()["text"], "Hello");
    for response in [&spoken, &heard] {
        assert_eq!(response.header("x-tollgate-cost"), Some("0"));
    }
    let live = Request::json(SPEECH, &speech(VOICE, "Hello", json!({}))).key(key);
    let refused = scene.client().send(&live).await;
    assert_error("a live model", &refused, "model_not_found", Some("model"));
    assert_eq!(scene.settled().await.credits, GRANTED);
    assert_eq!(scene.upstream.request_count(), 0);
    scene.finish().await;
}

#[tokio::test]
async fn the_max_cost_header_limits_the_charge() {
    let scene = scene().await;
    let body = speech(VOICE, "Hello", json!({}));
    for (max_cost, is_served) in [("0.000005", true), ("0.000004999", false)] {
        let request = Request::json(SPEECH, &body)
            .key(&scene.key.secret)
            .header("x-max-cost", max_cost);
        let response = scene.client().send(&request).await;
        match is_served {
            true => assert_eq!(response.status, 200, "{}", response.text()),
            false => drop(assert_error(
                max_cost,
                &response,
                "parameter_out_of_range",
                Some("x-max-cost"),
            )),
        }
    }
    scene.finish().await;
}
