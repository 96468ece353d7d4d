//! `tollgate.example.toml` is complete: it has every key with its default.

use tollgate_server::config::FileConfig;
use tollgate_testkit::example_config::{EXAMPLE, uncommented};
use toml::Table;

#[test]
fn the_unchanged_file_sets_nothing() {
    assert_eq!(
        toml::from_str::<FileConfig>(EXAMPLE).unwrap(),
        FileConfig::default()
    );
}

#[test]
fn the_uncommented_file_has_the_defaults() {
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

/// Returns the keys that a table of the settings accepts, from serde's error about an unknown key.
fn known_keys(head: &str) -> Vec<String> {
    let error = toml::from_str::<FileConfig>(&format!("{head}\nno-such-key = 1\n")).unwrap_err();
    let message = error.message().to_owned();
    let known: Vec<String> = message.split('`').skip(3).step_by(2).map(str::to_owned).collect();
    assert!(!known.is_empty(), "{head}: {message}");
    known
}

#[test]
fn every_key_is_in_the_file() {
    let shown: Table = uncommented().parse().unwrap();
    let sections = known_keys("");
    for section in &sections {
        assert!(shown.contains_key(section), "[{section}]");
    }
    let plain = sections.iter().filter(|section| {
        ![
            "providers",
            "models",
            "aliases",
            "templates",
            "plans",
            "corpora",
            "search",
        ]
        .contains(&section.as_str())
    });
    for section in plain {
        for key in known_keys(&format!("[{section}]")) {
            assert!(shown[section.as_str()].get(&key).is_some(), "{section}.{key}");
        }
    }
    // Tables with alternatives are shown in several blocks.
    for (section, head) in [
        ("providers", "[providers.x]"),
        ("corpora", "[corpora.x]"),
        ("search", "[search.x]\nkind = \"exa\""),
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
