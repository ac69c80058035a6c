// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads a memory trace of valgrind's lackey, and finds the cache lines on which two threads
//! conflict.
//!
//! # Format
//! `I  ADDRESS,SIZE` for an instruction, then ` L`, ` S` or ` M` for each load, store or both. A
//! failed compare-and-swap stores too, as it does on the machine. The trace has no threads: stores
//! to known words, the marks, tell which thread has the turn (`openpath-bench two`).

use std::collections::HashMap;
use std::io::{self, BufRead};

/// Bytes of a cache line, and of the pair of lines that is fetched together.
pub(super) const WIDTHS: [u64; 2] = [64, 128];
const MARKS: u64 = 8;

/// An access: the instruction and the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) code: u64,
    pub(super) data: u64,
}

/// The first accesses of one thread to one line.
#[derive(Clone, Copy, Debug, Default)]
struct Touched {
    loaded: Option<Access>,
    stored: Option<Access>,
}

/// A line that one thread wrote and the other accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    pub(super) stored: Access,
    pub(super) touched: Access,
}

/// The results of one round.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Round {
    /// Turns of each thread.
    pub(super) turns: [u32; 2],
    /// The conflicting lines by width, in the order of their addresses.
    pub(super) conflicts: [Vec<Conflict>; 2],
}

/// Reads a trace with marks at this address to its end.
///
/// # Errors
/// Those of reading.
pub(super) fn rounds(trace: &mut impl BufRead, marks: u64) -> io::Result<Vec<Round>> {
    let mut reader = Reader::new(marks);
    let mut line = Vec::new();
    while trace.read_until(b'\n', &mut line)? > 0 {
        reader.line(&line);
        line.clear();
    }
    reader.close();
    Ok(reader.rounds)
}

struct Reader {
    marks: u64,
    code: u64,
    turn: Option<usize>,
    /// By number of the narrow line, then by thread.
    lines: HashMap<u64, [Touched; 2]>,
    open: Option<Round>,
    rounds: Vec<Round>,
}

impl Reader {
    fn new(marks: u64) -> Self {
        Self {
            marks,
            code: 0,
            turn: None,
            lines: HashMap::new(),
            open: None,
            rounds: Vec::new(),
        }
    }

    fn line(&mut self, line: &[u8]) {
        let [kind @ .., _] = line.get(..3).unwrap_or_default() else {
            return;
        };
        let rest = &line[3..];
        match kind {
            b"I " => self.code = number(rest).0,
            b" L" | b" S" | b" M" => {
                let (at, read) = number(rest);
                let (load, store) = (kind[1] != b'S', kind[1] != b'L');
                if store && (self.marks..self.marks + 8 * MARKS).contains(&at) {
                    self.mark((at - self.marks) / 8);
                } else if let Some(who) = self.turn {
                    let bytes = decimal(rest.get(read + 1..).unwrap_or_default()).max(1);
                    self.access(who, at, bytes, load, store);
                }
            }
            _ => {}
        }
    }

    fn mark(&mut self, event: u64) {
        match event {
            0 => {
                self.close();
                self.open = Some(Round::default());
            }
            1 | 3 => {
                let who = usize::from(event == 3);
                self.turn = Some(who);
                if let Some(round) = &mut self.open {
                    round.turns[who] += 1;
                }
            }
            _ => self.turn = None,
        }
    }

    fn access(&mut self, who: usize, at: u64, bytes: u64, load: bool, store: bool) {
        let width = WIDTHS[0];
        for number in at / width..=(at + bytes - 1) / width {
            let touched = &mut self.lines.entry(number).or_default()[who];
            let access = Access {
                code: self.code,
                data: at.max(number * width),
            };
            if load {
                touched.loaded.get_or_insert(access);
            }
            if store {
                touched.stored.get_or_insert(access);
            }
        }
    }

    fn close(&mut self) {
        self.turn = None;
        let lines = std::mem::take(&mut self.lines);
        if let Some(mut round) = self.open.take() {
            for (width, found) in WIDTHS.into_iter().zip(&mut round.conflicts) {
                *found = conflicts(&lines, width / WIDTHS[0]);
            }
            self.rounds.push(round);
        }
    }
}

