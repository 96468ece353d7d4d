//! Rounds of searching, reading and reflection.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::json;
use tollgate_evidence::address::{canonical, host};
use tollgate_evidence::fusion::fuse;
use tollgate_evidence::query::safe_query;
use tollgate_jobs::{Progress, ProgressListener};
use tollgate_types::{Date, Unit, Usage};
use tollgate_upstream::{
    NoteText, Reflection, ResearchPlan, ResearchReply, SearchHit, SearchQuery, UpstreamError,
};

use super::super::bounds::{PLANNER_INPUT, Stage};
use super::super::cast::QUERY;
use super::super::payload::{Hit, Note, QueryHits};
use super::pages::{Page, may_use};
use super::steps::{Call, Called, PLAN_STEP, REFLECT_STEP, ROUND_STEPS, SEARCH_STEP};
use super::{Engine, Findings, MAX_CONCURRENT_CALLS, Stop, StoppedBy};

/// Maximum number of hits of one query and backend.
const MAX_HITS: u32 = 20;
/// Maximum size of a text that a search service returned, in bytes. It is read if the page itself
/// cannot be.
const MAX_HIT_TEXT_BYTES: usize = 8 << 10;
/// Maximum number of pages of one host. It does not apply to corpora.
const MAX_PAGES_PER_HOST: usize = 3;

/// Listener of a concurrent part. Parts record their events with their steps.
pub(super) struct Silent;

impl ProgressListener for Silent {
    fn on_progress(&self, _: Progress) {}
}

/// Pages that were selected in earlier rounds.
#[derive(Default)]
struct Known {
    addresses: HashSet<String>,
    /// Number of pages of each host.
    hosts: HashMap<String, usize>,
}

