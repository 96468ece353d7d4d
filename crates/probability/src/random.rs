//! Deterministic pseudo-random numbers: a seed produces the same orders and intervals on all
//! machines. They are not suitable for secrets.

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Random {
        Random { state: seed }
    }

    /// Returns the next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from 0 to `bound` (exclusive); 0 if `bound` is 0. The bias is below 2^-32
    /// for the bounds in this crate.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.bits()) * bound as u128) >> 64) as usize
    }

    /// Returns a number from 0 to 1 (exclusive).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Shuffles the items; all orders are equally probable.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers are those that the reference implementation prints for seed 1234567.
    #[test]
    fn numbers_are_those_of_the_reference() {
        let mut random = Random::new(1_234_567);
        let numbers = [(); 3].map(|()| random.bits());
        assert_eq!(
            numbers,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn orders_are_even() {
        let mut random = Random::new(7);
        let mut seen = [[0_u32; 4]; 4];
        for _ in 0..24_000 {
            let mut items = [0, 1, 2, 3];
            random.shuffle(&mut items);
            for (place, item) in items.into_iter().enumerate() {
                seen[place][item] += 1;
            }
        }
        // The expected count is 6,000; 402 is six standard deviations.
        assert!(
            seen.iter().flatten().all(|count| count.abs_diff(6_000) < 402),
            "{seen:?}"
        );
        assert_eq!(random.below(0), 0);
    }
}
