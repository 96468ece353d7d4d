//! The tables: medians over rounds, of figures and ratios that were each taken within one round.

use std::fmt::Write as _;

use super::TARGETS;
use super::phase::PHASES;
use super::record::{HoldResult, Idle, Machine, PhaseResult, Record};
use crate::load::Quantiles;

/// The project's targets on SQLite, all but the last two as ratios or differences within one round.
const AIMS: [Aim; 9] = [
    Aim {
        what: "small JSON, CPU per request, × nginx",
        limit: 1.6,
        value: |board, target| board.cpu_ratio(target, "small", "nginx"),
    },
    Aim {
        what: "100 KB prompt, CPU per request, × nginx",
        limit: 2.2,
        value: |board, target| board.cpu_ratio(target, "large", "nginx"),
    },
    Aim {
        what: "paced stream, CPU per stream, × nginx",
        limit: 1.3,
        value: |board, target| board.cpu_ratio(target, "paced", "nginx"),
    },
    Aim {
        what: "small JSON in another format, CPU per request, × the same format",
        limit: 2.0,
        value: |board, target| {
            let cpu = |phase| board.figure(target, phase, |result| result.cpu_us);
            Some(cpu("crossed")? / cpu("small")?)
        },
    },
    Aim {
        what: "1,000 requests/s, added p50 over nginx, µs",
        limit: 60.0,
        value: |board, target| board.added(target, "open1000", "nginx", |result| result.load.latency.p50),
    },
    Aim {
        what: "unpaced 100-chunk stream, 8 concurrent, p50, × direct",
        limit: 1.5,
        value: |board, target| board.ratio(target, "stream", "direct", |result| result.load.latency.p50),
    },
    Aim {
        what: "unpaced 100-chunk stream, alone, p50, × direct",
        limit: 1.5,
        value: |board, target| board.ratio(target, "stream1", "direct", |result| result.load.latency.p50),
    },
    Aim {
        what: "idle memory, MB (RSS)",
        limit: 30.0,
        value: |board, target| board.idle(target, |idle| idle.memory.rss as f64 / 1e6),
    },
    Aim {
        what: "memory per open slow stream at 5,000, KiB",
        limit: 55.0,
        value: |board, target| board.hold(target, 5000).map(kib_per_stream),
    },
];

struct Aim {
    what: &'static str,
    limit: f64,
    value: fn(&Board<'_>, &str) -> Option<f64>,
}

/// Returns all tables of these records, in Markdown.
pub(super) fn tables(records: &[Record]) -> String {
    let board = Board::new(records);
    let mut out = String::new();
    board.machine(&mut out);
    troubles(&mut out, records);
    board.aims(&mut out);
    board.cpu(&mut out);
    board.throughput(&mut out);
    for base in ["direct", "nginx"] {
        board.added_latency(&mut out, base);
    }
    board.unpaced(&mut out);
    board.memory(&mut out);
    board.notes(&mut out, records);
    out
}

struct Board<'a> {
    machine: Option<&'a Machine>,
    phases: Vec<&'a PhaseResult>,
    idles: Vec<&'a Idle>,
    holds: Vec<&'a HoldResult>,
    targets: Vec<&'static str>,
    /// Names of the phases that were run.
    ran: Vec<&'static str>,
}

impl<'a> Board<'a> {
    fn new(records: &'a [Record]) -> Board<'a> {
        let mut board = Board {
            machine: None,
            phases: Vec::new(),
            idles: Vec::new(),
            holds: Vec::new(),
            targets: Vec::new(),
            ran: Vec::new(),
        };
        for record in records {
            match record {
                Record::Machine(machine) => board.machine = Some(machine),
                Record::Phase(result) => board.phases.push(result),
                Record::Idle(idle) => board.idles.push(idle),
                Record::Hold(result) => board.holds.push(result),
                Record::ChargeCheck(_) | Record::Trouble(_) => {}
            }
        }
        let seen = |target: &str| {
            board.phases.iter().any(|result| result.target == target)
                || board.idles.iter().any(|idle| idle.target == target)
        };
        board.targets = TARGETS.into_iter().filter(|target| seen(target)).collect();
        let names = PHASES.iter().map(|phase| phase.name);
        board.ran = names
            .filter(|name| board.phases.iter().any(|result| result.phase == *name))
            .collect();
        board
    }

    /// Returns the results of one target in one phase, the rounds without a good answer left out.
    fn results(&self, target: &str, phase: &str) -> impl Iterator<Item = &'a PhaseResult> {
        let fits = move |result: &&PhaseResult| {
            result.target == target && result.phase == phase && result.load.ok > 0
        };
        self.phases.iter().copied().filter(fits)
    }