impl Engine<'_> {
    /// Plans the report, then searches and reads until the notes suffice or a limit is reached.
    pub(super) async fn search_and_read(&self, findings: &mut Findings) -> Result<StoppedBy, Stop> {
        self.enter("planning", 1).await?;
        findings.plan = self.plan(findings).await?;
        let mut queries = findings.plan.queries.clone();
        let mut asked = HashSet::new();
        let mut known = Known::default();
        let caps = self.payload.bounds.caps;
        for round in 1..=caps.rounds {
            if !self.has_started(round) && self.is_late() {
                return Ok(StoppedBy::Time);
            }
            let left = caps.queries - findings.searches.min(caps.queries);
            let rounds_left = caps.rounds - round + 1;
            let new_queries = choose(&queries, &mut asked, left.div_ceil(rounds_left).max(1).min(left));
            if new_queries.is_empty() {
                let is_exhausted = left == 0;
                return Ok(if is_exhausted {
                    StoppedBy::Searches
                } else {
                    StoppedBy::Complete
                });
            }
            self.enter("searching", share(round, caps.rounds, 0)).await?;
            let Some(found) = self.search(round, &new_queries, findings).await? else {
                return Ok(StoppedBy::Budget);
            };
            let pages_left = caps.pages - findings.pages.min(caps.pages);
            if pages_left == 0 {
                return Ok(StoppedBy::Pages);
            }
            let pages = self.select(&found, &mut known, pages_left.div_ceil(rounds_left));
            self.enter("reading", share(round, caps.rounds, 1)).await?;
            let before = findings.notes.len();
            if !self.read(round, pages, findings).await? {
                return Ok(StoppedBy::Budget);
            }
            if round == caps.rounds {
                break;
            }
            if findings.notes.len() == before && round > 1 {
                return Ok(StoppedBy::Complete);
            }
            self.enter("reflecting", share(round, caps.rounds, 2)).await?;
            let Some(reflection) = self.reflect(round, findings).await? else {
                return Ok(StoppedBy::Budget);
            };
            if reflection.queries.is_empty() {
                return Ok(StoppedBy::Complete);
            }
            queries = reflection.queries;
        }
        Ok(match caps.rounds {
            1 => StoppedBy::Complete,
            _ => StoppedBy::Rounds,
        })
    }

    /// Returns the maximum number of queries of a round.
    fn max_queries(&self) -> u32 {
        let caps = self.payload.bounds.caps;
        caps.queries.div_ceil(caps.rounds.max(1))
    }

    /// Whether a step of this round is recorded.
    fn has_started(&self, round: u32) -> bool {
        let steps = round * ROUND_STEPS..(round + 1) * ROUND_STEPS;
        self.work
            .recorded_steps()
            .iter()
            .any(|step| steps.contains(&step.number))
    }

    /// Whether the wall time has passed.
    fn is_late(&self) -> bool {
        let started = self.work.job().started_at.unwrap_or(self.payload.accepted_at);
        self.research.clock.now().since(started) >= self.payload.bounds.caps.wall()
    }

    async fn plan(&self, findings: &mut Findings) -> Result<ResearchPlan, Stop> {
        let progress = |plan: &ResearchPlan| {
            let body = json!({"questions": plan.parts, "queries": plan.queries});
            self.event("research.plan", &body)
        };
        let call = Call::new(PLAN_STEP, Stage::Plan, &progress);
        let max_queries = self.max_queries();
        let brief = self.brief(findings);
        let called = self
            .call(self.work, call, || {
                self.provider().plan(&self.ctx, &brief, max_queries)
            })
            .await?;
        let mut plan = match called.done() {
            Some(plan) => plan,
            None => {
                let plan = self
                    .research
                    .extractive
                    .plan(&self.ctx, &brief, max_queries)
                    .await;
                findings.is_degraded = true;
                plan.map(|reply| reply.value).unwrap_or_default()
            }
        };
        if plan.parts.is_empty() {
            plan.parts = vec![self.payload.question().to_owned()];
        }
        if plan.queries.is_empty() {
            plan.queries = plan.parts.clone();
        }
        Ok(plan)
    }

    /// Sends queries to all backends and returns the hits, best first. `None` if the budget does
    /// not cover any query.
    async fn search(
        &self,
        round: u32,
        queries: &[String],
        findings: &mut Findings,
    ) -> Result<Option<Vec<Hit>>, Stop> {
        let tasks = queries.iter().zip(0..).map(|(query, position): (&String, u32)| {
            let number = round * ROUND_STEPS + SEARCH_STEP + position;
            Box::pin(self.query(number, query))
        });
        let tasks: Vec<_> = tasks.collect();
        let called: Vec<Called<QueryHits>> = stream::iter(tasks)
            .buffered(MAX_CONCURRENT_CALLS)
            .try_collect()
            .await?;
        let (mut rankings, mut weights) = (Vec::new(), Vec::new());
        let mut is_affordable = false;
        for called in called {
            match called {
                Called::Done(hits) => {
                    is_affordable = true;
                    findings.searches += 1;
                    findings.answered += u32::from(hits.failed.len() < self.backends.len());
                    findings.is_degraded |= !hits.failed.is_empty();
                    weights.extend(hits.answered.iter().map(|name| self.weight(name)));
                    rankings.extend(hits.rankings);
                }
                Called::Failed => {
                    is_affordable = true;
                    findings.searches += 1;
                    findings.is_degraded = true;
                }
                Called::Unaffordable => {}
            }
        }
        Ok(is_affordable.then(|| fused(rankings, &weights)))
    }

    /// Returns the factor of the results of a backend.
    fn weight(&self, name: &str) -> f32 {
        let backend = self.backends.iter().find(|one| one.backend.name() == name);
        backend.map_or(1.0, |backend| backend.weight)
    }

    async fn query(&self, number: u32, text: &str) -> Result<Called<QueryHits>, Stop> {
        let progress = |hits: &QueryHits| {
            let urls: Vec<&str> = hits.rankings.iter().flatten().map(|hit| &*hit.url).collect();
            let body = json!({"query": hits.query, "results": urls.len(), "urls": urls});
            self.event("research.search", &body)
        };
        let call = Call {
            backends: |hits: &QueryHits| hits.answered.clone(),
            ..Call::new(number, Stage::Search, &progress)
        };
        let query = SearchQuery {
            text: text.to_owned(),
            max_hits: MAX_HITS,
            filters: self.payload.filters.clone(),
        };
        let work = self.work.part(Arc::new(Silent));
        self.call(&work, call, || self.ask_backends(&query)).await
    }

    /// Sends a query to all backends. An error if all of them fail.
    async fn ask_backends(&self, query: &SearchQuery) -> Result<ResearchReply<QueryHits>, UpstreamError> {
        let asked = self
            .backends
            .iter()
            .map(|one| async move { (one.backend.name(), one.backend.search(&self.ctx, query).await) });
        let answers = futures_util::future::join_all(asked).await;
        let mut hits = QueryHits {
            query: query.text.clone(),
            ..QueryHits::default()
        };
        let mut error = None;
        for (backend, answer) in answers {
            match answer {
                Ok(found) => {
                    hits.rankings.push(self.allowed(backend, found));
                    hits.answered.push(backend.to_owned());
                }
                Err(failure) => {
                    tracing::warn!(job.id = %self.work.job().terms.id, backend, error = %failure, "a search backend failed");
                    hits.failed.push(backend.to_owned());
                    error = Some(failure);
                }
            }
        }
        match error {
            Some(error) if hits.rankings.is_empty() => Err(error),
            _ => Ok(ResearchReply {
                usage: Usage::ZERO.with(Unit::Search, QUERY * hits.answered.len() as u64),
                target: "".into(),
                value: hits,
            }),
        }
    }

    /// Returns the hits that the filters of the request allow.
    fn allowed(&self, backend: &str, found: Vec<SearchHit>) -> Vec<Hit> {
        let hits = found.into_iter().filter(|hit| {
            // A web page may state its date.
            let allows_undated = hit.is_date_filtered || !hit.is_readable;
            may_use(self.payload, &hit.url, hit.date, allows_undated)
        });
        hits.map(|hit| Hit {
            url: hit.url,
            title: hit.title,
            date: hit.date,
            backend: backend.to_owned(),
            is_readable: hit.is_readable,
            is_date_filtered: hit.is_date_filtered,
            text: hit.text.map(|text| {
                let end = text.floor_char_boundary(MAX_HIT_TEXT_BYTES);
                text.get(..end).unwrap_or_default().to_owned()
            }),
        })
        .collect()
    }

    /// Returns the next pages to read: new addresses, at most [`MAX_PAGES_PER_HOST`] of a host.
    fn select(&self, found: &[Hit], known: &mut Known, count: u32) -> Vec<Page> {
        let mut pages: Vec<Page> = Vec::new();
        for hit in found {
            if pages.len() >= count as usize {
                break;
            }
            let Some(address) = canonical(&hit.url) else {
                continue;
            };
            let backend = self.backends.iter().find(|one| one.backend.name() == hit.backend);
            let Some(backend) = backend else { continue };
            let host = host(&hit.url).filter(|_| !hit.is_readable);
            let of_host = host.as_ref().and_then(|host| known.hosts.get(host));
            if of_host.is_some_and(|count| *count >= MAX_PAGES_PER_HOST) || !known.addresses.insert(address) {
                continue;
            }
            if let Some(host) = host {
                *known.hosts.entry(host).or_default() += 1;
            }
            pages.push(Page::new(hit.clone(), backend.backend.clone()));
        }
        pages
    }

    /// Returns the notes from which queries may be derived: private documents are not revealed to
    /// public backends.
    fn public_notes(&self, findings: &Findings) -> Vec<Note> {
        let has_public = self.backends.iter().any(|one| !one.backend.is_private());
        let is_private = |note: &&Note| {
            let source = findings
                .sources
                .iter()
                .find(|source| source.number == note.source);
            source.is_some_and(|source| source.is_private)
        };
        let notes = findings.notes.iter();
        notes
            .filter(|note| !has_public || !is_private(note))
            .cloned()
            .collect()
    }

    /// Assesses the notes; `None` if the budget does not cover the call. If the call fails, there
    /// are no further queries.
    async fn reflect(&self, round: u32, findings: &mut Findings) -> Result<Option<Reflection>, Stop> {
        let progress = |reflection: &Reflection| {
            let body = json!({"gaps": reflection.gaps, "contradictions": reflection.contradictions});
            self.with_budget(self.event("research.reflect", &body))
        };
        let call = Call::new(round * ROUND_STEPS + REFLECT_STEP, Stage::Plan, &progress);
        let max_queries = self.max_queries();
        let public = self.public_notes(findings);
        let texts = texts_within(&public, PLANNER_INPUT);
        let brief = self.brief(findings);
        let called = self
            .call(self.work, call, || {
                self.provider().reflect(&self.ctx, &brief, &texts, max_queries)
            })
            .await?;
        Ok(match called {
            Called::Done(reflection) => Some(reflection),
            Called::Unaffordable => None,
            Called::Failed => {
                findings.is_degraded = true;
                Some(Reflection::default())
            }
        })
    }
}

