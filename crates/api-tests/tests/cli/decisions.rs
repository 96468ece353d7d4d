//! `decisions eval` against a running server, with the example cases of the project.

use serde_json::{Value, json};

use crate::installation::{Ended, Installation, Server};

const SAMPLE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/decisions/sample-sim.jsonl"
);
const PLAIN_SAMPLE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/decisions/sample.jsonl"
);

fn installation() -> Installation {
    Installation::new().with("TOLLGATE_LIMITS__RPM", "1000000")
}

/// Starts a server and creates a key of an account with credits.
fn serve(installation: &Installation) -> (Server, String) {
    let server = installation.serve();
    let banner = server.banner_until("curl");
    let key = banner
        .split_whitespace()
        .find(|word| word.starts_with("sk-service-"))
        .unwrap();
    (server, key.to_owned())
}

/// Runs `decisions eval` on a file with additional arguments.
fn eval(installation: &Installation, server: &Server, key: &str, file: &str, more: &[&str]) -> Ended {
    let url = format!("http://{}/v1", server.address);
    let words = ["decisions", "eval", file, "--url", &url, "--key", key];
    installation.run(&[&words, more].concat())
}

#[test]
fn every_method_is_evaluated_on_the_same_examples() {
    let installation = installation();
    let (server, key) = serve(&installation);
    for (model, source) in [
        ("sim/decide", "native"),
        ("sim/decide-logits", "logits"),
        ("sim/decide-logprobs", "top_logprobs"),
    ] {
        let ended = eval(
            &installation,
            &server,
            &key,
            SAMPLE,
            &["--model", model, "--json"],
        );
        assert_eq!(ended.code, 0, "{ended:?}");
        assert_eq!(ended.stderr, "", "JSON output has no progress lines");
        let found: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(
            (&found["lines"], &found["decisions"]),
            (&json!(60), &json!(240)),
            "{found}"
        );
        assert_eq!(found["sources"], json!([source]));
        assert_eq!(found["failed"], json!([]));
        // The examples state the probability of each answer and are correct at that rate.
        let accuracy = found["all"]["accuracy"].as_f64().unwrap();
        assert!((0.75..0.95).contains(&accuracy), "{found}");
        assert!(found["all"]["ece"]["low"].as_f64().unwrap() < 0.05, "{found}");
        assert!(found["all"]["auroc"].as_f64().unwrap() > 0.65, "{found}");
        assert!(found["abstain_auroc"].as_f64().unwrap() > 0.9, "{found}");
        assert_eq!(found["order_flips"], json!(0.0), "{found}");
        assert_eq!(found["asked_in_both_orders"], json!(60));
        assert!(
            found["by_type"]["score"]["score_error"].as_f64().unwrap() < 0.6,
            "{found}"
        );
        assert_eq!(found["by_type"]["noul"]["examples"], json!(83), "{found}");
        assert!(found["latency"]["p95_ms"].as_f64() >= found["latency"]["p50_ms"].as_f64());
    }
}

#[test]
fn text_output_has_a_table_a_diagram_and_a_fit_file() {
    let installation = installation();
    let (server, key) = serve(&installation);
    let (svg, fit) = (
        installation.write("out.svg", ""),
        installation.write("out.json", ""),
    );
    let more = [
        "--model",
        "sim/decide",
        "--svg",
        svg.to_str().unwrap(),
        "--fit",
        fit.to_str().unwrap(),
        "--one-order",
    ];
    let before = balance(&installation);
    let ended = eval(&installation, &server, &key, PLAIN_SAMPLE, &more);
    assert_eq!(ended.code, 0, "{ended:?}");
    for part in [
        "sim/decide: 240 decisions of 60 lines, native",
        "ECE (95 %)",
        "\nall ",
        "\nscore ",
        "cost of 1,000 decisions",
    ] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    assert!(!ended.stdout.contains("order flips"), "{}", ended.stdout);
    assert!(ended.stderr.contains("60 of 60 lines"), "{}", ended.stderr);
    let svg = std::fs::read_to_string(svg).unwrap();
    assert!(
        svg.starts_with("<svg") && svg.contains("sim/decide: 240 decisions"),
        "{svg}"
    );
    let fit: Value = serde_json::from_str(&std::fs::read_to_string(fit).unwrap()).unwrap();
    assert_eq!(fit["model"], "sim/decide");
    // All except the questions without an answer.
    assert_eq!(fit["examples"].as_array().unwrap().len(), 203, "{fit}");
    let first = &fit["examples"][1];
    assert_eq!(
        (&first["type"], &first["truth"]),
        (&json!("choice"), &json!(0)),
        "{first}"
    );
    assert_eq!(first["probabilities"].as_array().unwrap().len(), 5, "{first}");
    assert!(balance(&installation) < before, "the key's account is charged");
}

