//! Reads pages: stores the text of a source, and takes notes from its best passages. A note whose
//! quote is not in the text is dropped.

use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use tollgate_evidence::address::{host, site_matches};
use tollgate_evidence::bm25::Bm25;
use tollgate_evidence::figures::unsupported;
use tollgate_evidence::injection::is_suspected;
use tollgate_evidence::passages::passages;
use tollgate_evidence::quote::QuoteFinder;
use tollgate_evidence::report::sanitize_section;
use tollgate_evidence::simhash::{is_near_duplicate, simhash};
use tollgate_evidence::text::{CharText, Span, clean};
use tollgate_storage::{StorageError, StorageErrorKind};
use tollgate_types::Date;
use tollgate_upstream::{NoteDraft, PageExcerpt, SearchBackend, SearchDocument, SourceKind};

use super::super::bounds::{READER_INPUT, Stage};
use super::super::payload::{Hit, Note, PageRead, Payload, Source};
use super::super::sources;
use super::rounds::{Silent, is_within};
use super::steps::{Call, Called, NOTES_STEP, READ_STEP, ROUND_STEPS};
use super::{Engine, Findings, MAX_CONCURRENT_CALLS, Stop};

/// Maximum number of passages of a page that are read.
const MAX_PASSAGES: usize = 8;
/// Maximum number of notes of a page.
const MAX_NOTES: u32 = 8;
/// Counter of the web pages of research jobs.
pub(in super::super) const PAGES: &str = "tollgate_research_pages_total";
/// Flag of a source with passages that address the reader.
const INJECTION: &str = "injection_suspected";
/// Flag of a page with text that readers cannot see. The text is dropped.
const HIDDEN_TEXT: &str = "hidden_text";
/// Flag of a page that could not be read: its text is the excerpt of a search service.
const EXCERPT: &str = "excerpt";

/// A page to read.
pub(in super::super) struct Page {
    hit: Hit,
    /// Backend that found the page; `None` for a web page that a provider cites.
    backend: Option<Arc<dyn SearchBackend>>,
}

impl Page {
    pub(super) fn new(hit: Hit, backend: Arc<dyn SearchBackend>) -> Self {
        Self {
            hit,
            backend: Some(backend),
        }
    }

    /// Returns a web page that a provider cites.
    pub(in super::super) fn web(hit: Hit) -> Self {
        Self { hit, backend: None }
    }

    fn kind(&self) -> SourceKind {
        self.backend
            .as_ref()
            .map_or(SourceKind::Web, |backend| backend.kind())
    }
}

/// Reason why a page has no notes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unread {
    /// The page could not be read.
    Failed,
    /// The page has no text, or a filter excludes it.
    Excluded,
}

/// A source with its text.
struct ReadPage {
    source: Source,
    text: Arc<str>,
}

/// Whether the filters of the request allow a document. With `allows_undated`, a date filter allows
/// a document without a date.
pub(super) fn may_use(payload: &Payload, url: &str, date: Option<Date>, allows_undated: bool) -> bool {
    let filters = &payload.filters;
    let matches = |sites: &[String]| sites.iter().any(|site| is_of_site(url, site));
    let is_site = (filters.include.is_empty() || matches(&filters.include)) && !matches(&filters.exclude);
    let after = filters.after.max(payload.recent_after);
    is_site && (date.is_none() && allows_undated || is_within(date, (after, filters.before)))
}

/// Whether a document is of a site. The site of a document of a corpus is `NAME/path`.
fn is_of_site(url: &str, site: &str) -> bool {
    match url.split_once("://") {
        Some(("http" | "https", _)) => site_matches(url, site),
        Some((_, path)) => path
            .strip_prefix(site)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/')),
        None => false,
    }
}

