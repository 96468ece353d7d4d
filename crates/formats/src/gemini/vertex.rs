//! Conversion to the variant of the format for Vertex AI. Vertex AI refuses ids of calls, turns
//! without a role, and fields about the Gemini API's billing and logs. The Gemini API accepts all
//! of them.

use bytes::Bytes;

use super::ids::PendingCalls;
use super::name::canonical;
use crate::error::{BoxedError, DecodeError};
use crate::json::{MAX_NODES, Reader};
use crate::lossless::{Edit, Span, field_with_comma, splice};

/// Top-level fields that Vertex AI does not support
/// (cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference). Validation accepts
/// only their default values, so they can be dropped.
const UNKNOWN: &[&str] = &["serviceTier", "store"];

/// Converts a body of this format for Vertex AI. Sorts the results of a turn by their calls:
/// without ids, a result belongs to the call at the same position. Fails if the body cannot be read
/// as this format.
pub fn for_vertex(body: &Bytes) -> Result<Bytes, DecodeError> {
    let mut rewrite = VertexRewrite {
        body,
        edits: Vec::new(),
        open: PendingCalls::default(),
        calls: Vec::new(),
    };
    rewrite.read().map_err(|error| *error)?;
    let mut edits = rewrite.edits;
    edits.sort_by_key(|(span, _)| span.start);
    let edits: Vec<Edit<'_>> = edits
        .iter()
        .map(|(span, with)| Edit::replace(*span, with))
        .collect();
    Ok(splice(b"", body, &edits, b""))
}

/// State of one pass over a body.
struct VertexRewrite<'b> {
    body: &'b Bytes,
    edits: Vec<(Span, Vec<u8>)>,
    /// Calls without a result so far.
    open: PendingCalls,
    /// Ids of all calls so far, in order.
    calls: Vec<String>,
}

/// Position of a tool result.
struct Answer {
    part: Span,
    /// Position of the field `id`, from key to value.
    id: Option<Span>,
    /// Index of the call among all calls; `usize::MAX` if no call matches.
    call: usize,
}

/// Relevant fields of a call or of a result.
#[derive(Default)]
struct Function {
    name: String,
    id: Option<String>,
    /// Position of the field `id`, from key to value.
    place: Option<Span>,
}

