//! Default values of omitted parameters.

/// Sets a missing value to its default, if `is_good` accepts the default value.
pub(crate) fn fill<T: Clone>(
    value: &mut Option<T>,
    default_value: &Option<T>,
    is_good: impl FnOnce(&T) -> bool,
) {
    if value.is_none() {
        *value = default_value.clone().filter(is_good);
    }
}
