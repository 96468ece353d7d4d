use proptest::prelude::*;

use super::*;

const PAIRS: [(u32, u32); 10] = [
    (24_000, 16_000),
    (24_000, 8_000),
    (16_000, 24_000),
    (16_000, 8_000),
    (8_000, 24_000),
    (8_000, 16_000),
    (22_050, 24_000),
    (44_100, 16_000),
    (48_000, 24_000),
    (24_000, 24_000),
];

/// Returns a tone of half the full scale.
fn tone(hz: f64, rate: u32, samples: usize) -> Vec<i16> {
    let angle = |n: usize| std::f64::consts::TAU * hz * n as f64 / f64::from(rate);
    (0..samples).map(|n| (angle(n).sin() * 16_384.0) as i16).collect()
}

fn convert(resampler: &mut Resampler, samples: &[i16], chunk: usize) -> Vec<i16> {
    let mut output: Vec<i16> = samples
        .chunks(chunk)
        .flat_map(|chunk| resampler.push(chunk))
        .collect();
    output.extend(resampler.finish());
    output
}

fn rms(samples: &[i16]) -> f64 {
    let sum: f64 = samples.iter().map(|sample| f64::from(*sample).powi(2)).sum();
    (sum / samples.len() as f64).sqrt()
}

#[test]
fn tones_stay_in_place() {
    for (from, to) in PAIRS {
        let mut resampler = Resampler::new(from, to).unwrap();
        // The second run begins anew.
        for chunk in [480, 333] {
            let output = convert(&mut resampler, &tone(440.0, from, from as usize / 2), chunk);
            let expected = tone(440.0, to, to as usize / 2);
            assert_eq!(output.len(), expected.len(), "{from} to {to}");
            // The filter has no input before the first and after the last sample.
            let edge = to as usize / 50;
            let errors: Vec<i16> = output
                .iter()
                .zip(&expected)
                .map(|(one, other)| one - other)
                .collect();
            let error = rms(&errors[edge..errors.len() - edge]);
            // Blocks of 44.1 kHz are odd, so that the delay is rounded by half an input sample.
            let max_error = if from == 44_100 { 400.0 } else { 20.0 };
            assert!(error < max_error, "{from} to {to}: error {error}");
        }
    }
}

#[test]
fn frequencies_above_the_band_are_removed() {
    for (from, to, hz) in [
        (24_000, 16_000, 10_000.0),
        (24_000, 8_000, 5_000.0),
        (16_000, 8_000, 6_000.0),
    ] {
        let mut resampler = Resampler::new(from, to).unwrap();
        let output = convert(&mut resampler, &tone(hz, from, from as usize), 480);
        let level = rms(&output[to as usize / 50..output.len() - to as usize / 50]);
        assert!(level < 12.0, "{hz} Hz from {from} to {to}: {level}");
    }
}

#[test]
fn output_is_up_to_15_ms_late() {
    for (from, to) in PAIRS {
        let mut resampler = Resampler::new(from, to).unwrap();
        let output = resampler.push(&tone(440.0, from, from as usize / 2 + 7));
        let late_ms = 500 - output.len() * 1_000 / to as usize;
        assert!(late_ms <= 15, "{from} to {to}: {late_ms} ms");
    }
}

#[test]
fn other_rates_are_refused() {
    for (from, to) in [(0, 8_000), (24_000, 7_999), (96_000, 24_000)] {
        assert!(Resampler::new(from, to).is_none(), "{from} to {to}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn chunks_do_not_change_the_output(
        pair in 0..PAIRS.len(),
        samples in prop::collection::vec(any::<i16>(), 0..3_000),
        chunk in 1_usize..700,
    ) {
        let (from, to) = PAIRS[pair];
        let mut resampler = Resampler::new(from, to).unwrap();
        let output = convert(&mut resampler, &samples, chunk);
        let expected = (samples.len() as f64 * f64::from(to) / f64::from(from)).round();
        prop_assert!((output.len() as f64 - expected).abs() <= 1.0);
        prop_assert_eq!(output, convert(&mut resampler, &samples, 4_000));
        if from == to {
            prop_assert_eq!(convert(&mut resampler, &samples, chunk), samples);
        }
    }
}
