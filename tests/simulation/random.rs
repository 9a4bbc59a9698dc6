//! Random numbers from a seed: a linear congruential stream with its high bits mixed, equal on every machine.
//!
//! It is not the sandbox's generator, because the judge must not share a stream with the platform.

/// A stream of numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates the stream of a seed; `purpose` separates the streams of one world.
    pub fn new(seed: u64, purpose: &str) -> Self {
        let mut random = Self(seed);
        for byte in purpose.bytes() {
            random.0 ^= u64::from(byte);
            random.next();
        }
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = (self.0 ^ (self.0 >> 29)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        mixed ^ (mixed >> 32)
    }

    /// Returns a number in `from..=to`. The small bias is acceptable here.
    pub fn between(&mut self, from: i64, to: i64) -> i64 {
        let span = u64::try_from(to - from + 1).expect("from is not above to");
        from + i64::try_from(self.next() % span).expect("spans are small")
    }

    /// Returns true in `percent` of a hundred cases.
    pub fn percent(&mut self, percent: i64) -> bool {
        self.between(1, 100) <= percent
    }

    /// Returns one of the choices.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        let last = i64::try_from(choices.len()).expect("slices are small") - 1;
        &choices[usize::try_from(self.between(0, last)).expect("not negative")]
    }
}
