//! Compiles one TypeScript module to JavaScript, and reads its imports and exports.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use oxc::allocator::Allocator;
use oxc::ast::ast::{Program, Statement};
use oxc::codegen::{Codegen, CodegenOptions, CommentOptions};
use oxc::diagnostics::OxcDiagnostic;
use oxc::minifier::{CompressOptions, MangleOptions, Minifier, MinifierOptions};
use oxc::parser::Parser;
use oxc::semantic::SemanticBuilder;
use oxc::span::SourceType;
use oxc::syntax::module_record::{
    ExportExportName, ExportImportName, ExportLocalName, ImportImportName, ModuleRecord,
};
use oxc::transformer::{EnvOptions, JsxOptions, TransformOptions, Transformer, TypeScriptOptions};

/// Version of the language that all browsers with `light-dark()` run.
const TARGET: &str = "es2023";

/// A compiled module.
pub struct Module {
    /// Path from `web/`.
    pub path: String,
    /// JavaScript with ES module syntax, not minified.
    code: String,
    /// Specifiers of static imports, in the order of the text.
    pub requests: Vec<String>,
    /// Specifiers of `import()`, with their place in `code`.
    pub dynamic_requests: Vec<(String, std::ops::Range<usize>)>,
    /// Imported bindings: the local name, the specifier, and the name in the other module.
    pub imports: BTreeMap<String, (String, String)>,
    /// Source of each exported binding, by its public name.
    pub exports: BTreeMap<String, Export>,
}

/// Source of an exported binding.
pub enum Export {
    /// Name of a binding in this module.
    Local(String),
    /// Specifier of another module, and the name that it exports.
    From(String, String),
}

impl Module {
    /// Compiles a module. Errors name its path, and the line and column of the fault.
    pub fn compile(web: &Path, path: &str) -> anyhow::Result<Self> {
        let code = to_javascript(web, path)?;
        let allocator = Allocator::default();
        let parsed = Parser::new(&allocator, &code, SourceType::mjs()).parse();
        check(path, &code, parsed.diagnostics.errors())?;
        let mut module = Self {
            path: path.to_owned(),
            code: String::new(),
            requests: Vec::new(),
            dynamic_requests: Vec::new(),
            imports: BTreeMap::new(),
            exports: BTreeMap::new(),
        };
        module.read_requests(&parsed.program);
        module.read_record(&parsed.module_record, &code)?;
        drop(parsed);
        drop(allocator);
        module.code = code;
        Ok(module)
    }

    /// Returns the statements without imports and exports. `rename` returns the new name of each
    /// binding of the module, and `dynamic` the new argument of each `import()`.
    pub fn body(
        &self,
        rename: impl Fn(&str) -> anyhow::Result<String>,
        dynamic: impl Fn(&str) -> anyhow::Result<String>,
    ) -> anyhow::Result<String> {
        let mut code = self.code.clone();
        for (specifier, range) in self.dynamic_requests.iter().rev() {
            code.replace_range(range.clone(), &format!("{:?}", dynamic(specifier)?));
        }
        let allocator = Allocator::default();
        let mut program = Parser::new(&allocator, &code, SourceType::mjs()).parse().program;
        let semantic = SemanticBuilder::new()
            .with_check_syntax_error(true)
            .build(&program);
        check(&self.path, &code, semantic.diagnostics.errors())?;
        let mut scoping = semantic.semantic.into_scoping();
        let symbols: Vec<_> = scoping
            .get_bindings(scoping.root_scope_id())
            .values()
            .copied()
            .collect();
        for symbol in symbols {
            let name = rename(scoping.symbol_name(symbol))?;
            scoping.set_symbol_name(symbol, name.as_str().into());
        }
        let statements = std::mem::replace(&mut program.body, oxc::allocator::Vec::new_in(&&allocator));
        for statement in statements {
            match statement {
                Statement::ImportDeclaration(_)
                | Statement::ExportNamedDeclaration(_)
                | Statement::ExportFromDeclaration(_) => {}
                Statement::ExportDeclaration(export) => {
                    program.body.push(Statement::from(export.unbox().declaration));
                }
                other => program.body.push(other),
            }
        }
        let printed = Codegen::new().with_scoping(Some(scoping)).build(&program);
        Ok(printed.code)
    }

    fn read_requests(&mut self, program: &Program<'_>) {
        for statement in &program.body {
            let request = match statement {
                Statement::ImportDeclaration(import) => &import.source,
                Statement::ExportFromDeclaration(export) => &export.source,
                _ => continue,
            };
            self.requests.push(request.value.to_string());
        }
    }