    fn figure(&self, target: &str, phase: &str, figure: impl Fn(&PhaseResult) -> f64) -> Option<f64> {
        median(self.results(target, phase).map(figure).collect())
    }

    /// Returns a figure combined with that of another target in the same round by `compare`.
    fn beside(
        &self,
        target: &str,
        phase: &str,
        base: &str,
        compare: impl Fn(&PhaseResult, &PhaseResult) -> Option<f64>,
    ) -> Option<f64> {
        let pair = |result: &PhaseResult| {
            let other = self
                .results(base, phase)
                .find(|other| other.round == result.round)?;
            compare(result, other)
        };
        median(self.results(target, phase).filter_map(pair).collect())
    }

    fn ratio(&self, target: &str, phase: &str, base: &str, figure: fn(&PhaseResult) -> f64) -> Option<f64> {
        self.beside(target, phase, base, |result, other| {
            let below = figure(other);
            (below > 0.0).then(|| figure(result) / below)
        })
    }

    fn cpu_ratio(&self, target: &str, phase: &str, base: &str) -> Option<f64> {
        self.ratio(target, phase, base, |result| result.cpu_us)
    }

    fn added(&self, target: &str, phase: &str, base: &str, figure: fn(&PhaseResult) -> f64) -> Option<f64> {
        self.beside(target, phase, base, |result, other| {
            Some(figure(result) - figure(other))
        })
    }

    fn idle(&self, target: &str, figure: impl Fn(&Idle) -> f64) -> Option<f64> {
        median(
            self.idles
                .iter()
                .filter(|idle| idle.target == target)
                .map(|idle| figure(idle))
                .collect(),
        )
    }

