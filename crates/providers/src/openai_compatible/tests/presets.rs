//! Tests that the table of presets is consistent and documented.

use std::collections::BTreeSet;

use serde_json::Value;
use tollgate_formats::embeddings;
use tollgate_formats::openai_chat::Field;
use tollgate_formats::openai_completions;

use crate::http::BaseUrl;
use crate::openai_compatible::{Key, LiveTranscriptionWire, PRESETS};

const PAGE: &str = include_str!("../../../../../docs/providers.md");

#[test]
fn every_preset_is_unique_complete_and_documented() {
    let mut names = BTreeSet::new();
    let mut ports = BTreeSet::new();
    for preset in PRESETS {
        let name = preset.name;
        assert!(names.insert(name), "{name} is there twice");
        assert!(
            !name.is_empty() && !preset.title.is_empty() && !preset.source.is_empty(),
            "{name}"
        );
        assert!(
            PAGE.contains(&format!("`{name}`")),
            "{name} is not in docs/providers.md"
        );
        for fact in [preset.base_url, preset.base_url_env, preset.key_env()]
            .into_iter()
            .flatten()
        {
            assert!(PAGE.contains(fact), "{name}: {fact} is not in docs/providers.md");
        }
        if let Some(base) = preset.base_url {
            let base = BaseUrl::parse(base).unwrap();
            assert!(base.has_path(), "{name}");
            assert_eq!(base.is_local(), preset.local_port.is_some(), "{name}");
            assert_eq!(base.is_secure(), matches!(preset.key, Key::Required(_)), "{name}");
        }
        if let Some(port) = preset.local_port {
            assert!(ports.insert(port), "{name}: two servers on one port");
            assert!(preset.base_url.unwrap().contains(&format!(":{port}/")), "{name}");
        }
    }
    assert_eq!(PRESETS.last().unwrap().name, "openai-compatible");
}

#[test]
fn preset_fields_match_the_documentation() {
    for preset in PRESETS {
        for field in preset.drops {
            assert!(
                Field::parse(field).is_some(),
                "{}: {field} is not of the format",
                preset.name
            );
        }
        let unique: BTreeSet<&&str> = preset.vendor_fields.iter().collect();
        assert_eq!(unique.len(), preset.vendor_fields.len(), "{}", preset.name);
        for field in preset.vendor_fields {
            assert!(
                Field::parse(field).is_none(),
                "{}: {field} is of the format",
                preset.name
            );
            let never = [
                "chat_template",
                "custom_logit_processor",
                "models",
                "search_parameters",
                "model",
            ];
            assert!(
                !never.contains(field),
                "{}: {field} must not be let through",
                preset.name
            );
        }
    }
}

#[test]
fn preset_completions_match_the_documentation() {
    let page = PAGE.split("### Completions").nth(1).unwrap();
    let page = page.split("\n### ").next().unwrap();
    let mut found = 0;
    for preset in PRESETS {
        let name = preset.name;
        let documented = page.lines().find(|line| line.contains(&format!("`{name}`")));
        let Some(row) = preset.completions else {
            assert_eq!(documented, None, "{name} is in the table of completions");
            continue;
        };
        found += 1;
        let line = documented.unwrap_or_default();
        let lacks = line.split('|').nth(2).unwrap_or_default();
        let expected: Vec<String> = row.lacks.iter().map(|field| format!("`{field}`")).collect();
        assert_eq!(lacks.trim(), expected.join(", "), "{name}");
        assert!(row.path.starts_with('/') && !row.source.is_empty(), "{name}");
        for field in row.lacks {
            assert!(
                openai_completions::Field::parse(field).is_some(),
                "{name}: {field} is not of the format"
            );
        }
        for field in preset.vendor_fields {
            assert_eq!(
                openai_completions::Field::parse(field),
                None,
                "{name}: {field} is of the format"
            );
        }
    }
    assert!(found >= 7);
}

#[test]
fn preset_embeddings_match_the_documentation() {
    let with = PRESETS.iter().filter(|preset| preset.embeddings.is_some());
    assert!(with.clone().count() >= 10);
    let page = PAGE.split("### Embeddings").nth(1).unwrap();
    let page = page.split("\n### ").next().unwrap();
    for preset in PRESETS {
        let name = preset.name;
        assert!(
            page.contains(&format!("`{name}`")),
            "{name} is not in the table of embeddings"
        );
        let Some(row) = preset.embeddings else {
            continue;
        };
        assert!(row.path.starts_with('/') && !row.source.is_empty(), "{name}");
        for field in row.drops {
            let known = embeddings::Field::parse(field);
            assert!(
                matches!(
                    known,
                    Some(embeddings::Field::User | embeddings::Field::EncodingFormat)
                ),
                "{name}: without {field} the vectors are others"
            );
        }
        for field in row.vendor_fields {
            assert_eq!(
                embeddings::Field::parse(field),
                None,
                "{name}: {field} is of the format"
            );
            assert!(
                page.contains(&format!("`{field}`")),
                "{name}: {field} is not documented"
            );
        }
    }
}

