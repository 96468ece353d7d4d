//! The settings of `tollgate.example.toml` work together.

use tollgate_testkit::example_config::uncommented;
use tollgate_testkit::upstream::FakeUpstream;

use crate::installation::Installation;

#[test]
fn the_blocks_of_the_file_are_consistent() {
    let account = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
        .block_on(async { FakeUpstream::start().await.issue_tokens() });
    let installation = Installation::new()
        .with("OPENAI_API_KEY", "sk-x")
        .with("BRAVE_API_KEY", "sk-b")
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
    // The server of the example does not exist, and no server listens on port 1 of the loopback.
    let settings = uncommented()
        .replace("/run/secrets/gpu-2", key.to_str().unwrap())
        .replace("/run/secrets/vertex.json", account.to_str().unwrap())
        .replace("/run/secrets/moderation", key.to_str().unwrap())
        .replace("/run/secrets/stripe-key", key.to_str().unwrap())
        .replace("/run/secrets/stripe-webhook", key.to_str().unwrap())
        .replace("/run/secrets/smtp", key.to_str().unwrap())
        .replace("/run/secrets/exa", key.to_str().unwrap())
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
    for secret in ["sk-b", "sk-x", "sk-y", "sk-z", "PRIVATE"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}
