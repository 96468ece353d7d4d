//! A server with everything that a report calls: the models of all roles, a search service and its
//! pages. It counts the calls, and holds them for a test.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tollgate_testkit::upstream::{Answer, FakeUpstream, Gate, ReceivedRequest, Reply, Usage};

use crate::scene::with;

/// Price of a query to the search service, in nano-credits.
pub(super) const QUERY_PRICE: i64 = 2_000_000;
/// Cost of each call of a planner, reader or writer, in nano-credits.
pub(super) const CALL_PRICE: i64 = 120_000;
/// Tokens of each of these calls: the prompt, and the completion.
const TOKENS: (u64, u64) = (100, 10);
/// Corrected sentences of both sections.
const CORRECTED: [&str; 2] = [
    "It takes about 40 minutes.",
    "They are stored in a second region.",
];

/// Kind of a call, in the order of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Plan,
    Search,
    Page,
    Notes,
    Reflection,
    Outline,
    Section,
    Judgement,
    Corrections,
    SecondJudgement,
}

impl Kind {
    pub(super) const ALL: [Kind; 10] = [
        Kind::Plan,
        Kind::Search,
        Kind::Page,
        Kind::Notes,
        Kind::Reflection,
        Kind::Outline,
        Kind::Section,
        Kind::Judgement,
        Kind::Corrections,
        Kind::SecondJudgement,
    ];

    /// Returns the number of calls of this kind that a report makes concurrently.
    pub(super) fn count(self) -> usize {
        match self {
            Kind::Plan | Kind::Reflection | Kind::Outline => 1,
            _ => 2,
        }
    }

    /// Whether the call has a price. Other calls are not counted as lost.
    pub(super) fn is_paid(self) -> bool {
        self != Kind::Page
    }
}

