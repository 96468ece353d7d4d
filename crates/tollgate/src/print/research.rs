//! Tables of research jobs, their sources, and the scores of reports.

use tollgate_operations::research::{ResearchJobView, SearchView, SourcesView};
use tollgate_server::evaluate::research::ResearchEvaluation;
use tollgate_server::evaluate::research::report::ReportScores;

use super::tables::{age, aligned, corpora, format_account, shown, table};

/// Maximum number of lines about missing answers.
const MAX_MISSING: usize = 20;

/// Formats research jobs, one line each.
pub fn jobs(jobs: &[ResearchJobView]) -> String {
    let row = |job: &ResearchJobView| {
        [
            job.id.to_string(),
            format_account(job.account, job.account_name.as_deref()),
            job.status.clone(),
            or_none(job.phase.as_ref()),
            percent(job),
            job.held.to_string(),
            age(job.age_seconds),
            job.model.clone(),
        ]
    };
    table(
        [
            "ID", "ACCOUNT", "STATUS", "PHASE", "PROGRESS", "HELD", "AGE", "MODEL",
        ],
        jobs.iter().map(row),
    )
}

/// Formats one research job, one line per fact.
pub fn job(job: &ResearchJobView) -> String {
    let facts = [
        ("id", job.id.to_string()),
        (
            "account",
            format_account(job.account, job.account_name.as_deref()),
        ),
        ("status", job.status.clone()),
        ("phase", or_none(job.phase.as_ref())),
        ("progress", percent(job)),
        (
            "cancel requested",
            if job.cancel_requested { "yes" } else { "no" }.to_owned(),
        ),
        ("model", job.model.clone()),
        ("held", job.held.to_string()),
        ("cost", or_none(job.cost.as_ref())),
        ("failure", or_none(job.failure.as_ref())),
        ("accepted", job.created_at.clone()),
        ("started", or_none(job.started_at.as_ref())),
        ("ended", or_none(job.ended_at.as_ref())),
    ];
    aligned(&facts.map(|(name, fact)| [name.to_owned(), fact]))
}

/// Formats search services and corpora, one line each.
pub fn sources(sources: &SourcesView) -> String {
    let row = |search: &SearchView| {
        [
            search.name.clone(),
            search.kind.clone(),
            search.price.to_string(),
            search.breaker.clone(),
            search.failures_in_a_row.to_string(),
            or_none(search.last_error.as_ref()),
        ]
    };
    let services = table(
        ["SEARCH", "KIND", "PRICE", "BREAKER", "FAILURES", "LAST ERROR"],
        sources.search.iter().map(row),
    );
    let parts = [services, corpora(&sources.corpora)];
    let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

fn percent(job: &ResearchJobView) -> String {
    or_none(job.progress.map(|percent| format!("{percent} %")).as_ref())
}

fn or_none(fact: Option<&impl ToString>) -> String {
    fact.map_or_else(|| "-".to_owned(), ToString::to_string)
}

/// Formats the evaluation of a research model.
pub fn evaluation(found: &ResearchEvaluation) -> String {
    let effort = found.effort.as_deref().unwrap_or("default");
    let head = format!(
        "{}: {} reports, effort {effort}\n",
        shown(&found.model),
        found.all.reports
    );
    let groups = found.by_group.iter().map(|(name, scores)| match name.as_str() {
        "" => ("(no group)", scores),
        name => (name, scores),
    });
    let scores = table(
        [
            "",
            "REPORTS",
            "CITATIONS OK",
            "AT FIRST",
            "RECALL",
            "PRECISION",
            "SUPPORTED",
        ],
        std::iter::once(("all", &found.all)).chain(groups).map(row),
    );
    format!("{head}\n{scores}\n{}{}", aligned(&facts(found)), faults(found))
}

fn row((name, scores): (&str, &ReportScores)) -> [String; 7] {
    let of = |share: Option<f64>, whole: usize| match share {
        Some(share) => format!("{:.1} % of {whole}", share * 100.0),
        None => "-".to_owned(),
    };
    let first = scores.first_accuracy;
    [
        name.to_owned(),
        scores.reports.to_string(),
        of(scores.citation_check, scores.citations),
        first.map_or_else(|| "-".to_owned(), |share| format!("{:.1} %", share * 100.0)),
        of(scores.recall, scores.answers),
        of(scores.precision, scores.statements),
        of(scores.support, scores.judged),
    ]
}

fn facts(found: &ResearchEvaluation) -> Vec<[String; 2]> {
    let mut facts = vec![("filter leaks", found.filter_leaks.len().to_string())];
    if let Some(accuracy) = found.all.citation_accuracy {
        facts.push(("reported citation accuracy", format!("{:.1} %", accuracy * 100.0)));
    }
    if found.all.unverified_citations > 0 {
        facts.push(("unverified citations", found.all.unverified_citations.to_string()));
    }
    if found.degraded > 0 {
        facts.push(("degraded reports", found.degraded.to_string()));
    }
    let time = found.time;
    facts.push(("searches, pages", format!("{}, {}", found.searches, found.pages)));
    facts.push((
        "time of a report",
        format!(
            "p50 {:.1} s, p95 {:.1} s, at most {:.1} s",
            time.p50_s, time.p95_s, time.max_s
        ),
    ));
    facts.push(("cost of the reports", format!("{} credits", found.cost)));
    if let Some(judge) = &found.judge {
        facts.push((
            "cost of the judge",
            format!("{} credits ({judge})", found.judge_cost),
        ));
    }
    facts
        .into_iter()
        .map(|(name, value)| [name.to_owned(), value])
        .collect()
}

/// Lists what makes the command fail, and the answers that are missing.
fn faults(found: &ResearchEvaluation) -> String {
    let wrong = found.wrong_citations.iter();
    let wrong = wrong.map(|one| format!("WRONG CITATION line {}: citation {}\n", one.line, one.citation));
    let leaks = found.filter_leaks.iter();
    let leaks = leaks.map(|leak| format!("FILTER LEAK line {}: {}\n", leak.line, shown(&leak.url)));
    let failed = found.failed.iter();
    let failed = failed.map(|failed| format!("FAILED line {}: {}\n", failed.line, shown(&failed.message)));
    let missing = found.missing_answers.iter().take(MAX_MISSING);
    let missing = missing.map(|one| {
        let (question, answer) = (shown(&one.question), shown(&one.answer));
        format!("MISSING line {}: {question} {answer}\n", one.line)
    });
    let further = found.missing_answers.len().saturating_sub(MAX_MISSING);
    let further = (further > 0).then(|| format!("MISSING {further} further answers: --json lists all\n"));
    wrong
        .chain(leaks)
        .chain(failed)
        .chain(missing)
        .chain(further)
        .collect()
}
