//! Bounds on exact distances, given computed distances.

/// An upper bound on the error of a distance by underflow of its squares.
pub const UNDERFLOW: f64 = 1e-150;

/// The sum of squared differences; the same bits on every device.
pub fn square(a: &[f64], b: &[f64]) -> f64 {
    let mut sum = 0.0;
    for (a, b) in a.iter().zip(b) {
        let difference = a - b;
        sum += difference * difference;
    }
    sum
}

/// Bounds on an observation's exact distances.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Upper bound on the distance to its own center.
    pub own: f64,
    /// Lower bound on the distances to all other centers.
    pub others: f64,
}

/// The relative error of computed distances, to convert distances to bounds and back.
#[derive(Debug, Clone, Copy)]
pub struct Margin(pub f64);

impl Margin {
    /// The margin for p columns. The relative error of a sum of p squares is at most (p + 2)·2⁻⁵³,
    /// and of its root half as much. The margin is twice the bound for the sum, and covers a few
    /// more roundings.
    pub fn new(columns: usize) -> Self {
        Self((columns as f64 + 16.0) * f64::EPSILON)
    }

    /// An upper bound on the exact distance.
    pub fn above(self, distance: f64) -> f64 {
        distance * (1.0 + self.0) + UNDERFLOW
    }

    /// A lower bound on the exact distance.
    pub fn below(self, distance: f64) -> f64 {
        distance * (1.0 - self.0) - UNDERFLOW
    }

    /// Whether the computed sum of squares for the own center is certainly below the sums for all
    /// other centers.
    pub fn proves(self, bounds: &Bounds) -> bool {
        self.above(bounds.own) < self.below(bounds.others)
    }
}
