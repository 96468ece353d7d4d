//! Model of the exact path: one conditional statement for each hold and one for each settlement, on
//! one database behind two nodes.
//!
//! The outcome of a statement that times out is unknown to its node, and the statement may still
//! arrive. A settlement is then sent again; a hold is not. The sweep may void any open hold at any
//! step, even during its call.

use stateright::{Model, Property};

use crate::explore;

/// Amount of a hold.
const HOLD: i8 = 2;
/// Possible costs of a call; the larger one exceeds the hold.
const COSTS: [i8; 2] = [1, 3];

/// Size of the model.
#[derive(Clone, Copy, Debug)]
pub struct Exact {
    calls: usize,
    balance: i8,
    /// Number of crashes, and of lost responses (`losses`).
    crashes: u8,
    losses: u8,
}

/// State of a call at its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    New,
    Holding,
    Held,
    /// The upstream has responded.
    Worked,
    Settling,
    /// Terminal phases: the response was delivered, refused with 402, or failed with 503.
    Answered,
    Refused,
    Failed,
    /// The node of the call died.
    Dead,
}

/// State of a call's hold in the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Row {
    None,
    Open,
    Settled { charge: i8, overrun: i8 },
    Voided,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Call {
    node: bool,
    phase: Phase,
    row: Row,
    /// Cost of the upstream's work, and number of upstream requests.
    work: i8,
    dispatches: u8,
    /// Statements in flight: a node waits for the `sent` statement; the late ones have timed out.
    sent: bool,
    late_hold: bool,
    late_settle: bool,
    /// Number of resolutions that the database executed.
    resolutions: u8,
}

/// Ledger balances: a transfer moves an amount from one to another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Balances {
    cash: i8,
    credits: i8,
    hold: i8,
    revenue: i8,
    overrun: i8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    balances: Balances,
    calls: Vec<Call>,
    crashes: u8,
    losses: u8,
    /// Whether a call was refused although the remaining balance covered it.
    wrongly_refused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A call arrives at a node, which requests a hold.
    Arrive(usize, bool),
    /// The database executes the current statement, and the response arrives or is lost.
    Execute(usize, bool),
    /// The statement times out; it is lost, or arrives later.
    GiveUp(usize, bool),
    /// The database executes a statement that has timed out.
    ExecuteLate(usize),
    Work(usize, i8),
    Settle(usize),
    Sweep(usize),
    Crash(bool),
}

impl Exact {
    fn take(&self, state: &mut State, call: usize) -> bool {
        if state.calls[call].row != Row::None {
            // The id was used before.
            return false;
        }
        if state.balances.credits < HOLD {
            let spent = state.calls.iter().map(|call| match call.row {
                Row::None | Row::Voided => 0,
                Row::Open => HOLD,
                Row::Settled { charge, .. } => charge,
            });
            state.wrongly_refused |= self.balance - spent.sum::<i8>() >= HOLD;
            return false;
        }
        state.balances.credits -= HOLD;
        state.balances.hold += HOLD;
        state.calls[call].row = Row::Open;
        true
    }

    fn resolve(&self, state: &mut State, call: usize, row: Row) {
        let known = &mut state.calls[call];
        if known.row != Row::Open {
            return;
        }
        known.row = row;
        known.resolutions += 1;
        let (charge, overrun) = match row {
            Row::Settled { charge, overrun } => (charge, overrun),
            _ => (0, 0),
        };
        state.balances.hold -= HOLD;
        state.balances.revenue += charge + overrun;
        state.balances.credits += HOLD - charge;
        state.balances.overrun -= overrun;
    }

    fn settle(&self, state: &mut State, call: usize) {
        let work = state.calls[call].work;
        let charge = work.min(HOLD);
        let overrun = work - charge;
        self.resolve(state, call, Row::Settled { charge, overrun });
    }
}