#[test]
fn preset_images_and_videos_match_the_documentation() {
    let page = PAGE.split("### Images and videos").nth(1).unwrap();
    let page = page.split("\n### ").next().unwrap();
    for preset in PRESETS {
        let name = preset.name;
        let line = page
            .lines()
            .find(|line| line.starts_with(&format!("| `{name}` |")));
        let cells: Vec<&str> = line.unwrap_or("||||||").split('|').map(str::trim).collect();
        let documents = |cell: usize, word: &str| cells[cell].contains(word);
        let images = preset.images;
        let videos = preset.videos;
        assert_eq!(line.is_some(), images.is_some() || videos.is_some(), "{name}");
        assert_eq!(documents(2, "/images/generations"), images.is_some(), "{name}");
        assert_eq!(
            documents(3, "/images/edits"),
            images.is_some_and(|row| row.edits.is_some()),
            "{name}"
        );
        let varies = images.is_some_and(|row| row.variations.is_some());
        assert_eq!(documents(3, "/images/variations"), varies, "{name}");
        assert_eq!(documents(4, "yes"), images.is_some_and(|row| row.masks), "{name}");
        assert_eq!(documents(5, "/videos"), videos.is_some(), "{name}");
        let takes = images.map_or(&[][..], |row| row.takes);
        for field in ["negative_prompt", "seed"] {
            assert_eq!(documents(6, "both"), takes.contains(&field), "{name}: {field}");
            assert!(
                videos.is_none_or(|row| row.takes.contains(&field) == takes.contains(&field)),
                "{name}"
            );
        }
        for field in takes {
            let known = ["quality", "output_format", "negative_prompt", "seed"];
            assert!(
                known.contains(field),
                "{name}: {field} is nothing that a call has"
            );
        }
        let sources = [images.map(|row| row.source), videos.map(|row| row.source)];
        assert!(
            sources.into_iter().flatten().all(|source| !source.is_empty()),
            "{name}"
        );
    }
}

/// Returns the cells of a preset's row in the section with this title.
fn documented(title: &str, name: &str) -> Option<Vec<&'static str>> {
    let page = PAGE.split(&format!("### {title}\n")).nth(1).unwrap();
    let page = page.split("\n### ").next().unwrap();
    let mut lines = page.lines();
    let line = lines.find(|line| line.starts_with(&format!("| `{name}` |")))?;
    Some(line.split('|').map(str::trim).collect())
}

#[test]
fn preset_live_transcription_matches_the_documentation() {
    let mut found = 0;
    for preset in PRESETS {
        let name = preset.name;
        let cells = documented("Live transcription", name);
        let Some(row) = preset.live_transcription else {
            assert_eq!(cells, None, "{name}");
            continue;
        };
        found += 1;
        let cells = cells.unwrap();
        let path = match row.query {
            "" => format!("`{}`", row.path),
            query => format!("`{}?{query}`", row.path),
        };
        assert!(cells[2].starts_with(&path), "{name}");
        let is_vllm = row.wire == LiveTranscriptionWire::Vllm;
        assert_eq!(cells[3].starts_with("vLLM's"), is_vllm, "{name}");
        let source = row.source.trim_matches('-');
        assert!(!row.source.is_empty() && cells[4].contains(source), "{name}");
    }
    assert_eq!(found, 4);
}

#[test]
fn preset_realtime_matches_the_documentation() {
    let mut found = 0;
    for preset in PRESETS {
        let name = preset.name;
        let cells = documented("Realtime conversations", name);
        let Some(row) = preset.realtime else {
            assert_eq!(cells, None, "{name}");
            continue;
        };
        found += 1;
        let cells = cells.unwrap();
        assert!(cells[2].starts_with(&format!("`{}`", row.path)), "{name}");
        assert_eq!(
            cells[3] == "by the model",
            row.max_output_tokens.is_none(),
            "{name}"
        );
        assert_eq!(cells[4] == "yes", row.has_outside_responses, "{name}");
        assert_eq!(cells[5] == "yes", row.has_editable_items, "{name}");
        let source = row.source.trim_matches('-');
        assert!(!row.source.is_empty() && cells[6].contains(source), "{name}");
        for field in row.takes {
            assert!(
                ["parallel_tool_calls", "temperature"].contains(field),
                "{name}: {field}"
            );
        }
    }
    assert_eq!(found, 4);
}

#[test]
fn preset_decisions_match_the_documentation() {
    let page = PAGE.split("### Decisions").nth(1).unwrap();
    let page = page.split("\n### ").next().unwrap();
    for preset in PRESETS {
        let (name, row) = (preset.name, preset.decisions);
        let line = page
            .lines()
            .find(|line| line.starts_with(&format!("| `{name}` |")));
        let cells: Vec<&str> = line.unwrap().split('|').map(str::trim).collect();
        let path = row.questions.map_or("", |questions| questions.path);
        assert_eq!(cells[2].is_empty(), path.is_empty(), "{name}");
        assert!(cells[2].contains(path), "{name}");
        assert_eq!(cells[3].is_empty(), row.server.is_none(), "{name}");
        let argmax = match row.top_logprobs {
            0 => String::new(),
            max => max.to_string(),
        };
        assert_eq!(cells[4], argmax, "{name}");
        assert_eq!(cells[5], row.max_answers.to_string(), "{name}");
        assert!(row.top_logprobs <= 20 && row.max_answers > 0, "{name}");
        assert!(!preset.needs_call_per_answer || row.max_answers == 1, "{name}");
        let source = row.source.trim_matches('-');
        assert!(!row.source.is_empty() && cells[6].contains(source), "{name}");
        for (member, value) in row.no_thinking_fields {
            assert!(serde_json::from_str::<Value>(value).is_ok(), "{name}: {member}");
        }
    }
}
