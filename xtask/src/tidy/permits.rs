//! Ensures that no request is sent upstream without a hold. Only admission may create the argument
//! that an upstream requires.

use super::Fault;
use super::rust::{Keep, blank, find_word, line_of};
use super::tree::Tree;

/// The only file that may create the argument.
const ADMISSION: &str = "crates/pipeline/src/admit.rs";

/// The type of the argument, which every call to an upstream requires.
const CONTEXT: &str = "CallContext";
const PERMIT: &str = "Permit";

/// Checks every product file except the one of admission.
pub fn check(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    let others = tree
        .files
        .iter()
        .filter(|file| file.is_product() && file.path != ADMISSION);
    for file in others {
        let code = blank(&file.text, Keep::Code);
        for name in [CONTEXT, PERMIT] {
            for at in find_word(&code, name) {
                if let Some(what) = makes(&code, at, name) {
                    let advice = "only admission may, after it placed a hold; use the one passed down";
                    let fault = Fault::at(&file.path, line_of(&code, at), format!("{what}: {advice}"));
                    faults.push(fault);
                }
            }
        }
    }
    faults
}

/// Describes the way in which the code at a name creates a value of the type or could hide that: an
/// `impl` block or a renamed type.
fn makes(code: &str, at: usize, name: &str) -> Option<String> {
    // Skips the path before the name, if any.
    let before = code[..at].trim_end_matches(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
    let word_before = before
        .trim_end()
        .rsplit(|c: char| !(c.is_alphanumeric() || c == '_'))
        .next()
        .unwrap_or_default();
    let after = code[at + name.len()..].trim_start();
    // Inside an `impl` block, the type is called `Self`.
    if matches!(word_before, "impl" | "for") && (after.starts_with('{') || after.starts_with("where")) {
        return Some(format!("implements `{name}`"));
    }
    let alias = after.starts_with(';') && before.trim_end().ends_with('=');
    if alias || after.starts_with("as ") {
        return Some(format!("gives `{name}` another name"));
    }
    // `_` is a pattern, never a value.
    let by_path = after.starts_with("::") && !after.starts_with("::Hold(_)");
    let literal = name == CONTEXT
        && after.starts_with('{')
        && !before.trim_end().ends_with("->")
        && !matches!(word_before, "struct" | "let");
    (by_path || literal).then(|| format!("creates a `{name}`"))
}

#[cfg(test)]
mod tests {
    use super::super::expect_faults;
    use super::*;

    #[test]
    fn only_admission_creates_permits() {
        let dispatch = "crates/pipeline/src/dispatch.rs";
        let cases = [
            (
                ADMISSION,
                "let permit = Permit::Hold(id); CallContext { permit }",
                0,
            ),
            (dispatch, "let ctx = CallContext { request, permit };", 1),
            (
                dispatch,
                "call(&tollgate_upstream::CallContext{ ..ctx.clone() })",
                1,
            ),
            (dispatch, "let permit = Permit::Free(\"probe\");", 1),
            (dispatch, "matches!(ctx.permit, Permit::Hold(_))", 0),
            (dispatch, "let permit = Permit::Hold(id);", 1),
            (dispatch, "use tollgate_upstream::Permit::*;", 1),
            (dispatch, "use tollgate_upstream::CallContext as Frame;", 1),
            (dispatch, "type Frame = CallContext;", 1),
            (dispatch, "let ctx = CallContext::default();", 1),
            (dispatch, "impl From<Hold> for CallContext { }", 1),
            (
                "crates/upstream/src/context.rs",
                "impl CallContext { fn new() -> Self { Self {} } }",
                1,
            ),
            (
                "crates/upstream/src/context.rs",
                "pub struct CallContext { pub permit: Permit, }",
                0,
            ),
            (
                "crates/upstream/src/context.rs",
                "pub enum Permit { Hold(HoldId) }",
                0,
            ),
            (
                "crates/server/src/doctor.rs",
                "// CallContext { }\nlet text = \"Permit::Free\";",
                0,
            ),
        ];
        expect_faults(check, &cases);
    }

    #[test]
    fn functions_taking_a_permit_are_ignored() {
        let texts = [
            "use tollgate_upstream::{CallContext, Permit};",
            "async fn generate(&self, ctx: &CallContext, call: &TextCall) -> Reply { ctx.permit }",
            "fn context(&self) -> CallContext { self.admission.context() }",
            "let CallContext { request, .. } = ctx;",
            "drain: Option<SemaphorePermit<'a>>,",
        ];
        let cases = texts.map(|text| ("crates/providers/src/sim/mod.rs", text, 0));
        expect_faults(check, &cases);
        let test = "CallContext { permit: Permit::Free(\"test\") }";
        expect_faults(check, &[("crates/providers/src/sim/tests.rs", test, 0)]);
    }
}
