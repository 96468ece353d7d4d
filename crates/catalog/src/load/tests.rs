use super::*;

fn provider(name: &str, preset: &str) -> EnabledProvider {
    EnabledProvider {
        name: name.to_owned(),
        preset: preset.to_owned(),
        simulated: preset == "sim",
        default_price: None,
        discovered: Vec::new(),
    }
}

fn entry(text: &str) -> ModelEntry {
    toml::from_str(text).unwrap()
}

fn with_model(text: &str) -> CatalogInput {
    CatalogInput {
        providers: vec![provider("local", "vllm"), provider("sim", "sim")],
        models: BTreeMap::from([("acme/large".to_owned(), entry(text))]),
        aliases: BTreeMap::new(),
    }
}

#[test]
fn the_default_catalog_is_readable_and_its_ids_are_unique() {
    let rows = builtin::models().unwrap();
    let mut names = std::collections::HashSet::new();
    for row in &rows {
        assert!(names.insert(row.id.clone()), "{} twice", row.id);
        for alias in &row.aliases {
            assert!(names.insert(alias.clone()), "{alias} twice");
        }
        if let Some(prices) = &row.prices {
            parse_prices(&row.id, prices).unwrap();
        }
    }
}

#[test]
fn a_model_is_offered_when_one_of_its_providers_is_enabled() {
    let input = CatalogInput {
        providers: vec![provider("sim", "sim")],
        ..CatalogInput::default()
    };
    let snapshot = load(&input).unwrap();
    assert!(snapshot.resolve("sim/chat").unwrap().simulated);
    assert!(
        snapshot
            .models()
            .iter()
            .all(|model| &*model.candidates[0].provider == "sim")
    );
}

#[test]
fn a_configured_model_has_its_targets_prices_and_limits() {
    let input = with_model(
        r#"targets = ["local/large-v2", { provider = "sim", model = "chat", weight = 3 }]
           prices = { input = "1.5", output = "2" }
           limits = { context_window = 1000, max_output_tokens = 100 }"#,
    );
    let snapshot = load(&input).unwrap();
    let model = snapshot.resolve("acme/large").unwrap();
    assert_eq!(model.candidates.len(), 2);
    assert_eq!(model.candidates[1].weight, Some(3));
    assert_eq!(model.output_ceiling(), Some(100));
    assert!(!model.simulated);
    assert_eq!(
        snapshot.resolve("large-v2").unwrap().id,
        model.id,
        "a bare name finds it"
    );
    assert_eq!(snapshot.resolve("large").unwrap().id, model.id);
}

#[test]
fn a_change_of_price_is_another_version() {
    let cheap = load(&with_model(
        r#"targets = ["local/x"]
        prices = { input = "1", output = "2" }"#,
    ))
    .unwrap();
    let dear = load(&with_model(
        r#"targets = ["local/x"]
        prices = { input = "1", output = "3" }"#,
    ))
    .unwrap();
    let version = |snapshot: &Snapshot| snapshot.resolve("acme/large").unwrap().price_version;
    assert_ne!(version(&cheap), version(&dear));
}

#[test]
fn faults_name_the_block_and_the_remedy() {
    let cases = [
        (r#"targets = ["nowhere/x"]"#, "models.\"acme/large\".targets[0]"),
        (r#"targets = ["local"]"#, "models.\"acme/large\".targets[0]"),
        (
            r#"targets = [{ provider = "local", model = "x", weight = 0 }]"#,
            "models.\"acme/large\".targets[0]",
        ),
        (r#"targets = ["local/x"]"#, "models.\"acme/large\""),
        (
            r#"targets = ["local/x"]
            prices = { output = "1" }"#,
            "models.\"acme/large\".prices",
        ),
        (
            r#"targets = ["local/x"]
            prices = { inptu = "1" }"#,
            "models.\"acme/large\".prices.inptu",
        ),
        (
            r#"targets = ["local/x"]
            prices = { input = "-1" }"#,
            "models.\"acme/large\".prices.input",
        ),
        ("", "models.\"acme/large\""),
    ];
    for (text, path) in cases {
        assert_eq!(load(&with_model(text)).unwrap_err().path, path, "{text}");
    }
}

#[test]
fn discovered_models_need_a_price() {
    let mut local = provider("ollama", "ollama");
    local.discovered = vec![("llama3:8b".to_owned(), Some(8192))];
    let input = CatalogInput {
        providers: vec![local.clone()],
        ..CatalogInput::default()
    };
    assert!(load(&input).unwrap().resolve("ollama/llama3:8b").is_none());
    local.default_price = Some(BTreeMap::from([("input".to_owned(), Credits::ZERO)]));
    let input = CatalogInput {
        providers: vec![local],
        ..CatalogInput::default()
    };
    let snapshot = load(&input).unwrap();
    let model = snapshot.resolve("ollama/llama3:8b").unwrap();
    assert!(model.prices.is_free());
    assert_eq!(snapshot.resolve("llama3:8b").unwrap().id, model.id);
}

#[test]
fn aliases_stand_for_models_and_must_have_one() {
    let mut input = with_model(
        r#"targets = ["local/x"]
        prices = { input = "1" }"#,
    );
    input.aliases.insert("big".to_owned(), "acme/large".to_owned());
    assert_eq!(&*load(&input).unwrap().resolve("big").unwrap().id, "acme/large");
    input.aliases.insert("lost".to_owned(), "acme/none".to_owned());
    assert_eq!(load(&input).unwrap_err().path, "aliases.\"lost\"");
}
