//! Orders of options. They distribute the effect of a label's position evenly over all options.

use crate::random::Random;

/// Maximum number of orders of a question.
pub(crate) const MAX_ORDERS: u32 = 8;

/// Returns the number of orders for options that fit into one round: `asked`, limited to the number
/// of useful orders, or the default.
///
/// By default, options with a known label preference have one order, and a scale has two: forward
/// and reverse. Up to four options have one order for each option, five to eight options have four
/// orders, and more options have two.
pub(crate) fn number(options: usize, ordered: bool, asked: Option<u32>, has_prior: bool) -> usize {
    let max = match options {
        2 => 2,
        _ if ordered => 2,
        3 => 6,
        _ => MAX_ORDERS,
    };
    let default_count = match options {
        _ if has_prior => 1,
        _ if ordered => 2,
        2..=4 => options as u32,
        5..=8 => 4,
        _ => 2,
    };
    asked.unwrap_or(default_count).clamp(1, max) as usize
}

/// Returns `number` orders of the options: the given order, its reverse, then evenly spread
/// rotations and their reverses. With as many orders as options, each option has each position
/// once; if that number is odd, all orders are rotations.
pub(crate) fn of(options: &[usize], number: usize) -> Vec<Vec<usize>> {
    let size = options.len();
    let shifted = |by: usize| -> Vec<usize> {
        let (before, after) = options.split_at(by % size.max(1));
        [after, before].concat()
    };
    // A reverse order changes the parity of the positions. Rotations and their reverses therefore
    // give each option each position once only if the number of options is even.
    if number == size && size % 2 == 1 {
        return (0..size).map(shifted).collect();
    }
    let pairs = number.div_ceil(2).max(1);
    // With an even number of options, an odd rotation would give some options the same position
    // twice.
    let is_even = size.is_multiple_of(2) && pairs <= size / 2;
    let both = (0..pairs).flat_map(|pair| {
        let shift = pair * size / pairs;
        let forward = shifted(if is_even { shift / 2 * 2 } else { shift });
        let backward: Vec<usize> = forward.iter().rev().copied().collect();
        [forward, backward]
    });
    both.take(number).collect()
}

/// Splits the options randomly into parts of at most `size` options. The sizes of the parts differ
/// by at most one.
pub(crate) fn dealt(options: &[usize], size: usize, random: &mut Random) -> Vec<Vec<usize>> {
    let mut order = options.to_vec();
    random.shuffle(&mut order);
    let parts = order.len().div_ceil(size.max(1)).max(1);
    let bound = |part: usize| part * order.len() / parts;
    (0..parts)
        .map(|part| {
            order
                .get(bound(part)..bound(part + 1))
                .unwrap_or_default()
                .to_vec()
        })
        .collect()
}

#[cfg(test)]
mod tests;
