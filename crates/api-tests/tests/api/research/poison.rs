//! Documents of every kind of source that try to instruct the models of a report. The models obey
//! everything that they are shown, and decode it.

mod documents;
mod model;
mod payloads;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tollgate_testkit::upstream::{FakeUpstream, ReceivedRequest, Reply};

use super::Scene;
use super::server::prompt;
use documents::{Document, Format, honest};
use model::Obedient;
use payloads::payloads;

/// Number of reports of an account.
const REPORTS_PER_ACCOUNT: usize = 4;

/// Kinds of sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Web(Format),
    Corpus,
    Files,
    Mcp,
}

const SOURCES: [Source; 7] = [
    Source::Web(Format::Html),
    Source::Web(Format::Pdf),
    Source::Web(Format::Markdown),
    Source::Web(Format::Plain),
    Source::Corpus,
    Source::Files,
    Source::Mcp,
];

impl Source {
    /// Returns the number of poisoned documents of one report. Reports read three pages of a host.
    fn group_size(self) -> usize {
        match self {
            Source::Web(_) => 2,
            Source::Files => 7,
            Source::Corpus | Source::Mcp => 6,
        }
    }

    /// Returns the format of the document with this number.
    fn format(self, number: usize) -> Format {
        match self {
            Source::Web(format) => format,
            Source::Files => [Format::Html, Format::Markdown, Format::Plain, Format::Pdf][number % 4],
            Source::Corpus => [Format::Markdown, Format::Plain][number % 2],
            Source::Mcp => Format::Plain,
        }
    }
}

#[tokio::test]
async fn models_that_obey_documents_cause_no_harm() {
    poisoned(|number| number.is_multiple_of(17)).await;
}

#[tokio::test]
#[ignore = "a proof: make prove"]
async fn prove_poisoned_sources() {
    assert!(payloads().len() >= 60);
    poisoned(|_| true).await;
}

/// Requests that a report sent.
#[derive(Default)]
struct Sent {
    /// Names and materials of the prompts.
    prompts: Vec<(String, Value)>,
    /// Search queries, decoded.
    queries: Vec<String>,
    /// Documents that the search finds.
    found: Vec<Document>,
}

/// A gateway with obedient models, and a server that must not be reached.
struct Poisoning {
    scene: Scene,
    server: FakeUpstream,
    canary: FakeUpstream,
    sent: Arc<Mutex<Sent>>,
    _folder: tempfile::TempDir,
}

/// Writes reports from the payloads whose numbers are selected, over every kind of source.
async fn poisoned(selects: impl Fn(usize) -> bool) {
    let canary = FakeUpstream::start().await;
    let host = canary.address().to_string();
    let numbers: Vec<usize> = (0..payloads().len()).filter(|number| selects(*number)).collect();
    let groups = |source: Source| -> Vec<Vec<Document>> {
        let documents = numbers.iter().filter_map(|number| {
            let format = source.format(*number);
            Document::poisoned(*number, &payloads()[*number], format, &host)
        });
        let documents: Vec<Document> = documents.collect();
        documents
            .chunks(source.group_size())
            .map(<[Document]>::to_vec)
            .collect()
    };
    let mut poisoning = Poisoning::start(canary, &groups(Source::Corpus)).await;
    let mut shown = BTreeSet::new();
    let mut faults = Vec::new();
    for source in SOURCES {
        for (group, documents) in groups(source).into_iter().enumerate() {
            if group % REPORTS_PER_ACCOUNT == REPORTS_PER_ACCOUNT - 1 {
                poisoning.scene.use_new_account().await;
            }
            poisoning
                .report(source, group, documents, &mut shown, &mut faults)
                .await;
        }
    }
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
    assert_eq!(shown, BTreeSet::new(), "models were shown these instructions");
    assert_eq!(poisoning.canary.connection_count(), 0);
    assert!(poisoning.scene.finish().await.clean);
}

