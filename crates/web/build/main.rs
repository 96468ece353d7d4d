//! Compiles `web/` into the files of the console, and generates the table that `src/lib.rs`
//! includes. Needs neither Node nor a network.

#![expect(
    clippy::print_stdout,
    reason = "cargo reads instructions from the standard output"
)]

mod chunk;
mod files;
mod module;
mod styles;

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::Context;

use chunk::Bundle;
use files::Files;

/// Folder of the sources, from the folder of this crate.
const WEB: &str = "../../web";

/// The pages of the console.
const PAGES: &[Page] = &[
    Page {
        name: "account",
        entry: "src/account.tsx",
        first_screens: &["sign-in", "overview"],
    },
    Page {
        name: "operator",
        entry: "src/operator.tsx",
        first_screens: &["operator-sign-in", "operator-overview"],
    },
];

struct Page {
    /// Value of `data-console`; the entry is a chunk of this name.
    name: &'static str,
    /// Path of the entry module, from `web/`.
    entry: &'static str,
    /// Screens that the page can show first. Browsers load them together with the entry.
    first_screens: &'static [&'static str],
}

fn main() -> anyhow::Result<()> {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join(WEB);
    for input in ["shell.html", "icon.svg", "src", "styles", "vendor"] {
        println!("cargo:rerun-if-changed={}", web.join(input).display());
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").context("OUT_DIR is not set")?);
    let mut files = Files::new(out);

    let head = module::compile_script(&web, "src/head.ts")?;
    let head = files.add_hashed("head", "js", head.as_bytes())?;
    let styles = files.add_hashed("console", "css", styles::bundle(&web.join("styles"))?.as_bytes())?;
    let icon = files.add_hashed("icon", "svg", &read(&web.join("icon.svg"))?)?;

    let entries: Vec<&str> = PAGES.iter().map(|page| page.entry).collect();
    let bundle = Bundle::read(&web, &entries)?;
    let urls = bundle.write(&mut files)?;

    let template = String::from_utf8(read(&web.join("shell.html"))?).context("shell.html is not UTF-8")?;
    for page in PAGES {
        let mut preloads = String::new();
        let first = page.first_screens.iter().chain([&page.name]);
        for chunk in bundle.with_static_imports(first.copied())? {
            let url = urls
                .get(&chunk)
                .with_context(|| format!("unknown chunk `{chunk}`"))?;
            preloads.push_str(&format!("<link rel=\"modulepreload\" href=\"{url}\">"));
        }
        let html = template
            .replace("{{console}}", page.name)
            .replace("{{head}}", &head)
            .replace("{{styles}}", &styles)
            .replace("{{icon}}", &icon)
            .replace("{{preloads}}", &preloads)
            .replace("{{entry}}", &urls[page.name]);
        files.add_page(page.name, &html)?;
    }
    files.write_table()
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("reading {}", path.display()))
}
