//! The protocols of the money, explored exhaustively: every order of every step, with crashes, lost answers and
//! statements that arrive late. A model has no clock; whatever a time-out would end may end at any step.
//!
//! Each file has one protocol. [`naive`] is the one that other meters have, to show that the properties can fail; so do
//! the rules of [`lease`] that can be switched off.

#![expect(clippy::print_stdout, reason = "tests tell how much they explored")]

mod exact;
mod lease;
mod naive;

use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, Expectation, HasDiscoveries, Model};

/// Explores a model to its end and answers how many states it has. What must always be is in every one of them, and
/// what is named here happens in some.
fn explore<M>(name: &str, model: M, happens: &[&str]) -> usize
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    // Depth first: what waits to be looked at stays small.
    let checker = model.checker().spawn_dfs().join();
    assert!(checker.is_done(), "{name} was not explored to its end");
    let states = checker.unique_state_count();
    println!("{name}: {states} states, {} steps deep", checker.max_depth());
    let found = checker.discoveries();
    for property in checker.model().properties() {
        match property.expectation {
            Expectation::Sometimes => {}
            _ => assert!(
                !found.contains_key(property.name),
                "{}: {:?}",
                property.name,
                found[property.name]
            ),
        }
    }
    for name in happens {
        assert!(found.contains_key(name), "in no state: {name}");
    }
    states
}

/// The properties that do not hold, each with the way to where it does not. The search ends at the first.
fn broken<M>(model: M) -> Vec<&'static str>
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let checker = model
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let always = checker.model().properties();
    let always = always
        .iter()
        .filter(|property| property.expectation == Expectation::Always);
    let failed = always.into_iter().filter_map(|property| {
        let path = checker.discovery(property.name)?;
        println!("{}: {:?}", property.name, path.into_actions());
        Some(property.name)
    });
    failed.collect()
}