impl Engine<'_> {
    /// Reads pages and takes notes. Returns whether the budget covered a page.
    pub(super) async fn read(
        &self,
        round: u32,
        pages: Vec<Page>,
        findings: &mut Findings,
    ) -> Result<bool, Stop> {
        let first = findings.pages + 1;
        let tasks = pages.iter().zip(0..).map(|(page, position): (&Page, u32)| {
            let number = round * ROUND_STEPS + READ_STEP + position;
            Box::pin(self.page(number, first + position, page))
        });
        let tasks: Vec<_> = tasks.collect();
        let read: Vec<Result<ReadPage, Unread>> = stream::iter(tasks)
            .buffered(MAX_CONCURRENT_CALLS)
            .try_collect()
            .await?;
        findings.pages += u32::try_from(pages.len()).unwrap_or(u32::MAX);
        let mut new: Vec<(u32, ReadPage)> = Vec::new();
        for (page, position) in read.into_iter().zip(0..) {
            let page = match page {
                Ok(page) => page,
                Err(unread) => {
                    findings.failed_pages += u32::from(unread == Unread::Failed);
                    continue;
                }
            };
            let hash = page.source.simhash;
            let old = findings.sources.iter().map(|source| source.simhash);
            let seen = old.chain(new.iter().map(|(_, page)| page.source.simhash));
            if !seen.into_iter().any(|other| is_near_duplicate(other, hash)) {
                new.push((position, page));
            }
        }
        let tasks = new.iter().map(|(position, page)| {
            let number = round * ROUND_STEPS + NOTES_STEP + position;
            Box::pin(self.notes(number, page, findings))
        });
        let tasks: Vec<_> = tasks.collect();
        let taken: Vec<(Called<Vec<Note>>, bool)> = stream::iter(tasks)
            .buffered(MAX_CONCURRENT_CALLS)
            .try_collect()
            .await?;
        let is_affordable =
            taken.is_empty() || !taken.iter().all(|(one, _)| matches!(one, Called::Unaffordable));
        for ((_, page), (called, is_extracted)) in new.into_iter().zip(taken) {
            findings.is_degraded |= is_extracted;
            match called {
                Called::Done(notes) => {
                    findings.notes.extend(notes);
                    findings.read += 1;
                }
                Called::Failed => findings.is_degraded = true,
                Called::Unaffordable => {}
            }
            findings.sources.push(page.source);
        }
        Ok(is_affordable)
    }

    /// Reads and stores a page. Returns its source and text; `None` if it cannot be read, or a
    /// filter excludes it.
    pub(in super::super) async fn stored_page(
        &self,
        step: u32,
        number: u32,
        page: &Page,
    ) -> Result<Option<(Source, String)>, Stop> {
        let read = self.page(step, number, page).await?.ok();
        Ok(read.map(|page| (page.source, page.text.to_string())))
    }

    /// Stores the text of a page.
    async fn page(&self, step: u32, number: u32, page: &Page) -> Result<Result<ReadPage, Unread>, Stop> {
        let work = self.work.part(Arc::new(Silent));
        let progress = |read: &PageRead| match read {
            PageRead::Stored(source) => self.event("research.source", &super::super::report::source(source)),
            PageRead::Skipped(reason) | PageRead::Excluded(reason) => {
                self.event("research.read", &json!({"url": page.hit.url, "skipped": reason}))
            }
        };
        let mut stored = None;
        let read = self
            .local(&work, step, &progress, async {
                let (read, text) = self.fetch(number, page).await?;
                stored = text;
                Ok(read)
            })
            .await?;
        let source = match read {
            PageRead::Stored(source) => source,
            PageRead::Skipped(_) => return Ok(Err(Unread::Failed)),
            PageRead::Excluded(_) => return Ok(Err(Unread::Excluded)),
        };
        let text = match stored {
            Some(text) => Some(text),
            None => sources::text(self.research, self.work.job().account, source.media).await?,
        };
        let page = text.map(|text| ReadPage {
            source: *source,
            text: text.into(),
        });
        Ok(page.ok_or(Unread::Failed))
    }

    async fn fetch(&self, number: u32, page: &Page) -> Result<(PageRead, Option<String>), Stop> {
        let hit = &page.hit;
        let (mut document, flags) = match self.document(page).await {
            Ok(found) => found,
            Err(reason) => return Ok((PageRead::Skipped(reason), None)),
        };
        let date = document.date.or(hit.date);
        if !may_use(self.payload, &document.url, date, hit.is_date_filtered) {
            return Ok((PageRead::Excluded("excluded by a filter".to_owned()), None));
        }
        let text = std::mem::take(&mut document.text);
        let text = off_the_runtime(move || clean(&text)).await?;
        if text.trim().is_empty() {
            return Ok((PageRead::Excluded("has no text".to_owned()), None));
        }
        self.store(number, page, document, (text, flags)).await
    }

    /// Reads the document of a hit, and returns it with its flags, or the reason why it cannot be
    /// read. If a web page cannot be read, the text from the search service replaces it.
    async fn document(&self, page: &Page) -> Result<(SearchDocument, Vec<String>), String> {
        let hit = &page.hit;
        if let Some(backend) = page.backend.as_ref().filter(|_| hit.is_readable) {
            return match backend.read(&self.ctx, &hit.url).await {
                Ok(Some(document)) => Ok((document, Vec::new())),
                Ok(None) => Err("not found".to_owned()),
                Err(error) => {
                    tracing::warn!(job.id = %self.work.job().terms.id, %error, "a source cannot be read");
                    Err("cannot be read".to_owned())
                }
            };
        }
        let account = self.work.job().account;
        let read = self.research.pages.read(Some(account), &hit.url).await;
        let outcome = read.as_ref().map_or_else(|skipped| skipped.as_str(), |_| "read");
        metrics::counter!(PAGES, "outcome" => outcome).increment(1);
        match read {
            Ok(page) => {
                let flags = page.has_hidden_text.then(|| HIDDEN_TEXT.to_owned());
                Ok((page.document, flags.into_iter().collect()))
            }
            Err(skipped) => match &hit.text {
                Some(text) => {
                    let document = SearchDocument {
                        url: hit.url.clone(),
                        title: hit.title.clone(),
                        author: None,
                        date: hit.date,
                        text: text.clone(),
                    };
                    Ok((document, vec![EXCERPT.to_owned()]))
                }
                None => Err(skipped.to_string()),
            },
        }
    }

    async fn store(
        &self,
        number: u32,
        page: &Page,
        document: SearchDocument,
        (text, mut flags): (String, Vec<String>),
    ) -> Result<(PageRead, Option<String>), Stop> {
        let stored = sources::store(
            self.research,
            self.work.job(),
            number,
            text,
            self.payload.accepted_at,
        );
        let stored = stored.await?;
        let hit = &page.hit;
        let named = [Some(&document.title), document.author.as_ref(), Some(&hit.title)];
        let is_name_suspected = named.into_iter().flatten().any(|name| is_suspected(name));
        let titles = [&document.title, &hit.title];
        let title = titles.into_iter().find_map(|title| name(title));
        let author = document.author.as_deref().and_then(name);
        let text: Arc<str> = stored.text.as_str().into();
        let (is_suspected, simhash) = off_the_runtime(move || {
            let passages = passages(&text);
            let is_suspected = passages.iter().any(|passage| is_suspected(&passage.text));
            (is_suspected, simhash(&text))
        })
        .await?;
        flags.extend((is_suspected || is_name_suspected).then(|| INJECTION.to_owned()));
        let source = Source {
            number,
            kind: page.kind().as_str().to_owned(),
            url: hit.url.clone(),
            final_url: document.url,
            title: title.or_else(|| host(&hit.url)).unwrap_or_default(),
            author,
            date: document.date.or(hit.date),
            retrieved_at: self.research.clock.now(),
            sha256: stored.sha256,
            characters: stored.text.chars().count() as u64,
            simhash,
            media: stored.media,
            flags,
            is_private: page.backend.as_ref().is_some_and(|backend| backend.is_private()),
        };
        Ok((PageRead::Stored(Box::new(source)), Some(stored.text)))
    }

    /// Takes notes from a page. Returns whether they were taken without the model.
    async fn notes(
        &self,
        step: u32,
        page: &ReadPage,
        findings: &Findings,
    ) -> Result<(Called<Vec<Note>>, bool), Stop> {
        let source = &page.source;
        let progress = |notes: &Vec<Note>| {
            let claims: Vec<&str> = notes.iter().map(|note| &*note.claim).collect();
            let body = json!({"source_id": super::super::report::source_id(source.number), "notes": claims});
            self.event("research.read", &body)
        };
        let call = Call::new(step, Stage::Read, &progress);
        let brief = self.brief(findings);
        let (text, question) = (page.text.clone(), self.payload.question().to_owned());
        let parts = brief.parts.to_vec();
        let found = off_the_runtime(move || Readable::new(&text, &question, &parts)).await?;
        let texts: Vec<&str> = found.best.iter().map(String::as_str).collect();
        let text = CharText::new(&page.text);
        let finder = QuoteFinder::new(&text);
        let work = self.work.part(Arc::new(Silent));
        let excerpt = PageExcerpt {
            title: &source.title,
            date: source.date,
            passages: &texts,
        };
        let verified = |drafts: Vec<NoteDraft>| -> Vec<Note> {
            let drafts = drafts.into_iter().take(MAX_NOTES as usize);
            drafts
                .filter_map(|draft| verified(&text, &finder, source, draft))
                .filter(|note| !found.is_left_out(note))
                .collect()
        };
        let called = self
            .call(&work, call, || async {
                let provider = self.provider();
                let reply = provider.read(&self.ctx, &brief, &excerpt, MAX_NOTES).await?;
                Ok(reply.map(verified))
            })
            .await?;
        if self.models.is_none() || !matches!(called, Called::Failed) {
            return Ok((called, false));
        }
        let extracted = self
            .research
            .extractive
            .read(&self.ctx, &brief, &excerpt, MAX_NOTES)
            .await;
        let drafts = extracted.map(|reply| reply.value).unwrap_or_default();
        Ok((Called::Done(verified(drafts)), true))
    }
}

