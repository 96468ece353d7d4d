//! What speech and transcripts cost, to the nano-credit.

use serde_json::json;
use tollgate_testkit::gateway::http::Request;
use tollgate_testkit::gateway::{Balance, Storage, nanos};
use tollgate_testkit::upstream::{Gate, HEARD_SECONDS, Reply, fault};

use super::{
    EARS, PER_CHARACTER, PER_SECOND, SPEECH, TOKEN_EARS, TOKEN_VOICE, TRANSCRIPTIONS, VOICE, form, scene,
    scene_on, scene_with, simulated, speak, speech, transcribe,
};
use crate::scene::{GRANTED, assert_any_error, assert_error, credits};

/// Nano-credits for a character of the simulator: 15 credits for a million.
const SIMULATED_CHARACTER: i64 = 15_000;
/// The same for a second: 0.0001 credits.
const SIMULATED_SECOND: i64 = 100_000;

/// Microseconds at a price for a second, rounded up.
fn price(micros: i64, per_second: i64) -> i64 {
    (micros * per_second + 999_999) / 1_000_000
}

#[tokio::test]
async fn characters_and_seconds_are_paid_exactly_and_every_place_says_the_same() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = scene_on(storage, "").await;
        // Characters, not bytes, of which there are more.
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
            "it is not known when the sound begins"
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
async fn the_length_that_was_found_is_paid_and_not_the_one_that_is_declared() {
    let scene = scene().await;
    let audio = simulated(&scene, "Good morning.", "wav").await;
    let response = transcribe(&scene, &audio, &[("model", EARS)]).await;
    let row = scene.row(response.request_id()).await;
    let micros = row["usage"]["audio_microseconds"].as_i64().unwrap();
    // WAV of 16 bits at 24 kHz, but for its header.
    let expected = (audio.len() as i64) * 1_000_000 / 48_000;
    assert!((micros - expected).abs() < 20_000, "{micros} {expected}");
    assert_eq!(nanos(&row["cost"]), price(micros, PER_SECOND));
    scene.finish().await;
}

#[tokio::test]
async fn without_a_look_the_declared_length_is_paid_and_else_an_estimate() {
    for storage in [Storage::Sqlite, Storage::Postgres] {
        let scene = scene_with(storage, "", "/nowhere").await;
        // At 8 kbit/s these are eighty seconds at the most.
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
        // At 64 kbit/s they are ten.
        assert_eq!(
            (nanos(&row["cost"]), &row["estimated"]),
            (10 * PER_SECOND, &json!(true)),
            "{row}"
        );

        // More than can be is the operator's.
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
async fn models_that_are_priced_by_tokens_are_paid_by_the_report() {
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

    // Speech comes without a report: a character is likely spoken in one and a half tokens.
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
async fn what_fails_costs_nothing() {
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
                    "{what}: it is asked once"
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
async fn silence_costs_nothing() {
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
    assert_eq!(response.header("x-tollgate-cost"), Some("0"));
    assert_eq!(scene.settled().await, before);
    scene.finish().await;
}

#[tokio::test]
async fn test_keys_speak_and_hear_for_nothing() {
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
async fn a_call_costs_no_more_than_is_allowed() {
    let scene = scene().await;
    let body = speech(VOICE, "Hello", json!({}));
    for (most, is_served) in [("0.000005", true), ("0.000004999", false)] {
        let request = Request::json(SPEECH, &body)
            .key(&scene.key.secret)
            .header("x-max-cost", most);
        let response = scene.client().send(&request).await;
        match is_served {
            true => assert_eq!(response.status, 200, "{}", response.text()),
            false => drop(assert_error(
                most,
                &response,
                "parameter_out_of_range",
                Some("x-max-cost"),
            )),
        }
    }
    scene.finish().await;
}