impl Model for Exact {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let call = Call {
            node: false,
            phase: Phase::New,
            row: Row::None,
            work: 0,
            dispatches: 0,
            sent: false,
            late_hold: false,
            late_settle: false,
            resolutions: 0,
        };
        let balances = Balances {
            cash: -self.balance,
            credits: self.balance,
            ..Balances::default()
        };
        vec![State {
            balances,
            calls: vec![call; self.calls],
            crashes: self.crashes,
            losses: self.losses,
            wrongly_refused: false,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let may_lose = state.losses > 0;
        for (place, call) in state.calls.iter().enumerate() {
            match call.phase {
                // The calls differ only in their nodes, so that one arrival order represents all
                // orders.
                Phase::New if place == 0 || state.calls[place - 1].phase != Phase::New => {
                    actions.extend([false, true].map(|node| Action::Arrive(place, node)));
                }
                Phase::Held => actions.extend(COSTS.map(|cost| Action::Work(place, cost))),
                Phase::Worked => actions.push(Action::Settle(place)),
                _ => {}
            }
            if call.sent {
                actions.push(Action::Execute(place, true));
                if may_lose {
                    actions.push(Action::Execute(place, false));
                    actions.extend([false, true].map(|late| Action::GiveUp(place, late)));
                }
            }
            if call.late_hold || call.late_settle {
                actions.push(Action::ExecuteLate(place));
            }
            if call.row == Row::Open {
                actions.push(Action::Sweep(place));
            }
        }
        if state.crashes > 0 {
            actions.extend([false, true].map(Action::Crash));
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Arrive(call, node) => {
                let call = &mut state.calls[call];
                (call.node, call.phase, call.sent) = (node, Phase::Holding, true);
            }
            Action::Execute(call, answered) => {
                let holds = state.calls[call].phase == Phase::Holding;
                let held = holds && self.take(&mut state, call);
                if !holds {
                    self.settle(&mut state, call);
                }
                state.losses -= u8::from(!answered);
                let call = &mut state.calls[call];
                call.sent = false;
                call.phase = match (holds, answered) {
                    (true, true) if held => Phase::Held,
                    (true, true) => Phase::Refused,
                    (true, false) => Phase::Failed,
                    (false, true) => Phase::Answered,
                    (false, false) => Phase::Worked,
                };
            }
            Action::GiveUp(call, late) => {
                state.losses -= 1;
                let call = &mut state.calls[call];
                call.sent = false;
                if call.phase == Phase::Holding {
                    (call.phase, call.late_hold) = (Phase::Failed, late);
                } else {
                    (call.phase, call.late_settle) = (Phase::Worked, call.late_settle || late);
                }
            }
            Action::ExecuteLate(call) => {
                let late = &mut state.calls[call];
                if std::mem::take(&mut late.late_hold) {
                    self.take(&mut state, call);
                } else {
                    late.late_settle = false;
                    self.settle(&mut state, call);
                }
            }
            Action::Work(call, cost) => {
                let call = &mut state.calls[call];
                (call.phase, call.work) = (Phase::Worked, cost);
                call.dispatches += 1;
            }
            Action::Settle(call) => {
                let call = &mut state.calls[call];
                (call.phase, call.sent) = (Phase::Settling, true);
            }
            Action::Sweep(call) => self.resolve(&mut state, call, Row::Voided),
            Action::Crash(node) => {
                state.crashes -= 1;
                for call in state.calls.iter_mut().filter(|call| call.node == node) {
                    // Statements that the node had sent may still arrive.
                    let sent = std::mem::take(&mut call.sent);
                    call.late_hold |= sent && call.phase == Phase::Holding;
                    call.late_settle |= sent && call.phase == Phase::Settling;
                    if !matches!(
                        call.phase,
                        Phase::New | Phase::Answered | Phase::Refused | Phase::Failed
                    ) {
                        call.phase = Phase::Dead;
                    }
                }
            }
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("the books sum to zero", |_, state: &State| {
                let balances = &state.balances;
                balances.cash + balances.credits + balances.hold + balances.revenue + balances.overrun == 0
            }),
            Property::always("nothing is below zero", |_, state: &State| {
                state.balances.credits >= 0 && state.balances.hold >= 0
            }),
            Property::always("what is held is the sum of open holds", |_, state: &State| {
                let open = state.calls.iter().filter(|call| call.row == Row::Open);
                open.count() as i8 * HOLD == state.balances.hold
            }),
            Property::always(
                "a call is sent upstream once, and only with a hold",
                |_, state: &State| {
                    let valid =
                        |call: &Call| call.dispatches <= 1 && (call.dispatches == 0 || call.row != Row::None);
                    state.calls.iter().all(valid)
                },
            ),
            Property::always("a hold is resolved once", |_, state: &State| {
                state.calls.iter().all(|call| call.resolutions <= 1)
            }),
            Property::always("no more is charged than was held and done", |_, state: &State| {
                state.calls.iter().all(|call| match call.row {
                    Row::Settled { charge, overrun } => charge <= HOLD && charge + overrun <= call.work,
                    _ => true,
                })
            }),
            Property::always("work is revenue, loss, or in flight", |_, state: &State| {
                let of = |wanted: fn(&Row) -> bool| -> i8 {
                    let calls = state.calls.iter().filter(|call| wanted(&call.row));
                    calls.map(|call| call.work).sum()
                };
                let lost = of(|row| *row == Row::Voided);
                let in_flight = of(|row| *row == Row::Open);
                of(|_| true) == state.balances.revenue + lost + in_flight
            }),
            Property::always(
                "what is answered is paid, unless its hold was swept",
                |_, state: &State| {
                    let answered = state.calls.iter().filter(|call| call.phase == Phase::Answered);
                    let paid = |call: &Call| match call.row {
                        Row::Settled { charge, overrun } => charge + overrun == call.work,
                        row => row == Row::Voided,
                    };
                    answered.into_iter().all(paid)
                },
            ),
            Property::always(
                "402 means that the credits do not cover the call",
                |_, state: &State| !state.wrongly_refused,
            ),
            Property::always(
                "a run that ends has resolved everything",
                |model: &Exact, state: &State| {
                    let mut actions = Vec::new();
                    model.actions(state, &mut actions);
                    actions.retain(|action| !matches!(action, Action::Crash(_)));
                    let over = [Phase::Answered, Phase::Refused, Phase::Failed, Phase::Dead];
                    let all_over = state
                        .calls
                        .iter()
                        .all(|call| over.contains(&call.phase) && call.row != Row::Open);
                    !actions.is_empty() || all_over && state.balances.hold == 0
                },
            ),
            Property::sometimes("everything is paid", |_, state: &State| {
                let is_paid = |call: &Call| matches!(call.row, Row::Settled { .. });
                state.calls.iter().all(is_paid)
            }),
            Property::sometimes("a late hold is swept", |_, state: &State| {
                let is_swept = |call: &Call| call.phase == Phase::Failed && call.row == Row::Voided;
                state.calls.iter().any(is_swept)
            }),
            Property::sometimes("a dead node's settlement arrives", |_, state: &State| {
                let is_settled =
                    |call: &Call| call.phase == Phase::Dead && matches!(call.row, Row::Settled { .. });
                state.calls.iter().any(is_settled)
            }),
            Property::sometimes("a call is refused", |_, state: &State| {
                state.calls.iter().any(|call| call.phase == Phase::Refused)
            }),
        ]
    }
}

const REACHABLE: [&str; 4] = [
    "everything is paid",
    "a late hold is swept",
    "a dead node's settlement arrives",
    "a call is refused",
];

#[test]
fn exact_path_invariants_hold() {
    let model = Exact {
        calls: 3,
        balance: 5,
        crashes: 1,
        losses: 1,
    };
    assert!(explore("exact path", model, &REACHABLE) >= 100_000);
}

#[test]
#[ignore = "explores millions of states"]
fn prove_the_exact_path() {
    let model = Exact {
        calls: 3,
        balance: 5,
        crashes: 1,
        losses: 2,
    };
    assert!(explore("exact path", model, &REACHABLE) >= 1_000_000);
}
