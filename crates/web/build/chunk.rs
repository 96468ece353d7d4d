//! Bundles modules into chunks. A chunk is one file for the browser.
//!
//! All modules of a chunk share one scope, so each binding gets the number of its module. Imports
//! within a chunk become references; imports of other chunks stay. Dynamic imports are only
//! allowed in the entries, so that chunks form no cycle and a name can contain the hash.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use oxc::span::SourceType;

use crate::files::Files;
use crate::module::{Export, Module, minify};

/// Modules that sources import by name.
const VENDORED: &[(&str, &str)] = &[
    ("preact", "vendor/preact/preact.mjs"),
    ("preact/hooks", "vendor/preact/hooks.mjs"),
    ("preact/jsx-runtime", "vendor/preact/jsx-runtime.mjs"),
    ("@preact/signals", "vendor/signals/signals.mjs"),
    ("@preact/signals-core", "vendor/signals/signals-core.mjs"),
    ("marked", "vendor/marked/marked.mjs"),
];

/// Prefix of the name of a chunk in its importers, until the hash of the chunk is known.
const PENDING: &str = "tollgate-chunk:";

/// Prefix of the name of a worklet in the modules that load it.
const WORKLET: &str = "tollgate-worklet:";

/// All modules that the entries reach, and their chunks.
pub struct Bundle {
    modules: Vec<Module>,
    index: BTreeMap<String, usize>,
    /// Modules in the order in which they are executed.
    order: Vec<usize>,
    entries: Vec<usize>,
    /// Targets of dynamic imports.
    screens: BTreeSet<usize>,
    /// Name of the chunk of each module.
    chunks: Vec<String>,
}

