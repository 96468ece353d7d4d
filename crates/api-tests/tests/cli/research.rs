//! `research eval` against a running server.

use serde_json::{Value, json};

use crate::installation::{Ended, Installation, Server};

/// Starts a server and creates a key of an account with credits.
fn serve() -> (Installation, Server, String) {
    let installation = Installation::new().with("TOLLGATE_LIMITS__RPM", "1000000");
    let server = installation.serve();
    let banner = server.banner_until("curl");
    let key = banner
        .split_whitespace()
        .find(|word| word.starts_with("sk-service-"))
        .unwrap();
    (installation, server, key.to_owned())
}

/// Runs `research eval` on the simulator with additional arguments.
fn eval((installation, server, key): &(Installation, Server, String), more: &[&str]) -> Ended {
    let url = format!("http://{}/v1", server.address);
    let words = [
        "research",
        "eval",
        "--model",
        "sim/research",
        "--effort",
        "minimal",
        "--url",
        &url,
        "--key",
        key,
    ];
    installation.run(&[&words, more].concat())
}

/// Every citation of the reports on the shipped questions is checked, and at least four of five
/// planted facts are found. The table is part of the output of the test run.
#[test]
fn research_scores_of_the_shipped_questions() {
    let running = serve();
    let ended = eval(&running, &["--min-recall", "0.8"]);
    println!("{}", ended.stdout);
    assert_eq!(ended.code, 0, "{ended:?}");
    for part in [
        "sim/research: 73 reports, effort minimal",
        "\nall ",
        "\nsite filters ",
        "filter leaks                0",
        "RECALL",
        "PRECISION",
    ] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    assert!(ended.stderr.contains("73 of 73 questions"), "{}", ended.stderr);
}

#[test]
fn own_questions_are_scored_and_judged() {
    let running = serve();
    let lines = [
        json!({"query": "How many passengers did Orsel Lines carry in 2019?", "answers": ["912,600"], "group": "ferries"}),
        json!({"query": "How high is the tower of the Skarn Point lighthouse?", "answers": ["9,999 metres"],
               "search_before_date_filter": "2030-01-01"}),
    ];
    let file = running
        .0
        .write("questions.jsonl", &lines.map(|line| line.to_string()).join("\n"));
    let file = file.to_str().unwrap();
    let ended = eval(
        &running,
        &[file, "--json", "--judge", "sim/decide", "--min-recall", "0.5"],
    );
    assert_eq!((ended.code, ended.stderr.as_str()), (0, ""), "{ended:?}");
    let found: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(
        (&found["effort"], &found["judge"]),
        (&json!("minimal"), &json!("sim/decide"))
    );
    let all = &found["all"];
    assert_eq!(
        (
            &all["reports"],
            &all["answers"],
            &all["recall"],
            &all["citation_check"]
        ),
        (&json!(2), &json!(2), &json!(0.5), &json!(1.0)),
        "{found}"
    );
    assert_eq!(found["by_group"]["ferries"]["recall"], json!(1.0), "{found}");
    assert_eq!(found["missing_answers"][0]["line"], json!(2), "{found}");
    assert_eq!(
        (&found["failed"], &found["filter_leaks"]),
        (&json!([]), &json!([]))
    );
    assert_eq!(all["judged"], all["statements"], "{found}");
    assert!(all["support"].is_f64() && found["judge_cost"] != "0", "{found}");
    assert!(all["precision"].as_f64().unwrap() > 0.0, "{found}");

    let ended = eval(&running, &[file, "--min-recall", "0.51"]);
    assert_eq!(ended.code, 3, "{ended:?}");
    let missing = "MISSING line 2: How high is the tower of the Skarn Point lighthouse? 9,999 metres";
    assert!(ended.stdout.contains(missing), "{}", ended.stdout);
}

#[test]
fn invalid_files_and_arguments_are_refused_before_any_call() {
    let running = serve();
    let write = |name: &str, text: &str| {
        let path = running.0.write(name, text);
        path.to_str().unwrap().to_owned()
    };
    let (empty, bad) = (
        write("empty.jsonl", "\n"),
        write("bad.jsonl", "{\"query\": \"Q?\"}\n{"),
    );
    for (more, expected) in [
        (&[empty.as_str()][..], "is empty"),
        (&[bad.as_str()], "line 2: not a JSON object"),
        (
            &[bad.as_str(), "--format", "frames"],
            "the header has no column 'Prompt'",
        ),
        (&["nowhere.jsonl"], "cannot read nowhere.jsonl"),
        (&["--format", "simple-qa"], "FILE"),
        (&["--min-recall", "1.1"], "from 0 to 1"),
        (&["--parallel", "5"], "5"),
    ] {
        let ended = eval(&running, more);
        assert_eq!((ended.code, ended.stdout.as_str()), (2, ""), "{ended:?}");
        assert!(ended.stderr.contains(expected), "{expected}: {}", ended.stderr);
    }
    let unknown = [
        "research",
        "eval",
        "--model",
        "sim/research",
        "--effort",
        "extreme",
    ];
    let unknown = running.0.run(&unknown);
    assert!(
        unknown.code == 2 && unknown.stderr.contains("minimal, low"),
        "{unknown:?}"
    );
    let keyless = running.0.run(&["research", "eval", "--model", "sim/research"]);
    assert!(
        keyless.code == 2 && keyless.stderr.contains("TOLLGATE_API_KEY"),
        "{keyless:?}"
    );
}

#[test]
fn a_fault_of_every_question_aborts_and_one_bad_question_does_not() {
    let running = serve();
    for (name, value, expected) in [
        ("--model", "sim/nothing", "model_not_found"),
        ("--key", "sk-service-unknown", "invalid_api_key"),
    ] {
        let url = format!("http://{}", running.1.address);
        let mut words = vec!["research", "eval", "--url", &url, name, value];
        if name != "--model" {
            words.extend(["--model", "sim/research"]);
        } else {
            words.extend(["--key", &running.2]);
        }
        let ended = running.0.run(&words);
        assert_eq!((ended.code, ended.stdout.as_str()), (1, ""), "{ended:?}");
        assert!(ended.stderr.contains(expected), "{expected}: {}", ended.stderr);
    }
    let text = format!(
        "{}\n{}\n{}\n",
        json!({"query": "How deep is the wreck of the barque Ottilie?", "answers": ["31 metres"]}),
        json!({"query": "[[sim error=upstream_error]] How deep is it?", "answers": ["31 metres"]}),
        json!({"query": "How deep is it?", "max_searches": 0}),
    );
    let file = running.0.write("some.jsonl", &text);
    let ended = eval(&running, &[file.to_str().unwrap()]);
    assert_eq!(ended.code, 3, "{ended:?}");
    for part in [
        "sim/research: 1 reports",
        "FAILED line 2: failed: upstream_error",
        "FAILED line 3: ",
    ] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
}
