use std::collections::BTreeSet;

use super::*;

#[test]
fn order_counts_follow_the_options() {
    for (options, ordered, asked, has_prior, expected) in [
        (2, false, None, false, 2),
        (2, false, Some(8), false, 2),
        (2, false, Some(1), false, 1),
        (3, false, None, false, 3),
        (3, false, Some(8), false, 6),
        (4, false, None, false, 4),
        (8, false, None, false, 4),
        (9, false, None, false, 2),
        (9, false, Some(8), false, 8),
        (9, false, Some(80), false, 8),
        (9, false, Some(0), false, 1),
        (5, true, None, false, 2),
        (5, true, Some(8), false, 2),
        (5, true, None, true, 1),
        (8, false, None, true, 1),
        (8, false, Some(4), true, 4),
    ] {
        let found = number(options, ordered, asked, has_prior);
        assert_eq!(found, expected, "{options} {ordered} {asked:?} {has_prior}");
    }
}

#[test]
fn orders_are_different_and_whole() {
    for size in 2..=30 {
        let options: Vec<usize> = (10..10 + size).collect();
        for asked in 1..=8 {
            let number = number(size, false, Some(asked), false);
            let orders = of(&options, number);
            let different: BTreeSet<&Vec<usize>> = orders.iter().collect();
            assert_eq!(
                (orders.len(), different.len()),
                (number, number),
                "{size} {asked}"
            );
            assert_eq!(orders[0], options);
            for order in &orders {
                assert_eq!(order.iter().collect::<BTreeSet<_>>(), options.iter().collect());
            }
        }
    }
    assert_eq!(of(&[1, 2, 3], 2), [[1, 2, 3], [3, 2, 1]]);
}

#[test]
fn as_many_orders_as_options_are_a_square() {
    for size in 2..=8 {
        let options: Vec<usize> = (0..size).collect();
        let orders = of(&options, size);
        for place in 0..size {
            let there: BTreeSet<usize> = orders.iter().map(|order| order[place]).collect();
            assert_eq!(there.len(), size, "size {size}, place {place}: {orders:?}");
        }
    }
}

/// No option has a position twice, so that position effects can be separated from the options.
#[test]
fn four_orders_have_four_places() {
    for size in [4, 6, 8, 10] {
        let options: Vec<usize> = (0..size).collect();
        let orders = of(&options, 4);
        for option in options {
            let place = |order: &Vec<usize>| order.iter().position(|other| *other == option);
            assert_eq!(
                orders.iter().map(place).collect::<BTreeSet<_>>().len(),
                4,
                "{option} of {size}"
            );
        }
    }
}

#[test]
fn options_are_dealt_once_into_even_parts() {
    for (number, size, parts) in [
        (255, 16, 16),
        (50, 16, 4),
        (17, 16, 2),
        (16, 16, 1),
        (3, 2, 2),
        (255, 2, 128),
    ] {
        let options: Vec<usize> = (0..number).collect();
        let dealt = dealt(&options, size, &mut Random::new(1));
        assert_eq!(dealt.len(), parts);
        let sizes = || dealt.iter().map(Vec::len);
        assert!(sizes().max().unwrap() <= size && sizes().max().unwrap() - sizes().min().unwrap() <= 1);
        let mut all = dealt.concat();
        assert_ne!(all, options);
        all.sort_unstable();
        assert_eq!(all, options);
    }
}
