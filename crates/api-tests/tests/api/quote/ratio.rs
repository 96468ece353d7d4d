//! Ratio of holds to charges over typical requests. Not part of the suite: `cargo nextest run -p
//! tollgate --test api --run-ignored only bench_ --no-capture`

use serde_json::{Value, json};
use tollgate_testkit::gateway::nanos;

use super::quoted;
use crate::scene::{CHAT, Scene, with};

/// A model with a published tokenizer and turn format, so that its input is counted exactly.
const MODEL: &str = "openai/gpt-4o";
const PROSE: &str = "The harbour lies on the lee side of the island, where the current that comes round the northern cape \
    loses most of its force. Ships of up to four metres draught can enter at any state of the tide; larger ones wait for the \
    hour before high water, and are met by the pilot two miles out. In winter the outer mole is often under spray.\n";
const GERMAN: &str = "Die Unterlagen müssen spätestens vierzehn Tage vor der Versammlung beim Vorstand eingegangen sein, \
    andernfalls entscheidet die Mehrheit der anwesenden Mitglieder darüber, ob der Antrag überhaupt behandelt wird.\n";
const JAPANESE: &str = "この港は島の風下側にあり、北の岬を回ってくる潮流はここで勢いのほとんどを失う。喫水四メートルまでの船は、\
    潮の満ち引きにかかわらず入港できる。\n";
const CODE: &str = "fn place_of(&mut self, index: u32) -> usize {\n    let known = self.choices.iter().position(|choice| \
    choice.index == index);\n    known.unwrap_or_else(|| {\n        self.choices.push(Spoken::default());\n        \
    self.choices.len() - 1\n    })\n}\n\n";
/// Answer lengths in percent of the usual length.
const LENGTHS: [i64; 5] = [25, 50, 100, 150, 200];

/// Returns the request, the usual output tokens, and the cap of callers that set one.
fn asked() -> Vec<(Value, i64, i64)> {
    let user = |text: String| json!([{"role": "user", "content": text}]);
    let under = |task: &str, text: String| json!([{"role": "system", "content": task}, {"role": "user", "content": text}]);
    let turns: Vec<Value> = (0..12)
        .map(|turn| {
            let (role, text) = if turn % 2 == 0 {
                (
                    "user",
                    "And what does a larger ship do when it arrives at low water?".to_owned(),
                )
            } else {
                ("assistant", PROSE.repeat(2))
            };
            json!({"role": role, "content": text})
        })
        .chain([json!({"role": "user", "content": "Why is that so?"})])
        .collect();
    vec![
        (
            user("Why is the sky blue, and why is it red in the evening?".to_owned()),
            250,
            1_024,
        ),
        (json!(turns), 300, 1_024),
        (
            under("Summarise the text in ten sentences.", PROSE.repeat(60)),
            400,
            1_000,
        ),
        (
            under(
                "Answer with a JSON object: place, depth, season.",
                PROSE.repeat(5),
            ),
            120,
            500,
        ),
        (under("Translate into English.", GERMAN.repeat(6)), 350, 2_000),
        (user(JAPANESE.repeat(3)), 300, 1_024),
        (under("Continue the code.", CODE.repeat(4)), 200, 512),
        (under("Review this code.", CODE.repeat(60)), 700, 4_096),
        (
            under("Is this about the sea? Answer yes or no.", PROSE.to_owned()),
            2,
            16,
        ),
        (
            under("Answer from these passages alone.", PROSE.repeat(14)),
            180,
            800,
        ),
    ]
}

#[tokio::test]
#[ignore = "a measurement"]
async fn bench_ratio_of_holds_to_charges() {
    let scene = Scene::start_with("[providers.openai]\napi_key_env = \"PROVIDER_KEY\"\n").await;
    for (name, is_capped) in [("caller's cap", true), ("no cap", false)] {
        let (mut full, mut lowest) = (Vec::new(), Vec::new());
        for (messages, usual, cap) in asked() {
            let body = json!({"model": MODEL, "messages": messages});
            let members = if is_capped {
                json!({"max_tokens": cap})
            } else {
                json!({})
            };
            let quote = quoted(&scene, CHAT, &with(body, members)).await;
            assert_eq!(quote["counting"], "exact", "{quote}");
            let price = |item: usize| nanos(&quote["items"][item]["price"]);
            let (input, hold) = (quote["input_tokens"].as_i64().unwrap(), nanos(&quote["most"]));
            // With a cap, credits are held for the whole cap. Without a cap, a hold for 1,024
            // tokens suffices.
            let cap_held = quote["output_cap"].as_i64().unwrap();
            let smallest = if is_capped { cap_held } else { cap_held.min(1_024) };
            for percent in LENGTHS {
                let output = (usual * percent / 100).clamp(1, cap);
                let charge = (input * price(0) + output * price(1)) / 1_000_000;
                assert!(charge <= hold, "{charge} of {quote}");
                full.push(hold as f64 / charge as f64);
                let bound = nanos(&quote["items"][0]["cost"]) + smallest * price(1) / 1_000_000;
                lowest.push(bound as f64 / charge as f64);
            }
        }
        for (what, mut ratios) in [("hold / charge", full), ("least balance / charge", lowest)] {
            ratios.sort_by(f64::total_cmp);
            let at = |percent: usize| ratios[(ratios.len() * percent).div_ceil(100) - 1];
            println!("{name:12} {what:24} p50 {:8.1}  p99 {:8.1}", at(50), at(99));
        }
    }
    scene.finish().await;
}
