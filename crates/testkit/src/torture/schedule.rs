//! What goes wrong when. The seed and the length say all of it.

use std::time::Duration;

use super::NODES;
use super::dice::Dice;
use crate::proxy::Weather;

/// The other end of a road from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Postgres,
    Redis,
    Upstream,
}

impl Place {
    pub(super) const ALL: [Place; 3] = [Place::Postgres, Place::Redis, Place::Upstream];
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
    Road(usize, Place, Weather),
    /// Whatever travels to a place and back is lost.
    Wire(usize, Place),
    /// The clock is set this many seconds ahead, or behind.
    Clock(usize, i64),
}

/// What a fault happens to. Nothing happens to it twice at once.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Victim {
    Postgres,
    Redis,
    Node(usize),
    Road(usize, Place),
    Clock(usize),
}

impl Fault {
    fn victim(self) -> Victim {
        match self {
            Fault::PostgresRestart | Fault::PostgresKill => Victim::Postgres,
            Fault::RedisKill | Fault::RedisFlush | Fault::RedisFreeze => Victim::Redis,
            Fault::NodeKill(node) | Fault::NodeFreeze(node) => Victim::Node(node),
            Fault::Road(node, place, _) | Fault::Wire(node, place) => Victim::Road(node, place),
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

/// Runs that are at least this long also freeze a node, or cut it from PostgreSQL, for longer than a lease lasts.
const LONG: Duration = Duration::from_secs(150);

/// Seconds by which a clock is wrong: as after a leap, a machine that was asleep, and a wrong time zone.
const CLOCKS: [i64; 6] = [-7_200, -60, -2, 2, 60, 7_200];

fn fault(dice: &mut Dice) -> Fault {
    let node = dice.below(NODES as u64) as usize;
    let place = Place::ALL[dice.below(3) as usize];
    match dice.below(26) {
        0 => Fault::PostgresRestart,
        1 => Fault::PostgresKill,
        2 => Fault::RedisKill,
        3 => Fault::RedisFlush,
        4 => Fault::RedisFreeze,
        5..8 => Fault::NodeKill(node),
        8..10 => Fault::NodeFreeze(node),
        10..14 => Fault::Wire(node, place),
        14..16 => Fault::Clock(node, CLOCKS[dice.below(CLOCKS.len() as u64) as usize]),
        _ => {
            let weather = match dice.below(6) {
                0 | 1 => Weather::Cut,
                2 => Weather::Still,
                3 => Weather::Drip,
                4 if place == Place::Upstream => Weather::Corrupt,
                _ => Weather::Slow(Duration::from_millis(dice.within(5, 300))),
            };
            Fault::Road(node, place, weather)
        }
    }
}

/// The faults of a run, in their order.
pub(super) fn schedule(seed: u64, length: Duration) -> Vec<Event> {
    let mut dice = Dice::new(seed);
    let mut events: Vec<Event> = Vec::new();
    let mut at = Duration::from_secs(1);
    while at < length {
        let fault = fault(&mut dice);
        let can_be_long = matches!(
            fault,
            Fault::NodeFreeze(_) | Fault::Wire(_, Place::Postgres) | Fault::Clock(..)
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

    use super::{Fault, Place, schedule};

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
        assert!(has(|fault| matches!(fault, Fault::Wire(_, Place::Postgres))));
        assert!(has(|fault| matches!(fault, Fault::Clock(..))));
    }
}
