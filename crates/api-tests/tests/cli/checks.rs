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
fn valid_settings_pass_the_check_and_wrong_ones_exit_3() {
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
            "set a price for input",
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
fn settings_that_a_reload_does_not_apply_are_named() {
    let installation = Installation::new();
    let text = "[storage]\nurl = \"sqlite:canary/tollgate.db\"\n[limits]\nrpm = 7\nkeys = 9\n";
    let file = installation.write("t.toml", text);
    let report = installation.json(&["config", "check", "--config", file.to_str().unwrap()]);
    let found = finding(&report, "reload");
    let detail = found["detail"].as_str().unwrap();
    assert_eq!(found["state"], "fine");
    assert!(
        detail.starts_with("read at start only: limits.keys, server.admin, "),
        "{detail}"
    );
    assert!(
        detail.ends_with(", storage.url, timeouts.drain_delay_ms (restart to change)"),
        "{detail}"
    );
    assert!(
        !detail.contains("canary") && !detail.contains("limits.rpm"),
        "{detail}"
    );
}

#[test]
fn a_variable_that_is_not_set_is_named() {
    let installation = Installation::new();
    let priced = "prices = { input = \"1\" }\n";
    let needed = "[providers.la]\npreset = \"openai\"\napi_key_env = \"BADK\"\n";
    let optional =
        "[providers.la]\npreset = \"vllm\"\nbase_url = \"http://127.0.0.1:1/v1\"\napi_key_env = \"BADK\"\n";
    let targeted = format!("{needed}[models.\"a/b\"]\ntargets = [\"la/b\"]\n{priced}");
    let off = targeted.replace("api_key_env = \"BADK\"", "enabled = false");
    for (text, words, code) in [
        (needed.to_owned(), "the variable BADK is not set", 0),
        (optional.to_owned(), "the variable BADK is not set", 0),
        (
            targeted,
            "the provider 'la' is not enabled: the variable BADK is not set",
            3,
        ),
        (
            off,
            "the provider 'la' is not enabled: providers.la.enabled is false",
            3,
        ),
    ] {
        let file = installation.write("t.toml", &text);
        let file = file.to_str().unwrap();
        let ended = installation.run(&["config", "check", "--config", file]);
        assert_eq!(ended.code, code, "{text}: {ended:?}");
        assert!(ended.stdout.contains(words), "{text}: {ended:?}");
        let ended = installation.run(&["doctor", "--config", file]);
        assert!(ended.stdout.contains(words), "{text}: {ended:?}");
    }
    let set = Installation::new().with("BADK", "k");
    let file = set.write("t.toml", optional);
    let ended = set.run(&["config", "check", "--config", file.to_str().unwrap()]);
    assert!(!ended.stdout.contains("BADK"), "{ended:?}");
}

#[test]
fn bare_names_that_several_models_claim_are_named() {
    let installation = Installation::new();
    let block = "[models.\"acme/dated\"]\ntargets = [\"sim/chat\"]\nprices = { input = \"1\" }\n";
    let file = installation.write("t.toml", block);
    let file = file.to_str().unwrap();
    for command in [["config", "check"].as_slice(), &["doctor"]] {
        let report = installation.json(&[command, &["--config", file]].concat());
        let found = finding(&report, "model name chat");
        assert_eq!(
            (&found["state"], &found["detail"]),
            (
                &json!("note"),
                &json!("the name resolves to sim/chat, not to acme/dated")
            )
        );
    }
    let file = installation.write("t.toml", &format!("{block}[aliases]\nchat = \"acme/dated\"\n"));
    let ended = installation.run(&["config", "check", "--config", file.to_str().unwrap()]);
    assert!(!ended.stdout.contains("model name"), "{ended:?}");
}

#[test]
fn the_doctor_works_before_the_first_start() {
    let installation = Installation::new();
    let report = installation.json(&["doctor"]);
    assert_eq!(report["clean"], json!(true), "{report}");
    assert_eq!(finding(&report, "data directory")["state"], "note");
    assert_eq!(finding(&report, "web pages")["state"], "fine");
    assert_eq!(finding(&report, "providers")["state"], "note");
    assert!(
        finding(&report, "providers")["remedy"]
            .as_str()
            .unwrap()
            .contains("OPENAI_API_KEY"),
        "{report}"
    );
    assert!(!installation.data().exists(), "a check creates no files");
    assert!(installation.fine(&["doctor"]).contains("No problems found."));
}

#[test]
fn the_doctor_works_beside_a_server_and_after_it() {
    let installation = Installation::new();
    let server = installation.serve();
    let report = installation.json(&["doctor"]);
    assert_eq!(report["clean"], json!(true), "{report}");
    let storage = finding(&report, "storage")["detail"].as_str().unwrap();
    assert!(storage.contains("the running server has opened"), "{report}");
    assert_eq!(finding(&report, "secrets")["state"], "fine");
    // The settings have port 0, so the address comes from the running server.
    let detail = |report: &Value, what: &str| finding(report, what)["detail"].as_str().unwrap().to_owned();
    let ready = format!("a gateway is ready at {}", server.address);
    assert_eq!(detail(&report, "server"), ready);
    assert!(
        detail(&report, "admin address").starts_with("the running server uses "),
        "{report}"
    );
    // Another installation with the same address has no running server.
    let other = Installation::new().with("TOLLGATE_SERVER__LISTEN", &server.address);
    let report = other.json(&["doctor"]);
    let said = detail(&report, "server");
    assert!(
        said.starts_with(&format!("{ready}, but it does not use")),
        "{report}"
    );
    assert_eq!(finding(&report, "server")["state"], "note");
    let listen = installation.write("t.toml", "");
    let installation = installation.with("TOLLGATE_SERVER__LISTEN", &server.address);
    let report = installation.json(&["doctor", "--config", listen.to_str().unwrap()]);
    assert_eq!(detail(&report, "server"), ready);
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
fn findings_of_the_doctor_exit_3_and_contain_no_secret() {
    let installation = Installation::new().with("GPU_KEY", "canary");
    // No server listens on port 1 of the loopback.
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
        "2 problems found",
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
        (of(&cut), "invalid JSON at line 1"),
        (of(&installation.data().join("none.json")), "cannot read"),
        (
            format!("{block}credentials = \"metadata\"\n"),
            "GOOGLE_CLOUD_PROJECT",
        ),
        (format!("{block}credentials = \"file\"\n"), "not \"file\""),
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
fn a_call_timeout_above_twelve_hours_is_refused() {
    let installation = Installation::new();
    for (value, code) in [(43_200_000, 0), (43_200_001, 3)] {
        for (section, key) in [("timeouts", "total_ms"), ("drain", "time_ms")] {
            let file = installation.write("t.toml", &format!("[{section}]\n{key} = {value}\n"));
            let ended = installation.run(&["config", "check", "--config", file.to_str().unwrap()]);
            assert_eq!(ended.code, code, "{ended:?}");
            let names_it = ended.stdout.contains(&format!("{section}.{key}: "));
            assert_eq!(names_it, code != 0, "{ended:?}");
        }
    }
}

#[test]
fn the_document_is_the_same_with_and_without_json() {
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
fn a_self_hosted_server_is_queried_with_its_key_and_its_models_are_counted() {
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
        + "[models.\"acme/large\"]\ntargets = [\"gpu/large\"]\nprices = { input = \"1\", output = \"2\" }\n\
           [models.\"acme/image\"]\ntargets = [\"sim/image\"]\nprices = { image = \"0.25\" }\n";
    let file = installation.write("t.toml", &text);
    let table = installation.fine(&["models", "list", "--config", file.to_str().unwrap()]);
    let titles = table.lines().next().unwrap();
    let image = table
        .lines()
        .find(|line| line.starts_with("acme/image "))
        .unwrap();
    let column = titles.find("MEDIA").unwrap();
    assert!(image[column..].starts_with("0.25 / image "), "{table}");
    let report = installation.json(&["doctor", "--config", file.to_str().unwrap()]);
    assert_eq!(report["clean"], json!(true), "{report}");
    for words in [
        "lists 2 models",
        "models without a price are not offered: small",
        "callable models: 3 of providers and ",
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
            "acme/image",
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
            "sim/realtime",
            "sim/research",
            "sim/speech",
            "sim/transcribe",
            "sim/video",
            "sim/voice"
        ]
    );
    assert!(
        !installation.data().exists(),
        "the settings say it, and nothing was made"
    );

    let file = installation.write("wrong.toml", &block("gpu", "api_key_env = \"WRONG\""));
    let ended = installation.run(&["doctor", "--config", file.to_str().unwrap()]);
    assert_eq!(ended.code, 3, "{ended:?}");
    assert!(
        ended.stdout.contains("rejects the key") && ended.stdout.contains("set WRONG to"),
        "{ended:?}"
    );
    assert!(!ended.stdout.contains("canary"), "{ended:?}");
}

#[tokio::test]
async fn a_block_with_a_key_of_this_gateway_is_refused_and_nothing_is_sent() {
    let upstream = FakeUpstream::start().await;
    let installation = Installation::new()
        .with("OWN", "sk-service-test-canary")
        .with("TOKEN", "adm-service-canary");
    let key_file = installation.write("key", "sk-service-canary\n");
    let file_setting = format!("api_key_file = \"{}\"", key_file.display());
    for (setting, place) in [
        ("api_key_env = \"OWN\"", "variable OWN: "),
        ("api_key_env = \"TOKEN\"", "variable TOKEN: "),
        (&file_setting, "providers.x.api_key_file ("),
    ] {
        let text = format!(
            "[providers.x]\npreset = \"vllm\"\nbase_url = \"{}\"\n{setting}\ndefault_price = {{ input = \"1\" }}\n",
            upstream.base_url()
        );
        let file = installation.write("t.toml", &text);
        for (command, code) in [(&["serve"][..], 2), (&["doctor"], 3), (&["config", "check"], 3)] {
            let words: Vec<&str> = command
                .iter()
                .copied()
                .chain(["--config", file.to_str().unwrap()])
                .collect();
            let ended = installation.run(&words);
            assert_eq!(ended.code, code, "{setting}: {ended:?}");
            let output = ended.stdout + &ended.stderr;
            assert!(
                output.contains(place) && output.contains("contains a key of this gateway"),
                "{setting}: {output}"
            );
            assert!(!output.contains("canary"), "{output}");
        }
    }
    assert_eq!(upstream.request_count(), 0);
}
