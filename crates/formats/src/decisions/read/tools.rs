//! Decoding of questions that choose a function, declared as in chat completions, or flat as in
//! responses.

use serde_json::Value;
use tollgate_types::decide::{FunctionTool, OPTIONS, QuestionKind};

use super::super::write::NO_TOOL;
use super::questions::identifier;
use crate::error::BoxedError;
use crate::json::{Node, Path};

/// Members of a question with functions.
pub(super) const MEMBERS: &[&str] = &["tools", "tool_choice"];

/// Maximum number of functions. The answer that no function fits counts as one of the options.
const MAX_TOOLS: usize = *OPTIONS.end() - 1;

const FUNCTION: &[&str] = &["name", "description", "parameters", "strict"];

pub(super) fn read(node: &Node<'_>, path: &Path<'_>) -> Result<QuestionKind, BoxedError> {
    let required = match node.get("tool_choice") {
        Some(choice) => choice.word_at(&["auto", "required"], &path.key("tool_choice"))? == "required",
        None => false,
    };
    let here = path.key("tools");
    let items = node.need("tools", path)?.list_at(&here)?;
    if !(1..=MAX_TOOLS).contains(&items.len()) {
        return Err(here.invalid(format_args!("must have 1 to {MAX_TOOLS} functions")));
    }
    let mut tools: Vec<FunctionTool> = Vec::with_capacity(items.len());
    for (place, item) in items.iter().enumerate() {
        let path = here.index(place as u32);
        let tool = tool(item, &path)?;
        if tools.iter().any(|earlier| earlier.name == tool.name) {
            return Err(path.invalid("has the name of an earlier function; use a unique name for each"));
        }
        if tool.name == NO_TOOL && !required {
            return Err(path.invalid("has a reserved name, which means that no function fits; rename it"));
        }
        tools.push(tool);
    }
    Ok(QuestionKind::Tool { tools, required })
}

fn tool(node: &Node<'_>, path: &Path<'_>) -> Result<FunctionTool, BoxedError> {
    node.object_at(path)?;
    node.need("type", path)?
        .word_at(&["function"], &path.key("type"))?;
    if let Some(nested) = node.get("function") {
        node.check_keys(&[&["type", "function"]], path)?;
        let path = path.key("function");
        nested.check_keys(&[FUNCTION], &path)?;
        function(nested, &path)
    } else {
        node.check_keys(&[&["type"], FUNCTION], path)?;
        function(node, path)
    }
}

fn function(node: &Node<'_>, path: &Path<'_>) -> Result<FunctionTool, BoxedError> {
    let here = path.key("name");
    let name = identifier(node.need("name", path)?.text_at(&here)?, &here)?;
    let description = match node.get("description") {
        Some(description) => Some(description.text_at(&path.key("description"))?.to_owned()),
        None => None,
    };
    if let Some(strict) = node.get("strict") {
        strict.flag_at(&path.key("strict"))?;
    }
    let parameters = node.need("parameters", path)?;
    let here = path.key("parameters");
    check_schema(parameters, &here)?;
    let tool = FunctionTool {
        name,
        description: description.filter(|text| !text.trim().is_empty()),
        parameters: parameters.to_value(),
    };
    check_values(&tool, &here)?;
    Ok(tool)
}

/// Checks that the schema of the arguments is an object schema and that its enumerations are
/// arrays.
fn check_schema(node: &Node<'_>, path: &Path<'_>) -> Result<(), BoxedError> {
    node.object_at(path)?;
    node.need("type", path)?.word_at(&["object"], &path.key("type"))?;
    let Some(properties) = node.get("properties") else {
        return Ok(());
    };
    let path = path.key("properties");
    for (name, schema) in properties.object_at(&path)? {
        if let Some(values) = schema.get("enum") {
            values.list_at(&path.key(name).key("enum"))?;
        }
    }
    Ok(())
}

/// Refuses an enumeration with too few, too many or duplicate values: the caller would expect a
/// decision that the gateway cannot make.
fn check_values(tool: &FunctionTool, path: &Path<'_>) -> Result<(), BoxedError> {
    let (min, max) = (OPTIONS.start(), OPTIONS.end());
    let path = path.key("properties");
    for argument in tool.enumerations() {
        let (path, values) = (path.key(&argument.name), &argument.values);
        if !OPTIONS.contains(&values.len()) {
            return Err(path.invalid(format_args!("must have an 'enum' of {min} to {max} values")));
        }
        let is_twice = |(place, value): (usize, &Value)| values[..place].contains(value);
        if values.iter().enumerate().any(is_twice) {
            return Err(path.invalid("has a duplicate value in its 'enum'"));
        }
    }
    Ok(())
}
