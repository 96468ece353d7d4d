use proptest::prelude::*;

use super::*;

/// Decoder outputs of tables 1 and 2 of G.711 at the ends of their segments, in 16-bit values.
const MU_LAW_VALUES: [(u8, i16); 12] = [
    (0x80, 8_031 * 4),
    (0x8f, 4_191 * 4),
    (0x9f, 2_079 * 4),
    (0xaf, 1_023 * 4),
    (0xbf, 495 * 4),
    (0xcf, 231 * 4),
    (0xdf, 99 * 4),
    (0xef, 33 * 4),
    (0xfe, 2 * 4),
    (0xff, 0),
    (0x7f, 0),
    (0x00, -8_031 * 4),
];
const A_LAW_VALUES: [(u8, i16); 12] = [
    (0x7f ^ 0xd5, 4_032 * 8),
    (0x70 ^ 0xd5, 2_112 * 8),
    (0x60 ^ 0xd5, 1_056 * 8),
    (0x50 ^ 0xd5, 528 * 8),
    (0x40 ^ 0xd5, 264 * 8),
    (0x30 ^ 0xd5, 132 * 8),
    (0x20 ^ 0xd5, 66 * 8),
    (0x10 ^ 0xd5, 33 * 8),
    (0x01 ^ 0xd5, 3 * 8),
    (0xd5, 8),
    (0x55, -8),
    (0x7f ^ 0x55, -4_032 * 8),
];

#[test]
fn codes_have_the_values_of_the_standard() {
    for (code, value) in MU_LAW_VALUES {
        assert_eq!(mu_law_to_linear(code), value, "µ-law {code:#x}");
    }
    for (code, value) in A_LAW_VALUES {
        assert_eq!(a_law_to_linear(code), value, "A-law {code:#x}");
    }
}

#[test]
fn codes_survive_decoding_and_encoding() {
    for code in 0..=u8::MAX {
        // µ-law has two zeros.
        let expected = if code == 0x7f { 0xff } else { code };
        assert_eq!(
            linear_to_mu_law(mu_law_to_linear(code)),
            expected,
            "µ-law {code:#x}"
        );
        assert_eq!(linear_to_a_law(a_law_to_linear(code)), code, "A-law {code:#x}");
    }
}

#[test]
fn extreme_samples_are_clipped() {
    for (sample, mu_law, a_law) in [
        (i16::MAX, 0x80, 0xaa),
        (i16::MIN, 0x00, 0x2a),
        (0, 0xff, 0xd5),
        (-1, 0x7f, 0x55),
    ] {
        assert_eq!(
            (linear_to_mu_law(sample), linear_to_a_law(sample)),
            (mu_law, a_law),
            "{sample}"
        );
    }
}

#[test]
fn codes_change_at_the_decision_values_of_the_standard() {
    for (decision, code) in [
        (7_903, 0x80),
        (4_063, 0x8f),
        (2_015, 0x9f),
        (991, 0xaf),
        (31, 0xef),
        (1, 0xfe),
    ] {
        assert_eq!(linear_to_mu_law(decision * 4), code, "µ-law {decision}");
        assert_eq!(
            linear_to_mu_law(decision * 4 - 1),
            code + 1,
            "µ-law below {decision}"
        );
    }
    for (decision, code) in [
        (3_968, 0x7f),
        (2_048, 0x70),
        (1_024, 0x60),
        (64, 0x20),
        (62, 0x1f),
        (2, 0x01),
    ] {
        assert_eq!(linear_to_a_law(decision * 8), code ^ 0xd5, "A-law {decision}");
        assert_eq!(
            linear_to_a_law(decision * 8 - 1),
            (code - 1) ^ 0xd5,
            "A-law below {decision}"
        );
    }
}

proptest! {
    #[test]
    fn errors_are_half_a_step(sample: i16, other: i16) {
        let mu_law = |sample| mu_law_to_linear(linear_to_mu_law(sample));
        let a_law = |sample| a_law_to_linear(linear_to_a_law(sample));
        let magnitude = u32::from(sample.unsigned_abs());
        let error = |decoded: i16| i32::from(decoded).abs_diff(i32::from(sample));
        prop_assert!(error(mu_law(sample)) <= (magnitude + 132) / 32 + 4);
        prop_assert!(error(a_law(sample)) <= magnitude / 32 + 8);
        prop_assert_eq!(mu_law(sample) <= mu_law(other), sample <= other || mu_law(sample) == mu_law(other));
        prop_assert_eq!(a_law(sample) <= a_law(other), sample <= other || a_law(sample) == a_law(other));
    }
}