/// Call of a report: the name of the report's unit, the kind, and the subject.
pub(super) type Call = (String, Kind, &'static str);

#[derive(Default)]
struct State {
    /// Number of times that each call was received.
    calls: BTreeMap<Call, usize>,
    /// Kind and, if not all calls of the kind are held, subject of the held calls of each unit.
    held: BTreeMap<String, (Kind, Option<&'static str>)>,
    /// Number of held calls of each unit.
    waiting: BTreeMap<String, usize>,
    gate: Gate,
    /// Tokens that models report; [`TOKENS`] if not set.
    tokens: Option<(u64, u64)>,
}

/// The running server.
pub(super) struct ResearchServer {
    pub(super) server: FakeUpstream,
    state: Arc<Mutex<State>>,
}

impl ResearchServer {
    pub(super) async fn start() -> Self {
        let server = FakeUpstream::start().await;
        server.pass_over_lists();
        let (state, address) = (
            Arc::new(Mutex::new(State::default())),
            server.address().to_string(),
        );
        let shared = Arc::clone(&state);
        server.set_judge(move |request| {
            let (call, reply) = match request.path.split('?').next()? {
                "/search" => search(request, &address)?,
                path if path.starts_with("/pages/") => page(path)?,
                "/robots.txt" => return Some(Reply::error(404, "not_found", "none")),
                path if path.ends_with("/systemone") => judgement(request)?,
                _ => {
                    let tokens = lock(&shared).tokens;
                    answer(request, tokens.unwrap_or(TOKENS))?
                }
            };
            Some(lock(&shared).received(call, reply.close()))
        });
        Self { server, state }
    }

    /// Returns the settings of the model `acme/deep`, which uses this server alone.
    pub(super) fn settings(&self) -> String {
        let address = self.server.address();
        let models = ["planner", "reader", "writer", "judge"].map(|role| {
            format!(
                "[models.\"acme/{role}\"]\ntargets = [\"lab/{role}\"]\nprices = {{ input = \"1\", output = \"2\" }}\n\
                 limits = {{ context_window = 200000, max_output_tokens = 4096 }}\n"
            )
        });
        format!(
            "[providers.lab]\npreset = \"openai-compatible\"\nbase_url = \"http://{address}/v1\"\n\
             api_key_env = \"PROVIDER_KEY\"\non_disconnect = \"stop\"\n\
             [egress]\nallow = [\"{address}\"]\n\
             [search.own]\nkind = \"searxng\"\nbase_url = \"http://{address}\"\nprice = \"0.002\"\ntimeout_ms = 60000\n\
             [research]\nper_account = 32\n\
             [models.\"acme/deep\"]\nresearch = {{ planner = \"acme/planner\", reader = \"acme/reader\", \
             writer = \"acme/writer\", judge = \"acme/judge\" }}\n{}",
            models.concat()
        )
    }

    /// Holds the calls of a kind in the report of a unit until [`release`](Self::release).
    pub(super) fn hold(&self, unit: &str, kind: Kind) {
        lock(&self.state).held.insert(unit.to_owned(), (kind, None));
    }

    /// Like [`hold`](Self::hold), but for calls with this subject.
    pub(super) fn hold_subject(&self, unit: &str, kind: Kind, subject: &'static str) {
        let held = (kind, Some(subject));
        lock(&self.state).held.insert(unit.to_owned(), held);
    }

    /// Waits until this many calls of a unit are held.
    pub(super) async fn until_held(&self, unit: &str, count: usize) {
        let held = |_: &FakeUpstream| lock(&self.state).waiting.get(unit).copied() >= Some(count);
        self.server
            .wait_until(&format!("{count} calls of {unit} are held"), held)
            .await;
    }

    /// Waits until this many calls were received.
    pub(super) async fn until_received(&self, count: usize) {
        let received = |_: &FakeUpstream| self.received() >= count;
        self.server.wait_until(&format!("{count} calls"), received).await;
    }

    /// Answers the held calls, and holds no more.
    pub(super) fn release(&self) {
        let mut state = lock(&self.state);
        state.held.clear();
        state.waiting.clear();
        std::mem::take(&mut state.gate).open();
    }

    /// Makes planner, reader and writer report these tokens: of the prompt, and of the completion.
    pub(super) fn report_tokens(&self, tokens: (u64, u64)) {
        lock(&self.state).tokens = Some(tokens);
    }

    /// Returns the number of received calls.
    pub(super) fn received(&self) -> usize {
        lock(&self.state).calls.values().sum()
    }

    /// Returns the number of times that each call of a unit was received.
    pub(super) fn calls(&self, unit: &str) -> BTreeMap<Call, usize> {
        let calls = lock(&self.state).calls.clone();
        calls.into_iter().filter(|((of, ..), _)| of == unit).collect()
    }
}

/// Returns a question about the backups of a unit.
pub(super) fn question(unit: &str, members: Value) -> Value {
    let query = format!("When does the nightly backup of {unit} start, and how long is it stored?");
    with(
        json!({"model": "acme/deep", "query": query, "reasoning_effort": "medium"}),
        members,
    )
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn received(&mut self, call: Call, reply: Reply) -> Reply {
        let (unit, kind, subject) = call.clone();
        *self.calls.entry(call).or_default() += 1;
        let is_held = self
            .held
            .get(&unit)
            .is_some_and(|(held, only)| *held == kind && only.is_none_or(|only| only == subject));
        if !is_held {
            return reply;
        }
        *self.waiting.entry(unit).or_default() += 1;
        reply.hold_head(&self.gate)
    }
}

/// Returns the name of the unit in a text: a word that begins with `Unit`.
fn unit(text: &str) -> Option<String> {
    let start = text.find("Unit")?;
    let name = text[start..].chars().take_while(char::is_ascii_alphabetic);
    Some(name.collect())
}

/// Returns the first of these words that a text contains.
fn subject(text: &str, words: &[&'static str]) -> &'static str {
    words
        .iter()
        .find(|word| text.contains(**word))
        .copied()
        .unwrap_or("")
}

/// Returns the results of SearXNG: one page for each query.
fn search(request: &ReceivedRequest, address: &str) -> Option<(Call, Reply)> {
    let (unit, subject) = (
        unit(&request.path)?,
        subject(&request.path, &["restored", "stored", "start"]),
    );
    let url = format!("http://{address}/pages/{unit}/{subject}");
    let results = json!({"query": "", "unresponsive_engines": [],
        "results": [{"url": url, "title": format!("{unit} {subject}"), "content": "Backups"}]});
    let reply = Reply::body(200, "application/json", results.to_string());
    Some(((unit, Kind::Search, subject), reply))
}

fn page(path: &str) -> Option<(Call, Reply)> {
    let (unit, subject) = (unit(path)?, subject(path, &["restored", "stored", "start"]));
    let text = match subject {
        "start" => format!("The nightly backup of {unit} starts at 02:30 and takes about 40 minutes."),
        "stored" => format!("Copies of {unit} are stored for 35 days in a second region of the provider."),
        _ => format!("One backup of {unit} is restored every month by the team for operations, as a test."),
    };
    let page = format!(
        "<!doctype html><html><head><title>{subject}</title></head><body><article><p>{text}</p></article></body></html>"
    );
    Some((
        (unit, Kind::Page, subject),
        Reply::body(200, "text/html; charset=utf-8", page),
    ))
}

/// Answers as a judge that accepts every statement.
fn judgement(request: &ReceivedRequest) -> Option<(Call, Reply)> {
    let body = request.json()?;
    let all = body.to_string();
    let kind = match CORRECTED.iter().any(|text| all.contains(text)) {
        true => Kind::SecondJudgement,
        false => Kind::Judgement,
    };
    let questions = body["questions"].as_object()?.keys();
    let answers: serde_json::Map<String, Value> = questions
        .map(|id| (id.clone(), json!({"type": "noul", "noul": 0.95})))
        .collect();
    let usage = json!({"input_tokens": TOKENS.0, "output_tokens": 0, "total_tokens": TOKENS.0});
    let answer = json!({"model": body["model"], "answers": answers, "usage": usage});
    let call = (unit(&all)?, kind, subject(&all, &["02:30", "35 days"]));
    Some((call, Reply::body(200, "application/json", answer.to_string())))
}

/// Returns the name of the schema and the material of a request to a model.
pub(super) fn prompt(request: &ReceivedRequest) -> Option<(String, Value)> {
    let body = request.json()?;
    let name = body["response_format"]["json_schema"]["name"]
        .as_str()?
        .to_owned();
    let messages = body["messages"].as_array()?;
    let material = messages.last()?["content"].as_str()?;
    Some((name, serde_json::from_str(material).ok()?))
}

/// Returns the ids of the notes whose claims contain `word`.
pub(super) fn notes_with(material: &Value, word: &str) -> Vec<Value> {
    let notes = material["notes"].as_array().unwrap().iter();
    let found = notes.filter(|note| note["claim"].as_str().unwrap().contains(word));
    found.map(|note| note["id"].clone()).collect()
}

/// Answers as a planner, reader or writer. Each section has a wrong figure.
fn answer(request: &ReceivedRequest, (prompt_tokens, completion): (u64, u64)) -> Option<(Call, Reply)> {
    let (name, material) = prompt(request)?;
    let unit = unit(material["question"].as_str()?)?;
    let sentence = |text: &str, notes: &[Value]| json!({"text": text, "notes": notes});
    let (kind, subject, answer) = match name.as_str() {
        "plan" => {
            let queries = [
                format!("{unit} backup start"),
                format!("{unit} backup stored days"),
            ];
            (
                Kind::Plan,
                "",
                json!({"questions": ["When does it start?"], "queries": queries}),
            )
        }
        "notes" => {
            let page = &material["page"];
            let text = page["passages"][0].as_str()?;
            let notes = json!({"notes": [{"claim": text, "quote": text}]});
            let subject = subject(page["title"].as_str()?, &["start", "restored", "stored"]);
            (Kind::Notes, subject, notes)
        }
        "reflection" => {
            let is_complete = !notes_with(&material, "every month").is_empty();
            let queries: Vec<String> = (!is_complete)
                .then(|| format!("{unit} backup restored"))
                .into_iter()
                .collect();
            let subject = if is_complete { "complete" } else { "" };
            (
                Kind::Reflection,
                subject,
                json!({"gaps": [], "contradictions": [], "queries": queries}),
            )
        }
        "outline" => {
            let stored = [
                notes_with(&material, "35 days"),
                notes_with(&material, "every month"),
            ]
            .concat();
            let sections = json!({"sections": [
                {"title": "start of the backup", "notes": notes_with(&material, "02:30")},
                {"title": "storage of the backup", "notes": stored},
            ]});
            (Kind::Outline, "", sections)
        }
        "section" => {
            let subject = subject(material["section"].as_str()?, &["start", "storage"]);
            let (notes, texts) = match subject {
                "start" => (
                    notes_with(&material, "02:30"),
                    [
                        "The nightly backup starts at 02:30.",
                        "It takes about 45 minutes.",
                    ],
                ),
                _ => (
                    notes_with(&material, "35 days"),
                    [
                        "The copies are stored for 35 days.",
                        "They are stored 77 times in a second region.",
                    ],
                ),
            };
            let sentences: Vec<Value> = texts.iter().map(|text| sentence(text, &notes)).collect();
            (
                Kind::Section,
                subject,
                json!({"paragraphs": [{"sentences": sentences}]}),
            )
        }
        "corrections" => {
            let sentence = material["sentences"].as_array()?.first()?;
            let (subject, word, text) = match sentence["text"].as_str()?.contains("45 minutes") {
                true => ("start", "02:30", CORRECTED[0]),
                false => ("storage", "35 days", CORRECTED[1]),
            };
            let corrected = json!({"id": sentence["id"], "text": text, "notes": notes_with(sentence, word)});
            (Kind::Corrections, subject, json!({"sentences": [corrected]}))
        }
        other => panic!("unexpected prompt {other}"),
    };
    let usage = Usage::Fixed {
        prompt: prompt_tokens,
        completion,
    };
    let reply = Reply::answer(Answer::text(&answer.to_string()).usage(usage));
    Some(((unit, kind, subject), reply))
}