fn balance(installation: &Installation) -> f64 {
    let accounts = installation.json(&["accounts", "list"]);
    let balance = installation.json(&["credits", "balance", accounts[0]["id"].as_str().unwrap()]);
    balance["credits"].as_str().unwrap().parse().unwrap()
}

#[test]
fn invalid_files_are_refused_before_any_call() {
    let installation = installation();
    let (server, key) = serve(&installation);
    let fine =
        r#"{"state":"x","questions":{"a":{"type":"noul","instructions":"Is it?"}},"truth":{"a":true}}"#;
    for (text, expected) in [
        (String::new(), "is empty"),
        (format!("{fine}\n{{"), "line 2: not a JSON object"),
        (
            format!("{fine}\n\n{}", fine.replace("true", "\"perhaps\"")),
            "line 3: truth.a: 'perhaps' is not a possible answer; use one of true, false",
        ),
        (
            fine.replace("\"noul\"", "\"guess\""),
            "line 1: 'questions.a.type'",
        ),
        (
            fine.replace("{\"a\":true}", "{}"),
            "line 1: 'truth' must be an object",
        ),
    ] {
        let file = installation.write("bad.jsonl", &text);
        let ended = eval(
            &installation,
            &server,
            &key,
            file.to_str().unwrap(),
            &["--model", "sim/decide"],
        );
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{ended:?}");
        assert!(ended.stderr.contains(expected), "{expected}: {}", ended.stderr);
    }
    let nowhere = eval(
        &installation,
        &server,
        &key,
        "nowhere.jsonl",
        &["--model", "sim/decide"],
    );
    assert_eq!(nowhere.code, 2, "{nowhere:?}");
    let keyless = installation.run(&["decisions", "eval", SAMPLE, "--model", "sim/decide"]);
    assert!(
        keyless.code == 2 && keyless.stderr.contains("TOLLGATE_API_KEY"),
        "{keyless:?}"
    );
    let both = eval(
        &installation,
        &server,
        &key,
        SAMPLE,
        &["--model", "m", "--fit", "f", "--calibration", "none"],
    );
    assert_eq!(both.code, 2, "{both:?}");
}

#[test]
fn a_fault_of_every_line_aborts_and_one_bad_answer_does_not() {
    let installation = installation();
    let (server, key) = serve(&installation);
    for (key, model, expected) in [
        ("sk-service-unknown", "sim/decide", "invalid_api_key"),
        (key.as_str(), "sim/nothing", "model_not_found"),
        (key.as_str(), "sim/embeddings", "unsupported_endpoint"),
    ] {
        let ended = eval(&installation, &server, key, SAMPLE, &["--model", model]);
        assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{ended:?}");
        assert!(ended.stderr.contains(expected), "{expected}: {}", ended.stderr);
    }
    let line = |state: &str, script: &str| json!({"state": state, "questions": {"a": {"type": "noul", "instructions": format!("{script} Is it?")}}, "truth": {"a": true}});
    let text = format!(
        "{}\n{}\n{}\n",
        line("It is.", "[[decide a yes=0.9]]"),
        line("[[sim error=upstream_error]]", ""),
        line("It is.", "[[decide a refuse]]"),
    );
    let file = installation.write("some.jsonl", &text);
    let ended = eval(
        &installation,
        &server,
        &key,
        file.to_str().unwrap(),
        &["--model", "sim/decide"],
    );
    assert_eq!(ended.code, 3, "{ended:?}");
    for part in [
        "1 decisions of 2 lines",
        "NOT ANSWERED line 2: upstream_error",
        "refused or failed",
    ] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    let address = server.address.clone();
    assert_eq!(server.stop(), 0);
    let url = format!("http://{address}");
    let gone = installation.run(&[
        "decisions",
        "eval",
        SAMPLE,
        "--model",
        "m",
        "--key",
        "k",
        "--url",
        &url,
    ]);
    assert!(gone.code == 1 && gone.stderr.contains("--url"), "{gone:?}");
}
