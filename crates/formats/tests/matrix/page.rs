//! The page.

use std::fmt::Write;

use crate::cell;
use crate::client;
use crate::provider::Provider;
use crate::said::Feature;

const INTRODUCTION: &str = "\
# What is carried from one format to another

What becomes of each feature of a request, by the format that the caller speaks (the columns) and the one that the
model's provider speaks (the tables). This page is written by a test, which also proves what it says:
`crates/formats/tests/matrix`. [Formats](formats.md) has the rules behind it. What a provider or a model lacks beyond its
format is in [providers](providers.md) and in `GET /v1/models`. Completions are here as they reach a chat; providers that
have the endpoint get the caller's bytes.

| | |
|---|---|
| lossless | both speak the same format: the provider gets the caller's bytes |
| converted | the provider is told the same in its own format |
| converted, less `name` | the same, and named in `x-tollgate-ignored`, because not all of its places can be told |
| fetched | the gateway fetches what is at the address, or reads what was uploaded, and the provider gets the bytes |
| by the gateway | the provider is not told: the gateway [sees to the shape](formats.md#structured-output), or [keeps notes with the response](responses.md) |
| left out: `name` | no answer depends on it: it is left out, and named in `x-tollgate-ignored` |
| 400 `name`, 422 `name` | refused with this `param` before anything is held or sent |
| – | the caller's format has no way to say it |
";

/// The page, or everything that is wrong.
pub fn write(features: &[Feature]) -> Result<String, Vec<String>> {
    let mut page = INTRODUCTION.to_owned();
    let mut faults = Vec::new();
    for provider in Provider::ALL {
        let to = provider.format().map_or("Converse (Bedrock)", client::name);
        write!(page, "\n## To {to}\n\n| |").unwrap();
        for format in client::ALL {
            write!(page, " {} |", client::name(format)).unwrap();
        }
        page.push_str("\n|---|---|---|---|---|---|\n");
        for feature in features {
            let cells = client::ALL.map(|format| {
                cell::of(format, provider, feature).unwrap_or_else(|fault| {
                    faults.push(fault);
                    String::new()
                })
            });
            writeln!(page, "| {} | {} |", feature.name, cells.join(" | ")).unwrap();
        }
    }
    if faults.is_empty() { Ok(page) } else { Err(faults) }
}