impl Bundle {
    /// Reads the modules that the entries reach, and assigns them to chunks.
    pub fn read<'a>(web: &Path, entries: impl Iterator<Item = &'a str>) -> anyhow::Result<Self> {
        let mut bundle = Self {
            modules: Vec::new(),
            index: BTreeMap::new(),
            order: Vec::new(),
            entries: Vec::new(),
            screens: BTreeSet::new(),
            chunks: Vec::new(),
        };
        for entry in entries {
            let number = bundle.visit(web, entry)?;
            bundle.entries.push(number);
        }
        bundle.assign_chunks()?;
        Ok(bundle)
    }

    /// Writes every chunk. `worklets` has the path on the server for the name of each worklet.
    /// Returns the path on the server for the name of each chunk.
    pub fn write(
        &self,
        files: &mut Files,
        worklets: &BTreeMap<&str, String>,
    ) -> anyhow::Result<BTreeMap<String, String>> {
        let exported = self.cross_chunk_bindings()?;
        let mut urls = BTreeMap::new();
        let mut left: BTreeSet<&str> = self.chunks.iter().map(String::as_str).collect();
        while !left.is_empty() {
            let mut ready = None;
            for name in &left {
                if self
                    .dependencies(name)?
                    .iter()
                    .all(|other| urls.contains_key(other))
                {
                    ready = Some(*name);
                    break;
                }
            }
            let Some(name) = ready else {
                bail!("the chunks {left:?} import each other in a cycle");
            };
            let code = minify(name, &self.link(name, &exported)?, SourceType::mjs())?;
            let code = insert_urls(&code, PENDING, &urls)?;
            let code = insert_urls(&code, WORKLET, worklets)?;
            urls.insert(name.to_owned(), files.add_hashed(name, "js", code.as_bytes())?);
            left.remove(name);
        }
        Ok(urls)
    }

    /// Compiles a module and everything that it imports. Returns its number.
    fn visit(&mut self, web: &Path, path: &str) -> anyhow::Result<usize> {
        if let Some(number) = self.index.get(path) {
            return Ok(*number);
        }
        let module = Module::compile(web, path)?;
        let number = self.modules.len();
        let requests = module.requests.clone();
        let dynamic_requests = module.dynamic_requests.clone();
        self.index.insert(path.to_owned(), number);
        self.modules.push(module);
        for request in requests {
            self.visit(web, &resolve(path, &request)?)?;
        }
        self.order.push(number);
        for (request, _) in dynamic_requests {
            let screen = self.visit(web, &resolve(path, &request)?)?;
            self.screens.insert(screen);
        }
        Ok(number)
    }

    fn assign_chunks(&mut self) -> anyhow::Result<()> {
        let mut roots: Vec<BTreeSet<String>> = vec![BTreeSet::new(); self.modules.len()];
        for (root, name) in self
            .entries
            .iter()
            .map(|entry| (*entry, "main".to_owned()))
            .chain(
                self.screens
                    .iter()
                    .map(|screen| (*screen, folder_of(&self.modules[*screen].path))),
            )
        {
            for number in self.reachable(root)? {
                roots[number].insert(name.clone());
            }
        }
        for (number, module) in self.modules.iter().enumerate() {
            let is_entry = self.entries.contains(&number);
            ensure!(
                is_entry || module.dynamic_requests.is_empty(),
                "web/{}: only an entry may call import()",
                module.path
            );
            let reached_from = &roots[number];
            let is_main = reached_from.contains("main");
            let chunk = if is_entry {
                stem(&module.path)
            } else if is_main {
                "main".to_owned()
            } else if module.path.starts_with("vendor/") {
                folder_of(&module.path)
            } else if let Some(vendored) = self.vendored_chunk_of(module, &roots)? {
                vendored
            } else if let (Some(only), 1) = (reached_from.first(), reached_from.len()) {
                only.clone()
            } else if let (Some(one), Some(other), 2) =
                (reached_from.first(), reached_from.last(), reached_from.len())
            {
                // Other screens do not load what only these two need.
                format!("shared-{one}-{other}")
            } else {
                "shared".to_owned()
            };
            self.chunks.push(chunk);
        }
        Ok(())
    }

    /// Returns the chunk of the vendored modules that a module imports, if they are not part of the
    /// first load: their only importer is loaded together with them.
    fn vendored_chunk_of(
        &self,
        module: &Module,
        roots: &[BTreeSet<String>],
    ) -> anyhow::Result<Option<String>> {
        for request in &module.requests {
            let path = resolve(&module.path, request)?;
            let number = self.index[&path];
            if path.starts_with("vendor/") && !roots[number].contains("main") {
                return Ok(Some(folder_of(&path)));
            }
        }
        Ok(None)
    }

    /// Returns the numbers of a module and of all modules that it imports statically.
    fn reachable(&self, root: usize) -> anyhow::Result<BTreeSet<usize>> {
        let mut found = BTreeSet::new();
        let mut open = vec![root];
        while let Some(number) = open.pop() {
            if found.insert(number) {
                for request in &self.modules[number].requests {
                    open.push(self.number_of(number, request)?);
                }
            }
        }
        Ok(found)
    }

    fn number_of(&self, from: usize, request: &str) -> anyhow::Result<usize> {
        let path = resolve(&self.modules[from].path, request)?;
        self.index
            .get(&path)
            .copied()
            .with_context(|| format!("web/{path} was not read"))
    }

    /// Finds the module that declares an exported binding, and the name of the binding there.
    fn declaration(&self, number: usize, name: &str) -> anyhow::Result<(usize, String)> {
        let module = &self.modules[number];
        match module.exports.get(name) {
            Some(Export::From(request, other)) => self.declaration(self.number_of(number, request)?, other),
            Some(Export::Local(local)) => match module.imports.get(local) {
                Some((request, other)) => self.declaration(self.number_of(number, request)?, other),
                None => Ok((number, local.clone())),
            },
            None => bail!("web/{} exports no `{name}`", module.path),
        }
    }

    /// Lists the bindings that each chunk exports to others, as (module, name).
    fn cross_chunk_bindings(&self) -> anyhow::Result<BTreeSet<(usize, String)>> {
        let mut exported = BTreeSet::new();
        for (number, module) in self.modules.iter().enumerate() {
            for (request, name) in module.imports.values() {
                let source = self.declaration(self.number_of(number, request)?, name)?;
                if self.chunks[source.0] != self.chunks[number] {
                    exported.insert(source);
                }
            }
        }
        Ok(exported)
    }

    /// Lists the chunks that an entry imports dynamically.
    pub fn screens_of(&self, entry: &str) -> anyhow::Result<BTreeSet<&str>> {
        let mut found = BTreeSet::new();
        for number in self.members(entry) {
            for (request, _) in &self.modules[number].dynamic_requests {
                found.insert(self.chunks[self.number_of(number, request)?].as_str());
            }
        }
        Ok(found)
    }

    /// Lists these chunks, and all chunks that they import statically.
    pub fn with_static_imports<'a>(
        &self,
        chunks: impl Iterator<Item = &'a str>,
    ) -> anyhow::Result<BTreeSet<String>> {
        let mut open: Vec<String> = chunks.map(str::to_owned).collect();
        let mut found = BTreeSet::new();
        while let Some(chunk) = open.pop() {
            let imports = self.static_imports(&chunk)?;
            if found.insert(chunk) {
                open.extend(imports);
            }
        }
        Ok(found)
    }

    fn static_imports(&self, chunk: &str) -> anyhow::Result<BTreeSet<String>> {
        let mut found = BTreeSet::new();
        for number in self.members(chunk) {
            for (request, name) in self.modules[number].imports.values() {
                let (source, _) = self.declaration(self.number_of(number, request)?, name)?;
                found.insert(self.chunks[source].clone());
            }
        }
        found.remove(chunk);
        Ok(found)
    }

    /// Lists the chunks whose paths a chunk contains.
    fn dependencies(&self, chunk: &str) -> anyhow::Result<BTreeSet<String>> {
        let mut found = self.static_imports(chunk)?;
        for number in self.members(chunk) {
            for (request, _) in &self.modules[number].dynamic_requests {
                found.insert(self.chunks[self.number_of(number, request)?].clone());
            }
        }
        Ok(found)
    }

    fn members(&self, chunk: &str) -> impl Iterator<Item = usize> {
        self.order
            .iter()
            .copied()
            .filter(move |number| self.chunks[*number] == chunk)
    }

    /// Joins the modules of a chunk into one module.
    fn link(&self, chunk: &str, exported: &BTreeSet<(usize, String)>) -> anyhow::Result<String> {
        let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let mut exports = BTreeSet::new();
        let mut body = String::new();
        for number in self.members(chunk) {
            let module = &self.modules[number];
            for (request, name) in module.imports.values() {
                let (source, local) = self.declaration(self.number_of(number, request)?, name)?;
                if self.chunks[source] != chunk {
                    let binding = format!(
                        "{} as {}",
                        alias(exported, source, &local),
                        unique(source, &local)
                    );
                    imports
                        .entry(self.chunks[source].clone())
                        .or_default()
                        .insert(binding);
                }
            }
            for (declaring, local) in exported.iter().filter(|(declaring, _)| *declaring == number) {
                exports.insert(format!(
                    "{} as {}",
                    unique(number, local),
                    alias(exported, *declaring, local)
                ));
            }
            if self.screens.contains(&number) {
                for name in module.exports.keys() {
                    let (source, local) = self.declaration(number, name)?;
                    exports.insert(format!("{} as {name}", unique(source, &local)));
                }
            }
            body.push_str(&module.body(
                |local| match module.imports.get(local) {
                    Some((request, name)) => {
                        let (source, local) = self.declaration(self.number_of(number, request)?, name)?;
                        Ok(unique(source, &local))
                    }
                    None => Ok(unique(number, local)),
                },
                |request| {
                    let screen = self.number_of(number, request)?;
                    Ok(format!("{PENDING}{}", self.chunks[screen]))
                },
            )?);
        }
        let mut code = String::new();
        for (other, bindings) in imports {
            let bindings: Vec<String> = bindings.into_iter().collect();
            writeln!(
                code,
                "import {{ {} }} from {:?};",
                bindings.join(", "),
                format!("{PENDING}{other}")
            )?;
        }
        code.push_str(&body);
        let exports: Vec<String> = exports.into_iter().collect();
        writeln!(code, "export {{ {} }};", exports.join(", "))?;
        Ok(code)
    }
}