    fn hold(&self, target: &str, streams: u64) -> Option<&'a HoldResult> {
        self.holds
            .iter()
            .copied()
            .find(|hold| hold.target == target && hold.streams == streams && hold.load.peak_live > 0)
    }

    fn has(&self, target: &str) -> bool {
        self.targets.contains(&target)
    }

    fn machine(&self, out: &mut String) {
        let Some(machine) = self.machine else { return };
        let Machine {
            started,
            cpu,
            cores,
            kernel,
            rounds,
            keys,
            callers,
            ..
        } = machine;
        let priority = if machine.realtime {
            "SCHED_RR"
        } else {
            "normal priority"
        };
        let hurry = if machine.quick {
            " A quick run: the figures are rough."
        } else {
            ""
        };
        let _ = writeln!(
            out,
            "{started} UTC, {cpu}, {cores} cores, Linux {kernel}. Rounds: {rounds}; light phases under {priority}; \
             Tollgate with {keys} keys, load on {callers} account(s).{hurry}"
        );
        for version in &machine.versions {
            let _ = writeln!(out, "- {version}");
        }
    }

    /// Writes the aims. They are Tollgate's; nginx and the bare proxy are shown for scale.
    fn aims(&self, out: &mut String) {
        let targets: Vec<_> = self
            .targets
            .iter()
            .filter(|target| **target != "direct")
            .copied()
            .collect();
        if !targets.iter().any(|target| target.starts_with("tollgate")) {
            return;
        }
        let mut header = vec!["target (SQLite)", "at most"];
        header.extend(&targets);
        let rows = AIMS.iter().map(|aim| {
            let mut row = vec![aim.what.to_owned(), number(Some(aim.limit), 1)];
            row.extend(targets.iter().map(|target| match (aim.value)(self, target) {
                Some(value) if !target.starts_with("tollgate") => number(Some(value), 2),
                Some(value) if value <= aim.limit => format!("{} ✓", number(Some(value), 2)),
                Some(value) => format!("**{}**", number(Some(value), 2)),
                None => "-".to_owned(),
            }));
            row
        });
        table(out, "Aims", &header, rows);
    }

    fn cpu(&self, out: &mut String) {
        let mut header = vec!["target"];
        header.extend(&self.ran);
        if self.ran.is_empty() {
            return;
        }
        let rows = self.targets.iter().map(|target| {
            let cell = |phase: &&str| number(self.figure(target, phase, |result| result.cpu_us), 1);
            std::iter::once((*target).to_owned())
                .chain(self.ran.iter().map(cell))
                .collect()
        });
        table(
            out,
            "CPU of the target, µs per request (streams: 100 chunks each)",
            &header,
            rows,
        );
        for base in ["nginx", "bare"].into_iter().filter(|base| self.has(base)) {
            let rows = self
                .targets
                .iter()
                .filter(|target| **target != "direct")
                .map(|target| {
                    let cell = |phase: &&str| number(self.cpu_ratio(target, phase, base), 2);
                    std::iter::once((*target).to_owned())
                        .chain(self.ran.iter().map(cell))
                        .collect()
                });
            table(
                out,
                &format!("CPU as a multiple of {base}'s, same round"),
                &header,
                rows,
            );
        }
        let database = |target: &&&str| {
            self.phases
                .iter()
                .any(|result| result.target == **target && result.database_cpu_us.is_some())
        };
        let with_database: Vec<_> = self.targets.iter().filter(database).collect();
        if !with_database.is_empty() {
            let rows = with_database.into_iter().map(|target| {
                let cell = |phase: &&str| {
                    number(
                        self.figure(target, phase, |result| result.database_cpu_us.unwrap_or_default()),
                        1,
                    )
                };
                std::iter::once((*target).to_owned())
                    .chain(self.ran.iter().map(cell))
                    .collect()
            });
            table(
                out,
                "CPU of PostgreSQL's own processes, µs per request (not in the tables above)",
                &header,
                rows,
            );
        }
    }

    fn throughput(&self, out: &mut String) {
        let phases = ["small", "large", "stream"];
        if !phases.iter().any(|phase| self.ran.contains(phase)) {
            return;
        }
        let rows = self.targets.iter().map(|target| {
            let rate = |phase: &str| number(self.figure(target, phase, |result| result.load.rps), 0);
            let p99 = |phase: &str| number(self.figure(target, phase, |result| result.load.latency.p99), 0);
            let mut row = vec![(*target).to_owned()];
            for phase in phases {
                row.extend([rate(phase), p99(phase)]);
            }
            row
        });
        let header = [
            "target",
            "small/s",
            "p99 µs",
            "large/s",
            "p99 µs",
            "streams/s",
            "p99 µs",
        ];
        table(
            out,
            "Closed loop (load tool, stub and target share the machine)",
            &header,
            rows,
        );
    }

    fn added_latency(&self, out: &mut String, base: &str) {
        type Figure = fn(&PhaseResult) -> &Quantiles;
        let columns: [(&str, &str, Figure); 4] = [
            ("100/s", "open100", |result| &result.load.latency),
            ("1,000/s", "open1000", |result| &result.load.latency),
            ("first byte", "paced", |result| &result.load.first_byte),
            ("one chunk", "paced", |result| &result.load.transit),
        ];
        let columns: Vec<_> = columns
            .into_iter()
            .filter(|(_, phase, _)| self.ran.contains(phase))
            .collect();
        if columns.is_empty() || !self.has(base) {
            return;
        }
        let mut header = vec!["target".to_owned()];
        header.extend(
            columns
                .iter()
                .flat_map(|(name, _, _)| [format!("{name} p50"), format!("{name} p99")]),
        );
        let rows = self
            .targets
            .iter()
            .filter(|target| **target != base)
            .map(|target| {
                let mut row = vec![(*target).to_owned()];
                for (_, phase, figure) in &columns {
                    let added = |quantile: fn(&Quantiles) -> f64| {
                        let difference = |a: &PhaseResult, b: &PhaseResult| {
                            Some(quantile(figure(a)) - quantile(figure(b)))
                        };
                        number(self.beside(target, phase, base, difference), 0)
                    };
                    row.extend([added(|quantiles| quantiles.p50), added(|quantiles| quantiles.p99)]);
                }
                row
            });
        let header: Vec<_> = header.iter().map(String::as_str).collect();
        table(
            out,
            &format!("Latency added over {base}, µs, same round (open loop: from the scheduled instant)"),
            &header,
            rows,
        );
    }

    fn unpaced(&self, out: &mut String) {
        let p50 = |result: &PhaseResult| result.load.latency.p50;
        for (phase, title) in [
            ("stream", "Unpaced streams of 100 chunks, 8 concurrent"),
            ("stream1", "One unpaced stream of 100 chunks at a time"),
        ] {
            if !self.ran.contains(&phase) {
                continue;
            }
            let rows = self.targets.iter().map(|target| {
                vec![
                    (*target).to_owned(),
                    number(self.figure(target, phase, p50), 0),
                    number(self.figure(target, phase, |result| result.load.latency.p99), 0),
                    number(self.ratio(target, phase, "direct", p50), 2),
                ]
            });
            table(out, title, &["target", "p50 µs", "p99 µs", "p50 × direct"], rows);
        }
    }

    fn memory(&self, out: &mut String) {
        if self.idles.is_empty() {
            return;
        }
        let mut sizes: Vec<u64> = self.holds.iter().map(|hold| hold.streams).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let mut header: Vec<String> = ["target", "start ms", "idle PSS", "idle RSS", "after load PSS"]
            .map(str::to_owned)
            .to_vec();
        for streams in &sizes {
            header.extend([
                format!("{streams} streams PSS"),
                "KiB per stream".to_owned(),
                "cores".to_owned(),
            ]);
        }
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        let rows = self
            .targets
            .iter()
            .filter(|target| **target != "direct")
            .map(|target| {
                let after = self
                    .phases
                    .iter()
                    .filter(|result| result.target == *target)
                    .filter_map(|result| result.memory);
                let mut row = vec![
                    (*target).to_owned(),
                    number(self.idle(target, |idle| idle.start_ms), 0),
                    number(self.idle(target, |idle| megabytes(idle.memory.pss)), 1),
                    number(self.idle(target, |idle| megabytes(idle.memory.rss)), 1),
                    number(after.map(|memory| megabytes(memory.pss)).reduce(f64::max), 1),
                ];
                for streams in &sizes {
                    let hold = self.hold(target, *streams);
                    row.extend([
                        number(hold.map(|hold| megabytes(hold.peak.pss)), 1),
                        number(hold.map(kib_per_stream), 1),
                        number(hold.map(|hold| hold.cores), 2),
                    ]);
                }
                row
            });
        let header: Vec<_> = header.iter().map(String::as_str).collect();
        table(out, "Memory, MB, and start", &header, rows);
    }

    fn notes(&self, out: &mut String, records: &[Record]) {
        let light = |result: &&&PhaseResult| {
            PHASES
                .iter()
                .any(|phase| phase.realtime && phase.name == result.phase)
        };
        if let Some(other) = median(
            self.phases
                .iter()
                .filter(light)
                .map(|result| result.other_cores)
                .collect(),
        ) {
            let _ = writeln!(
                out,
                "\nOther work on the machine during the light phases: median {other:.2} cores."
            );
        }
        let charge_checks = records
            .iter()
            .filter(|record| matches!(record, Record::ChargeCheck(charge_checks) if charge_checks.expected == charge_checks.charged));
        let charge_checks = charge_checks.count();
        if charge_checks > 0 {
            let _ = writeln!(
                out,
                "\nLedger: {charge_checks} comparisons of charges with responses; all were equal."
            );
        }
    }
}

