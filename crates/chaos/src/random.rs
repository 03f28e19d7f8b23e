//! The one source of randomness of a run: a seeded generator, so that a run can be repeated.
//!
//! It is SplitMix64, which is not for secrets. Each part of a run draws from a generator of its own
//! ([`Random::fork`]), so that a part that draws more does not change what the others draw.

use std::ops::Range;
use std::time::Duration;

/// A seeded generator. Two of the same seed draw the same.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator of this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Another generator, which depends on this one's seed and the label alone.
    #[must_use]
    pub fn fork(&self, label: &str) -> Self {
        Self { state: mix(self.state ^ hash(label.as_bytes())) }
    }

    /// Draws a number.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// Draws a number of this range, which must not be empty.
    pub fn draw_from(&mut self, range: Range<u64>) -> u64 {
        range.start + self.draw() % (range.end - range.start)
    }

    /// Draws whether something happens that happens in so many of a hundred cases.
    pub fn draw_chance(&mut self, percent: u64) -> bool {
        self.draw() % 100 < percent
    }

    /// Draws a time of half to one and a half times this one.
    pub fn draw_around(&mut self, mean: Duration) -> Duration {
        let permille = u32::try_from(self.draw_from(500..1500)).expect("it is below 1500");
        mean * permille / 1000
    }
}

/// FNV-1a, 64 bit: tells texts apart where nobody means harm.
#[must_use]
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
