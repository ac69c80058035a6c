// SPDX-License-Identifier: MIT OR Apache-2.0
//! Times one window: how many operations it has, whether its thread kept its processor, and whether
//! the hypervisor stole time.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::time::Instant;

use crate::common::*;

/// How long a window of calls should take.
pub(crate) const WINDOW_NS: u64 = 150_000;

/// How many operations last about `window_ns`, as a multiple of `step`; `once` returns the time of
/// some. It doubles their number until they last long enough, then cuts it to fit.
pub(crate) fn fit(
    step: u64,
    window_ns: u64,
    mut once: impl FnMut(u64) -> Result<u64, Error>,
) -> Result<u64, Error> {
    let mut ops = step;
    loop {
        // The best of three: a moment without the processor must not make the burst too short.
        let mut ns = u64::MAX;
        for _ in 0..3 {
            ns = ns.min(once(ops)?.max(1));
        }
        if ns >= window_ns / 4 {
            return Ok((ops * window_ns / ns / step * step).max(step));
        }
        ops *= 2;
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Timed {
    pub(crate) wall_ns: u64,
    cpu_ns: u64,
}

impl Timed {
    /// Whether the thread had its processor (nearly) all the time.
    pub(crate) fn is_clean(&self) -> bool {
        self.wall_ns <= self.cpu_ns + self.cpu_ns / 20
    }
}

/// Times one call; the processor clock is read outside the wall clock.
pub(crate) fn timed<T>(burst: impl FnOnce() -> T) -> (Timed, T) {
    let cpu = sys::thread_cpu_ns();
    let wall = Instant::now();
    let out = burst();
    let wall_ns = wall.elapsed().as_nanos() as u64;
    let cpu_ns = sys::thread_cpu_ns() - cpu;
    (Timed { wall_ns, cpu_ns }, out)
}

/// Ticks that the hypervisor has stolen; 0 without a counter. The first call opens the counter and
/// must come before another root directory is entered.
pub(crate) fn stolen() -> u64 {
    static STAT: OnceLock<Option<File>> = OnceLock::new();
    let stat = STAT.get_or_init(|| File::open("/proc/stat").ok());
    let mut head = [0; 256];
    let len = stat.as_ref().and_then(|f| f.read_at(&mut head, 0).ok());
    parse_steal(&head[..len.unwrap_or(0)])
}

fn parse_steal(stat: &[u8]) -> u64 {
    let line = stat.split(|&b| b == b'\n').next().unwrap_or_default();
    let text = std::str::from_utf8(line).unwrap_or_default();
    let word = text.split_whitespace().nth(8);
    word.and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_eighth_field() {
        assert_eq!(parse_steal(b"cpu  1 2 3 4 5 6 7 88 9 10\ncpu0 1 1"), 88);
        assert_eq!(parse_steal(b""), 0);
    }
}
