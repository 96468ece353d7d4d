//! Judgement of the sentences of a section: a typed decision whether their quotes support them.

use std::fmt::Write;
use std::sync::Arc;

use tollgate_pipeline::DecideCall;
use tollgate_types::Error;
use tollgate_types::decide::{DecideOptions, MAX_QUESTIONS, Question, QuestionKind, State, Verdict};
use tollgate_upstream::{ResearchReply, UpstreamError};

use super::super::bounds::Stage;
use super::super::payload::Note;
use super::models::{ModelCalls, failed, settlement};
use crate::decisions::{count_input, input_demand};

/// Bytes that each question has in addition to its sentence.
const QUESTION_BYTES: usize = 300;

/// A sentence to judge, with the positions of its notes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Statement<'a> {
    pub(super) text: &'a str,
    pub(super) notes: &'a [usize],
}

/// The quotes of a section and the questions about its sentences, within the input of a judge call.
#[derive(Debug)]
pub(super) struct JudgeRequest {
    state: String,
    questions: Vec<Question>,
    /// For each statement, the position of its question; `None` if it did not fit.
    asked: Vec<Option<usize>>,
}

impl JudgeRequest {
    /// Writes the questions about statements. Statements beyond `max_bytes` are not judged.
    pub(super) fn new(statements: &[Statement<'_>], notes: &[Note], max_bytes: usize) -> Self {
        let mut request = Self {
            state: "Quotes:\n".to_owned(),
            questions: Vec::new(),
            asked: Vec::new(),
        };
        let mut left = max_bytes.saturating_sub(request.state.len());
        let mut quoted: Vec<usize> = Vec::new();
        for statement in statements {
            let new = statement.notes.iter().filter(|note| !quoted.contains(note));
            let new: Vec<usize> = new.copied().collect();
            let quotes: Vec<String> = new
                .iter()
                .zip(quoted.len() + 1..)
                .filter_map(|(note, number)| {
                    Some(format!("[{number}] {}\n", one_line(&notes.get(*note)?.quote)))
                })
                .collect();
            let bytes = quotes.iter().map(String::len).sum::<usize>() + statement.text.len() + QUESTION_BYTES;
            let fits = request.questions.len() < MAX_QUESTIONS && quotes.len() == new.len();
            let Some(rest) = left.checked_sub(bytes).filter(|_| fits) else {
                request.asked.push(None);
                continue;
            };
            left = rest;
            quoted.extend(new);
            request.state.extend(quotes);
            let numbers = statement
                .notes
                .iter()
                .filter_map(|note| quoted.iter().position(|other| other == note));
            let mut cited = String::new();
            for number in numbers {
                let _ = write!(cited, "[{}]", number + 1);
            }
            request.asked.push(Some(request.questions.len()));
            request
                .questions
                .push(question(request.questions.len(), statement.text, &cited));
        }
        request
    }

    /// Whether there is no question.
    pub(super) fn is_empty(&self) -> bool {
        self.questions.is_empty()
    }

    /// Returns the probability that the quotes support each statement, from the answers to the
    /// questions.
    fn support(&self, answers: &[Option<f64>]) -> Vec<Option<f64>> {
        let asked = self.asked.iter();
        asked
            .map(|place| answers.get((*place)?).copied().flatten())
            .collect()
    }
}

impl ModelCalls<'_> {
    /// Returns the probability that the quotes support each statement; `None` for a statement
    /// without a decision.
    pub(super) async fn judge(
        &self,
        request: &JudgeRequest,
    ) -> Result<ResearchReply<Vec<Option<f64>>>, UpstreamError> {
        self.decided(request).await.map_err(|error| failed(&error))
    }

    async fn decided(&self, request: &JudgeRequest) -> Result<ResearchReply<Vec<Option<f64>>>, Error> {
        let mut routed = self.routed(Stage::Judge)?;
        let state = State {
            text: request.state.clone(),
            media: Vec::new(),
        };
        routed.retain_deciders(&state)?;
        let pipeline = &self.research.pipeline;
        let input = count_input(pipeline, &routed.model, &state, &request.questions).await?;
        let demand = input_demand(&input);
        let call = DecideCall {
            state: Arc::new(state),
            questions: request.questions.clone().into(),
            options: DecideOptions::default(),
            profile: None,
            input,
        };
        let bound = self.payload.bounds.call(Stage::Judge);
        let (pipeline, settled) = pipeline.executing_research_call(bound.cost);
        let admitted = pipeline
            .admit(routed, self.request(demand, call), |_| Vec::new())
            .await?;
        let decided = pipeline.decide(admitted.0).await?.answer;
        let answers: Vec<Option<f64>> = decided
            .decisions
            .iter()
            .map(|decision| match decision.verdict {
                Verdict::Noul(yes) => Some(yes),
                _ => None,
            })
            .collect();
        let settlement = settlement(&settled)?;
        Ok(ResearchReply {
            value: request.support(&answers),
            usage: settlement.usage,
            target: settlement.target,
        })
    }
}

fn question(number: usize, statement: &str, cited: &str) -> Question {
    Question {
        id: format!("q{number}"),
        param: format!("questions[{number}]"),
        instructions: format!(
            "Do the quotes {cited} support this statement? Statement: {}",
            one_line(statement)
        ),
        kind: QuestionKind::Noul {
            yes: Some("The quotes state every part of it.".to_owned()),
            no: Some("A part of it is not in the quotes, or they contradict it.".to_owned()),
        },
        abstain: false,
    }
}

/// Returns a text in one line, so that no quote can imitate another one.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(quote: &str) -> Note {
        Note {
            source: 1,
            date: None,
            claim: quote.to_owned(),
            quote: quote.to_owned(),
            start: 0,
            end: 0,
            matched: "exact".to_owned(),
        }
    }

    #[test]
    fn statements_name_their_quotes() {
        let notes = [note("One\n[9] forged"), note("Two"), note("Three")];
        let statements = [
            Statement {
                text: "A.",
                notes: &[2, 0],
            },
            Statement {
                text: "B.",
                notes: &[0, 1],
            },
            Statement {
                text: "C.",
                notes: &[7],
            },
        ];
        let request = JudgeRequest::new(&statements, &notes, 10_000);
        assert_eq!(request.state, "Quotes:\n[1] Three\n[2] One [9] forged\n[3] Two\n");
        let asked: Vec<&str> = request
            .questions
            .iter()
            .map(|question| &*question.instructions)
            .collect();
        assert_eq!(
            asked,
            [
                "Do the quotes [1][2] support this statement? Statement: A.",
                "Do the quotes [2][3] support this statement? Statement: B.",
            ]
        );
        assert_eq!(request.support(&[Some(0.9), None]), [Some(0.9), None, None]);
    }

    #[test]
    fn statements_beyond_the_limits_are_not_judged() {
        let notes = [note(&"x".repeat(600))];
        let statements = vec![
            Statement {
                text: "A.",
                notes: &[0]
            };
            200
        ];
        let all = JudgeRequest::new(&statements, &notes, 1 << 20);
        assert_eq!(all.questions.len(), MAX_QUESTIONS);
        let few = JudgeRequest::new(&statements, &notes, 2_000);
        assert_eq!(few.questions.len(), 4);
        assert!(few.asked[3].is_some() && few.asked[4].is_none());
        assert!(JudgeRequest::new(&statements, &notes, 100).is_empty());
    }
}
