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
    let expensive = load(&with_model(
        r#"targets = ["local/x"]
        prices = { input = "1", output = "3" }"#,
    ))
    .unwrap();
    let version = |snapshot: &Snapshot| snapshot.resolve("acme/large").unwrap().price_version;
    assert_ne!(version(&cheap), version(&expensive));
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
fn an_output_cap_larger_than_the_context_window_is_refused() {
    let limited = |output: u64| {
        load(&with_model(&format!(
            "targets = [\"local/x\"]\nprices = {{ input = \"1\", output = \"2\" }}\n\
             limits = {{ context_window = 4096, max_output_tokens = {output} }}"
        )))
    };
    assert!(limited(4_096).is_ok());
    let error = limited(4_097).unwrap_err();
    assert_eq!(error.path, "models.\"acme/large\".limits");
    assert!(
        error.message.contains("(4097)") && error.message.contains("(4096)"),
        "{error}"
    );
}

fn found(name: &str, context_window: Option<u64>) -> Discovered {
    Discovered {
        name: name.to_owned(),
        context_window,
        ..Discovered::default()
    }
}

#[test]
fn targets_have_the_limits_that_their_providers_list() {
    let mut small = provider("small", "vllm");
    small.discovered = vec![Discovered {
        max_output_tokens: Some(2_048),
        input: Some(vec![Modality::Text]),
        ..found("m", Some(8_192))
    }];
    let mut large = provider("large", "vllm");
    large.discovered = vec![found("m", Some(32_768))];
    let text = || vec![Modality::Text];
    // Columns: targets, other settings of the block, context window, maximum output tokens, input.
    for (targets, more, window, output, input) in [
        (r#"["small/m"]"#, "", Some(8_192), Some(2_048), text()),
        (
            r#"["small/m", "large/m"]"#,
            "",
            Some(8_192),
            Some(2_048),
            ModelKind::Chat.takes(),
        ),
        (
            r#"["large/m", "large/other"]"#,
            "",
            Some(32_768),
            None,
            ModelKind::Chat.takes(),
        ),
        (r#"["large/other"]"#, "", None, None, ModelKind::Chat.takes()),
        (
            r#"["small/m"]"#,
            "limits = { context_window = 4096 }\ninput = [\"text\", \"image\"]",
            Some(4_096),
            Some(2_048),
            vec![Modality::Text, Modality::Image],
        ),
    ] {
        let block = format!("targets = {targets}\nprices = {{ input = \"1\" }}\n{more}");
        let models = BTreeMap::from([("acme/m".to_owned(), toml::from_str(&block).unwrap())]);
        let input_of = CatalogInput {
            providers: vec![small.clone(), large.clone()],
            models,
            ..CatalogInput::default()
        };
        let snapshot = load(&input_of).unwrap();
        let model = snapshot.resolve("acme/m").unwrap();
        assert_eq!(
            (model.context_window, model.max_output_tokens, &model.input),
            (window, output, &input),
            "{targets} {more}"
        );
    }
}

#[test]
fn discovered_models_need_a_price() {
    let mut local = provider("ollama", "ollama");
    local.discovered = vec![found("llama3:8b", Some(8192))];
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
        ("gpt-realtime", ModelKind::Realtime),
        ("gpt-realtime-mini-2025-10-06", ModelKind::Realtime),
        ("gpt-4o-mini-realtime-preview", ModelKind::Realtime),
        ("xai/grok-voice-think-fast-1.0", ModelKind::Realtime),
        ("gpt-realtime-whisper", ModelKind::Transcription),
        (
            "mistralai/Voxtral-Mini-4B-Realtime-2602",
            ModelKind::Transcription,
        ),
        ("voice-cloner", ModelKind::Chat),
        ("gemini-3.8-live", ModelKind::Realtime),
        ("lively-7b", ModelKind::Chat),
        ("pplx-decider-27b", ModelKind::Decision),
        ("house/decide", ModelKind::Decision),
        ("decidedly-chatty-7b", ModelKind::Chat),
        ("embarkation", ModelKind::Chat),
    ] {
        assert_eq!(ModelKind::of_name(name), kind, "{name}");
    }
}

#[test]
fn live_models_are_known_by_the_names_of_all_targets() {
    let ears = |rest: &str| {
        let block = format!("type = \"transcription\"\nprices = {{ audio = \"1\" }}\n{rest}");
        with_model(&block)
    };
    for (rest, live) in [
        ("targets = [\"local/gpt-live-transcribe\"]", true),
        ("targets = [\"local/Voxtral-Mini-4B-Realtime-2602\"]", true),
        (
            "targets = [\"local/gpt-live-transcribe\", \"local/whisper-1\"]",
            false,
        ),
        ("targets = [\"local/whisper-1\"]\nlive = true", true),
        ("targets = [\"local/gpt-live-transcribe\"]\nlive = false", false),
        ("targets = [\"local/lively-whisper\"]", false),
    ] {
        let snapshot = load(&ears(rest)).unwrap();
        let model = snapshot.resolve("acme/large").unwrap();
        assert_eq!(model.live, live, "{rest}");
    }
    let chat =
        with_model("targets = [\"local/a-live\"]\nprices = { input = \"1\", output = \"1\" }\nlive = true");
    let error = load(&chat).unwrap_err();
    assert_eq!(error.path, "models.\"acme/large\".live");
    assert!(error.message.contains("transcription"), "{}", error.message);
}

#[test]
fn type_is_inferred_from_the_name_unless_configured() {
    let mut local = provider("ollama", "ollama");
    local.default_price = Some(BTreeMap::from([("input".to_owned(), Credits::ZERO)]));
    local.discovered = vec![found("nomic-embed-text", None), found("llama3:8b", Some(8192))];
    let stated = [
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
    for (id, text) in stated {
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
fn embedding_models_state_their_dimensions() {
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
    openai.discovered = listed.map(|name| found(name, None)).to_vec();
    let priced = "prices = { input = \"1\" }\n";
    let stated = [
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
    let models = stated.map(|(id, text)| (id.to_owned(), entry(&format!("{priced}{text}"))));
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

#[test]
fn a_block_never_takes_over_the_bare_name_of_another_model() {
    let priced = "prices = { input = \"1\" }\n";
    let mut rack = provider("rack", "vllm");
    rack.default_price = Some(PricesEntry::from([("input".to_owned(), Credits::ZERO)]));
    rack.discovered = vec![found("tiny", None)];
    let openai = provider("openai", "openai");
    let sim = provider("sim", "sim");
    // Columns: the providers in order, blocks (id and target), a name, the id that it resolves to,
    // the other claimants.
    type Case<'a> = (
        &'a [&'a EnabledProvider],
        &'a [(&'a str, &'a str)],
        &'a str,
        &'a str,
        &'a [&'a str],
    );
    let cases: &[Case<'_>] = &[
        (
            &[&sim],
            &[("acme/dated", "sim/chat")],
            "chat",
            "sim/chat",
            &["acme/dated"],
        ),
        (&[&sim], &[("acme/dated", "sim/chat")], "dated", "acme/dated", &[]),
        (
            &[&openai, &sim],
            &[("acme/premium", "openai/gpt-4o-mini")],
            "gpt-4o-mini",
            "openai/gpt-4o-mini",
            &["acme/premium"],
        ),
        (
            &[&openai],
            &[("acme/gpt-4o-mini", "openai/gpt-4o-mini")],
            "gpt-4o-mini",
            "openai/gpt-4o-mini",
            &["acme/gpt-4o-mini"],
        ),
        (
            &[&rack, &sim],
            &[("acme/chat", "rack/other")],
            "chat",
            "sim/chat",
            &["acme/chat"],
        ),
        (
            &[&rack],
            &[("me/tiny", "rack/tiny")],
            "tiny",
            "rack/tiny",
            &["me/tiny"],
        ),
        // A block may name a model that the provider does not list; the model is then original.
        (
            &[&rack],
            &[("me/small", "rack/small"), ("rack/small", "rack/small")],
            "small",
            "rack/small",
            &["me/small"],
        ),
        // A name at a provider that is not the bare id of any model.
        (
            &[&rack],
            &[("me/b", "rack/x-1"), ("me/c", "rack/x-1")],
            "x-1",
            "me/b",
            &["me/c"],
        ),
        (
            &[&rack, &sim],
            &[("me/b", "sim/x-1"), ("you/c", "rack/x-1")],
            "x-1",
            "you/c",
            &["me/b"],
        ),
        (&[&rack], &[("me/b", "rack/x-1")], "x-1", "me/b", &[]),
        // With several blocks, the order of the providers applies, then the order of the ids.
        (
            &[&rack, &sim],
            &[("a/same", "sim/y"), ("b/same", "rack/y")],
            "same",
            "b/same",
            &["a/same"],
        ),
    ];
    for (providers, blocks, name, id, others) in cases {
        let blocks = blocks.iter().map(|(id, target)| {
            let text = format!("{priced}targets = [\"{target}\"]");
            ((*id).to_owned(), entry(&text))
        });
        let input = CatalogInput {
            providers: providers.iter().map(|provider| (*provider).clone()).collect(),
            models: blocks.collect(),
            ..CatalogInput::default()
        };
        let snapshot = load(&input).unwrap();
        assert_eq!(&*snapshot.resolve(name).unwrap().id, *id, "{name}");
        let collisions = snapshot.name_collisions().iter();
        let found: Vec<&str> = collisions
            .filter(|collision| *collision.name == **name)
            .flat_map(|collision| collision.others.iter().map(|id| &**id))
            .collect();
        assert_eq!(found, *others, "{name}");
    }
}

#[test]
fn aliases_and_ids_are_no_collisions() {
    let mut input = with_model("targets = [\"sim/chat\"]\nprices = { input = \"1\" }");
    input.aliases.insert("chat".to_owned(), "acme/large".to_owned());
    let snapshot = load(&input).unwrap();
    assert_eq!(&*snapshot.resolve("chat").unwrap().id, "acme/large");
    assert_eq!(snapshot.name_collisions(), []);
}

/// Returns the model `acme/own` that the blocks of one case define.
fn inherited(providers: &[EnabledProvider], blocks: &[(&str, &str)]) -> Model {
    let price = "prices = { input = \"1\", video = \"1\" }\n";
    let blocks = blocks
        .iter()
        .map(|(id, text)| ((*id).to_owned(), entry(&format!("{price}{text}"))));
    let input = CatalogInput {
        providers: providers.to_vec(),
        models: blocks.collect(),
        ..CatalogInput::default()
    };
    Model::clone(load(&input).unwrap().resolve("acme/own").unwrap())
}

#[test]
fn blocks_inherit_omitted_fields() {
    let mut rack = provider("rack", "vllm");
    rack.default_price = Some(PricesEntry::from([("input".to_owned(), Credits::ZERO)]));
    rack.discovered = vec![found("tiny", Some(8_192))];
    let providers = [rack, provider("openai", "openai"), provider("sim", "sim")];
    let own = |text: &str| inherited(&providers, &[("acme/own", text)]);
    let mini = Model::clone(
        load(&CatalogInput {
            providers: providers.to_vec(),
            ..CatalogInput::default()
        })
        .unwrap()
        .resolve("openai/gpt-4o-mini")
        .unwrap(),
    );

    let same = own("targets = [\"openai/gpt-4o-mini\"]");
    let facts = |model: &Model| {
        (
            (
                model.kind,
                model.context_window,
                model.max_output_tokens,
                model.tokenizer,
                model.framing,
            ),
            (
                model.input.clone(),
                model.structured_output,
                model.unknown,
                model.tools,
                model.reasoning,
            ),
        )
    };
    assert_eq!(facts(&same), facts(&mini));
    let other = own(
        "targets = [\"openai/gpt-4o-mini\"]\nlimits = { context_window = 10 }\ninput = [\"text\"]\ntools = false",
    );
    assert_eq!(
        (other.context_window, other.max_output_tokens),
        (Some(10), mini.max_output_tokens)
    );
    assert_eq!((&other.input[..], other.tools), (&[Modality::Text][..], false));
    assert_eq!(other.structured_output, mini.structured_output);

    // With two targets, the smaller limits and the abilities of both apply. A target with few known
    // properties claims no abilities.
    let both = own("targets = [\"openai/gpt-4o-mini\", \"rack/tiny\"]");
    assert_eq!(
        (both.context_window, both.max_output_tokens),
        (Some(8_192), mini.max_output_tokens)
    );
    assert_eq!(both.claimed_input(), [Modality::Text]);
    assert_eq!(both.claimed_structured_output(), StructuredOutput::None);
    assert_eq!(both.tokenizer, None);

    // A block with the name of its target describes that target.
    let described =
        "targets = [\"rack/new\"]\nlimits = { context_window = 77 }\ninput = [\"text\", \"image\"]";
    for id in ["rack/new", "zoo/new"] {
        let blocks = [(id, described), ("acme/own", "targets = [\"rack/new\"]")];
        let model = inherited(&providers, &blocks);
        let expected = (id == "rack/new").then_some(77);
        assert_eq!(model.context_window, expected, "{id}");
        assert_eq!(
            model.claimed_input().len(),
            if id == "rack/new" { 2 } else { 1 },
            "{id}"
        );
    }

    // A model with an unknown target claims no abilities, but accepts requests that use them.
    let unknown = own("targets = [\"rack/else\"]");
    assert_eq!(unknown.claimed_input(), [Modality::Text]);
    assert_eq!(unknown.claimed_structured_output(), StructuredOutput::None);
    assert!(unknown.takes(Modality::Image) && unknown.structured_output == StructuredOutput::JsonSchema);
    let stated =
        own("targets = [\"rack/else\"]\ninput = [\"text\", \"image\"]\nstructured_output = \"json_schema\"");
    assert_eq!(stated.claimed_input(), [Modality::Text, Modality::Image]);
    assert_eq!(stated.claimed_structured_output(), StructuredOutput::JsonSchema);
    assert!(!stated.takes(Modality::Audio));
}

#[test]
fn media_tables_are_inherited_field_by_field() {
    let second = "type = \"video\"\ntargets = [\"rack/video\"]\nmedia = { resolutions = [\"720p\", \"480p\"], modes = [\"t2v\", \"i2v\"], \
                  max_references = 9, max_reference_resolution = \"720p\", audio = false }";
    let providers = [provider("rack", "vllm"), provider("sim", "sim")];
    let media = |text: &str| {
        let blocks = [("rack/video", second), ("acme/own", text)];
        let model = inherited(&providers, &blocks);
        assert_eq!(model.kind, ModelKind::Video, "{text}");
        model.media.entry.clone()
    };
    let simulated = media("targets = [\"sim/video\"]");
    assert_eq!(simulated.modes, ["t2v", "i2v", "r2v"]);
    assert_eq!(
        (simulated.max_references, simulated.durations.len()),
        (Some(4), 8)
    );
    assert_eq!(simulated.factors, BTreeMap::new(), "factors are prices");

    let own = media(
        "targets = [\"sim/video\"]\nmedia = { resolutions = [\"480p\"], factors = { \"480p\" = \"3\" } }",
    );
    assert_eq!(
        (&own.resolutions[..], &own.modes),
        (&["480p".to_owned()][..], &simulated.modes)
    );
    assert_eq!(own.factors.len(), 1);

    let both = media("targets = [\"sim/video\", \"rack/video\"]");
    assert_eq!(both.resolutions, ["480p", "720p"]);
    assert_eq!(both.modes, ["t2v", "i2v"]);
    assert_eq!(
        (both.max_references, both.max_reference_resolution.as_deref()),
        (Some(4), Some("480p"))
    );
    assert_eq!((both.audio, both.negative_prompts), (Some(false), None));
    assert_eq!(both.durations, simulated.durations, "only one of them says it");

    let unknown = media("type = \"video\"\ntargets = [\"rack/unknown\"]");
    assert_eq!(unknown, MediaEntry::default());
}

#[test]
fn research_models_have_their_roles() {
    let with = |research: &str, text: &str| CatalogInput {
        providers: vec![provider("tollgate", "tollgate"), provider("sim", "sim")],
        models: BTreeMap::from([("acme/deep".to_owned(), entry(text))]),
        research: toml::from_str(research).unwrap(),
        ..CatalogInput::default()
    };
    let snapshot = load(&with(
        "writer = \"sim/chat\"",
        "research = { reader = \"sim/echo\" }",
    ))
    .unwrap();
    let model = snapshot.resolve("acme/deep").unwrap();
    let roles = model.research.as_ref().unwrap();
    assert_eq!((model.kind, model.simulated), (ModelKind::Research, false));
    assert_eq!((&*roles.writer, &*roles.reader), ("sim/chat", "sim/echo"));
    assert_eq!(model.media.entry.modes.len(), 4);
    assert!(snapshot.resolve("tollgate/research").unwrap().research.is_some());
    for (text, path) in [
        ("research = {}", "models.\"acme/deep\".research"),
        (
            "research = { writer = \"sim/chat\" }\ntargets = [\"sim/chat\"]",
            "models.\"acme/deep\".targets",
        ),
        (
            "research = { writer = \"sim/chat\" }\nprices = { input = \"1\" }",
            "models.\"acme/deep\".prices",
        ),
        (
            "research = { writer = \"sim/chat\" }\ntype = \"chat\"",
            "models.\"acme/deep\".type",
        ),
    ] {
        assert_eq!(load(&with("", text)).unwrap_err().path, path, "{text}");
    }
    let mut without_sources = with("writer = \"sim/chat\"", "research = {}");
    without_sources.providers.remove(0);
    assert_eq!(
        load(&without_sources).unwrap_err().path,
        "models.\"acme/deep\".research"
    );
    without_sources.models.clear();
    assert!(
        load(&without_sources)
            .unwrap()
            .resolve("tollgate/research")
            .is_none()
    );
}

#[test]
fn research_models_of_providers_have_limits() {
    let with = |text: &str| CatalogInput {
        providers: vec![provider("openai", "openai"), provider("own", "openai")],
        models: BTreeMap::from([("acme/reports".to_owned(), entry(text))]),
        ..CatalogInput::default()
    };
    let limits = |id: &str, text: &str| {
        let snapshot = load(&with(text)).unwrap();
        snapshot.resolve(id).unwrap().report
    };
    let report = |max_input, max_output, max_searches| {
        Some(ReportLimits {
            max_input,
            max_output,
            max_searches,
        })
    };
    let prices = "prices = { input = \"1\", output = \"2\", search = \"0.01\" }\n";
    let inherited = format!("targets = [\"openai/o3-deep-research\"]\n{prices}");
    assert_eq!(
        limits("openai/o3-deep-research", &inherited),
        report(500_000, 100_000, 100)
    );
    assert_eq!(limits("acme/reports", &inherited), report(500_000, 100_000, 100));
    let changed = format!("{inherited}limits = {{ max_input = 7 }}");
    assert_eq!(limits("acme/reports", &changed), report(7, 100_000, 100));
    let own = format!("type = \"research\"\ntargets = [\"own/new-model\"]\n{prices}");
    let complete = format!("{own}limits = {{ max_input = 1, max_output = 2, max_searches = 3 }}");
    assert_eq!(limits("acme/reports", &complete), report(1, 2, 3));
    for (text, path) in [
        (own.clone(), "models.\"acme/reports\".limits"),
        (
            format!("{own}limits = {{ max_input = 1, max_output = 0, max_searches = 3 }}"),
            "models.\"acme/reports\".limits",
        ),
        (
            format!("targets = [\"own/chat\"]\n{prices}limits = {{ max_searches = 3 }}"),
            "models.\"acme/reports\".limits.max_searches",
        ),
    ] {
        assert_eq!(load(&with(&text)).unwrap_err().path, path, "{text}");
    }
}
