//! Bounds on real distances, from computed ones.

/// More than what underflows in the squares of a distance.
const UNDERFLOW: f64 = 1e-150;

/// The sum of squared differences, the same bits wherever it is computed.
pub fn square(a: &[f64], b: &[f64]) -> f64 {
    let mut sum = 0.0;
    for (a, b) in a.iter().zip(b) {
        let difference = a - b;
        sum += difference * difference;
    }
    sum
}

/// What is known of an observation's real distances.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// That to its own center is at most this.
    pub own: f64,
    /// Those to all others are at least this.
    pub others: f64,
}

/// How bounds are made of computed distances, and computed distances are told apart by bounds.
#[derive(Debug, Clone, Copy)]
pub struct Margin(pub f64);

impl Margin {
    /// A sum of p squares is off by at most (p + 2)·2⁻⁵³ of it, and its root by half as much, both
    /// with a few roundings more.
    pub fn new(columns: usize) -> Self {
        Self((columns as f64 + 16.0) * f64::EPSILON)
    }

    pub fn above(self, distance: f64) -> f64 {
        distance * (1.0 + self.0) + UNDERFLOW
    }

    pub fn below(self, distance: f64) -> f64 {
        distance * (1.0 - self.0) - UNDERFLOW
    }

    /// Whether every sum of squares for the own center is computed below those for all others.
    pub fn proves(self, bounds: &Bounds) -> bool {
        self.above(bounds.own) < self.below(bounds.others)
    }
}
