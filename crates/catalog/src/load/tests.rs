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
        ..CatalogInput::default()
    }
}

#[test]
fn a_model_knows_the_plans_that_do_not_cover_it() {
    let plans = [("lite", "acme/*"), ("pro", "*"), ("sims", "sim/*")];
    let plans = plans.map(|(name, pattern)| (name.to_owned(), vec![pattern.to_owned()]));
    let input = CatalogInput {
        plans: plans.into(),
        ..with_model("targets = [\"local/large-v2\"]\nprices = { input = \"1\" }")
    };
    let snapshot = load(&input).unwrap();
    for (name, expected) in [("acme/large", "sims"), ("large-v2", "sims"), ("sim/chat", "lite")] {
        let model = snapshot.resolve(name).unwrap();
        assert_eq!(*model.not_covered_by, [Arc::from(expected)], "{name}");
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

#[test]
fn kinds_are_known_by_names() {
    for name in [
        "nomic-embed-text:latest",
        "text-embedding-nomic-embed-text-v1.5",
        "BAAI/bge-m3",
        "intfloat/multilingual-e5-large",
        "all-minilm:33m",
        "Qwen/Qwen3-Embedding-8B",
        "thenlper/gte-base",
        "snowflake-arctic-embed2",
    ] {
        assert_eq!(ModelKind::of_name(name), ModelKind::Embedding, "{name}");
    }
    for name in [
        "llama3:8b",
        "gpt-oss-20b",
        "embed/llama3",
        "gemma3n-e5",
        "mistral-7b-instruct",
        "",
    ] {
        assert_eq!(ModelKind::of_name(name), ModelKind::Chat, "{name}");
    }
    for (name, kind) in [
        ("tts-1-hd", ModelKind::Speech),
        ("gpt-4o-mini-tts", ModelKind::Speech),
        ("hexgrad/Kokoro-82M", ModelKind::Speech),
        ("whisper-large-v3-turbo", ModelKind::Transcription),
        ("gpt-4o-transcribe", ModelKind::Transcription),
        ("pplx-decider-27b", ModelKind::Decision),
        ("house/decide", ModelKind::Decision),
        ("decidedly-chatty-7b", ModelKind::Chat),
        ("embarkation", ModelKind::Chat),
    ] {
        assert_eq!(ModelKind::of_name(name), kind, "{name}");
    }
}

#[test]
fn the_type_follows_from_the_name_until_settings_say_it() {
    let mut local = provider("ollama", "ollama");
    local.default_price = Some(BTreeMap::from([("input".to_owned(), Credits::ZERO)]));
    local.discovered = vec![
        ("nomic-embed-text".to_owned(), None),
        ("llama3:8b".to_owned(), Some(8192)),
    ];
    let said = [
        ("ollama/llama3:8b", r#"type = "embedding""#),
        (
            "acme/vectors",
            "type = \"embedding\"\ntargets = [\"ollama/x\"]\nlimits = { dimensions = 8 }",
        ),
        ("acme/words", "targets = [\"ollama/some-embed\"]"),
    ];
    let mut input = CatalogInput {
        providers: vec![local],
        ..CatalogInput::default()
    };
    let kinds = |input: &CatalogInput| -> Vec<(String, ModelKind)> {
        let snapshot = load(input).unwrap();
        let models = snapshot.models().iter();
        models.map(|model| (model.id.to_string(), model.kind)).collect()
    };
    let expected = [
        ("ollama/llama3:8b", ModelKind::Chat),
        ("ollama/nomic-embed-text", ModelKind::Embedding),
    ];
    assert_eq!(kinds(&input), expected.map(|(id, kind)| (id.to_owned(), kind)));
    for (id, text) in said {
        input.models.insert(id.to_owned(), entry(text));
    }
    let snapshot = load(&input).unwrap();
    for id in ["ollama/llama3:8b", "acme/vectors"] {
        let model = snapshot.resolve(id).unwrap();
        assert_eq!((model.kind, model.tools), (ModelKind::Embedding, false), "{id}");
        assert_eq!(
            (&model.input[..], &model.output[..]),
            (&[Modality::Text][..], &[][..]),
            "{id}"
        );
    }
    assert_eq!(snapshot.resolve("acme/vectors").unwrap().dimensions, Some(8));
    assert_eq!(snapshot.resolve("acme/words").unwrap().kind, ModelKind::Chat);
}

#[test]
fn embedding_models_of_the_catalog_say_how_long_their_vectors_are() {
    let rows = builtin::models().unwrap();
    let vectors = rows.iter().filter(|row| row.kind == ModelKind::Embedding);
    assert!(vectors.clone().count() >= 8);
    for row in vectors {
        assert!(
            row.dimensions.is_some_and(|dimensions| dimensions > 0),
            "{}",
            row.id
        );
        assert!(
            row.output.is_empty() && row.max_output_tokens.is_none(),
            "{}",
            row.id
        );
        let prices = row
            .prices
            .as_ref()
            .map(|prices| prices.keys().collect::<Vec<_>>());
        assert!(prices.is_none_or(|prices| prices == ["input"]), "{}", row.id);
    }
    assert!(
        rows.iter()
            .all(|row| row.kind == ModelKind::Embedding || row.dimensions.is_none())
    );
}

#[test]
fn versions_of_a_model_have_its_tokens() {
    let o200k = Some(Tokenizer::O200kBase);
    let chatml = Some(Framing::Chatml);
    let mut openai = provider("mine", "openai");
    openai.default_price = Some(PricesEntry::from([("input".to_owned(), Credits::ZERO)]));
    let listed = ["gpt-4o-2024-11-20", "gpt-4o-audio", "gpt-50", "llama-9"];
    openai.discovered = listed.map(|name| (name.to_owned(), None)).to_vec();
    let priced = "prices = { input = \"1\" }\n";
    let said = [
        (
            "acme/tuned",
            "targets = [\"mine/ft:gpt-4o-mini-2024-07-18:acme::x1\"]",
        ),
        ("acme/renamed", "targets = [\"mine/gpt-5\"]"),
        (
            "acme/mixed",
            "targets = [\"mine/gpt-4o\", \"mine/text-embedding-3-small\"]",
        ),
        ("openai/gpt-4.1", "targets = [\"mine/gpt-4.1\", \"local/x\"]"),
        ("openai/o3", "display_name = \"Ours\""),
        ("acme/elsewhere", "targets = [\"local/gpt-4o\"]"),
        (
            "acme/own",
            "targets = [\"local/x\"]\ntokenizer = \"cl100k_base\"\nframing = \"chatml\"",
        ),
        (
            "acme/other",
            "targets = [\"mine/gpt-4o\"]\ntokenizer = \"cl100k_base\"",
        ),
    ];
    let models = said.map(|(id, text)| (id.to_owned(), entry(&format!("{priced}{text}"))));
    let input = CatalogInput {
        providers: vec![openai, provider("local", "vllm")],
        models: BTreeMap::from(models),
        aliases: BTreeMap::from([("house".to_owned(), "acme/tuned".to_owned())]),
        plans: BTreeMap::new(),
        ..CatalogInput::default()
    };
    let snapshot = load(&input).unwrap();
    for (name, tokenizer, framing) in [
        ("openai/gpt-4o", o200k, chatml),
        ("openai/gpt-5", o200k, None),
        ("openai/gpt-6-sol", None, None),
        ("openai/text-embedding-3-small", Some(Tokenizer::Cl100kBase), None),
        ("mine/gpt-4o-2024-11-20", o200k, chatml),
        ("mine/gpt-4o-audio", None, None),
        ("mine/gpt-50", None, None),
        ("mine/llama-9", None, None),
        ("acme/tuned", o200k, chatml),
        ("house", o200k, chatml),
        ("acme/renamed", o200k, None),
        ("acme/mixed", None, None),
        ("openai/gpt-4.1", None, None),
        ("openai/o3", o200k, None),
        ("acme/elsewhere", None, None),
        ("acme/own", Some(Tokenizer::Cl100kBase), chatml),
        ("acme/other", Some(Tokenizer::Cl100kBase), None),
    ] {
        let model = snapshot.resolve(name).unwrap();
        assert_eq!((model.tokenizer, model.framing), (tokenizer, framing), "{name}");
    }
}

#[test]
fn only_known_tokenizers_can_be_named() {
    for text in [
        "tokenizer = \"p50k_base\"",
        "tokenizer = \"\"",
        "framing = \"own\"",
    ] {
        assert!(toml::from_str::<ModelEntry>(text).is_err(), "{text}");
    }
}
