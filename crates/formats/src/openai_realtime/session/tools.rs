//! Function tools, and the choice between them.

use std::sync::Arc;

use super::super::fields::{id_at, text_at};
use super::super::writer::Object;
use crate::error::BoxedError;
use crate::json::{Node, Path};

/// Maximum number of tools of a session or of a response.
pub const MAX_TOOLS: usize = 128;

/// Function that the model may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    pub name: Arc<str>,
    pub description: Option<Arc<str>>,
    /// JSON schema of the arguments as compact JSON text.
    pub parameters: Option<Arc<str>>,
}

/// Choice of a tool by the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// The model calls no tool.
    None,
    /// The model calls a tool of its choice.
    Required,
    /// The model calls this function.
    Function(Arc<str>),
}

const TOOL_KEYS: &[&str] = &["type", "name", "description", "parameters"];

/// Reads the list of tools; refuses other kinds than functions.
pub(in super::super) fn read_tools(node: &Node<'_>, path: &Path<'_>) -> Result<Arc<[Tool]>, BoxedError> {
    let items = node.list_at(path)?;
    if items.len() > MAX_TOOLS {
        return Err(path.invalid(format_args!("must have at most {MAX_TOOLS} tools")));
    }
    let tools = items.iter().zip(0..);
    tools
        .map(|(item, place)| Tool::read(item, &path.index(place)))
        .collect()
}

/// Reads a mode, or the object that names a function.
pub(in super::super) fn read_tool_choice(node: &Node<'_>, path: &Path<'_>) -> Result<ToolChoice, BoxedError> {
    if node.as_text().is_some() {
        return Ok(match node.word_at(&["auto", "none", "required"], path)? {
            "auto" => ToolChoice::Auto,
            "none" => ToolChoice::None,
            _ => ToolChoice::Required,
        });
    }
    node.object_at(path)?;
    refuse_mcp(node, path)?;
    node.need("type", path)?
        .word_at(&["function"], &path.key("type"))?;
    // Some clients of the beta dialect use the object of chat completions.
    if let Some(function) = node.get("function") {
        node.check_keys(&[&["type", "function"]], path)?;
        let path = path.key("function");
        function.check_keys(&[&["name"]], &path)?;
        return tool_name(function, &path).map(ToolChoice::Function);
    }
    node.check_keys(&[&["type", "name"]], path)?;
    tool_name(node, path).map(ToolChoice::Function)
}

impl Tool {
    fn read(node: &Node<'_>, path: &Path<'_>) -> Result<Self, BoxedError> {
        node.object_at(path)?;
        refuse_mcp(node, path)?;
        node.check_keys(&[TOOL_KEYS], path)?;
        if let Some(kind) = node.get("type") {
            kind.word_at(&["function"], &path.key("type"))?;
        }
        let description = node.get("description");
        let parameters = node.get("parameters");
        if let Some(parameters) = parameters {
            parameters.object_at(&path.key("parameters"))?;
        }
        Ok(Self {
            name: tool_name(node, path)?,
            description: description
                .map(|text| text_at(text, &path.key("description")))
                .transpose()?,
            parameters: parameters.map(|schema| Arc::from(schema.compact())),
        })
    }

    /// Writes the members of the object.
    pub(in super::super) fn write(&self, object: &mut Object<'_>) {
        object.text("type", "function");
        object.text("name", &self.name);
        object.optional("description", self.description.as_deref());
        if let Some(parameters) = &self.parameters {
            object.raw("parameters", parameters);
        }
    }
}

impl ToolChoice {
    /// Writes the value of `tool_choice`.
    pub(in super::super) fn write(&self, object: &mut Object<'_>) {
        let mode = match self {
            ToolChoice::Auto => "auto",
            ToolChoice::None => "none",
            ToolChoice::Required => "required",
            ToolChoice::Function(name) => {
                return object.object("tool_choice", |choice| {
                    choice.text("type", "function");
                    choice.text("name", name);
                });
            }
        };
        object.text("tool_choice", mode);
    }
}

fn tool_name(node: &Node<'_>, path: &Path<'_>) -> Result<Arc<str>, BoxedError> {
    let name = node.need("name", path)?;
    id_at(name, &path.key("name"))
}

fn refuse_mcp(node: &Node<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    match node.get("type").and_then(Node::as_text) {
        Some("mcp") => Err(path
            .key("type")
            .unsupported("has the value 'mcp', but sessions support function tools alone")),
        _ => Ok(()),
    }
}