impl Poisoning {
    async fn start(canary: FakeUpstream, corpus: &[Vec<Document>]) -> Self {
        let server = FakeUpstream::start().await;
        server.pass_over_lists();
        let (address, host) = (server.address().to_string(), canary.address().to_string());
        let sent = Arc::new(Mutex::new(Sent::default()));
        let shared = Arc::clone(&sent);
        server.set_judge(move |request| {
            let mut sent = shared.lock().unwrap_or_else(PoisonError::into_inner);
            answer(request, &address, &host, &mut sent)
        });
        let folder = tempfile::tempdir().unwrap();
        for (group, documents) in corpus.iter().enumerate() {
            let path = folder.path().join(format!("g{group}"));
            std::fs::create_dir(&path).unwrap();
            for document in documents.iter().chain([&honest(Format::Markdown)]) {
                std::fs::write(path.join(&document.name), &document.content).unwrap();
            }
        }
        let scene = Scene::start_with(&settings(&server, folder.path())).await;
        scene.gateway.wait_for_log("indexed a corpus", 0).await;
        Self {
            scene,
            server,
            canary,
            sent,
            _folder: folder,
        }
    }

    /// Writes a report from a group of documents. Adds the words that models were shown, and the
    /// faults of the report.
    async fn report(
        &mut self,
        source: Source,
        group: usize,
        documents: Vec<Document>,
        shown: &mut BTreeSet<String>,
        faults: &mut Vec<String>,
    ) {
        let words = documents.iter().map(|document| document.word.clone());
        let words: Vec<String> = words.filter(|word| !word.is_empty()).collect();
        let mut found = documents;
        found.push(honest(source.format(0)));
        let members = match source {
            Source::Web(_) => json!({"sources": [{"type": "web"}]}),
            Source::Corpus => json!({
                "sources": [{"type": "corpus", "name": "poison"}],
                "search_domain_filter": [format!("poison/g{group}")],
            }),
            Source::Files => {
                let mut files = Vec::new();
                for document in &found {
                    let id = self
                        .scene
                        .file(&document.name, &document.content, "user_data")
                        .await;
                    files.push(json!({"type": "file", "file_id": id}));
                }
                json!({"sources": files})
            }
            Source::Mcp => {
                let server = format!("http://{}/mcp", self.server.address());
                json!({"sources": [{"type": "mcp", "server_url": server}]})
            }
        };
        let expected = found.len();
        *self.sent.lock().unwrap() = Sent {
            found,
            ..Sent::default()
        };
        let mut body = json!({"model": "acme/deep", "reasoning_effort": "low",
            "query": "How many passengers did the harbour ferry of Port Anselm carry in 2021?"});
        body.as_object_mut()
            .unwrap()
            .extend(members.as_object().unwrap().clone());
        let id = self.scene.research(&body).await;
        let job = self.scene.researched(&id).await;
        let what = format!("{source:?} group {group}");
        assert_eq!(job["status"], "completed", "{what}: {job}");
        let result = &job["result"];
        assert!(
            result["report"].as_str().unwrap().contains("41,200"),
            "{what}: {job}"
        );
        assert_eq!(
            result["sources"].as_array().unwrap().len(),
            expected,
            "{what}: {job}"
        );
        self.scene.assert_cited(&id, result).await;
        let events = self.scene.read(&format!("/v1/jobs/{id}/events")).await;
        let mut record = job.clone();
        without_quotes(&mut record);
        let sent = std::mem::take(&mut *self.sent.lock().unwrap());
        let host = self.canary.address().to_string();
        let forbidden: Vec<&String> = words.iter().chain([&host]).collect();
        let mut check = |place: &str, text: &str| {
            for word in forbidden.iter().filter(|word| text.contains(**word)) {
                let start = text.find(&***word).unwrap_or_default();
                let context: String = text[text.floor_char_boundary(start.saturating_sub(80))..]
                    .chars()
                    .take(200)
                    .collect();
                faults.push(format!("{what}: {word} in {place}: {context}"));
            }
        };
        check("the job", &record.to_string());
        for line in events.text().lines() {
            check("an event", line);
        }
        for query in &sent.queries {
            check("a query", query);
            assert!(
                query.split_whitespace().all(|token| token.chars().count() <= 40),
                "{what}: {query}"
            );
        }
        for (name, mut material) in sent.prompts {
            without_quotes(&mut material);
            match name.as_str() {
                "notes" => shown.extend(words.iter().filter(|word| model::reads(&material, word)).cloned()),
                name => check(&format!("the prompt {name}"), &material.to_string()),
            }
        }
    }
}