/// Returns the texts of the first notes whose size is at most `max_bytes`.
pub(super) fn texts_within(notes: &[Note], max_bytes: u64) -> Vec<NoteText<'_>> {
    let mut left = max_bytes;
    let texts = notes.iter().map_while(|note| {
        left = left.checked_sub(note.claim.len() as u64 + 16)?;
        Some(note_text(note))
    });
    texts.collect()
}

/// Returns the text of a note.
pub(super) fn note_text(note: &Note) -> NoteText<'_> {
    NoteText {
        claim: &note.claim,
        quote: &note.quote,
        source: note.source,
        date: note.date,
    }
}

/// Returns the first queries that are safe and were not asked before.
fn choose(queries: &[String], asked: &mut HashSet<String>, count: u32) -> Vec<String> {
    let mut chosen = Vec::new();
    for query in queries.iter().filter_map(|query| safe_query(query)) {
        if chosen.len() < count as usize && asked.insert(query.to_lowercase()) {
            chosen.push(query);
        }
    }
    chosen
}

/// Merges the rankings of all queries and backends by reciprocal ranks.
fn fused(rankings: Vec<Vec<Hit>>, weights: &[f32]) -> Vec<Hit> {
    let addresses: Vec<Vec<String>> = rankings
        .iter()
        .map(|ranking| ranking.iter().map(|hit| hit.url.clone()).collect())
        .collect();
    let mut hits: Vec<Hit> = rankings.into_iter().flatten().collect();
    let order = fuse(&addresses, weights);
    let fused = order.into_iter().filter_map(|(address, _)| {
        let place = hits.iter().position(|hit| hit.url == address)?;
        Some(hits.swap_remove(place))
    });
    fused.collect()
}

/// Returns the progress of a round in percent. Searching and reading take 10 to 70 %.
fn share(round: u32, rounds: u32, stage: u32) -> u8 {
    let done = (round - 1) * 3 + stage;
    u8::try_from(10 + 60 * done / (rounds * 3).max(1)).unwrap_or(70)
}

/// Whether a document's date is within the range.
pub(super) fn is_within(date: Option<Date>, (after, before): (Option<Date>, Option<Date>)) -> bool {
    match date {
        Some(date) => after.is_none_or(|after| date >= after) && before.is_none_or(|before| date <= before),
        None => after.is_none() && before.is_none(),
    }
}
