//! Pseudo-random numbers: SplitMix64, so that a seed gives the same data and faults on every host.
//!
//! Not for secrets. The streams of crates change between versions, and a seed in a bug report must give the
//! same data next year.

#[derive(Debug, Clone)]
pub(super) struct SandboxRandom(u64);

impl SandboxRandom {
    /// Returns the stream of a seed; `purpose` separates the streams of a sandbox.
    pub(super) fn new(seed: u64, purpose: &str) -> Self {
        let salt = purpose.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self(seed ^ salt)
    }

    pub(super) fn next_bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number in `0..bound`, 0 for the bound 0. Its bias is below 2^-32 for the bounds used here.
    pub(super) fn number_below(&mut self, bound: u32) -> u32 {
        let scaled = (self.next_bits() >> 32) * u64::from(bound);
        u32::try_from(scaled >> 32).unwrap_or(0)
    }

    pub(super) fn number_between(&mut self, from: u32, to: u32) -> u32 {
        from + self.number_below(to.saturating_sub(from) + 1)
    }

    /// Returns true with the given probability (0 never, 1 always).
    pub(super) fn happens_with(&mut self, probability: f64) -> bool {
        f64::from(self.number_below(u32::MAX)) / f64::from(u32::MAX) < probability
    }

    /// Returns an element of the choices, which must not be empty.
    pub(super) fn pick_from<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        let last = u32::try_from(choices.len() - 1).unwrap_or(u32::MAX);
        &choices[self.number_between(0, last) as usize]
    }

    /// Returns a key in the platform's form: 32 hexadecimal digits.
    pub(super) fn random_key(&mut self) -> String {
        format!("{:016x}{:016x}", self.next_bits(), self.next_bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_and_purpose_is_one_stream() {
        let mut first = SandboxRandom::new(7, "shop");
        let mut again = SandboxRandom::new(7, "shop");
        let mut other = SandboxRandom::new(7, "faults");
        let key = first.random_key();
        assert_eq!(key, again.random_key());
        assert_ne!(key, other.random_key());
        assert_eq!(key.len(), 32);
    }

    #[test]
    fn numbers_stay_in_their_bounds_and_reach_both_ends() {
        let mut random = SandboxRandom::new(1, "bounds");
        let seen: Vec<u32> = (0..1_000).map(|_| random.number_between(3, 5)).collect();
        assert!(seen.iter().all(|n| (3..=5).contains(n)));
        assert!(seen.contains(&3) && seen.contains(&5));
        assert_eq!(random.number_below(0), 0);
        assert!((0..1_000).all(|_| !random.happens_with(0.0)));
        assert!((0..1_000).all(|_| random.happens_with(1.0)));
    }
}
