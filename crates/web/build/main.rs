//! Compiles `web/` into the files of the console, and generates the table that `src/lib.rs`
//! includes. Needs neither Node nor a network.

#![expect(
    clippy::print_stdout,
    reason = "cargo reads instructions from the standard output"
)]

mod chunk;
mod documents;
mod files;
mod module;
mod styles;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::Context;

use chunk::Bundle;
use files::Files;

/// Folder of the sources, from the folder of this crate.
const WEB: &str = "../../web";

/// The pages of the consoles, and of the API references.
const PAGES: &[Page] = &[
    Page {
        name: "account",
        console: "account",
        base: "/console",
        entry: "account",
        prefix: "",
        first_screens: &["sign-in", "overview"],
    },
    Page {
        name: "operator",
        console: "operator",
        base: "/console",
        entry: "operator",
        prefix: "operator-",
        first_screens: &["operator-sign-in", "operator-overview"],
    },
    Page {
        name: "reference",
        console: "account",
        base: "/docs",
        entry: "documentation",
        prefix: "",
        first_screens: &["reference"],
    },
    Page {
        name: "operator_reference",
        console: "operator",
        base: "/admin/docs",
        entry: "documentation",
        prefix: "",
        first_screens: &["reference"],
    },
];

/// Scripts in separate files, because browsers load them into another thread: the name of each, and
/// its source.
const WORKLETS: &[(&str, &str)] = &[("voice-worklet", "src/screens/playground/voice-worklet.ts")];

struct Page {
    /// Name of the page in `src/lib.rs`.
    name: &'static str,
    /// Value of `data-console`: whose sessions the page uses.
    console: &'static str,
    /// Path on the server; the page routes all paths below it.
    base: &'static str,
    /// Name of the entry module, which is in `web/src`, and of its chunk.
    entry: &'static str,
    /// Start of the names of the page's screens. The rest of a name is a path below `base`.
    prefix: &'static str,
    /// Screens that the page can show at paths that name none.
    first_screens: &'static [&'static str],
}

fn main() -> anyhow::Result<()> {
    let web = Path::new(env!("CARGO_MANIFEST_DIR")).join(WEB);
    let root = web.join("..");
    for input in ["shell.html", "icon.svg", "src", "styles", "vendor"] {
        println!("cargo:rerun-if-changed={}", web.join(input).display());
    }
    for input in [documents::FOLDER, documents::SAMPLES] {
        println!("cargo:rerun-if-changed={}", root.join(input).display());
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").context("OUT_DIR is not set")?);
    let mut files = Files::new(out);

    let head = module::compile_script(&web, "src/head.ts")?;
    let head = files.add_hashed("head", "js", head.as_bytes())?;
    let styles = files.add_hashed("console", "css", styles::bundle(&web.join("styles"))?.as_bytes())?;
    let icon = files.add_hashed("icon", "svg", &read(&web.join("icon.svg"))?)?;

    let entries: BTreeSet<String> = PAGES
        .iter()
        .map(|page| format!("src/{}.tsx", page.entry))
        .collect();
    let bundle = Bundle::read(&web, entries.iter().map(String::as_str))?;
    let mut worklets = BTreeMap::new();
    for (name, path) in WORKLETS {
        let code = module::compile_script(&web, path)?;
        worklets.insert(*name, files.add_hashed(name, "js", code.as_bytes())?);
    }
    let urls = bundle.write(&mut files, &worklets)?;

    let template = String::from_utf8(read(&web.join("shell.html"))?).context("shell.html is not UTF-8")?;
    for page in PAGES {
        let first = bundle.with_static_imports([page.entry].into_iter())?;
        let mut preloads = String::new();
        for chunk in &first {
            preloads.push_str(&format!("<link rel=\"modulepreload\" href=\"{}\">", urls[chunk]));
        }
        // Browsers load the files of the requested screen together with those of the entry.
        let mut add_preload = |path: &str, screens: &[&str]| -> anyhow::Result<()> {
            let links: Vec<String> = bundle
                .with_static_imports(screens.iter().copied())?
                .difference(&first)
                .map(|chunk| format!("<{}>; rel=modulepreload", urls[chunk]))
                .collect();
            files.add_preload(page.name, path, &links.join(", "));
            Ok(())
        };
        add_preload("", page.first_screens)?;
        for screen in bundle.screens_of(page.entry)? {
            if let Some(path) = screen.strip_prefix(page.prefix) {
                add_preload(path, &[screen])?;
            }
        }
        let html = template
            .replace("{{console}}", page.console)
            .replace("{{base}}", page.base)
            .replace("{{head}}", &head)
            .replace("{{styles}}", &styles)
            .replace("{{icon}}", &icon)
            .replace("{{preloads}}", &preloads)
            .replace("{{entry}}", &urls[page.entry]);
        files.add_page(page.name, page.base, &html)?;
    }
    documents::add_all(&root, &mut files)?;
    files.write_table()
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("reading {}", path.display()))
}
