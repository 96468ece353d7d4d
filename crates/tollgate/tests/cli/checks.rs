//! `config check`, `doctor` and `openapi`.

use serde_json::{Value, json};
use tollgate_testkit::upstream::FakeUpstream;

use crate::installation::Installation;

pub fn finding<'a>(report: &'a Value, what: &str) -> &'a Value {
    let findings = report["findings"].as_array().unwrap();
    findings
        .iter()
        .find(|finding| finding["what"] == what)
        .unwrap_or_else(|| panic!("no {what} in {report}"))
}

#[test]
fn sound_settings_pass_the_check_and_wrong_ones_exit_3() {
    let installation = Installation::new();
    let report = installation.json(&["config", "check"]);
    assert_eq!(report["clean"], json!(true));
    let cases = [
        ("[limits]\nrpms = 5\n", "did you mean 'rpm'?"),
        (
            "[models.\"a/b\"]\ntargets = [\"nobody/b\"]\nprices = { input = \"1\" }\n",
            "models.\"a/b\".targets[0]",
        ),
        (
            "[models.\"a/b\"]\ntargets = [\"sim/chat\"]\nprices = { output = \"1\" }\n",
            "a price for input is required",
        ),
        (
            "[providers.x]\npreset = \"nonsense\"\nbase_url = \"http://127.0.0.1:1/v1\"\n",
            "nonsense",
        ),
        (
            "[providers.x]\npreset = \"vllm\"\nbase_url = \"ftp://127.0.0.1\"\n",
            "providers.x",
        ),
    ];
    for (text, words) in cases {
        let file = installation.write("t.toml", text);
        let ended = installation.run(&["config", "check", "--config", file.to_str().unwrap()]);
        assert_eq!(ended.code, 3, "{text}: {ended:?}");
        assert!(
            ended.stdout.contains("FAULT") && ended.stdout.contains(words),
            "{text}: {ended:?}"
        );
        let ended = installation.run(&["config", "check", "--json", "--config", file.to_str().unwrap()]);
        let report: Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!((ended.code, &report["clean"]), (3, &json!(false)), "{text}");
    }
    assert!(!installation.data().exists(), "checking makes nothing");
}

#[test]
fn the_doctor_looks_around_before_the_first_start() {
    let installation = Installation::new();
    let report = installation.json(&["doctor"]);
    assert_eq!(report["clean"], json!(true), "{report}");
    assert_eq!(finding(&report, "data directory")["state"], "note");
    assert_eq!(finding(&report, "providers")["state"], "note");
    assert!(
        finding(&report, "providers")["remedy"]
            .as_str()
            .unwrap()
            .contains("OPENAI_API_KEY"),
        "{report}"
    );
    assert!(!installation.data().exists(), "looking makes nothing");
    assert!(
        installation
            .fine(&["doctor"])
            .contains("Nothing must be repaired.")
    );
}

#[test]
fn the_doctor_works_beside_a_server_and_after_it() {
    let installation = Installation::new();
    let server = installation.serve();
    let report = installation.json(&["doctor"]);
    assert_eq!(report["clean"], json!(true), "{report}");
    let storage = finding(&report, "storage")["detail"].as_str().unwrap();
    assert!(storage.contains("in the server that runs"), "{report}");
    assert_eq!(finding(&report, "secrets")["state"], "fine");
    let listen = installation.write("t.toml", "");
    let installation = installation.with("TOLLGATE_SERVER__LISTEN", &server.address);
    let report = installation.json(&["doctor", "--config", listen.to_str().unwrap()]);
    let detail = finding(&report, "server")["detail"].as_str().unwrap();
    assert_eq!(detail, format!("a gateway is ready at {}", server.address));
    assert_eq!(server.stop(), 0);
    let report = installation.json(&["doctor"]);
    assert!(
        finding(&report, "storage")["detail"]
            .as_str()
            .unwrap()
            .ends_with("can be opened"),
        "{report}"
    );
    assert!(
        finding(&report, "server")["detail"]
            .as_str()
            .unwrap()
            .ends_with("is free"),
        "{report}"
    );
}

#[test]
fn what_the_doctor_finds_wrong_exits_3_and_holds_no_secret() {
    let installation = Installation::new().with("GPU_KEY", "canary");
    // Nobody listens on port 1 of the loopback.
    let text = "[providers.openai]\n[providers.gpu]\npreset = \"vllm\"\nbase_url = \"http://127.0.0.1:1/v1\"\napi_key_env = \"GPU_KEY\"\n";
    let file = installation.write("t.toml", text);
    let ended = installation.run(&["doctor", "--config", file.to_str().unwrap()]);
    assert_eq!(ended.code, 3, "{ended:?}");
    for words in [
        "provider openai",
        "OPENAI_API_KEY",
        "provider gpu",
        "cannot be reached",
        "providers.gpu.base_url",
        "2 things must be repaired",
    ] {
        assert!(ended.stdout.contains(words), "{words}: {ended:?}");
    }
    assert!(
        !ended.stdout.contains("canary") && !ended.stderr.contains("canary"),
        "{ended:?}"
    );
    let broken = installation.write("broken.toml", "[server\n");
    let ended = installation.run(&["doctor", "--config", broken.to_str().unwrap()]);
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(ended.stdout.contains("broken.toml:1:"), "{ended:?}");
}

