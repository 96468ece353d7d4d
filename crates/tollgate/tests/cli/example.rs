//! `tollgate.example.toml` is true: every key is in it, with its default.

use tollgate_server::config::FileConfig;
use tollgate_testkit::upstream::FakeUpstream;
use toml::Table;

use crate::installation::Installation;

const EXAMPLE: &str = include_str!("../../../../tollgate.example.toml");

/// The file with the marks of its settings taken away.
fn uncommented() -> String {
    let setting = |line: &str| {
        line.strip_prefix('#')
            .filter(|rest| !rest.is_empty() && !rest.starts_with([' ', '#']))
            .map(str::to_owned)
    };
    EXAMPLE
        .lines()
        .map(|line| setting(line).unwrap_or_else(|| line.to_owned()) + "\n")
        .collect()
}

#[test]
fn as_it_is_it_changes_nothing() {
    assert_eq!(
        toml::from_str::<FileConfig>(EXAMPLE).unwrap(),
        FileConfig::default()
    );
}

#[test]
fn with_its_settings_it_shows_the_defaults() {
    let shown: Table = uncommented().parse().unwrap();
    toml::from_str::<FileConfig>(&uncommented()).unwrap();
    let defaults = Table::try_from(FileConfig::default()).unwrap();
    let mut compared = 0;
    for (section, keys) in defaults
        .iter()
        .filter_map(|(section, keys)| Some((section, keys.as_table()?)))
    {
        for (key, default) in keys {
            assert_eq!(shown[section].get(key), Some(default), "{section}.{key}");
            compared += 1;
        }
    }
    assert!(compared > 30, "{compared}");
}

/// The keys that a table of the settings may have: serde names them when it refuses another.
fn known_keys(head: &str) -> Vec<String> {
    let error = toml::from_str::<FileConfig>(&format!("{head}\nno-such-key = 1\n")).unwrap_err();
    let message = error.message().to_owned();
    let known: Vec<String> = message.split('`').skip(3).step_by(2).map(str::to_owned).collect();
    assert!(!known.is_empty(), "{head}: {message}");
    known
}

#[test]
fn every_key_is_in_it() {
    let shown: Table = uncommented().parse().unwrap();
    let sections = known_keys("");
    for section in &sections {
        assert!(shown.contains_key(section), "[{section}]");
    }
    let plain = sections.iter().filter(|section| {
        !["providers", "models", "aliases", "templates", "plans"].contains(&section.as_str())
    });
    for section in plain {
        for key in known_keys(&format!("[{section}]")) {
            assert!(shown[section.as_str()].get(&key).is_some(), "{section}.{key}");
        }
    }
    // What one block does not show another does.
    for (section, head) in [
        ("providers", "[providers.x]"),
        ("models", "[models.\"a/b\"]"),
        ("templates", "[templates.x]"),
        ("plans", "[plans.x]"),
    ] {
        let blocks = shown[section].as_table().unwrap();
        for key in known_keys(head) {
            assert!(
                blocks.values().any(|block| block.get(&key).is_some()),
                "{section}: {key}"
            );
        }
    }
    let rules = shown["policy"]["rules"].as_table().unwrap();
    for key in known_keys("[policy.rules.x]") {
        assert!(
            rules.values().any(|rule| rule.get(&key).is_some()),
            "policy.rules: {key}"
        );
    }
    for key in known_keys("[policy.classifier]") {
        assert!(
            shown["policy"]["classifier"].get(&key).is_some(),
            "policy.classifier: {key}"
        );
    }
    let templates = shown["templates"].as_table().unwrap();
    for key in known_keys("[templates.x.params]") {
        let mut params = templates.values().filter_map(|template| template.get("params"));
        assert!(params.any(|params| params.get(&key).is_some()), "{key}");
    }
    let models = shown["models"].as_table().unwrap();
    for key in known_keys("[models.\"a/b\".limits]") {
        let mut limits = models.values().filter_map(|model| model.get("limits"));
        assert!(limits.any(|limits| limits.get(&key).is_some()), "{key}");
    }
}

#[test]
fn its_blocks_fit_together() {
    let account = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(async { FakeUpstream::start().await.issue_tokens() });
    let installation = Installation::new()
        .with("OPENAI_API_KEY", "sk-x")
        .with("VERTEX_ACCOUNT", &account)
        .with("TOLLGATE_PEPPER", &"p".repeat(32));
    let key = installation.write("gpu-2.key", "sk-y\n");
    let signing = installation.write("media.key", &"sk-z".repeat(8));
    let account = installation.write("account.json", &account);
    let words = installation.write("words.txt", "# words\nthermite\n");
    let patterns = installation.write("patterns.txt", "a[0-9]+\n");
    let workflows = key.parent().unwrap().join("workflows");
    std::fs::create_dir(&workflows).unwrap();
    let graph = r#"{"1": {"class_type": "CLIPTextEncode", "inputs": {"text": "{{prompt}}"}}}"#;
    std::fs::write(workflows.join("gates.json"), graph).unwrap();
    // The server of the example is not there: nobody listens on port 1 of the loopback.
    let settings = uncommented()
        .replace("/run/secrets/gpu-2", key.to_str().unwrap())
        .replace("/run/secrets/vertex.json", account.to_str().unwrap())
        .replace("/run/secrets/moderation", key.to_str().unwrap())
        .replace("/run/secrets/stripe-key", key.to_str().unwrap())
        .replace("/run/secrets/stripe-webhook", key.to_str().unwrap())
        .replace("/run/secrets/smtp", key.to_str().unwrap())
        .replace("/run/secrets/media-before", signing.to_str().unwrap())
        .replace("/run/secrets/media", signing.to_str().unwrap())
        .replace("/etc/tollgate/weapons.txt", words.to_str().unwrap())
        .replace("/etc/tollgate/weapons.regex", patterns.to_str().unwrap())
        .replace("/etc/tollgate/workflows", workflows.to_str().unwrap())
        .replace("10.0.0.6:8000", "127.0.0.1:1");
    let file = installation.write("t.toml", &settings);
    let report = installation.json(&["config", "check", "--config", file.to_str().unwrap()]);
    assert_eq!(report["clean"], serde_json::json!(true), "{report}");
    let shown = installation.fine(&["serve", "--print-config", "--config", file.to_str().unwrap()]);
    for secret in ["sk-x", "sk-y", "sk-z", "PRIVATE"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}
