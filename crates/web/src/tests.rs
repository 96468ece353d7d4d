//! The embedded files: names, links between them, sizes, and the vendored sources.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::{Asset, Console, asset, assets, compress, decompress, document, documents, preload, shell};
use sha2::{Digest, Sha256};

const CONSOLES: [Console; 4] = [
    Console::Account,
    Console::Operator,
    Console::Reference,
    Console::OperatorReference,
];

/// Limits of the first load, compressed: bytes of scripts, bytes of styles, number of scripts.
const MAX_SCRIPT_BYTES: usize = 60 * 1024;
const MAX_STYLE_BYTES: usize = 20 * 1024;
const MAX_SCRIPTS: usize = 25;

/// Limit of all scripts together, compressed.
const MAX_ALL_SCRIPT_BYTES: usize = 350 * 1024;

/// Limit of all documents together, compressed.
const MAX_DOCUMENT_BYTES: usize = 250 * 1024;

fn text(asset: &Asset) -> &'static str {
    let content = decompress(asset.gzip).expect("the file is compressed");
    String::from_utf8(content).expect("the file is UTF-8").leak()
}

fn is_script(asset: &Asset) -> bool {
    asset.content_type.starts_with("text/javascript")
}

/// Returns the paths of the assets that a file names.
fn paths_in(asset: &Asset) -> BTreeSet<&'static str> {
    let parts = text(asset).split("/console/assets/").skip(1);
    parts
        .map(|part| {
            let end = part.find(['"', '\'', '`', ')']).expect("the path ends");
            let name = &part[..end];
            assets()
                .iter()
                .map(|asset| asset.path)
                .find(|path| path.ends_with(&format!("/{name}")))
                .unwrap_or_else(|| panic!("{} names the unknown asset {name}", asset.path))
        })
        .collect()
}

fn hash(bytes: &[u8]) -> String {
    let mut out = String::new();
    for byte in Sha256::digest(bytes) {
        write!(out, "{byte:02x}").expect("writing to a string");
    }
    out
}

#[test]
fn every_name_contains_the_hash_of_the_content() {
    for asset in assets() {
        let hash = &hash(text(asset).as_bytes())[..12];
        assert!(asset.path.contains(&format!("-{hash}.")), "{}", asset.path);
        assert_eq!(asset.etag, format!("\"{hash}\""));
        assert!(asset.is_immutable);
        assert!(std::ptr::eq(existing(asset.path), asset));
    }
    for console in CONSOLES {
        assert!(!shell(console).is_immutable);
    }
    assert!(asset("/console/assets/main.js").is_none());
}

fn existing(path: &str) -> &'static Asset {
    asset(path).expect("the asset exists")
}

#[test]
fn imports_name_files_that_exist() {
    for script in assets().iter().filter(|asset| is_script(asset)) {
        let code = text(script);
        for pending in [
            "tollgate-chunk:",
            "tollgate-worklet:",
            "from\"preact",
            "from\"@preact",
            "from\"./",
            "import(`./",
        ] {
            assert!(!code.contains(pending), "{}: {pending}", script.path);
        }
        paths_in(script);
    }
}

#[test]
fn pages_reach_every_file() {
    let mut reached = BTreeSet::new();
    for console in CONSOLES {
        let mut open = paths_in(shell(console));
        while let Some(path) = open.pop_first() {
            if reached.insert(path) {
                open.extend(paths_in(existing(path)));
            }
        }
    }
    let all: BTreeSet<&str> = assets().iter().map(|asset| asset.path).collect();
    assert_eq!(reached, all);
}

/// Returns the files that the `link` header at a path names.
fn preloaded(console: Console, path: &str) -> Vec<&'static Asset> {
    let links = preload(console, path).split(", ");
    links
        .map(|link| {
            let path = link
                .strip_prefix('<')
                .and_then(|link| link.split_once(">; rel=modulepreload"));
            existing(path.expect(link).0)
        })
        .collect()
}

#[test]
fn pages_preload_the_requested_screen() {
    let named = |console, path, chunk: &str| {
        let files = preloaded(console, path);
        files.iter().any(|file| file.path.contains(&format!("/{chunk}-")))
    };
    for (path, screen, other) in [
        ("/console", "overview", "usage"),
        ("/console/", "sign-in", "usage"),
        ("/console/usage", "usage", "overview"),
        ("/console/calls/hold_1", "calls", "overview"),
        ("/console/sign-in", "sign-in", "overview"),
    ] {
        assert!(named(Console::Account, path, screen), "{path}");
        assert!(!named(Console::Account, path, other), "{path}");
        // The page itself names the chunks of its entry.
        assert!(!named(Console::Account, path, "main"), "{path}");
    }
    assert!(named(
        Console::Operator,
        "/console/audit-log",
        "operator-audit-log"
    ));
    assert!(named(Console::Reference, "/docs", "reference"));
    assert!(named(Console::OperatorReference, "/admin/docs", "reference"));
}

