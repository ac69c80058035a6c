// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts the worker processes of a part of the oracle, collects their results, and finds and
//! shrinks the case on which a worker dies or hangs.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::case::Case;
use crate::random;
use crate::scratch::Scratch;
use crate::shrink;
use crate::skips::Counts;
use crate::work::{Job, Part, Report, Said, Source, Summary};

/// Time without a step after which a worker counts as hanging.
const STALL: Duration = Duration::from_secs(30);
/// Time that one case may take when a death is investigated.
const ONE_CASE: Duration = Duration::from_secs(5);

/// The result of a layer.
#[derive(Debug, Default)]
pub struct Result {
    /// The sum over all workers.
    pub summary: Summary,
    /// Different divergences.
    pub reports: Vec<Report>,
    /// Workers that failed, and deaths without an explanation.
    pub failures: Vec<String>,
    /// Time spent.
    pub seconds: f64,
}

enum Heard {
    Line(usize, String),
    Ended(usize),
}

/// A running worker.
struct Worker {
    job: Job,
    child: Child,
    seen: Vec<u8>,
    moved: Instant,
    over: bool,
}

impl Worker {
    fn start(number: usize, job: Job, tell: &Sender<Heard>) -> std::io::Result<Worker> {
        let mut child = start(&["work"], &serde_json::to_string(&job)?)?;
        if let Some(out) = child.stdout.take() {
            let tell = tell.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(out).lines().map_while(std::io::Result::ok) {
                    if tell.send(Heard::Line(number, line)).is_err() {
                        return;
                    }
                }
                let _ = tell.send(Heard::Ended(number));
            });
        }
        let (seen, moved) = (Vec::new(), Instant::now());
        Ok(Worker {
            job,
            child,
            seen,
            moved,
            over: false,
        })
    }

    /// The number of the case that the worker runs.
    fn case(&self) -> Option<u64> {
        let bytes = std::fs::read(&self.job.state).ok()?;
        Some(u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?))
    }

    /// Whether the worker made no step for too long.
    fn stalled(&mut self) -> bool {
        let now = std::fs::read(&self.job.state).unwrap_or_default();
        if now != self.seen {
            self.seen = now;
            self.moved = Instant::now();
        }
        self.moved.elapsed() > STALL
    }
}

/// Starts this program again, with a job on its standard input.
fn start(args: &[&str], input: &str) -> std::io::Result<Child> {
    let mut child = Command::new(std::env::current_exe()?)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes())?;
    }
    Ok(child)
}

/// Runs a layer on this many workers; `job` is the share of the first worker.
///
/// # Errors
/// Those of starting a process.
pub fn run(job: &Job, workers: usize, place: &Scratch) -> std::io::Result<Result> {
    let begun = Instant::now();
    let (tell, listen) = channel();
    let mut running = Vec::new();
    for number in 0..workers {
        let mut share = job.clone();
        share.from = job.from + number as u64;
        share.step = workers as u64;
        share.state = place.path().join(format!("state{number}"));
        running.push(Worker::start(number, share, &tell)?);
    }
    let mut boss = Boss {
        running,
        tell,
        result: Result::default(),
    };
    boss.listen(&listen)?;
    boss.result.seconds = begun.elapsed().as_secs_f64();
    Ok(boss.result)
}

struct Boss {
    running: Vec<Worker>,
    tell: Sender<Heard>,
    result: Result,
}