/// Returns the name of a binding in the scope of its chunk.
fn unique(module: usize, name: &str) -> String {
    format!("{name}$${module}")
}

/// Returns the short name under which a chunk exports a binding to other chunks.
fn alias(exported: &BTreeSet<(usize, String)>, module: usize, name: &str) -> String {
    let place = exported
        .iter()
        .position(|(declaring, local)| *declaring == module && local == name);
    format!("${}", place.unwrap_or_default())
}

/// Replaces the names of files behind a prefix by their paths on the server.
fn insert_urls<K: Borrow<str> + Ord>(
    code: &str,
    prefix: &str,
    urls: &BTreeMap<K, String>,
) -> anyhow::Result<String> {
    let mut parts = code.split(prefix);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part
            .find(['"', '\'', '`'])
            .context("the name of a file has no end")?;
        let (name, rest) = part.split_at(end);
        let url = urls
            .get(name)
            .with_context(|| format!("unknown file `{prefix}{name}`"))?;
        out.push_str(url);
        out.push_str(rest);
    }
    Ok(out)
}

/// Returns the path of an imported module, from `web/`.
fn resolve(from: &str, request: &str) -> anyhow::Result<String> {
    if let Some((_, path)) = VENDORED.iter().find(|(name, _)| *name == request) {
        return Ok((*path).to_owned());
    }
    ensure!(
        request.starts_with('.'),
        "web/{from}: unknown module `{request}`: import a path that begins with `.`, or a vendored module"
    );
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in request.split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            other => parts.push(other),
        }
    }
    Ok(parts.join("/"))
}

/// Returns the name of a file without its extension.
fn stem(path: &str) -> String {
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    name.split('.').next().unwrap_or(name).to_owned()
}

/// Returns the name of the folder that contains a file.
fn folder_of(path: &str) -> String {
    let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
    folders.rsplit('/').next().unwrap_or_default().to_owned()
}
