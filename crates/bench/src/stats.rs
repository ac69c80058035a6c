// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes order statistics of measured windows.

use serde::Serialize;

/// The spread of one variant's windows, in the unit of the row.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spread {
    pub(crate) p10: f64,
    pub(crate) p90: f64,
    /// Median absolute deviation from the median.
    pub(crate) mad: f64,
}

/// The clean windows of one variant, sorted, and the number of dropped ones. Its statistics are
/// None without a clean window.
#[derive(Clone, Debug, Default)]
pub(crate) struct Samples {
    sorted: Vec<f64>,
    pub(crate) dropped: usize,
}

impl Samples {
    /// Sorts `windows`; `dropped` further ones were dropped before.
    pub(crate) fn new(mut windows: Vec<f64>, dropped: usize) -> Self {
        windows.sort_by(f64::total_cmp);
        let sorted = windows;
        Self { sorted, dropped }
    }

    pub(crate) fn windows(&self) -> usize {
        self.sorted.len()
    }

    pub(crate) fn median(&self) -> Option<f64> {
        quantile(&self.sorted, 0.5)
    }

    pub(crate) fn low(&self) -> Option<f64> {
        quantile(&self.sorted, 0.1)
    }

    pub(crate) fn spread(&self) -> Option<Spread> {
        let median = self.median()?;
        let mut far: Vec<f64> = self.sorted.iter().map(|x| (x - median).abs()).collect();
        far.sort_by(f64::total_cmp);
        Some(Spread {
            p10: self.low()?,
            p90: quantile(&self.sorted, 0.9)?,
            mad: quantile(&far, 0.5)?,
        })
    }
}

/// The `q` quantile of a sorted slice, linear between neighbours.
pub(crate) fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = q.clamp(0.0, 1.0) * last as f64;
    let part = at - at.floor();
    let (low, high) = (at.floor() as usize, at.ceil() as usize);
    Some(sorted[low] * (1.0 - part) + sorted[high] * part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_neighbours() {
        let cases: [(&[f64], f64, Option<f64>); 5] = [
            (&[], 0.5, None),
            (&[7.0], 0.9, Some(7.0)),
            (&[1.0, 3.0], 0.5, Some(2.0)),
            (&[0.0, 10.0, 20.0], 0.25, Some(5.0)),
            (&[1.0, 2.0], 2.0, Some(2.0)),
        ];
        for (sorted, q, want) in cases {
            assert_eq!(quantile(sorted, q), want);
        }
    }

    #[test]
    fn outlier_moves_neither_median_nor_mad() {
        for last in [10.0, 9000.0] {
            let samples = Samples::new(vec![10.0, 11.0, 9.0, 10.0, last], 3);
            assert_eq!(samples.median(), Some(10.0));
            assert!(samples.spread().is_some_and(|s| s.mad <= 1.0));
            assert_eq!((samples.windows(), samples.dropped), (5, 3));
        }
        let none = Samples::new(vec![], 4);
        assert_eq!((none.median(), none.spread()), (None, None));
    }
}
