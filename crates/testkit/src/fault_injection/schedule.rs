//! The schedule of faults, which the seed and the length determine.

use std::time::Duration;

use super::NODES;
use super::dice::Dice;
use crate::proxy::Weather;

/// A server that nodes connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    Postgres,
    Redis,
    Upstream,
}

impl Server {
    pub(super) const ALL: [Server; 3] = [Server::Postgres, Server::Redis, Server::Upstream];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    PostgresRestart,
    PostgresKill,
    RedisKill,
    RedisFlush,
    RedisFreeze,
    NodeKill(usize),
    NodeFreeze(usize),
    Road(usize, Server, Weather),
    /// The wire from a node to a server drops all packets.
    Wire(usize, Server),
    /// The clock of a node is set this many seconds ahead; negative values set it behind.
    Clock(usize, i64),
}

/// The target of a fault. Faults of the same target never overlap.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Victim {
    Postgres,
    Redis,
    Node(usize),
    Road(usize, Server),
    Clock(usize),
}

impl Fault {
    fn victim(self) -> Victim {
        match self {
            Fault::PostgresRestart | Fault::PostgresKill => Victim::Postgres,
            Fault::RedisKill | Fault::RedisFlush | Fault::RedisFreeze => Victim::Redis,
            Fault::NodeKill(node) | Fault::NodeFreeze(node) => Victim::Node(node),
            Fault::Road(node, position, _) | Fault::Wire(node, position) => Victim::Road(node, position),
            Fault::Clock(node, _) => Victim::Clock(node),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Event {
    pub(super) at: Duration,
    pub(super) until: Duration,
    pub(super) fault: Fault,
}

/// Minimum length of runs that also freeze a node, or cut it from PostgreSQL, for longer than a
/// lease lasts.
const LONG: Duration = Duration::from_secs(150);

/// Clock errors in seconds: a clock step, a suspended machine, and a wrong time zone.
const CLOCKS: [i64; 6] = [-7_200, -60, -2, 2, 60, 7_200];

fn fault(dice: &mut Dice) -> Fault {
    let node = dice.below(NODES as u64) as usize;
    let position = Server::ALL[dice.below(3) as usize];
    match dice.below(26) {
        0 => Fault::PostgresRestart,
        1 => Fault::PostgresKill,
        2 => Fault::RedisKill,
        3 => Fault::RedisFlush,
        4 => Fault::RedisFreeze,
        5..8 => Fault::NodeKill(node),
        8..10 => Fault::NodeFreeze(node),
        10..14 => Fault::Wire(node, position),
        14..16 => Fault::Clock(node, CLOCKS[dice.below(CLOCKS.len() as u64) as usize]),
        _ => {
            let weather = match dice.below(6) {
                0 | 1 => Weather::Cut,
                2 => Weather::Still,
                3 => Weather::Drip,
                4 if position == Server::Upstream => Weather::Corrupt,
                _ => Weather::Slow(Duration::from_millis(dice.within(5, 300))),
            };
            Fault::Road(node, position, weather)
        }
    }
}

/// Returns the faults of a run, in order of time.
pub(super) fn schedule(seed: u64, length: Duration) -> Vec<Event> {
    let mut dice = Dice::new(seed);
    let mut events: Vec<Event> = Vec::new();
    let mut at = Duration::from_secs(1);
    while at < length {
        let fault = fault(&mut dice);
        let can_be_long = matches!(
            fault,
            Fault::NodeFreeze(_) | Fault::Wire(_, Server::Postgres) | Fault::Clock(..)
        );
        let is_long = length >= LONG && can_be_long && dice.below(2) == 0;
        let lasts = if is_long {
            dice.within(16_000, 25_000)
        } else {
            dice.within(200, 3_000)
        };
        let until = at + Duration::from_millis(lasts);
        let is_free = |event: &Event| event.until < at || event.fault.victim() != fault.victim();
        if events.iter().all(is_free) {
            events.push(Event { at, until, fault });
        }
        at += Duration::from_millis(dice.within(100, 1_200));
    }
    events
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Fault, Server, schedule};

    #[test]
    fn a_seed_is_a_schedule() {
        let length = Duration::from_secs(600);
        let faults = |seed| {
            let events = schedule(seed, length).into_iter();
            events
                .map(|event| (event.at, event.until, event.fault))
                .collect::<Vec<_>>()
        };
        assert_eq!(faults(7), faults(7));
        assert_ne!(faults(7), faults(8));
        let all = faults(7);
        let has = |wanted: fn(&Fault) -> bool| all.iter().any(|(_, _, fault)| wanted(fault));
        assert!(has(|fault| *fault == Fault::PostgresKill));
        assert!(has(|fault| *fault == Fault::PostgresRestart));
        assert!(has(|fault| *fault == Fault::RedisFlush));
        assert!(has(|fault| matches!(fault, Fault::NodeKill(_))));
        assert!(has(|fault| matches!(fault, Fault::NodeFreeze(_))));
        assert!(has(|fault| matches!(fault, Fault::Road(..))));
        assert!(has(|fault| matches!(fault, Fault::Wire(_, Server::Postgres))));
        assert!(has(|fault| matches!(fault, Fault::Clock(..))));
    }
}
