//! Model of the common protocol: read the balance, call if it is sufficient, deduct afterwards.

use stateright::{Model, Property};

use crate::broken;

const BALANCE: i8 = 3;
const COST: i8 = 2;
const CALLS: usize = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    New,
    /// The balance was sufficient when it was read.
    Read,
    Called,
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    balance: i8,
    calls: [Phase; CALLS],
}

/// Index of the call that executes its next step.
type Step = usize;

struct Naive;

impl Model for Naive {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State {
            balance: BALANCE,
            calls: [Phase::New; CALLS],
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Step>) {
        actions.extend((0..CALLS).filter(|call| state.calls[*call] != Phase::Done));
    }

    fn next_state(&self, last: &State, call: Step) -> Option<State> {
        let mut state = last.clone();
        state.calls[call] = match last.calls[call] {
            Phase::New if state.balance >= COST => Phase::Read,
            Phase::Read => Phase::Called,
            Phase::Called => {
                state.balance -= COST;
                Phase::Done
            }
            Phase::New | Phase::Done => Phase::Done,
        };
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![Property::always("nothing is below zero", |_, state: &State| {
            state.balance >= 0
        })]
    }
}

#[test]
fn read_check_deduct_overspends() {
    assert_eq!(broken(Naive), ["nothing is below zero"]);
}
