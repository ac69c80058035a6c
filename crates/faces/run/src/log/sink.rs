// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where lines of the log go: a bounded queue, and a thread that writes them to a file.
//!
//! # Rules
//! R1. Who has a line to say never waits: where there is no room, it is dropped and counted. The
//!     log says how many were dropped before its next line.
//! R2. The run does not wait for a slow file longer than it is told to.

use super::line::Line;
use openpath_sync::Word;
use rustix::fd::OwnedFd;
use serde_json::json;
use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::time::Duration;

/// Lines that wait at most.
const LINES: usize = 8192;

/// What was said, and what became of it.
#[derive(Default)]
struct Counts {
    said: Word,
    /// Dropped, or refused by the file, and not told of yet.
    dropped: Word,
    written: Word,
}

/// Where a line is said.
pub(super) struct Sink {
    lines: SyncSender<Line>,
    counts: Arc<Counts>,
}

/// The thread that writes.
pub(crate) struct Writing {
    ended: Receiver<()>,
    counts: Arc<Counts>,
}

impl Sink {
    /// Writes to `file` from now on, until the sink is gone.
    ///
    /// # Errors
    /// `EAGAIN`: no thread.
    pub(super) fn open(file: OwnedFd, json: bool) -> io::Result<(Sink, Writing)> {
        let (lines, told) = sync_channel(LINES);
        let (over, ended) = channel();
        let counts = Arc::new(Counts::default());
        let ours = Arc::clone(&counts);
        let thread = std::thread::Builder::new().name("openpath-log".to_owned());
        thread.spawn(move || {
            write(File::from(file), json, &told, &ours);
            // Nobody may wait for it any more.
            over.send(()).ok();
        })?;
        let writing = Writing {
            ended,
            counts: Arc::clone(&counts),
        };
        Ok((Sink { lines, counts }, writing))
    }

    /// Says a line (R1).
    pub(super) fn say(&self, line: Line) {
        self.counts.said.add(1);
        if self.lines.try_send(line).is_err() {
            self.counts.dropped.add(1);
        }
    }
}

impl Writing {
    /// Waits until everything is written, but no longer than this; how many lines were not.
    pub(crate) fn end(self, longest: Duration) -> u64 {
        // If it is late, the counts say so.
        self.ended.recv_timeout(longest).ok();
        let written = self.counts.written.get();
        self.counts.said.get().saturating_sub(written)
    }
}

fn write(mut file: File, json: bool, told: &Receiver<Line>, counts: &Counts) {
    for line in told {
        note(&mut file, json, counts);
        if file.write_all(&line.text(json)).is_ok() {
            counts.written.add(1);
        }
    }
    note(&mut file, json, counts);
}

/// Writes how many lines were dropped since it was last told, if any were.
fn note(file: &mut File, json: bool, counts: &Counts) {
    let dropped = counts.dropped.get();
    if dropped == 0 {
        return;
    }
    let time = Line::now();
    let note = if json {
        format!("{}\n", json!({"time": time, "dropped": dropped}))
    } else {
        format!("{time:.3} {dropped} lines were dropped\n")
    };
    if file.write_all(note.as_bytes()).is_ok() {
        counts.dropped.sub(dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::super::line::Reason;
    use super::*;
    use std::io::{BufRead as _, BufReader};

    fn line(number: usize) -> Line {
        Line {
            time: 12.0,
            pid: 7,
            program: "cat".to_owned(),
            wants: "read".to_owned(),
            path: format!("/{number}"),
            claimed: None,
            answer: "ENOENT",
            reason: Reason::Hidden,
            because: "/x".to_owned(),
        }
    }

    #[test]
    fn a_file_that_is_not_read_delays_nobody_and_what_was_dropped_is_said() {
        const SAID: usize = 40_000;
        let (reader, writer) = io::pipe().unwrap();
        let (sink, writing) = Sink::open(writer.into(), false).unwrap();
        for number in 0..SAID {
            sink.say(line(number));
        }
        assert_eq!(sink.counts.said.get(), SAID as u64);
        let read = std::thread::spawn(move || {
            let lines = BufReader::new(reader).lines();
            lines.map(Result::unwrap).collect::<Vec<_>>()
        });
        drop(sink);
        let dropped = writing.end(Duration::from_secs(60));
        assert!(dropped > 0);
        let lines = read.join().unwrap();
        let (notes, told): (Vec<_>, Vec<_>) = lines
            .into_iter()
            .partition(|line| line.ends_with("were dropped"));
        assert_eq!(told.len() as u64, SAID as u64 - dropped);
        let noted = notes.iter().map(|note| note.split(' ').nth(1).unwrap());
        assert_eq!(
            noted.map(|n| n.parse::<u64>().unwrap()).sum::<u64>(),
            dropped
        );
        assert_eq!(told[0], "12.000 7 cat read /0: ENOENT, hidden: /x");
    }

    #[test]
    fn nobody_waits_longer_than_he_likes() {
        let (_reader, writer) = io::pipe().unwrap();
        let (sink, writing) = Sink::open(writer.into(), true).unwrap();
        for number in 0..5_000 {
            sink.say(line(number));
        }
        drop(sink);
        assert!(writing.end(Duration::from_millis(20)) > 0);
    }
}
