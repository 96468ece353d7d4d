//! In which orders options are shown, so that what a label's place adds is added to every option alike, or nearly.

use crate::random::Random;

/// The most orders of a question.
pub(crate) const MOST_ORDERS: u32 = 8;

/// In how many orders options are shown that are all shown at once.
///
/// A scale makes sense in two directions and no other order. Choices of up to eight have four orders, or all of their
/// shifts where those are fewer; wider ones two.
pub(crate) fn number(options: usize, ordered: bool, asked: Option<u32>, has_prior: bool) -> usize {
    let most = match options {
        2 => 2,
        _ if ordered => 2,
        3 => 6,
        _ => MOST_ORDERS,
    };
    let usual = match options {
        _ if has_prior => 1,
        _ if ordered => 2,
        2..=4 => options as u32,
        5..=8 => 4,
        _ => 2,
    };
    asked.unwrap_or(usual).clamp(1, most) as usize
}

/// So many orders of these options: the first as it stands, the second from its end, then shifts and their reverses,
/// spread. As many orders as options make a square in which each option has each place once.
pub(crate) fn of(options: &[usize], number: usize) -> Vec<Vec<usize>> {
    let size = options.len();
    let shifted = |by: usize| -> Vec<usize> {
        let (before, after) = options.split_at(by % size.max(1));
        [after, before].concat()
    };
    // Reverses have the other parity of places, so they fill a square of an even size and not of an odd one.
    if number == size && size % 2 == 1 {
        return (0..size).map(shifted).collect();
    }
    let pairs = number.div_ceil(2).max(1);
    // With an even size an odd shift would bring some options to a place twice.
    let is_even = size.is_multiple_of(2) && pairs <= size / 2;
    let both = (0..pairs).flat_map(|pair| {
        let shift = pair * size / pairs;
        let forward = shifted(if is_even { shift / 2 * 2 } else { shift });
        let backward: Vec<usize> = forward.iter().rev().copied().collect();
        [forward, backward]
    });
    both.take(number).collect()
}

/// Parts of a random order of these options, none larger than `size` and none two sizes apart.
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
