// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses the results of pjdfstest, and finds the cases that one file system fails and another
//! passes.

use std::collections::BTreeMap;
use std::fmt;

/// The result of a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Passed,
    Failed,
    Skipped,
    /// The suite did not report it.
    Missing,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
            Self::Missing => "missing",
        })
    }
}

/// The verdicts of one run.
pub(super) struct Verdicts(BTreeMap<String, Verdict>);

impl Verdicts {
    /// Parses the output of the suite: a line for each case, with its name and result. Other lines,
    /// such as the reason of a failure, are ignored.
    pub(super) fn read(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            let (name, word) = (words.next()?, words.next()?);
            let verdict = match word {
                "ok" => Verdict::Passed,
                "FAILED" => Verdict::Failed,
                "skipped" => Verdict::Skipped,
                _ => return None,
            };
            words.next().is_none().then(|| (name.to_owned(), verdict))
        });
        Self(lines.collect())
    }

    /// How many cases have this result.
    fn count(&self, wanted: Verdict) -> usize {
        self.0.values().filter(|&&v| v == wanted).count()
    }

    /// How many cases passed.
    pub(super) fn passed(&self) -> usize {
        self.count(Verdict::Passed)
    }
}

impl fmt::Display for Verdicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [failed, skipped] = [Verdict::Failed, Verdict::Skipped].map(|v| self.count(v));
        let passed = self.passed();
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// The cases that pass on `host` but not on `ours`, with their results there.
pub(super) fn worse<'a>(host: &'a Verdicts, ours: &Verdicts) -> Vec<(&'a str, Verdict)> {
    let of = |name: &String| ours.0.get(name).copied().unwrap_or(Verdict::Missing);
    let passed = host.0.iter().filter(|(_, v)| **v == Verdict::Passed);
    passed
        .map(|(name, _)| (name.as_str(), of(name)))
        .filter(|(_, verdict)| *verdict != Verdict::Passed)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "\
unlink::absent            ok
unlink::long          FAILED
\tcapacity overflow
Backtrace:
   0: main
open::umask               ok
open::readonly       skipped
open::fifo                ok
";

    #[test]
    fn failure_or_skip_where_host_passes_is_worse() {
        let host = Verdicts::read(HOST);
        assert_eq!(host.to_string(), "3 passed, 1 failed, 1 skipped");
        let ours = Verdicts::read("unlink::absent ok\nunlink::long FAILED\nopen::umask FAILED\n");
        assert_eq!(
            worse(&host, &ours),
            [
                ("open::fifo", Verdict::Missing),
                ("open::umask", Verdict::Failed)
            ]
        );
        assert!(worse(&host, &host).is_empty());
    }
}
