//! `openapi`.

use tollgate_server::router;

use crate::failure::{Exit, Failure};
use crate::print::Printer;

/// Prints the document that describes the public API; it is JSON either way.
pub fn document(printer: &Printer) -> Result<Exit, Failure> {
    let document = router::document();
    let text = serde_json::to_string_pretty(&document)
        .map_err(|error| Failure::failed(format!("cannot write the document: {error}")))?;
    printer.answer(&document, || text + "\n")?;
    Ok(Exit::Fine)
}
