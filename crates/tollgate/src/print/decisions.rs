//! Tables of decision quality metrics.

use tollgate_probability::Report;
use tollgate_server::evaluate::Evaluation;

use super::tables::{aligned, shown, table};

/// Formats the evaluation of a model.
pub fn evaluation(found: &Evaluation) -> String {
    let sources: Vec<&str> = found.sources.iter().map(String::as_str).collect();
    let head = format!(
        "{}: {} decisions of {} lines, {}\n",
        shown(&found.model),
        found.decisions,
        found.lines,
        shown(&sources.join(", "))
    );
    let all = found.all.iter().map(|report| ("all", report));
    let types = found.by_type.iter().map(|(name, report)| (*name, report));
    let groups = found.by_group.iter().map(|(name, report)| match name.as_str() {
        "" => ("(no group)", report),
        name => (name, report),
    });
    let reports = table(
        [
            "",
            "SCORED",
            "ACCURACY",
            "BRIER",
            "LOG LOSS",
            "ECE (95 %)",
            "AUROC",
            "AT 5 % ERRORS",
        ],
        all.chain(types).chain(groups).map(row),
    );
    let failed = found.failed.iter();
    let failed =
        failed.map(|failed| format!("NOT ANSWERED line {}: {}\n", failed.line, shown(&failed.message)));
    format!(
        "{head}\n{reports}\n{}{}",
        aligned(&facts(found)),
        failed.collect::<String>()
    )
}

fn row((name, report): (&str, &Report)) -> [String; 8] {
    let ece = report.ece;
    [
        name.to_owned(),
        report.examples.to_string(),
        format!("{:.3}", report.accuracy),
        format!("{:.3}", report.brier),
        format!("{:.3}", report.log_loss),
        format!("{:.3} ({:.3} to {:.3})", ece.value, ece.low, ece.high),
        figure(report.auroc),
        format!("{:.1} %", report.coverage * 100.0),
    ]
}

fn facts(found: &Evaluation) -> Vec<[String; 2]> {
    let mut facts: Vec<(&str, String)> = Vec::new();
    if let Some(off) = found.all.as_ref().and_then(|all| all.score_error) {
        facts.push(("score error", format!("{off:.3} levels")));
    }
    if let Some(flips) = found.order_flips {
        let asked = found.asked_in_both_orders;
        facts.push((
            "order flips",
            format!("{flips:.3} of {asked} questions sent in both orders"),
        ));
    }
    if found.abstain_auroc.is_some() {
        facts.push(("abstain AUROC", figure(found.abstain_auroc)));
    }
    if found.unanswered > 0 {
        facts.push(("refused or failed", format!("{} questions", found.unanswered)));
    }
    let latency = found.latency;
    facts.push((
        "request latency",
        format!("p50 {:.1} ms, p95 {:.1} ms", latency.p50_ms, latency.p95_ms),
    ));
    if let Some(cost) = found.cost_per_1000_decisions {
        facts.push(("cost of 1,000 decisions", format!("{cost} credits")));
    }
    facts.push(("cost of this evaluation", format!("{} credits", found.cost)));
    facts
        .into_iter()
        .map(|(name, value)| [name.to_owned(), value])
        .collect()
}

/// Formats a metric; a dash stands for a metric that the examples do not determine.
fn figure(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.3}"))
}