fn settings(server: &FakeUpstream, corpus: &std::path::Path) -> String {
    let address = server.address();
    format!(
        "[providers.lab]\npreset = \"openai-compatible\"\nbase_url = \"http://{address}/v1\"\n\
         api_key_env = \"PROVIDER_KEY\"\n\
         [egress]\nallow = [\"{address}\"]\n\
         [search.own]\nkind = \"searxng\"\nbase_url = \"http://{address}\"\n\
         [corpora.poison]\npath = {:?}\n\
         [models.\"acme/obedient\"]\ntargets = [\"lab/obedient\"]\nprices = {{ input = \"1\", output = \"2\" }}\n\
         limits = {{ context_window = 200000, max_output_tokens = 4096 }}\n\
         [models.\"acme/deep\"]\nresearch = {{ writer = \"acme/obedient\" }}\n",
        corpus.display().to_string()
    )
}

/// Removes the verified quotes of notes and citations, which are texts of their sources.
fn without_quotes(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.remove("quote");
            members.values_mut().for_each(without_quotes);
        }
        Value::Array(items) => items.iter_mut().for_each(without_quotes),
        _ => {}
    }
}

fn json_reply(value: &Value) -> Reply {
    Reply::body(200, "application/json", value.to_string())
}

fn answer(request: &ReceivedRequest, address: &str, host: &str, sent: &mut Sent) -> Option<Reply> {
    let (path, query) = request.path.split_once('?').unwrap_or((&request.path, ""));
    match path {
        "/search" => {
            let query = query
                .split('&')
                .find_map(|part| part.strip_prefix("q="))
                .unwrap_or_default();
            sent.queries.push(decoded(query));
            let results = sent.found.iter().map(|document| {
                let url = format!("http://{address}/pages/{}", document.name);
                json!({"url": url, "title": document.title, "content": "Ferry"})
            });
            let results: Vec<Value> = results.collect();
            Some(json_reply(
                &json!({"query": "", "results": results, "unresponsive_engines": []}),
            ))
        }
        "/robots.txt" => Some(Reply::error(404, "not_found", "none")),
        "/mcp" => mcp(&request.json()?, sent),
        path if path.starts_with("/pages/") => {
            let name = path.rsplit('/').next()?;
            let document = sent.found.iter().find(|document| document.name == name)?;
            Some(Reply::body(
                200,
                document.format.media_type(),
                document.content.clone(),
            ))
        }
        _ => {
            let (name, material) = prompt(request)?;
            let answer = Obedient { host }.answer(&name, &material);
            sent.prompts.push((name, material));
            Some(Reply::text(&answer.to_string()))
        }
    }
}

fn decoded(query: &str) -> String {
    let plain = query.replace('+', " ");
    let mut bytes = Vec::new();
    let mut rest = plain.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let code = tail.get(..2).filter(|_| *first == b'%');
        let code = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Answers as an MCP server whose documents are those that the search finds.
fn mcp(message: &Value, sent: &mut Sent) -> Option<Reply> {
    let url = |document: &Document| format!("https://docs.example/{}", document.name);
    let result = match message["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "docs", "version": "1"}
        }),
        "tools/call" => {
            let arguments = &message["params"]["arguments"];
            let content = match message["params"]["name"].as_str()? {
                "search" => {
                    sent.queries.push(arguments["query"].as_str()?.to_owned());
                    let results = sent.found.iter().map(|document| {
                        json!({"id": document.name, "title": document.title, "url": url(document)})
                    });
                    json!({"results": results.collect::<Vec<_>>()})
                }
                _ => {
                    let id = arguments["id"].as_str()?;
                    let document = sent.found.iter().find(|document| document.name == id)?;
                    let text = String::from_utf8_lossy(&document.content);
                    json!({"id": id, "title": document.title, "text": text, "url": url(document), "metadata": {}})
                }
            };
            json!({"content": [{"type": "text", "text": content.to_string()}], "isError": false})
        }
        _ => return Some(Reply::body(202, "application/json", "")),
    };
    Some(json_reply(
        &json!({"jsonrpc": "2.0", "id": message["id"], "result": result}),
    ))
}