impl Boss {
    fn listen(&mut self, listen: &Receiver<Heard>) -> std::io::Result<()> {
        while self.running.iter().any(|h| !h.over) {
            match listen.recv_timeout(Duration::from_secs(1)) {
                Ok(Heard::Line(number, line)) => self.line(number, &line),
                Ok(Heard::Ended(number)) => self.ended(number)?,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            for worker in self.running.iter_mut().filter(|h| !h.over) {
                if worker.stalled() {
                    // The end of its output is reported as for any other worker.
                    let _ = worker.child.kill();
                    worker.moved = Instant::now();
                }
            }
        }
        Ok(())
    }

    fn line(&mut self, number: usize, line: &str) {
        match serde_json::from_str(line) {
            Ok(Said::Report(report)) => self.report(report),
            Ok(Said::Done(summary)) => {
                self.running[number].over = true;
                merge(&mut self.result.summary, summary);
            }
            Ok(Said::Failed(text)) => {
                self.running[number].over = true;
                self.result.failures.push(text);
            }
            Err(e) => self
                .result
                .failures
                .push(format!("worker said: {line}: {e}")),
        }
    }

    fn report(&mut self, report: Report) {
        if self
            .result
            .reports
            .iter()
            .all(|r| r.signature != report.signature)
        {
            self.result.reports.push(report);
        }
    }

    /// Handles the end of a worker's output: the worker is done, or it died on a case.
    fn ended(&mut self, number: usize) -> std::io::Result<()> {
        let status = self.running[number].child.wait()?;
        if self.running[number].over {
            return Ok(());
        }
        self.running[number].over = true;
        let mut job = self.running[number].job.clone();
        let Some(at) = self.running[number].case() else {
            self.result
                .failures
                .push(format!("a worker died at once: {status}"));
            return Ok(());
        };
        let source = Source::new(job.part, job.seed).map_err(std::io::Error::other)?;
        let Some((origin, case)) = source.case(at) else {
            return Ok(());
        };
        let case = self.explain(&job, &case);
        let text = format!("{case}  the worker died: {status}\n");
        let signature = format!("death {status}");
        let report = Report {
            origin,
            signature,
            case: case.to_string(),
            text,
        };
        self.report(report);
        job.from = at + job.step;
        if job.from < job.count && self.result.reports.len() < job.reports_max {
            self.running[number] = Worker::start(number, job, &self.tell)?;
        }
        Ok(())
    }

    /// Shrinks a case that kills its worker, with one process for each try.
    fn explain(&self, job: &Job, case: &Case) -> Case {
        let mut tries = 0;
        let begun = Instant::now();
        shrink::shrink(case, |candidate| {
            tries += 1;
            let mut candidate = candidate.clone();
            random::tame(&mut candidate);
            begun.elapsed() < Duration::from_secs(120)
                && matches!(one(job, &candidate), Ok(Ended::Died(_)))
        })
    }
}

/// How a process that ran one case ended.
#[derive(Debug)]
pub enum Ended {
    /// It printed this.
    Said(String),
    /// It failed with this status.
    Exited(i32),
    /// It died or had to be killed.
    Died(String),
}

/// Runs one case in a process of its own.
///
/// # Errors
/// Those of starting a process.
pub fn one(job: &Job, case: &Case) -> std::io::Result<Ended> {
    let input = format!("{}\n{case}", serde_json::to_string(job)?);
    let mut child = start(&["one"], &input)?;
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            let mut text = String::new();
            if let Some(mut out) = child.stdout.take() {
                std::io::Read::read_to_string(&mut out, &mut text)?;
            }
            return Ok(match status.code() {
                Some(0) => Ended::Said(text),
                Some(code) => Ended::Exited(code),
                None => Ended::Died(status.to_string()),
            });
        }
        if begun.elapsed() > ONE_CASE {
            child.kill()?;
            child.wait()?;
            return Ok(Ended::Died("it hangs".to_owned()));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn merge(all: &mut Summary, one: Summary) {
    all.cases += one.cases;
    all.ops += one.ops;
    all.answers += one.answers;
    all.cut_short |= one.cut_short;
    let mut counts = Counts(std::mem::take(&mut all.counts));
    counts.merge(&Counts(one.counts));
    all.counts = counts.0;
    for (word, n) in one.worked {
        let sum = all.worked.entry(word).or_insert([0, 0]);
        *sum = [sum[0] + n[0], sum[1] + n[1]];
    }
    for (looks, n) in one.alike {
        *all.alike.entry(looks).or_insert(0) += n;
    }
}

/// The job of a layer, before it is split among workers.
#[must_use]
pub fn job(part: Part, against: crate::sides::Against, seed: u64, count: u64) -> Job {
    Job {
        part,
        against,
        seed,
        from: 0,
        step: 1,
        count,
        reports_max: 20,
        seconds_max: 3600,
        state: Path::new("/dev/null").to_owned(),
    }
}
