// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compares a count of a gate with its budget (the most that it may be).

/// How far a count of instructions may exceed its budget.
pub(super) const SLACK: f64 = 0.01;

/// The result of the comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// Within the budget.
    Kept,
    /// So far below that the budget should be lowered.
    Improved,
    /// Above.
    Exceeded,
}

/// Judges `count`, of which `slack` (a fraction) is noise.
pub(super) fn judge(count: f64, budget: f64, slack: f64) -> Standing {
    if count > budget * (1.0 + slack) {
        Standing::Exceeded
    } else if count < budget * (1.0 - slack) {
        Standing::Improved
    } else {
        Standing::Kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_percent_over_budget_is_allowed() {
        let of = |count| judge(count, 500.0, SLACK);
        assert_eq!([of(505.0), of(500.0), of(495.0)], [Standing::Kept; 3]);
        assert_eq!(
            [of(505.1), of(494.9)],
            [Standing::Exceeded, Standing::Improved]
        );
    }

    #[test]
    fn zero_budget_stays_zero() {
        assert_eq!(judge(0.0, 0.0, 0.0), Standing::Kept);
        assert_eq!(judge(1.0, 0.0, SLACK), Standing::Exceeded);
    }
}