impl VertexRewrite<'_> {
    fn read(&mut self) -> Result<(), BoxedError> {
        let mut reader = Reader::new(self.body, MAX_NODES)?;
        let mut fields = Vec::new();
        reader.begin_object()?;
        while let Some(key) = reader.key()? {
            let name = canonical(&key.name);
            match &*name {
                "contents" => self.contents(&mut reader)?,
                _ => reader.skip()?,
            }
            let is_known = !UNKNOWN.contains(&&*name);
            fields.push((Span::new(key.start, reader.end()), is_known));
        }
        self.drop_unknown(&fields);
        reader.finish()
    }

    /// Removes fields from the body, each with the comma before it, or with the comma after it if
    /// no field remains before it.
    fn drop_unknown(&mut self, fields: &[(Span, bool)]) {
        let mut previous_end = None;
        for (index, (field, is_known)) in fields.iter().enumerate() {
            let next = fields.get(index + 1).map(|(next, _)| next.start);
            match (is_known, previous_end) {
                (true, _) => previous_end = Some(field.end),
                (false, Some(end)) => {
                    self.edits.push((Span::new(end, field.end), Vec::new()));
                    previous_end = Some(field.end);
                }
                (false, None) => {
                    let end = next.unwrap_or(field.end);
                    self.edits.push((Span::new(field.start, end), Vec::new()));
                }
            }
        }
    }

    fn contents(&mut self, reader: &mut Reader<'_>) -> Result<(), BoxedError> {
        reader.begin_array()?;
        let mut turn = 0;
        while reader.item()? {
            self.turn(reader, turn)?;
            turn += 1;
        }
        Ok(())
    }

    fn turn(&mut self, reader: &mut Reader<'_>, turn: usize) -> Result<(), BoxedError> {
        let start = reader.place();
        let mut has_role = false;
        reader.begin_object()?;
        while let Some(key) = reader.key()? {
            match &*canonical(&key.name) {
                "role" => {
                    let place = reader.place();
                    let is_known =
                        !reader.take_null()? && matches!(&*reader.string()?.decoded(), "user" | "model");
                    if !is_known {
                        let place = Span::new(place, reader.end());
                        self.edits.push((place, br#""user""#.to_vec()));
                    }
                    has_role = true;
                }
                "parts" => self.parts(reader, turn)?,
                _ => reader.skip()?,
            }
        }
        if !has_role {
            self.edits
                .push((Span::at(start + 1), br#""role":"user","#.to_vec()));
        }
        Ok(())
    }

    fn parts(&mut self, reader: &mut Reader<'_>, turn: usize) -> Result<(), BoxedError> {
        if reader.take_null()? {
            return Ok(());
        }
        let (mut number, mut answers) = (0, Vec::new());
        reader.begin_array()?;
        while reader.item()? {
            let start = reader.place();
            let (mut call, mut answer) = (None, None);
            reader.begin_object()?;
            while let Some(key) = reader.key()? {
                match &*canonical(&key.name) {
                    "functionCall" => call = function(reader)?,
                    "functionResponse" => answer = function(reader)?,
                    _ => reader.skip()?,
                }
            }
            let part = Span::new(start, reader.end());
            if let Some(call) = call {
                self.calls.push(self.open.call(turn, number, call.id, &call.name));
                number += 1;
                self.drop_id(call.place);
            }
            if let Some(answer) = answer {
                let id = self.open.answer(answer.id.as_deref(), &answer.name);
                let call = self.calls.iter().position(|call| Some(call) == id.as_ref());
                answers.push(Answer {
                    part,
                    id: answer.place,
                    call: call.unwrap_or(usize::MAX),
                });
            }
        }
        self.answers(answers);
        Ok(())
    }

    /// Sorts the results of one turn by their calls and removes their ids.
    fn answers(&mut self, answers: Vec<Answer>) {
        if answers.is_sorted_by_key(|answer| answer.call) {
            answers.iter().for_each(|answer| self.drop_id(answer.id));
            return;
        }
        let places: Vec<Span> = answers.iter().map(|answer| answer.part).collect();
        let mut ordered = answers;
        ordered.sort_by_key(|answer| answer.call);
        for (place, answer) in places.into_iter().zip(ordered) {
            let gap = answer.id.map(|id| field_with_comma(self.body, id));
            let gap = gap.unwrap_or(Span::at(answer.part.end));
            let before = Span::new(answer.part.start, gap.start).of(self.body);
            let after = Span::new(gap.end, answer.part.end).of(self.body);
            self.edits.push((place, [before, after].concat()));
        }
    }

    fn drop_id(&mut self, id: Option<Span>) {
        if let Some(id) = id {
            self.edits.push((field_with_comma(self.body, id), Vec::new()));
        }
    }
}

/// Reads a function call or a function result; `None` for null.
fn function(reader: &mut Reader<'_>) -> Result<Option<Function>, BoxedError> {
    if reader.take_null()? {
        return Ok(None);
    }
    let mut function = Function::default();
    reader.begin_object()?;
    while let Some(key) = reader.key()? {
        match &*canonical(&key.name) {
            "id" => {
                if !reader.take_null()? {
                    let id = reader.string()?.decoded().into_owned();
                    function.id = Some(id).filter(|id| !id.is_empty());
                }
                function.place = Some(Span::new(key.start, reader.end()));
            }
            "name" if !reader.take_null()? => function.name = reader.string()?.decoded().into_owned(),
            "name" => {}
            _ => reader.skip()?,
        }
    }
    Ok(Some(function))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &str, after: &str) {
        let out = for_vertex(&Bytes::copy_from_slice(before.as_bytes())).unwrap();
        assert_eq!(std::str::from_utf8(&out).unwrap(), after);
        serde_json::from_slice::<serde_json::Value>(&out).unwrap();
    }

    #[test]
    fn every_turn_gets_a_role() {
        check(
            r#"{"contents":[{"parts":[{"text":"a"}]},{ "role" : null, "parts":[]},{"parts":[],"role":"model"}]}"#,
            r#"{"contents":[{"role":"user","parts":[{"text":"a"}]},{ "role" : "user", "parts":[]},{"parts":[],"role":"model"}]}"#,
        );
        check(
            r#"{"contents":[{"role":"function","parts":[]}],"systemInstruction":{"parts":[]}}"#,
            r#"{"contents":[{"role":"user","parts":[]}],"systemInstruction":{"parts":[]}}"#,
        );
    }

    #[test]
    fn only_function_call_ids_are_removed() {
        check(
            r#"{"contents":[{"role":"model","parts":[{"functionCall":{"id":"1","name":"f","args":{"id":"x"}},"thoughtSignature":"s"}]},
                {"role":"user","parts":[{"function_response":{"name":"f","response":{"id":2}, "id":"1"}},{"text":"id"}]}]}"#,
            r#"{"contents":[{"role":"model","parts":[{"functionCall":{"name":"f","args":{"id":"x"}},"thoughtSignature":"s"}]},
                {"role":"user","parts":[{"function_response":{"name":"f","response":{"id":2}}},{"text":"id"}]}]}"#,
        );
        let untouched =
            r#"{"contents":[{"role":"user","parts":[{"text":"a","id":"b"}]}],"tools":[{"id":1}]}"#;
        check(untouched, untouched);
    }

    #[test]
    fn results_follow_the_order_of_their_calls() {
        let calls = r#"{"role":"model","parts":[{"functionCall":{"name":"f","id":"a"}},{"functionCall":{"name":"f","id":"b"}}]}"#;
        let bare =
            r#"{"role":"model","parts":[{"functionCall":{"name":"f"}},{"functionCall":{"name":"f"}}]}"#;
        let result = |id: &str, value: u32| {
            format!(r#"{{"functionResponse":{{{id}"name":"f","response":{{"n":{value}}}}}}}"#)
        };
        let turn = |results: [String; 3]| format!(r#"{{"role":"user","parts":[{}]}}"#, results.join(","));
        let text = || r#"{"text":"t"}"#.to_owned();
        let (a, b) = (result(r#""id":"a","#, 1), result(r#""id":"b","#, 2));
        let expected = format!(
            r#"{{"contents":[{bare},{}]}}"#,
            turn([result("", 1), text(), result("", 2)])
        );
        for results in [
            [b.clone(), text(), a.clone()],
            [a, text(), b],
            // The order of the results already matches that of the calls.
            [result("", 1), text(), result("", 2)],
        ] {
            check(
                &format!(r#"{{"contents":[{calls},{}]}}"#, turn(results)),
                &expected,
            );
        }
    }

    #[test]
    fn gemini_only_fields_are_removed() {
        let rest = r#""contents":[],"generationConfig":{"store":1}"#;
        for before in [
            format!(r#"{{{rest}}}"#),
            format!(r#"{{"store":false,{rest}}}"#),
            format!(r#"{{"service_tier":"standard","store":false,{rest}}}"#),
            format!(r#"{{{rest},"store":false}}"#),
            format!(r#"{{{rest},"store":false,"serviceTier":"STANDARD"}}"#),
            r#"{"store":false,"contents":[],"serviceTier":"STANDARD","generationConfig":{"store":1}}"#
                .to_owned(),
        ] {
            check(&before, &format!("{{{rest}}}"));
        }
        check(r#"{"store":false}"#, "{}");
    }

    #[test]
    fn malformed_bodies_are_refused() {
        for body in ["", "[]", r#"{"contents":{}}"#, r#"{"contents":[1]}"#] {
            assert!(
                for_vertex(&Bytes::copy_from_slice(body.as_bytes())).is_err(),
                "{body}"
            );
        }
    }
}
