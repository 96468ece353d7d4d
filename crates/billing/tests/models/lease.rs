//! Model of balance leases: two nodes place holds in memory against a part of the balance that the
//! database has leased to them, and settle in rounds. A call without a covering lease uses the
//! exact path, which is one step here ([`crate::exact`] models its parts).
//!
//! The model has no clock: a node never stops at the end of its lease, and any lease may be
//! reclaimed at any step. Clocks only make losses rare; the property that no caller is charged for
//! a loss must hold without them.

use stateright::{Model, Property};

use crate::{broken, explore};

/// Amount of a hold.
const HOLD: i8 = 2;
/// Possible costs of a call.
const COSTS: [i8; 2] = [1, 2];
const NODES: usize = 2;
/// Number of successive leases of a node.
const LEASES: usize = 2;

/// Size and rules of the model.
#[derive(Clone, Copy, Debug)]
struct Lease {
    calls: usize,
    balance: i8,
    /// Amount that a node requests for its lease.
    lease: i8,
    /// Number of crashes, of lost responses, and of extensions of each node's lease.
    crashes: u8,
    losses: u8,
    growths: u8,
    rules: Rules,
}

/// Rules that ensure the properties. Without any one of them, a property fails.
#[derive(Clone, Copy, Debug)]
struct Rules {
    /// Holds and settlements are journaled before they take effect.
    journal: bool,
    /// Rounds are numbered, and the database executes no round after a later one.
    numbers: bool,
    /// While a round has no response, a node assumes the lower of the two possible balances.
    lower_bound: bool,
    /// A settlement is written once, by the id of its usage row.
    once: bool,
}

impl Rules {
    const ALL: Rules = Rules {
        journal: true,
        numbers: true,
        lower_bound: true,
        once: true,
    };
}

/// State of a call at its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    New,
    /// The call is held in memory, and not yet in the journal.
    Deciding,
    Held,
    /// The upstream has responded; the settlement is not yet in the journal.
    Worked,
    /// The settlement is in the journal, and not yet flushed.
    Settled,
    /// The call is held by the exact path; then the upstream responds.
    ExactHeld,
    ExactWorked,
    Done,
    Refused,
    /// The node of the call died and lost the call.
    Forgotten,
}

/// The usage row of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Row {
    charge: i8,
    /// Part of the cost that the operator bears.
    loss: i8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Call {
    phase: Phase,
    node: u8,
    /// Number of the lease that the call's hold uses.
    lease: u8,
    /// Cost of the upstream's work, and the cost that its node settles: zero after a crash.
    work: i8,
    cost: i8,
    row: Option<Row>,
    /// Number of times that the usage row of the call was written.
    rows: u8,
}

/// A lease in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Leased {
    balance: i8,
    /// The last executed round.
    round: u8,
}