    fn read_record(&mut self, record: &ModuleRecord<'_>, code: &str) -> anyhow::Result<()> {
        for entry in &record.import_entries {
            let ImportImportName::Name(name) = &entry.import_name else {
                bail!("{}: import single names, not the default or all", self.path);
            };
            let source = (entry.module_request.name.to_string(), name.name.to_string());
            self.imports.insert(entry.local_name.name.to_string(), source);
        }
        for entry in record
            .local_export_entries
            .iter()
            .chain(&record.indirect_export_entries)
        {
            let ExportExportName::Name(name) = &entry.export_name else {
                bail!("{}: export names, not a default", self.path);
            };
            let name = name.name.as_str();
            let export = match (&entry.module_request, &entry.import_name, &entry.local_name) {
                (Some(from), ExportImportName::Name(other), _) => {
                    Export::From(from.name.to_string(), other.name.to_string())
                }
                (None, _, ExportLocalName::Name(local)) => Export::Local(local.name.to_string()),
                _ => bail!("{}: cannot bundle the export `{name}`", self.path),
            };
            self.exports.insert(name.to_owned(), export);
        }
        if !record.star_export_entries.is_empty() {
            bail!("{}: export names, not all of another module", self.path);
        }
        for import in &record.dynamic_imports {
            let range = import.module_request.start as usize..import.module_request.end as usize;
            let specifier = code[range.clone()].trim_matches(['"', '\'']).to_owned();
            self.dynamic_requests.push((specifier, range));
        }
        Ok(())
    }
}

/// Compiles a script that imports nothing, and minifies it.
pub fn compile_script(web: &Path, path: &str) -> anyhow::Result<String> {
    minify(path, &to_javascript(web, path)?, SourceType::script())
}

/// Minifies JavaScript; `path` names it in errors.
pub fn minify(path: &str, code: &str, source_type: SourceType) -> anyhow::Result<String> {
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, code, source_type).parse();
    check(path, code, parsed.diagnostics.errors())?;
    let mut program = parsed.program;
    let options = MinifierOptions {
        mangle: Some(MangleOptions::default()),
        mangle_properties: None,
        compress: Some(CompressOptions::smallest()),
    };
    let minified = Minifier::new(options).minify(&allocator, &mut program);
    let options = CodegenOptions {
        comments: CommentOptions::disabled(),
        ..CodegenOptions::minify()
    };
    let printed = Codegen::new()
        .with_options(options)
        .with_scoping(minified.scoping)
        .build(&program);
    Ok(printed.code)
}

/// Removes the types, and converts JSX to calls of Preact.
fn to_javascript(web: &Path, path: &str) -> anyhow::Result<String> {
    let place = web.join(path);
    let text = fs::read_to_string(&place).with_context(|| format!("reading web/{path}"))?;
    let source_type = SourceType::from_path(&place).map_err(|_| anyhow!("web/{path}: unknown file type"))?;
    let allocator = Allocator::default();
    let parsed = Parser::new(&allocator, &text, source_type).parse();
    check(path, &text, parsed.diagnostics.errors())?;
    let mut program = parsed.program;
    let semantic = SemanticBuilder::new()
        .with_check_syntax_error(true)
        .with_excess_capacity(2.0)
        .build(&program);
    check(path, &text, semantic.diagnostics.errors())?;
    let options = TransformOptions {
        typescript: TypeScriptOptions {
            only_remove_type_imports: true,
            allow_namespaces: false,
            ..TypeScriptOptions::default()
        },
        jsx: JsxOptions {
            pure: true,
            import_source: Some("preact".to_owned()),
            ..JsxOptions::enable()
        },
        env: EnvOptions::from_target(TARGET).map_err(|error| anyhow!("{TARGET}: {error}"))?,
        ..TransformOptions::default()
    };
    let scoping = semantic.semantic.into_scoping();
    let transformed =
        Transformer::new(&allocator, Path::new(path), &options).build_with_scoping(scoping, &mut program);
    check(path, &text, transformed.diagnostics.errors())?;
    Ok(Codegen::new().build(&program).code)
}

/// Returns an error that lists the diagnostics with file, line and column.
fn check<'a>(
    path: &str,
    text: &str,
    diagnostics: impl Iterator<Item = &'a OxcDiagnostic>,
) -> anyhow::Result<()> {
    let lines: Vec<String> = diagnostics
        .map(|diagnostic| {
            let start = diagnostic
                .labels
                .first()
                .map_or(0, |label| label.offset() as usize);
            let before = text.get(..start).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            let column = before.len() - before.rfind('\n').map_or(0, |at| at + 1) + 1;
            format!("web/{path}:{line}:{column}: {}", diagnostic.message)
        })
        .collect();
    if lines.is_empty() {
        return Ok(());
    }
    Err(anyhow!(lines.join("\n")))
}
