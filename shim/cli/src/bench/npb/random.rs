//! NPB's random numbers: x' = 5^13 x mod 2^46.

/// The multiplier.
const A: u64 = 1_220_703_125;

/// The modulus is a power of two.
const MASK: u64 = (1 << 46) - 1;

/// The seed of most kernels.
pub(super) const SEED: u64 = 314_159_265;

/// A sequence of random numbers between 0 and 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct NpbRandom(u64);

impl NpbRandom {
    /// Begins a sequence.
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next number.
    pub(super) const fn next(&mut self) -> f64 {
        // The product wraps modulo 2^64, a multiple of the modulus.
        self.0 = self.0.wrapping_mul(A) & MASK;
        self.0 as f64 / (MASK + 1) as f64
    }

    /// Skips `count` numbers.
    pub(super) const fn skip(self, mut count: u64) -> Self {
        let (mut x, mut power) = (self.0, A);
        while count > 0 {
            if count % 2 == 1 {
                x = x.wrapping_mul(power) & MASK;
            }
            power = power.wrapping_mul(power) & MASK;
            count /= 2;
        }
        Self(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipping_is_taking() {
        let mut all = NpbRandom::new(SEED);
        for _ in 0..1000 {
            all.next();
        }
        assert_eq!(all.next().to_bits(), NpbRandom::new(SEED).skip(1000).next().to_bits());
    }
}