/// A round in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Round {
    lease: u8,
    number: u8,
    /// Lease balance after the settlements. Zero closes the lease.
    target: i8,
    opens: bool,
    /// Bit set of the calls that the round settles.
    batch: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Node {
    /// The current or requested lease.
    lease: Option<u8>,
    leases: u8,
    number: u8,
    growths: u8,
    /// Balance of the node's lease, as last confirmed to the node.
    known: i8,
    /// The round without a response, and whether the node must send it again.
    waits: Option<Round>,
    unsent: bool,
    /// A round that has timed out and may still arrive.
    late: Option<Round>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Balances {
    cash: i8,
    credits: i8,
    lease: i8,
    hold: i8,
    revenue: i8,
    crash_loss: i8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    balances: Balances,
    leases: [Option<Leased>; NODES * LEASES],
    nodes: [Node; NODES],
    calls: Vec<Call>,
    crashes: u8,
    losses: u8,
    /// Holds in flight at nodes that died, and balances of reclaimed leases.
    exposed: i8,
    wrongly_refused: bool,
    /// Whether these events have occurred, for the `sometimes` properties.
    repeated: bool,
    outdated: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// A call is held in memory, on its node's lease.
    Hold(usize, usize),
    /// A call uses the exact path.
    HoldExactly(usize, usize),
    Refuse(usize),
    /// A hold or a settlement is journaled.
    Journal(usize),
    Work(usize, i8),
    SettleExactly(usize),
    /// A node sends a round with this target.
    Begin(usize, i8),
    /// The database executes a round, and the response arrives or is lost.
    Execute(usize, bool),
    /// The round times out; it is lost, or arrives later.
    GiveUp(usize, bool),
    Repeat(usize),
    ExecuteLate(usize),
    Reclaim(usize),
    /// A node dies, and the next process reads its journal.
    Crash(usize),
    /// Voids the exact path's hold of a node that died.
    Sweep(usize),
}

impl State {
    /// Returns the calls held on a node's leases whose settlement is not confirmed.
    fn on(&self, node: usize) -> impl Iterator<Item = (usize, &Call)> {
        let unsettled = [Phase::Deciding, Phase::Held, Phase::Worked, Phase::Settled];
        let calls = self.calls.iter().enumerate();
        calls.filter(move |(_, call)| usize::from(call.node) == node && unsettled.contains(&call.phase))
    }

    /// Returns the amount that a node's current lease must still pay.
    fn reserved(&self, node: usize) -> i8 {
        let lease = self.nodes[node].lease;
        let calls = self.on(node).filter(|(_, call)| Some(call.lease) == lease);
        calls
            .map(|(_, call)| {
                if call.phase == Phase::Settled {
                    call.cost
                } else {
                    HOLD
                }
            })
            .sum()
    }

    /// Returns the part of the amount of [`State::reserved`] that the settlements in `batch` pay.
    fn paid_by(&self, node: usize, batch: u8) -> i8 {
        let lease = self.nodes[node].lease;
        let calls = self.calls.iter().enumerate();
        let calls = calls.filter(|(place, call)| batch & 1 << place != 0 && Some(call.lease) == lease);
        calls.map(|(_, call)| call.cost).sum()
    }

    /// Returns the settled, unflushed calls of a node on any lease, as a bit set.
    fn unflushed(&self, node: usize) -> u8 {
        let settled = self.on(node).filter(|(_, call)| call.phase == Phase::Settled);
        settled.map(|(place, _)| 1 << place).sum()
    }
}

impl Lease {
    /// Returns the maximum amount that a node may reserve on its lease.
    fn ceiling(&self, state: &State, node: usize) -> i8 {
        let known = &state.nodes[node];
        match known.waits {
            Some(round) if self.rules.lower_bound => {
                known.known.min(round.target + state.paid_by(node, round.batch))
            }
            Some(round) => known.known.max(round.target),
            None => known.known,
        }
    }

    fn rounds(&self, state: &State, node: usize, actions: &mut Vec<Action>) {
        let known = &state.nodes[node];
        if known.waits.is_some() {
            return;
        }
        let batch = state.unflushed(node);
        let rest = state.reserved(node) - state.paid_by(node, batch);
        let after = known.known - state.paid_by(node, batch);
        let has_left = known.lease.is_some() || usize::from(known.leases) < LEASES;
        let may_grow = known.growths < self.growths && has_left && after < self.lease;
        if may_grow {
            actions.push(Action::Begin(node, self.lease));
        }
        // The node returns the unreserved part whenever it can, and closes the lease by returning
        // all of it.
        if batch != 0 || known.lease.is_some() && (rest < after || rest == 0) {
            actions.push(Action::Begin(node, rest));
        }
    }

    fn begin(&self, state: &mut State, node: usize, target: i8) {
        let batch = state.unflushed(node);
        let known = &mut state.nodes[node];
        let opens = known.lease.is_none() && target > 0;
        if opens {
            known.lease = Some((node * LEASES) as u8 + known.leases);
            known.leases += 1;
            known.number = 0;
        }
        let after = known.known;
        known.growths += u8::from(target == self.lease && after < self.lease);
        known.number += 1;
        known.waits = Some(Round {
            // A node without a lease settles calls of its earlier leases.
            lease: known.lease.unwrap_or(u8::MAX),
            number: known.number,
            target,
            opens,
            batch,
        });
        known.unsent = false;
    }

    /// Executes a round in one transaction. Returns the new balance of the lease, or `None` if
    /// there is no lease.
    fn execute(&self, state: &mut State, round: Round) -> Option<i8> {
        let place = usize::from(round.lease);
        let row = state.leases.get(place).copied().flatten();
        if let Some(row) = row.filter(|row| self.rules.numbers && round.number <= row.round) {
            state.repeated |= round.number == row.round;
            state.outdated |= round.number < row.round;
            return Some(row.balance);
        }
        if row.is_none() && round.opens {
            state.leases[place] = Some(Leased {
                balance: 0,
                round: round.number,
            });
        }
        for call in 0..state.calls.len() {
            if round.batch & 1 << call != 0 {
                self.settle(state, call);
            }
        }
        let credits = state.balances.credits;
        let row = state.leases.get_mut(place)?.as_mut()?;
        let moved = (round.target - row.balance).min(credits);
        state.balances.credits -= moved;
        state.balances.lease += moved;
        row.balance += moved;
        row.round = round.number;
        let balance = row.balance;
        if balance == 0 && round.target == 0 {
            state.leases[place] = None;
            return None;
        }
        Some(balance)
    }

    /// Settles a call: the customer pays up to the balance of the lease, and the operator bears the
    /// rest, or the whole cost if the lease no longer exists.
    fn settle(&self, state: &mut State, call: usize) {
        let known = &mut state.calls[call];
        if self.rules.once && known.row.is_some() {
            return;
        }
        let lease = state.leases[usize::from(known.lease)].as_mut();
        let charge = lease.as_ref().map_or(0, |lease| lease.balance.min(known.cost));
        let loss = known.cost - charge;
        if let Some(lease) = lease {
            lease.balance -= charge;
        }
        known.row = Some(Row { charge, loss });
        known.rows += 1;
        state.balances.lease -= charge;
        state.balances.crash_loss -= loss;
        state.balances.revenue += charge + loss;
    }

    fn answered(&self, state: &mut State, node: usize, balance: Option<i8>) {
        let Some(round) = state.nodes[node].waits.take() else {
            return;
        };
        for (place, call) in state.calls.iter_mut().enumerate() {
            if round.batch & 1 << place != 0 {
                call.phase = Phase::Done;
            }
        }
        let known = &mut state.nodes[node];
        known.known = balance.unwrap_or(0);
        if balance.is_none() {
            known.lease = None;
        }
    }

    fn give_up(&self, state: &mut State, node: usize, late: bool) {
        let known = &mut state.nodes[node];
        known.unsent = true;
        if late {
            known.late = known.waits;
        }
    }

    fn crash(&self, state: &mut State, node: usize) {
        state.crashes -= 1;
        if !state.nodes[node].unsent && state.nodes[node].late.is_none() {
            state.nodes[node].late = state.nodes[node].waits;
        }
        let known = &mut state.nodes[node];
        (known.waits, known.unsent, known.known) = (None, false, 0);
        for call in state
            .calls
            .iter_mut()
            .filter(|call| usize::from(call.node) == node)
        {
            match call.phase {
                // No request was sent upstream.
                Phase::Deciding => call.phase = Phase::Forgotten,
                Phase::Held | Phase::Worked if self.rules.journal => {
                    state.exposed += HOLD;
                    (call.phase, call.cost) = (Phase::Settled, 0);
                }
                Phase::Held | Phase::Worked | Phase::Settled if !self.rules.journal => {
                    state.exposed += HOLD;
                    call.phase = Phase::Forgotten;
                }
                Phase::ExactHeld | Phase::ExactWorked => {
                    state.exposed += HOLD;
                    call.phase = Phase::Forgotten;
                }
                _ => {}
            }
        }
    }

    /// Returns the customer's unspent balance, derived from the calls alone.
    fn unspent(&self, state: &State) -> i8 {
        let spent = state.calls.iter().map(|call| match (call.row, call.phase) {
            (Some(row), _) => row.charge,
            (None, Phase::New | Phase::Refused) => 0,
            (None, Phase::Settled) => call.cost,
            (None, Phase::Deciding | Phase::Held | Phase::Worked | Phase::Done | Phase::Forgotten) => HOLD,
            (None, Phase::ExactHeld | Phase::ExactWorked) => HOLD,
        });
        self.balance - spent.sum::<i8>()
    }

    fn is_over(call: &Call) -> bool {
        let over = match call.phase {
            Phase::Refused => true,
            Phase::Done | Phase::Forgotten => call.work == 0 || call.row.is_some(),
            _ => false,
        };
        over && (call.work == 0 || call.row.is_some())
    }
}

impl Model for Lease {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let call = Call {
            phase: Phase::New,
            node: u8::MAX,
            lease: u8::MAX,
            work: 0,
            cost: 0,
            row: None,
            rows: 0,
        };
        let balances = Balances {
            cash: -self.balance,
            credits: self.balance,
            ..Balances::default()
        };
        vec![State {
            balances,
            leases: [None; NODES * LEASES],
            nodes: [Node::default(); NODES],
            calls: vec![call; self.calls],
            crashes: self.crashes,
            losses: self.losses,
            exposed: 0,
            wrongly_refused: false,
            repeated: false,
            outdated: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        // The calls are interchangeable, so that one arrival order represents all orders.
        let next = state.calls.iter().position(|call| call.phase == Phase::New);
        let may_lose = state.losses > 0;
        // The nodes are interchangeable, so that only the first node makes the first step.
        let is_started = state.nodes[0].leases > 0 || state.calls.iter().any(|call| call.phase != Phase::New);
        for node in 0..if is_started { NODES } else { 1 } {
            let known = &state.nodes[node];
            if let Some(call) = next {
                if known.lease.is_some() && state.reserved(node) + HOLD <= self.ceiling(state, node) {
                    actions.push(Action::Hold(call, node));
                }
                if state.balances.credits >= HOLD {
                    actions.push(Action::HoldExactly(call, node));
                } else if state.balances.credits + state.balances.lease < HOLD {
                    actions.push(Action::Refuse(call));
                }
            }
            self.rounds(state, node, actions);
            if known.waits.is_some() && !known.unsent {
                actions.push(Action::Execute(node, true));
                if may_lose {
                    actions.push(Action::Execute(node, false));
                    actions.push(Action::GiveUp(node, false));
                    if known.late.is_none() {
                        actions.push(Action::GiveUp(node, true));
                    }
                }
            }
            if known.unsent {
                actions.push(Action::Repeat(node));
            }
            if known.late.is_some() {
                actions.push(Action::ExecuteLate(node));
            }
            if state.crashes > 0 {
                actions.push(Action::Crash(node));
            }
        }
        for (place, call) in state.calls.iter().enumerate() {
            match call.phase {
                Phase::Deciding | Phase::Worked => actions.push(Action::Journal(place)),
                Phase::Held | Phase::ExactHeld => actions.extend(COSTS.map(|cost| Action::Work(place, cost))),
                Phase::ExactWorked => actions.push(Action::SettleExactly(place)),
                Phase::Forgotten if call.lease == u8::MAX && call.row.is_none() => {
                    actions.push(Action::Sweep(place))
                }
                _ => {}
            }
        }
        let leases = state.leases.iter().enumerate();
        actions.extend(leases.filter_map(|(place, lease)| lease.map(|_| Action::Reclaim(place))));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Hold(call, node) => {
                let call = &mut state.calls[call];
                (call.phase, call.node) = (Phase::Deciding, node as u8);
                call.lease = state.nodes[node].lease?;
            }
            Action::HoldExactly(call, node) => {
                let call = &mut state.calls[call];
                (call.phase, call.node) = (Phase::ExactHeld, node as u8);
                state.balances.credits -= HOLD;
                state.balances.hold += HOLD;
            }
            Action::Refuse(call) => {
                state.wrongly_refused |= self.unspent(&state) >= HOLD && state.exposed == 0;
                state.calls[call].phase = Phase::Refused;
            }
            Action::Journal(call) => {
                let call = &mut state.calls[call];
                if call.phase == Phase::Deciding {
                    call.phase = Phase::Held;
                } else {
                    (call.phase, call.cost) = (Phase::Settled, call.work);
                }
            }
            Action::Work(call, cost) => {
                let call = &mut state.calls[call];
                call.work += cost;
                call.phase = if call.phase == Phase::Held {
                    Phase::Worked
                } else {
                    Phase::ExactWorked
                };
            }
            Action::SettleExactly(call) | Action::Sweep(call) => {
                let call = &mut state.calls[call];
                let charge = if call.phase == Phase::ExactWorked {
                    call.work
                } else {
                    0
                };
                call.row = Some(Row { charge, loss: 0 });
                call.rows += 1;
                call.phase = Phase::Done;
                state.balances.hold -= HOLD;
                state.balances.credits += HOLD - charge;
                state.balances.revenue += charge;
            }
            Action::Begin(node, target) => self.begin(&mut state, node, target),
            Action::Execute(node, answered) => {
                let round = state.nodes[node].waits?;
                let balance = self.execute(&mut state, round);
                if answered {
                    self.answered(&mut state, node, balance);
                } else {
                    state.losses -= 1;
                    self.give_up(&mut state, node, false);
                }
            }
            Action::GiveUp(node, late) => {
                state.losses -= 1;
                self.give_up(&mut state, node, late);
            }
            Action::Repeat(node) => state.nodes[node].unsent = false,
            Action::ExecuteLate(node) => {
                let round = state.nodes[node].late.take()?;
                self.execute(&mut state, round);
            }
            Action::Reclaim(lease) => {
                let balance = state.leases[lease].take()?.balance;
                state.exposed += balance;
                state.balances.lease -= balance;
                state.balances.credits += balance;
            }
            Action::Crash(node) => self.crash(&mut state, node),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("the books sum to zero", |_, state: &State| {
                let balances = &state.balances;
                balances.cash
                    + balances.credits
                    + balances.lease
                    + balances.hold
                    + balances.revenue
                    + balances.crash_loss
                    == 0
            }),
            Property::always("nothing is below zero", |_, state: &State| {
                let balances = &state.balances;
                let leases = state.leases.iter().flatten();
                balances.credits >= 0
                    && balances.lease >= 0
                    && balances.hold >= 0
                    && leases.into_iter().all(|lease| lease.balance >= 0)
            }),
            Property::always("what is leased is the sum of leases", |_, state: &State| {
                let leases = state.leases.iter().flatten().map(|lease| lease.balance);
                leases.sum::<i8>() == state.balances.lease
            }),
            Property::always(
                "a call is charged once, and no more than was done",
                |_, state: &State| {
                    let charge = |call: &Call| call.row.map_or(0, |row| row.charge);
                    state
                        .calls
                        .iter()
                        .all(|call| call.rows <= 1 && charge(call) <= call.work)
                },
            ),
            Property::always("work is revenue, loss, or in flight", |_, state: &State| {
                let work = |calls: &mut dyn Iterator<Item = &Call>| calls.map(|call| call.work).sum::<i8>();
                let in_flight = work(&mut state.calls.iter().filter(|call| call.row.is_none()));
                // Work that a crash interrupted: the ledger has no record of its cost.
                let void = |call: &&Call| call.row == Some(Row { charge: 0, loss: 0 });
                let void = work(&mut state.calls.iter().filter(void));
                work(&mut state.calls.iter()) == state.balances.revenue + void + in_flight
            }),
            Property::always(
                "no more is done than was granted, crashes and reclaimed leases apart",
                |model: &Lease, state: &State| {
                    let work: i8 = state.calls.iter().map(|call| call.work).sum();
                    work <= model.balance + state.exposed
                },
            ),
            Property::always("a loss means a crash or a reclaimed lease", |_, state: &State| {
                let lost = |call: &Call| call.row.map_or(0, |row| call.work - row.charge);
                state.calls.iter().map(lost).sum::<i8>() <= state.exposed
            }),
            Property::always(
                "402 means that credits and leases do not cover the call",
                |_, state: &State| !state.wrongly_refused,
            ),
            Property::always(
                "a run that ends has settled everything",
                |model: &Lease, state: &State| {
                    let mut actions = Vec::new();
                    model.actions(state, &mut actions);
                    actions.retain(|action| !matches!(action, Action::Crash(_)));
                    let all_over = state.calls.iter().all(Lease::is_over);
                    !actions.is_empty() || all_over && state.balances.hold == 0 && state.balances.lease == 0
                },
            ),
            Property::sometimes("a settlement comes too late for its lease", |_, state: &State| {
                state.balances.crash_loss < 0
            }),
            Property::sometimes("a call is refused", |_, state: &State| {
                state.calls.iter().any(|call| call.phase == Phase::Refused)
            }),
            Property::sometimes("a round is repeated", |_, state: &State| state.repeated),
            Property::sometimes("a round arrives after a later one", |_, state: &State| {
                state.outdated
            }),
            Property::sometimes("two nodes pay calls out of leases", |_, state: &State| {
                let pays = |call: &Call| call.lease != u8::MAX && call.row.is_some_and(|row| row.charge > 0);
                let by = |node: u8| state.calls.iter().any(|call| call.node == node && pays(call));
                by(0) && by(1)
            }),
            Property::sometimes("everything is spent to the last unit", |_, state: &State| {
                state.balances.credits + state.balances.lease + state.balances.hold == 0
            }),
        ]
    }
}

/// A balance so small that nodes compete for it, and one of them dies.
const NEAR_ZERO: Lease = Lease {
    calls: 2,
    balance: 3,
    lease: 2,
    crashes: 1,
    losses: 0,
    growths: 1,
    rules: Rules::ALL,
};

/// A balance for two leases; one response is lost.
const LOSSY: Lease = Lease {
    balance: 4,
    crashes: 0,
    losses: 1,
    ..NEAR_ZERO
};

/// One call, and leases that open and close around it.
const GROWING: Lease = Lease {
    calls: 1,
    growths: 2,
    ..NEAR_ZERO
};

/// A lease that covers two calls.
const LARGE: Lease = Lease {
    balance: 5,
    lease: 4,
    ..NEAR_ZERO
};

const LATE: &str = "a settlement comes too late for its lease";
const REFUSED: &str = "a call is refused";
const REPEATED: &str = "a round is repeated";
const OUTDATED: &str = "a round arrives after a later one";
const BOTH: &str = "two nodes pay calls out of leases";
const SPENT: &str = "everything is spent to the last unit";

#[test]
fn lease_invariants_hold_near_zero() {
    let states = explore("lease near zero", NEAR_ZERO, &[LATE, REFUSED, SPENT]);
    assert!(states >= 100_000);
}

#[test]
fn lease_invariants_hold_when_answers_are_lost() {
    let states = explore("lease, lost answers", LOSSY, &[LATE, REPEATED, BOTH, SPENT]);
    assert!(states >= 100_000);
}

#[test]
#[ignore = "takes half a minute"]
fn prove_leases_that_grow_again() {
    let states = explore("lease that grows again", GROWING, &[LATE, OUTDATED]);
    assert!(states >= 100_000);
}

#[test]
#[ignore = "explores millions of states"]
fn prove_leases_near_zero() {
    let model = Lease {
        losses: 1,
        ..NEAR_ZERO
    };
    let states = explore("lease near zero", model, &[LATE, REFUSED, REPEATED, SPENT]);
    assert!(states >= 1_000_000);
}

#[test]
#[ignore = "explores millions of states"]
fn prove_large_leases() {
    let crashes = explore("large lease, crashes", LARGE, &[LATE]);
    let model = Lease {
        crashes: 0,
        losses: 1,
        ..LARGE
    };
    let losses = explore("large lease, lost answers", model, &[LATE, REPEATED, OUTDATED]);
    assert!(crashes + losses >= 1_000_000);
}

fn without(change: fn(&mut Rules)) -> Rules {
    let mut rules = Rules::ALL;
    change(&mut rules);
    rules
}

/// Without any one of the rules, a property fails.
#[test]
fn every_rule_is_necessary() {
    let no_journal = Lease {
        rules: without(|rules| rules.journal = false),
        ..NEAR_ZERO
    };
    let no_numbers = Lease {
        rules: without(|rules| rules.numbers = false),
        ..GROWING
    };
    let no_lower_bound = Lease {
        rules: without(|rules| rules.lower_bound = false),
        ..NEAR_ZERO
    };
    let not_once = Lease {
        rules: without(|rules| rules.once = false),
        ..LOSSY
    };
    for (model, promise) in [
        (no_journal, "a run that ends has settled everything"),
        (no_numbers, "a loss means a crash or a reclaimed lease"),
        (
            no_lower_bound,
            "no more is done than was granted, crashes and reclaimed leases apart",
        ),
        (not_once, "a call is charged once, and no more than was done"),
    ] {
        let broken = broken(model);
        assert!(broken.contains(&promise), "{model:?}: {broken:?}");
    }
}
