use super::*;
use crate::accounting::Memory;
use crate::compare::record::Trouble;
use crate::load::Report;

fn load(ok: u64, p50: f64) -> Report {
    let quantiles = Quantiles {
        count: ok,
        p50,
        p95: p50,
        p99: 2.0 * p50,
        max: p50,
        mean: p50,
    };
    Report {
        mode: "closed".to_owned(),
        connections: 1,
        seconds: 1.0,
        ok,
        bad: 0,
        warm: 0,
        missed: 0,
        rps: ok as f64,
        chunks: 0,
        peak_live: ok,
        latency: quantiles,
        first_byte: quantiles,
        transit: quantiles,
        first_bad: None,
    }
}

fn result(round: usize, target: &str, phase: &str, cpu_us: f64, p50: f64) -> Record {
    Record::Phase(Box::new(PhaseResult {
        round,
        target: target.to_owned(),
        phase: phase.to_owned(),
        cpu_us,
        database_cpu_us: None,
        cores: 0.5,
        other_cores: 0.0,
        memory: None,
        load: load(10, p50),
    }))
}

fn hold(target: &str, streams: u64, before: u64, peak: u64) -> Record {
    Record::Hold(Box::new(HoldResult {
        target: target.to_owned(),
        streams,
        before: Memory {
            pss: before,
            rss: before,
        },
        peak: Memory { pss: peak, rss: peak },
        cores: 0.1,
        load: load(streams, 1.0),
    }))
}

#[test]
fn ratios_are_taken_within_a_round_and_then_the_median() {
    // The machine is twice as slow in the second round: the ratio of medians would be a meaningless
    // 1.5.
    let records = [
        result(0, "nginx", "small", 10.0, 100.0),
        result(0, "tollgate-sqlite", "small", 15.0, 150.0),
        result(1, "nginx", "small", 20.0, 200.0),
        result(1, "tollgate-sqlite", "small", 30.0, 290.0),
        result(2, "tollgate-sqlite", "small", 999.0, 999.0),
    ];
    let board = Board::new(&records);
    assert_eq!(board.cpu_ratio("tollgate-sqlite", "small", "nginx"), Some(1.5));
    assert_eq!(
        board.added("tollgate-sqlite", "small", "nginx", |result| result
            .load
            .latency
            .p50),
        Some(70.0)
    );
    assert_eq!(board.cpu_ratio("bare", "small", "nginx"), None);
}

#[test]
fn missed_aims_are_reported() {
    let records = [
        result(0, "nginx", "small", 10.0, 100.0),
        result(0, "tollgate-sqlite", "small", 15.0, 150.0),
        result(0, "nginx", "large", 10.0, 100.0),
        result(0, "tollgate-sqlite", "large", 25.0, 150.0),
        hold("tollgate-sqlite", 5000, 10_000_000, 10_000_000 + 5000 * 50 * 1024),
        Record::Trouble(Trouble {
            round: 0,
            target: "bare".to_owned(),
            phase: "small".to_owned(),
            what: "3 bad answers".to_owned(),
        }),
    ];
    let text = tables(&records);
    for line in [
        "| small JSON, CPU per request, × nginx | 1.6 | 1.00 | 1.50 ✓ |",
        "| 100 KB prompt, CPU per request, × nginx | 2.2 | 1.00 | **2.50** |",
        "| memory per open slow stream at 5,000, KiB | 55.0 | - | 50.00 ✓ |",
        "| paced stream, CPU per stream, × nginx | 1.3 | - | - |",
        "- round 0, bare, small: 3 bad answers",
    ] {
        assert!(text.contains(line), "{line} is not in:\n{text}");
    }
}

#[test]
fn numbers_are_grouped() {
    let cases = [
        (Some(1_234_567.0), 0, "1,234,567"),
        (Some(-1_234.56), 1, "-1,234.6"),
        (Some(999.0), 0, "999"),
        (None, 0, "-"),
    ];
    for (value, decimals, expected) in cases {
        assert_eq!(number(value, decimals), expected);
    }
    assert_eq!(median(vec![]), None);
    assert_eq!(median(vec![3.0, 1.0]), Some(2.0));
    assert_eq!(median(vec![9.0, 1.0, 5.0]), Some(5.0));
}