/// Runs a computation over a long text on a thread where it may block.
pub(in super::super) async fn off_the_runtime<T: Send + 'static>(
    compute: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Stop> {
    let computed = tokio::task::spawn_blocking(compute).await;
    computed.map_err(|error| {
        Stop::Storage(StorageError::new(
            StorageErrorKind::Unavailable,
            error.to_string(),
        ))
    })
}

/// The passages of a text that a reader may see.
struct Readable {
    /// The best passages for a question, within the input of a reader call.
    best: Vec<String>,
    /// Ranges of the passages that address the reader.
    left_out: Vec<Span>,
}

impl Readable {
    fn new(text: &str, question: &str, parts: &[String]) -> Self {
        let (left_out, allowed): (Vec<_>, Vec<_>) = passages(text)
            .into_iter()
            .partition(|passage| is_suspected(&passage.text));
        let allowed: Vec<String> = allowed.into_iter().map(|passage| passage.text).collect();
        let query = [question, &parts.join(" ")].join(" ");
        let ranked = Bm25::new(&allowed).rank(&query, MAX_PASSAGES);
        let mut left = READER_INPUT;
        let best = ranked.into_iter().map_while(|(place, _)| {
            let passage = allowed.get(place)?;
            left = left.checked_sub(passage.len() as u64)?;
            Some(passage.clone())
        });
        Self {
            best: best.collect(),
            left_out: left_out.into_iter().map(|passage| passage.span).collect(),
        }
    }