/// Problems come before the figures, since they invalidate them.
fn troubles(out: &mut String, records: &[Record]) {
    let troubles: Vec<_> = records
        .iter()
        .filter_map(|record| match record {
            Record::Trouble(trouble) => Some(trouble),
            _ => None,
        })
        .collect();
    if troubles.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n### Problems: ignore the affected figures\n");
    for trouble in troubles {
        let _ = writeln!(
            out,
            "- round {}, {}, {}: {}",
            trouble.round, trouble.target, trouble.phase, trouble.what
        );
    }
}

fn kib_per_stream(hold: &HoldResult) -> f64 {
    let grown = hold.peak.pss.saturating_sub(hold.before.pss);
    grown as f64 / 1024.0 / hold.load.peak_live.max(1) as f64
}

fn median(mut figures: Vec<f64>) -> Option<f64> {
    figures.sort_by(f64::total_cmp);
    let upper = *figures.get(figures.len() / 2)?;
    if figures.len() % 2 == 1 {
        return Some(upper);
    }
    Some((figures[figures.len() / 2 - 1] + upper) / 2.0)
}

/// Formats a number with thousands separators; a dash for none.
fn number(value: Option<f64>, decimals: usize) -> String {
    let Some(value) = value else { return "-".to_owned() };
    let plain = format!("{:.decimals$}", value.abs());
    let (whole, fraction) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    let mut grouped = String::new();
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{grouped}{fraction}")
}

fn table(out: &mut String, title: &str, header: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    let _ = writeln!(out, "\n### {title}\n\n| {} |", header.join(" | "));
    let _ = writeln!(out, "|{}", "---|".repeat(header.len()));
    for row in rows {
        let _ = writeln!(out, "| {} |", row.join(" | "));
    }
}

#[cfg(test)]
mod tests;
