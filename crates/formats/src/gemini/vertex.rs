//! The same format as Vertex AI takes it. It refuses what the Gemini API lets through or adds: ids of calls, turns that
//! do not say whose they are, and fields that are about the other service's bills and logs.

use bytes::Bytes;

use super::ids::Open;
use super::name::canonical;
use crate::error::{DecodeError, Flaw};
use crate::json::{MAX_NODES, Reader};
use crate::lossless::{Edit, Span, field_with_comma, splice};

/// Top-level fields that Vertex AI does not know (cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference).
/// What passes validation says nothing by them but what is usual there.
const UNKNOWN: &[&str] = &["serviceTier", "store"];

/// A body of this format as Vertex AI takes it. Results of calls come in the order of their calls: without ids, their
/// places are all that tells which call they answer. Nothing else changes. The error is that of a body that is not in the
/// format.
pub fn for_vertex(body: &Bytes) -> Result<Bytes, DecodeError> {
    let mut pass = Pass {
        body,
        edits: Vec::new(),
        open: Open::default(),
        calls: Vec::new(),
    };
    pass.read().map_err(|flaw| *flaw)?;
    let mut edits = pass.edits;
    edits.sort_by_key(|(span, _)| span.start);
    let edits: Vec<Edit<'_>> = edits
        .iter()
        .map(|(span, with)| Edit::replace(*span, with))
        .collect();
    Ok(splice(b"", body, &edits, b""))
}

/// One look at a body.
struct Pass<'b> {
    body: &'b Bytes,
    edits: Vec<(Span, Vec<u8>)>,
    /// Calls without their results.
    open: Open,
    /// The ids of all calls so far, in their order.
    calls: Vec<String>,
}

/// A result of a call.
struct Answer {
    part: Span,
    /// Its id, from the key to the value.
    id: Option<Span>,
    /// The place of its call among all calls.
    call: usize,
}

/// What a part has in it that is looked at.
#[derive(Default)]
struct Function {
    name: String,
    id: Option<String>,
    /// From the key to the value.
    place: Option<Span>,
}

impl Pass<'_> {
    fn read(&mut self) -> Result<(), Flaw> {
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

    /// Takes fields out of the body, each with the comma before it or, as long as none stays before it, behind it.
    fn drop_unknown(&mut self, fields: &[(Span, bool)]) {
        let mut kept_before = None;
        for (index, (field, is_known)) in fields.iter().enumerate() {
            let next = fields.get(index + 1).map(|(next, _)| next.start);
            match (is_known, kept_before) {
                (true, _) => kept_before = Some(field.end),
                (false, Some(end)) => {
                    self.edits.push((Span::new(end, field.end), Vec::new()));
                    kept_before = Some(field.end);
                }
                (false, None) => {
                    let end = next.unwrap_or(field.end);
                    self.edits.push((Span::new(field.start, end), Vec::new()));
                }
            }
        }
    }

    fn contents(&mut self, reader: &mut Reader<'_>) -> Result<(), Flaw> {
        reader.begin_array()?;
        let mut turn = 0;
        while reader.item()? {
            self.turn(reader, turn)?;
            turn += 1;
        }
        Ok(())
    }

    fn turn(&mut self, reader: &mut Reader<'_>, turn: usize) -> Result<(), Flaw> {
        let start = reader.place();
        let mut says_whose = false;
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
                    says_whose = true;
                }
                "parts" => self.parts(reader, turn)?,
                _ => reader.skip()?,
            }
        }
        if !says_whose {
            self.edits
                .push((Span::at(start + 1), br#""role":"user","#.to_vec()));
        }
        Ok(())
    }

    fn parts(&mut self, reader: &mut Reader<'_>, turn: usize) -> Result<(), Flaw> {
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

    /// Brings the results of one turn into the order of their calls, without their ids.
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

/// A call, or the result of one.
fn function(reader: &mut Reader<'_>) -> Result<Option<Function>, Flaw> {
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
    fn every_turn_says_whose_it_is() {
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
    fn ids_of_calls_are_left_out_and_nothing_that_is_called_alike() {
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
    fn results_stand_in_the_order_of_their_calls() {
        let calls = r#"{"role":"model","parts":[{"functionCall":{"name":"f","id":"a"}},{"functionCall":{"name":"f","id":"b"}}]}"#;
        let bare =
            r#"{"role":"model","parts":[{"functionCall":{"name":"f"}},{"functionCall":{"name":"f"}}]}"#;
        let result = |id: &str, what: u32| {
            format!(r#"{{"functionResponse":{{{id}"name":"f","response":{{"n":{what}}}}}}}"#)
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
            // Without ids the places have always told.
            [result("", 1), text(), result("", 2)],
        ] {
            check(
                &format!(r#"{{"contents":[{calls},{}]}}"#, turn(results)),
                &expected,
            );
        }
    }

    #[test]
    fn fields_of_the_other_service_are_left_out_wherever_they_stand() {
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
    fn what_is_not_in_the_format_is_said() {
        for body in ["", "[]", r#"{"contents":{}}"#, r#"{"contents":[1]}"#] {
            assert!(
                for_vertex(&Bytes::copy_from_slice(body.as_bytes())).is_err(),
                "{body}"
            );
        }
    }
}