#[test]
fn a_faulty_key_of_an_account_is_found_by_the_check_and_not_shown() {
    let installation = Installation::new();
    let block = "[providers.vertex]\nlocation = \"us-central1\"\n";
    let faulty = installation.write(
        "faulty.json",
        "{\"type\": \"service_account\", \"private_key\": \"canary\"}",
    );
    let cut = installation.write("cut.json", "{\"canary");
    let of = |file: &std::path::Path| format!("{block}credentials_file = \"{}\"\n", file.display());
    for (text, words) in [
        (block.to_owned(), "GOOGLE_APPLICATION_CREDENTIALS"),
        (of(&faulty), "`private_key` is not a PEM key"),
        (of(&cut), "they are not JSON at line 1"),
        (of(&installation.data().join("none.json")), "cannot read"),
        (
            format!("{block}credentials = \"metadata\"\n"),
            "GOOGLE_CLOUD_PROJECT",
        ),
        (format!("{block}credentials = \"file\"\n"), "unknown variant"),
    ] {
        let file = installation.write("t.toml", &text);
        let ended = installation.run(&["config", "check", "--config", file.to_str().unwrap()]);
        assert_eq!(ended.code, 3, "{text}: {ended:?}");
        assert!(ended.stdout.contains(words), "{text}: {ended:?}");
        assert!(
            !ended.stdout.contains("canary") && !ended.stderr.contains("canary"),
            "{ended:?}"
        );
    }
    let project = format!("{block}project = \"p\"\ncredentials = \"metadata\"\n");
    let file = installation.write("t.toml", &project);
    let ended = installation.run(&["config", "check", "--config", file.to_str().unwrap()]);
    assert_eq!(ended.code, 0, "{ended:?}");
}

#[test]
fn the_document_is_the_same_for_people_and_programs() {
    let installation = Installation::new();
    let document = installation.json(&["openapi"]);
    assert!(
        document["paths"]["/v1/chat/completions"]["post"].is_object(),
        "{document}"
    );
    let text = installation.fine(&["openapi"]);
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), document);
}

#[test]
fn a_server_of_ones_own_is_asked_with_its_key_and_its_models_are_counted() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let upstream = runtime.block_on(FakeUpstream::start());
    upstream.set_api_key("canary-right");
    upstream.set_models(["large", "small"]);
    let installation = Installation::new()
        .with("RIGHT", "canary-right")
        .with("WRONG", "canary-wrong");
    let block = |name: &str, rest: &str| {
        format!(
            "[providers.{name}]\npreset = \"vllm\"\nbase_url = \"{}\"\n{rest}\n",
            upstream.base_url()
        )
    };
    let text = block("gpu", "api_key_env = \"RIGHT\"")
        + &block(
            "all",
            "api_key_env = \"RIGHT\"\ndefault_price = { input = \"0\", output = \"0\" }",
        )
        + "[models.\"acme/large\"]\ntargets = [\"gpu/large\"]\nprices = { input = \"1\", output = \"2\" }\n";
    let file = installation.write("t.toml", &text);
    let report = installation.json(&["doctor", "--config", file.to_str().unwrap()]);
    assert_eq!(report["clean"], json!(true), "{report}");
    for words in [
        "lists 2 models",
        "1 of its models have no price and are not offered: small",
        "3 real ones can be called",
    ] {
        assert!(report.to_string().contains(words), "{words}: {report}");
    }
    let models = installation.json(&["models", "list", "--config", file.to_str().unwrap()]);
    let ids: Vec<&Value> = models
        .as_array()
        .unwrap()
        .iter()
        .map(|model| &model["id"])
        .collect();
    assert_eq!(
        ids,
        [
            "acme/large",
            "all/large",
            "all/small",
            "sim/chat",
            "sim/decide",
            "sim/decide-audio",
            "sim/decide-logits",
            "sim/decide-logprobs",
            "sim/decide-sampled",
            "sim/embeddings",
            "sim/image",
            "sim/speech",
            "sim/transcribe",
            "sim/video"
        ]
    );

    let file = installation.write("wrong.toml", &block("gpu", "api_key_env = \"WRONG\""));
    let ended = installation.run(&["doctor", "--config", file.to_str().unwrap()]);
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(
        ended.stdout.contains("refuses the key") && ended.stdout.contains("into WRONG"),
        "{ended:?}"
    );
    assert!(!ended.stdout.contains("canary"), "{ended:?}");
}
