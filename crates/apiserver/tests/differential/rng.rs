//! Randomness that is the same on every run: a seed names a case for good.

use serde_json::Value;

/// SplitMix64: small, and good enough to choose test cases.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below a limit.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// Yes, in so many of a hundred cases.
    pub(crate) fn percent(&mut self, yes: usize) -> bool {
        self.below(100) < yes
    }

    pub(crate) fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// One of several JSON values.
    pub(crate) fn one_of(&mut self, choices: Value) -> Value {
        let choices = choices.as_array().expect("choices are an array").clone();
        self.pick(&choices).clone()
    }
}
