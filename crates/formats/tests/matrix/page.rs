//! Markdown page of the matrix.

use std::fmt::Write;

use crate::cell;
use crate::client;
use crate::features::Feature;
use crate::provider::Provider;

const INTRODUCTION: &str = "\
# Format matrix

How each feature of a request is converted, by the caller's format (columns) and the provider's
format (tables). A test generates this page and proves each cell: `crates/formats/tests/matrix`.
[Formats](formats.md) has the rules. Limits of a provider or a model beyond its format are in
[providers](providers.md) and in `GET /v1/models`. The completions column shows a completion that a
chat model answers; providers with a completions endpoint receive the caller's bytes.

| | |
|---|---|
| lossless | both formats are the same: the provider receives the caller's bytes |
| converted | the provider receives the same in its format |
| converted, less `name` | converted; `x-tollgate-ignored` names the field, because the format cannot express all of its values |
| fetched | the gateway fetches the URL or reads the uploaded file, and the provider receives the bytes |
| by the gateway | the provider does not receive the feature: the gateway [enforces the structure](formats.md#structured-output) or [stores the response](responses.md) |
| left out: `name` | no answer depends on the field; it is removed and named in `x-tollgate-ignored` |
| 400 `name`, 422 `name` | refused with this `param` before any hold or request |
| – | the caller's format cannot express the feature |
";

/// Returns the page, or the list of all wrong conversions.
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
