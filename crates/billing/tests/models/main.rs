//! Exhaustive models of the billing protocols: every order of every step, with crashes, lost
//! responses and late statements. A model has no clock; a timeout may end any step at any time.
//!
//! Each file models one protocol. [`naive`] is the common read-and-deduct protocol, which shows
//! that the properties can fail; the rules of [`lease`] can be disabled for the same purpose.

#![expect(clippy::print_stdout, reason = "tests tell how much they explored")]

mod exact;
mod lease;
mod naive;

use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, Expectation, HasDiscoveries, Model};

/// Explores a model completely and returns its number of states. Every state must meet the `always`
/// properties; some state must meet each of `happens`.
fn explore<M>(name: &str, model: M, happens: &[&str]) -> usize
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    // Depth-first search limits the number of pending states in memory.
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

/// Returns the properties that do not hold, and prints the path to each violation. The search ends
/// at the first.
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