#[test]
fn pages_state_their_console() {
    for (console, name, base) in [
        (Console::Account, "account", "/console"),
        (Console::Operator, "operator", "/console"),
        (Console::Reference, "account", "/docs"),
        (Console::OperatorReference, "operator", "/admin/docs"),
    ] {
        let html = text(shell(console));
        assert!(html.contains(&format!("data-console=\"{name}\" data-base=\"{base}\"")));
        assert_eq!(shell(console).path, base);
        assert!(!html.contains("{{"), "{html}");
        assert!(!html.contains("<style") && !html.contains("style="), "{html}");
        assert!(html.matches("<script").count() == html.matches("<script src=").count() + 1);
    }
}

/// The content security policy forbids these, and the page works offline from other hosts.
#[test]
fn files_name_no_other_host_and_no_dangerous_sink() {
    for asset in assets().iter().chain(CONSOLES.map(shell)) {
        let content = text(asset)
            .replace("http://www.w3.org/", "")
            // The vendored parser of Markdown names its website in a message, and completes links.
            .replace("https://github.com/markedjs/marked.", "")
            .replace("`http://`", "");
        for forbidden in ["http://", "https://", "eval(", "new Function", "document.write"] {
            assert!(!content.contains(forbidden), "{}: {forbidden}", asset.path);
        }
    }
}

#[test]
fn the_first_load_is_small() {
    for console in CONSOLES {
        let mut first: Vec<&Asset> = paths_in(shell(console)).into_iter().map(existing).collect();
        first.extend(preloaded(console, shell(console).path));
        let size = |wanted: &dyn Fn(&Asset) -> bool| -> usize {
            first
                .iter()
                .filter(|asset| wanted(asset))
                .map(|asset| asset.gzip.len())
                .sum()
        };
        let scripts = first.iter().filter(|asset| is_script(asset)).count();
        let script_bytes = size(&is_script);
        let style_bytes = size(&|asset| asset.content_type.starts_with("text/css"));
        println!("{console:?}: {scripts} scripts, {script_bytes} bytes; styles {style_bytes} bytes");
        assert!(script_bytes <= MAX_SCRIPT_BYTES, "{script_bytes}");
        assert!(style_bytes <= MAX_STYLE_BYTES, "{style_bytes}");
        assert!(scripts <= MAX_SCRIPTS, "{scripts}");
    }
    let all: usize = assets()
        .iter()
        .filter(|asset| is_script(asset))
        .map(|asset| asset.gzip.len())
        .sum();
    println!("all scripts: {all} bytes");
    assert!(all <= MAX_ALL_SCRIPT_BYTES, "{all}");
}

#[test]
fn documents_have_the_text_of_their_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (path, file) in [
        ("guides/keys.md", "docs/keys.md"),
        ("guides/operations-postgres.md", "docs/operations/postgres.md"),
        ("errors/index.md", "docs/errors/README.md"),
        ("errors/overloaded.md", "docs/errors/overloaded.md"),
        ("samples.json", "crates/server/assets/documentation/samples.json"),
    ] {
        let document = document(path).expect(path);
        let content = fs::read(root.join(file)).expect(file);
        assert_eq!(decompress(document.gzip).expect(path), content, "{path}");
        assert_eq!(document.etag, format!("\"{}\"", &hash(&content)[..12]));
        assert_eq!(decompress(&compress(&content).expect(path)).expect(path), content);
    }
    assert!(document("guides/decisions.md").is_none());
    let index = decompress(document("guides.json").expect("the index").gzip).expect("the index");
    let index = String::from_utf8(index).expect("UTF-8");
    assert!(
        index.contains("{\"name\":\"keys\",\"title\":\"Keys\",\"headings\":[\""),
        "{index}"
    );
    let size: usize = documents().iter().map(|document| document.gzip.len()).sum();
    println!("{} documents: {size} bytes", documents().len());
    assert!(size <= MAX_DOCUMENT_BYTES, "{size}");
}

#[test]
fn vendored_files_are_the_published_ones() {
    let vendor = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web/vendor");
    let sums = fs::read_to_string(vendor.join("SHA256SUMS")).expect("the list of hashes");
    let mut listed = BTreeSet::new();
    for line in sums.lines() {
        let (expected, name) = line.split_once("  ").expect("a hash and a name");
        let content = fs::read(vendor.join(name)).expect(name);
        assert_eq!(hash(&content), expected, "{name}");
        listed.insert(name.to_owned());
    }
    for folder in ["marked", "preact", "signals"] {
        assert!(listed.contains(&format!("{folder}/LICENSE")));
        for entry in fs::read_dir(vendor.join(folder)).expect(folder) {
            let name = entry.expect(folder).file_name().into_string().expect("UTF-8");
            assert!(
                listed.contains(&format!("{folder}/{name}")),
                "{folder}/{name} is not listed"
            );
        }
    }
}
