// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queues lines of the log, up to a bound, and writes them to a file on a thread of its own.
//!
//! # Rules
//! R1. A caller never waits: if the queue is full, the line is dropped and counted. The log says
//!     how many were dropped before its next line.
//! R2. The run does not wait for a slow file longer than its bound.

use super::line::Line;
use openpath_sync::Word;
use rustix::fd::OwnedFd;
use serde_json::json;
use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::time::Duration;

/// The most lines in the queue.
const LINES: usize = 8192;

/// What became of the lines.
#[derive(Default)]
struct Counts {
    sent: Word,
    /// Dropped, or refused by the file, and not reported yet.
    dropped: Word,
    written: Word,
}

/// The queue.
pub(super) struct Sink {
    lines: SyncSender<Line>,
    counts: Arc<Counts>,
}

/// The thread that writes.
pub(crate) struct LogWriter {
    ended: Receiver<()>,
    counts: Arc<Counts>,
}

impl Sink {
    /// Starts to write to `file`, until the sink is dropped.
    ///
    /// # Errors
    /// `EAGAIN`: no thread can be started.
    pub(super) fn open(file: OwnedFd, json: bool) -> io::Result<(Sink, LogWriter)> {
        let (lines, queue) = sync_channel(LINES);
        let (over, ended) = channel();
        let counts = Arc::new(Counts::default());
        let ours = Arc::clone(&counts);
        let thread = std::thread::Builder::new().name("openpath-log".to_owned());
        thread.spawn(move || {
            write(File::from(file), json, &queue, &ours);
            // The receiver may be gone.
            over.send(()).ok();
        })?;
        let writer = LogWriter {
            ended,
            counts: Arc::clone(&counts),
        };
        Ok((Sink { lines, counts }, writer))
    }

    /// Queues a line (R1).
    pub(super) fn push(&self, line: Line) {
        self.counts.sent.add(1);
        if self.lines.try_send(line).is_err() {
            self.counts.dropped.add(1);
        }
    }
}

impl LogWriter {
    /// Waits until everything is written, but no longer than this; returns how many lines were not.
    pub(crate) fn end(self, longest: Duration) -> u64 {
        // If it is late, the counts show it.
        self.ended.recv_timeout(longest).ok();
        let written = self.counts.written.get();
        self.counts.sent.get().saturating_sub(written)
    }
}

fn write(mut file: File, json: bool, queue: &Receiver<Line>, counts: &Counts) {
    for line in queue {
        write_dropped(&mut file, json, counts);
        if file.write_all(&line.text(json)).is_ok() {
            counts.written.add(1);
        }
    }
    write_dropped(&mut file, json, counts);
}

/// Writes how many lines were dropped since the last report, if any were.
fn write_dropped(file: &mut File, json: bool, counts: &Counts) {
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
    fn unread_log_file_blocks_no_caller_and_reports_dropped_lines() {
        const SENT: usize = 40_000;
        let (reader, writer) = io::pipe().unwrap();
        let (sink, writer) = Sink::open(writer.into(), false).unwrap();
        for number in 0..SENT {
            sink.push(line(number));
        }
        assert_eq!(sink.counts.sent.get(), SENT as u64);
        let read = std::thread::spawn(move || {
            let lines = BufReader::new(reader).lines();
            lines.map(Result::unwrap).collect::<Vec<_>>()
        });
        drop(sink);
        let dropped = writer.end(Duration::from_secs(60));
        assert!(dropped > 0);
        let lines = read.join().unwrap();
        let (notes, written): (Vec<_>, Vec<_>) = lines
            .into_iter()
            .partition(|line| line.ends_with("were dropped"));
        assert_eq!(written.len() as u64, SENT as u64 - dropped);
        let noted = notes.iter().map(|note| note.split(' ').nth(1).unwrap());
        assert_eq!(
            noted.map(|n| n.parse::<u64>().unwrap()).sum::<u64>(),
            dropped
        );
        assert_eq!(written[0], "12.000 7 cat read /0: ENOENT, hidden: /x");
    }

    #[test]
    fn end_of_log_waits_no_longer_than_asked() {
        let (_reader, writer) = io::pipe().unwrap();
        let (sink, writer) = Sink::open(writer.into(), true).unwrap();
        for number in 0..5_000 {
            sink.push(line(number));
        }
        drop(sink);
        assert!(writer.end(Duration::from_millis(20)) > 0);
    }
}