/// The conflicts on lines that are `narrow` narrow lines wide.
fn conflicts(lines: &HashMap<u64, [Touched; 2]>, narrow: u64) -> Vec<Conflict> {
    let mut wide: HashMap<u64, [Touched; 2]> = HashMap::new();
    for (number, both) in lines {
        let wide = wide.entry(number / narrow).or_default();
        for (whole, part) in wide.iter_mut().zip(both) {
            whole.loaded = whole.loaded.or(part.loaded);
            whole.stored = whole.stored.or(part.stored);
        }
    }
    let mut found: Vec<(u64, Conflict)> = Vec::new();
    for (number, [a, b]) in wide {
        let between = |one: Touched, other: Touched| {
            let touched = other.stored.or(other.loaded)?;
            one.stored.map(|stored| Conflict { stored, touched })
        };
        if let Some(conflict) = between(a, b).or_else(|| between(b, a)) {
            found.push((number, conflict));
        }
    }
    found.sort_by_key(|(number, _)| *number);
    found.into_iter().map(|(_, conflict)| conflict).collect()
}

/// A hexadecimal number at the beginning, and the number of its digits.
fn number(text: &[u8]) -> (u64, usize) {
    let mut value = 0;
    for (at, &byte) in text.iter().enumerate() {
        match (byte as char).to_digit(16) {
            Some(digit) => value = value << 4 | u64::from(digit),
            None => return (value, at),
        }
    }
    (value, text.len())
}

fn decimal(text: &[u8]) -> u64 {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |value, byte| value * 10 + u64::from(byte - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 0x6f70_0000_0000;

    fn read(lines: &[&str]) -> Vec<Round> {
        let text = lines.join("\n").replace("MARK", "6f70000000");
        rounds(&mut text.as_bytes(), AT).unwrap()
    }

    fn counts(round: &Round) -> [usize; 2] {
        [0, 1].map(|width| round.conflicts[width].len())
    }

    const BEGIN_A: &str = " S MARK08,8";
    const END_A: &str = " S MARK10,8";
    const BEGIN_B: &str = " S MARK18,8";
    const END_B: &str = " S MARK20,8";
    const ROUND: &str = " S MARK00,8";

    #[test]
    fn conflicting_line_is_found_with_its_code() {
        let lines = [
            "==1== Lackey",
            ROUND,
            BEGIN_A,
            "I  00401000,3",
            " M 1008,8",
            END_A,
            BEGIN_B,
            "I  00402000,3",
            " L 1030,4",
            END_B,
        ];
        let found = read(&lines);
        assert_eq!((found.len(), found[0].turns), (1, [1, 1]));
        let want = Conflict {
            stored: Access {
                code: 0x40_1000,
                data: 0x1008,
            },
            touched: Access {
                code: 0x40_2000,
                data: 0x1030,
            },
        };
        assert_eq!(found[0].conflicts[0], [want]);
        assert_eq!(counts(&found[0]), [1, 1]);
    }

    #[test]
    fn shared_reads_and_own_lines_are_no_conflict() {
        let lines = [
            ROUND,
            BEGIN_A,
            " L 1000,8",
            " S 2000,8",
            END_A,
            BEGIN_B,
            " L 1000,8",
            " S 3000,8",
            END_B,
        ];
        assert_eq!(counts(&read(&lines)[0]), [0, 0]);
    }

    #[test]
    fn adjacent_lines_conflict_only_as_a_pair() {
        let lines = [
            ROUND,
            BEGIN_A,
            " S 1000,8",
            END_A,
            BEGIN_B,
            " S 1040,8",
            END_B,
            ROUND,
            BEGIN_B,
            " S 1040,8",
            END_B,
            BEGIN_A,
            " S 1080,8",
            END_A,
        ];
        let found = read(&lines);
        assert_eq!(
            found.iter().map(counts).collect::<Vec<_>>(),
            [[0, 1], [0, 0]]
        );
    }

    #[test]
    fn access_across_lines_touches_both() {
        let lines = [
            ROUND,
            BEGIN_A,
            " S 107c,8",
            END_A,
            BEGIN_B,
            " L 1080,1",
            END_B,
        ];
        assert_eq!(counts(&read(&lines)[0]), [1, 1]);
    }

    #[test]
    fn accesses_outside_turns_do_not_count() {
        let lines = [
            " S 1000,8",
            ROUND,
            " S 1000,8",
            BEGIN_A,
            " L 1000,8",
            END_A,
            " S 1000,8",
            BEGIN_B,
            " L 1000,8",
            END_B,
            " S 1000,8",
        ];
        assert_eq!(counts(&read(&lines)[0]), [0, 0]);
    }
}
