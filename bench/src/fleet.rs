//! Simulates a fleet of many nodes: the database transactions of their leases and exact holds, and
//! the cost of these by measured figures. It follows the rules of docs/money.md ("Many nodes") and
//! shares no code with the product.

use std::collections::HashMap;

use anyhow::ensure;

/// Calls per second of an account on a node from which it counts as busy.
const BUSY_CALLS_PER_SECOND: u32 = 10;
/// Intervals of the rules in microseconds: rounds and renewals.
const ROUND_INTERVAL_US: u64 = 200_000;
const RENEWAL: u64 = 3_000_000;
const SECOND: u64 = 1_000_000;
/// A lease without calls is released with its second renewal.
const IDLE_RENEWALS: u64 = 2;

/// Command line of the simulation.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Number of nodes.
    #[arg(long, default_value_t = 1000)]
    pub nodes: u64,
    /// Number of accounts that call.
    #[arg(long, default_value_t = 100_000)]
    pub accounts: usize,
    /// Calls per second over all accounts.
    #[arg(long, default_value_t = 200_000)]
    pub rate: u64,
    /// Skew of the accounts: account number n calls 1/n^SKEW times as often as the first.
    #[arg(long, default_value_t = 1.0)]
    pub skew: f64,
    /// Numbers of nodes that an account's calls are spread over, separated by commas: a line of the
    /// table for each.
    #[arg(long, value_delimiter = ',', default_values_t = [1000, 100, 10, 3, 1])]
    pub spread: Vec<u64>,
    /// Simulated seconds, after ten that are not counted.
    #[arg(long, default_value_t = 20)]
    pub seconds: u64,
    /// CPU time of the database for a call on the exact path (hold and settlement), in
    /// microseconds.
    #[arg(long, default_value_t = 1100.0)]
    pub exact_us: f64,
    /// CPU time of the database for a round without calls, in microseconds.
    #[arg(long, default_value_t = 2000.0)]
    pub round_us: f64,
    /// CPU time of the database for each call in a round, in microseconds.
    #[arg(long, default_value_t = 30.0)]
    pub call_us: f64,
}

/// Load on the database per second, for one way to spread calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Number of nodes that an account's calls are spread over.
    pub spread: u64,
    /// Share of calls without a round trip to the database.
    pub leased: f64,
    /// Transactions per second: holds, settlements and rounds.
    pub transactions: f64,
    /// Transactions per second of the most active account, which are serialized.
    pub of_largest: f64,
    /// CPU cores that the database needs.
    pub cores: f64,
    /// Number of leases open at the end.
    pub open: usize,
}

/// An account on a node.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    last_call: u64,
    window_start: u64,
    recent_calls: u32,
    is_leased: bool,
    next_round: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    calls: u64,
    leased: u64,
    exact: u64,
    rounds: u64,
    of_largest: u64,
}

/// Prints the table.
///
/// # Errors
/// The options have no nodes, accounts or calls.
pub fn run(options: &Options) -> anyhow::Result<()> {
    println!(
        "{} nodes, {} accounts, {} calls per second; the largest account makes {:.1} % of them.\n",
        options.nodes,
        options.accounts,
        options.rate,
        100.0 / harmonic(options).last().copied().unwrap_or(1.0)
    );
    println!(
        "| nodes per account | calls without a round trip | transactions/s | largest account's transactions/s | database cores | open leases |"
    );
    println!("|---|---|---|---|---|---|");
    for spread in &options.spread {
        let outcome = simulate(options, *spread)?;
        println!(
            "| {} | {:.1} % | {:.0} | {:.0} | {:.0} | {} |",
            outcome.spread,
            100.0 * outcome.leased,
            outcome.transactions,
            outcome.of_largest,
            outcome.cores,
            outcome.open
        );
    }
    Ok(())
}

