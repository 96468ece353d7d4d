//! The command `tollgate openapi`.

use tollgate_server::{admin, console, router};

use crate::failure::{Exit, Failure};
use crate::print::Printer;

/// Prints the OpenAPI document of the public API, or of the selected API. The format is JSON, with
/// or without `--json`.
pub fn document(of_admin: bool, of_console: bool, printer: &Printer) -> Result<Exit, Failure> {
    let document = match (of_admin, of_console) {
        (true, _) => admin::document(),
        (false, true) => console::document(),
        (false, false) => router::document(),
    };
    let text = serde_json::to_string_pretty(&document)
        .map_err(|error| Failure::failed(format!("cannot serialize the document: {error}")))?;
    printer.answer(&document, || text + "\n")?;
    Ok(Exit::Fine)
}
