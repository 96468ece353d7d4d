//! Runs every fuzz target on every seed and on every input that once failed: `make fuzz` finds
//! more, and this test repeats its findings.

#![expect(
    unused_attributes,
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::type_complexity,
    reason = "targets are programs of their own elsewhere, and fail by panicking"
)]

extern crate self as tollgate_fuzz;

#[path = "../../fuzz/src/lib.rs"]
mod shared;

pub use shared::{tree, with_cost};

use std::fs;
use std::path::Path;

macro_rules! targets {
    ($($name:ident = $path:literal;)+) => {
        $(
            #[path = $path]
            mod $name;
        )+

        mod on_its_seeds {
            $(#[test]
            fn $name() {
                super::replay(stringify!($name), super::$name::run);
            })+
        }

        const NAMES: &[&str] = &[$(stringify!($name)),+];
    };
}

targets! {
    bedrock_response = "../../fuzz/fuzz_targets/bedrock_response.rs";
    chat_event = "../../fuzz/fuzz_targets/chat_event.rs";
    chat_request = "../../fuzz/fuzz_targets/chat_request.rs";
    chat_response = "../../fuzz/fuzz_targets/chat_response.rs";
    completions_request = "../../fuzz/fuzz_targets/completions_request.rs";
    credits = "../../fuzz/fuzz_targets/credits.rs";
    decisions = "../../fuzz/fuzz_targets/decisions.rs";
    embed_request = "../../fuzz/fuzz_targets/embed_request.rs";
    embed_response = "../../fuzz/fuzz_targets/embed_response.rs";
    gemini_live = "../../fuzz/fuzz_targets/gemini_live.rs";
    gemini_request = "../../fuzz/fuzz_targets/gemini_request.rs";
    gemini_response = "../../fuzz/fuzz_targets/gemini_response.rs";
    key = "../../fuzz/fuzz_targets/key.rs";
    messages_request = "../../fuzz/fuzz_targets/messages_request.rs";
    messages_response = "../../fuzz/fuzz_targets/messages_response.rs";
    realtime_event = "../../fuzz/fuzz_targets/realtime_event.rs";
    realtime_upstream_event = "../../fuzz/fuzz_targets/realtime_upstream_event.rs";
    responses_event = "../../fuzz/fuzz_targets/responses_event.rs";
    responses_request = "../../fuzz/fuzz_targets/responses_request.rs";
    responses_response = "../../fuzz/fuzz_targets/responses_response.rs";
    sse = "../../fuzz/fuzz_targets/sse.rs";
    usage = "../../fuzz/fuzz_targets/usage.rs";
}

fn replay(name: &str, run: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../fuzz/seeds")
        .join(name);
    let seeds = fs::read_dir(&folder).unwrap();
    let mut replayed = 0;
    for seed in seeds {
        let path = seed.unwrap().path();
        let input = fs::read(&path).unwrap();
        run(&input);
        // A stream or a body may end anywhere.
        for end in 0..input.len().min(400) {
            run(&input[..end]);
        }
        replayed += 1;
    }
    assert!(replayed > 0, "{} has no seeds", folder.display());
}

/// `make fuzz` builds the targets of its manifest, and no other test reads it.
#[test]
fn every_target_is_in_the_manifest() {
    let manifest = include_str!("../../fuzz/Cargo.toml")
        .parse::<toml::Table>()
        .unwrap();
    let bins = manifest["bin"].as_array().unwrap();
    let mut names: Vec<&str> = bins.iter().map(|bin| bin["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    assert_eq!(names, NAMES);
    for bin in bins {
        let path = format!("fuzz_targets/{}.rs", bin["name"].as_str().unwrap());
        assert_eq!(bin["path"].as_str(), Some(path.as_str()));
    }
}

#[test]
fn every_target_is_replayed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/fuzz_targets");
    for target in fs::read_dir(folder).unwrap() {
        let path = target.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        assert!(NAMES.contains(&name), "{name} is not in the list of this file");
    }
}