/// Simulates one way to spread calls.
///
/// # Errors
/// The options have no nodes, accounts or calls.
pub fn simulate(options: &Options, spread: u64) -> anyhow::Result<Outcome> {
    let spread = spread.min(options.nodes);
    ensure!(
        spread > 0 && options.accounts > 0 && options.rate > 0 && options.seconds > 0,
        "nodes, accounts, calls and time must be above 0"
    );
    let weights = harmonic(options);
    let total = weights.last().copied().unwrap_or(1.0);
    let mut random = Random(7);
    let mut places: HashMap<(usize, u64), Place> = HashMap::new();
    let (mut sums, mut now) = (Sums::default(), 0.0_f64);
    let (begin, end) = (10 * SECOND, (10 + options.seconds) * SECOND);
    let between = SECOND as f64 / options.rate as f64;
    loop {
        now -= between * (1.0 - random.next()).ln();
        let at = now as u64;
        if at >= end {
            break;
        }
        let wanted = random.next() * total;
        let account = weights
            .partition_point(|weight| *weight <= wanted)
            .min(options.accounts - 1);
        // Accounts start at different nodes, so that every node has its share.
        let node = (account as u64 * 7919 + (random.next() * spread as f64) as u64) % options.nodes;
        let place = places.entry((account, node)).or_default();
        let (is_exact, rounds) = place.call(at);
        if at >= begin {
            sums.calls += 1;
            sums.leased += u64::from(!is_exact);
            sums.exact += u64::from(is_exact);
            sums.rounds += rounds;
            if account == 0 {
                sums.of_largest += rounds + 2 * u64::from(is_exact);
            }
        }
    }
    let each = |count: u64| count as f64 / options.seconds as f64;
    let busy_us = each(sums.exact) * options.exact_us
        + each(sums.rounds) * options.round_us
        + each(sums.leased) * options.call_us;
    Ok(Outcome {
        spread,
        leased: sums.leased as f64 / sums.calls.max(1) as f64,
        transactions: each(2 * sums.exact + sums.rounds),
        of_largest: each(sums.of_largest),
        cores: busy_us / SECOND as f64,
        open: places.values().filter(|place| place.is_open(end)).count(),
    })
}

impl Place {
    /// Records a call: whether it takes the exact path, and the number of rounds since the last
    /// call.
    fn call(&mut self, at: u64) -> (bool, u64) {
        let renewals = (at - self.last_call) / RENEWAL;
        let mut rounds = 0;
        if self.is_leased {
            rounds = renewals.min(IDLE_RENEWALS);
            self.is_leased = renewals < IDLE_RENEWALS;
        }
        self.last_call = at;
        if self.is_leased {
            if at >= self.next_round {
                rounds += 1;
                self.next_round = at + ROUND_INTERVAL_US;
            }
            return (false, rounds);
        }
        if at - self.window_start > SECOND {
            (self.window_start, self.recent_calls) = (at, 0);
        }
        self.recent_calls += 1;
        if self.recent_calls >= BUSY_CALLS_PER_SECOND {
            self.recent_calls = 0;
            self.is_leased = true;
            self.next_round = at + ROUND_INTERVAL_US;
            rounds += 1;
        }
        (true, rounds)
    }

    fn is_open(&self, at: u64) -> bool {
        self.is_leased && (at - self.last_call) / RENEWAL < IDLE_RENEWALS
    }
}

/// Returns the cumulative sums of the accounts' weights.
fn harmonic(options: &Options) -> Vec<f64> {
    let mut sum = 0.0;
    let weights = (1..=options.accounts).map(|number| {
        sum += (number as f64).powf(-options.skew);
        sum
    });
    weights.collect()
}

/// A random number generator with a fixed seed (splitmix64).
struct Random(u64);

impl Random {
    /// Returns a number from 0 to below 1.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^= bits >> 31;
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options {
            nodes: 10,
            accounts: 1,
            rate: 1_000,
            skew: 1.0,
            spread: vec![1],
            seconds: 5,
            exact_us: 1100.0,
            round_us: 2000.0,
            call_us: 30.0,
        }
    }

    #[test]
    fn a_hot_account_has_five_rounds_a_second() {
        let outcome = simulate(&options(), 1).unwrap();
        assert_eq!(outcome.leased, 1.0);
        assert!((4.5..5.3).contains(&outcome.transactions), "{outcome:?}");
        assert_eq!(outcome.transactions, outcome.of_largest);
        assert_eq!(outcome.open, 1);
    }

    #[test]
    fn calls_that_are_far_between_are_exact() {
        let quiet = Options {
            accounts: 5_000,
            skew: 0.0,
            ..options()
        };
        let outcome = simulate(&quiet, 10).unwrap();
        assert!(outcome.leased < 0.01, "{outcome:?}");
        assert!((1_900.0..2_100.0).contains(&outcome.transactions), "{outcome:?}");
    }

    #[test]
    fn nothing_is_no_fleet() {
        assert!(
            simulate(
                &Options {
                    accounts: 0,
                    ..options()
                },
                1
            )
            .is_err()
        );
        assert!(simulate(&options(), 0).is_err());
    }
}
