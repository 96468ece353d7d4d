//! The `method` object, which describes how the probabilities were computed.

use serde_json::{Value, json};
use tollgate_types::decide::{Decision, Method};

/// Returns the method of one answer, with its number of upstream requests.
pub(super) fn for_answer(method: &Method) -> Value {
    let mut value = shared(method);
    value["calls"] = json!(method.calls);
    value
}

/// Returns the combined method of all answers: the worst source, the highest number of option
/// orders, the lowest mass, and the calibration profile if all answers have the same one. Answers
/// without a method are ignored; `None` if no answer has a method.
pub(super) fn for_all(decisions: &[Decision]) -> Option<Value> {
    let mut methods = decisions.iter().filter_map(|decision| decision.method.as_ref());
    let first = methods.next()?.clone();
    let all = methods.fold(first, |all, method| {
        let profile = all
            .calibrated
            .clone()
            .filter(|_| all.calibrated == method.calibrated);
        Method {
            calibrated: profile,
            ..all.and(method)
        }
    });
    Some(shared(&all))
}

fn shared(method: &Method) -> Value {
    let mut value = json!({
        "source": method.source.as_str(),
        "permutations": method.permutations,
        "calibrated": method.calibrated.is_some(),
    });
    if let Some(profile) = &method.calibrated {
        value["calibration"] = json!(profile);
    }
    if let Some(mass) = method.mass {
        value["min_mass"] = json!(mass);
    }
    value
}