    /// Whether the quote of a note is in a passage that addresses the reader.
    fn is_left_out(&self, note: &Note) -> bool {
        let mut spans = self.left_out.iter();
        spans.any(|span| note.start < span.end as u64 && note.end > span.start as u64)
    }
}

/// Returns a title or an author in one line without markup and URLs; `None` if nothing is left, or
/// if it addresses the reader.
fn name(text: &str) -> Option<String> {
    let name = plain(text);
    (!name.is_empty() && !is_suspected(text)).then_some(name)
}

/// Returns a text in one line without images, HTML and URLs.
fn plain(text: &str) -> String {
    let text = sanitize_section(text, &|_| false);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Finds the quote of a draft in the text of its source; `None` if it is not there. The quote
/// replaces the claim if it lacks a figure or a name of the claim, or if the claim addresses the
/// reader. Claims have no markup and no URLs.
fn verified(
    text: &CharText<'_>,
    finder: &QuoteFinder<'_>,
    source: &Source,
    draft: NoteDraft,
) -> Option<Note> {
    let found = finder.find(&draft.quote)?;
    let quote = text.slice(found.span.start, found.span.end)?;
    let is_supported = unsupported(&draft.claim, &[quote]).is_empty() && !is_suspected(&draft.claim);
    let claim = plain(if is_supported { &draft.claim } else { quote });
    if claim.is_empty() {
        return None;
    }
    Some(Note {
        source: source.number,
        date: source.date,
        claim,
        quote: quote.to_owned(),
        start: found.span.start as u64,
        end: found.span.end as u64,
        matched: found.kind.as_str().to_owned(),
    })
}
