// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that waits at a FIFO go as in the running kernel: which threads wait, which call wakes
//! which, and with what data.
//!
//! A script is random calls of a few actors, each a thread with one descriptor. Each step records
//! the waiting actors and the results of calls that have returned. A thread counts as waiting when
//! it has not returned for a while, so a difference counts only if it stays when both sides get
//! more time.

use crate::world::*;
use openpath_abi::fcntl::*;
use openpath_abi::{Errno, OFlags, mode};
use openpath_vfs::Task;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// One call of an actor.
#[derive(Clone, Copy, Debug)]
enum Step {
    Open(u32),
    Read(usize),
    Write(usize),
    Close,
}

/// One descriptor of a FIFO.
trait End: Send {
    fn open(&mut self, flags: OFlags) -> Result<(), Errno>;
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, Errno>;
    fn write(&mut self, data: &[u8]) -> Result<usize, Errno>;
    fn close(&mut self);
}

/// Ours: a task with descriptor 0 only.
struct Ours(Task);

impl End for Ours {
    fn open(&mut self, flags: OFlags) -> Result<(), Errno> {
        self.0
            .open(b"/p", OFlags::from_bits_retain(flags.bits()), 0)
            .map(drop)
    }
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, Errno> {
        self.0.read(0, buf)
    }
    fn write(&mut self, data: &[u8]) -> Result<usize, Errno> {
        self.0.write(0, data)
    }
    fn close(&mut self) {
        // An actor without an open descriptor closes nothing.
        let _none = self.0.close(0);
    }
}

/// The kernel's.
struct Host(PathBuf, Option<File>);

fn errno<T>(result: io::Result<T>) -> Result<T, Errno> {
    result.map_err(|e| Errno::from_raw(e.raw_os_error().expect("an errno")))
}

impl Host {
    fn file(&mut self) -> Result<&mut File, Errno> {
        self.1.as_mut().ok_or(Errno::EBADF)
    }
}

impl End for Host {
    fn open(&mut self, flags: OFlags) -> Result<(), Errno> {
        let access = flags & O_ACCMODE;
        let mut how = OpenOptions::new();
        how.read(access != O_WRONLY).write(access != O_RDONLY);
        how.custom_flags((flags & O_NONBLOCK).bits().cast_signed());
        self.1 = Some(errno(how.open(&self.0))?);
        Ok(())
    }
    fn read(&mut self, buf: &mut [u8]) -> Result<usize, Errno> {
        errno(self.file()?.read(buf))
    }
    fn write(&mut self, data: &[u8]) -> Result<usize, Errno> {
        errno(self.file()?.write(data))
    }
    fn close(&mut self) {
        self.1 = None;
    }
}

/// A thread that makes one call after another.
struct Actor {
    steps: Sender<(usize, Step)>,
    thread: JoinHandle<()>,
}

fn act(number: usize, mut end: Box<dyn End>, said: Sender<(usize, String)>) -> Actor {
    let (steps, told) = channel();
    let thread = thread::spawn(move || {
        for (n, step) in told {
            let done = match step {
                Step::Open(flags) => end
                    .open(OFlags::from_bits_retain(flags))
                    .map(|()| String::new()),
                // The bytes say which step wrote them.
                Step::Write(len) => end.write(&vec![n as u8; len]).map(|n| n.to_string()),
                Step::Read(len) => {
                    let mut buf = vec![0; len];
                    end.read(&mut buf).map(|n| runs(&buf[..n]))
                }
                Step::Close => {
                    end.close();
                    Ok(String::new())
                }
            };
            let done = done.unwrap_or_else(|errno| errno.to_string());
            if said.send((number, done)).is_err() {
                return;
            }
        }
    });
    Actor { steps, thread }
}

/// Data as runs: the step that wrote it, and how much.
fn runs(bytes: &[u8]) -> String {
    let runs = bytes.chunk_by(|a, b| a == b);
    runs.map(|run| format!("{}x{} ", run[0], run.len()))
        .collect()
}

const ACTORS: usize = 4;

/// The next random number.
fn next(seed: &mut u64) -> usize {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    (*seed >> 33) as usize
}

/// Random steps: an actor without an open descriptor opens one, mostly in a way that waits.
fn script(mut seed: u64) -> Vec<(usize, Step)> {
    const LENS: [usize; 8] = [1, 10, 4000, 4096, 5000, 65_536, 70_000, 100_000];
    let mut steps = Vec::new();
    for _ in 0..14 {
        let actor = next(&mut seed) % ACTORS;
        let len = LENS[next(&mut seed) % LENS.len()];
        let step = match next(&mut seed) % 10 {
            0..3 => {
                let access = [O_RDONLY, O_WRONLY, O_RDWR][next(&mut seed) % 5 / 2];
                let nonblock = if next(&mut seed).is_multiple_of(5) {
                    O_NONBLOCK
                } else {
                    O_RDONLY
                };
                Step::Open((access | nonblock).bits())
            }
            3..6 => Step::Read(len),
            6..9 => Step::Write(len),
            _ => Step::Close,
        };
        steps.push((actor, step));
    }
    steps
}

/// Runs a script; returns the results after each step.
fn play(
    steps: &[(usize, Step)],
    patience: Duration,
    mut end: impl FnMut() -> Box<dyn End>,
) -> Vec<String> {
    let (said, heard) = channel();
    let actors: Vec<Actor> = (0..ACTORS).map(|n| act(n, end(), said.clone())).collect();
    let (mut busy, mut open) = ([false; ACTORS], [false; ACTORS]);
    let mut told = Vec::new();
    for (n, &(actor, step)) in steps.iter().enumerate() {
        let fits = matches!(step, Step::Open(_)) != open[actor];
        if busy[actor] || !fits {
            continue;
        }
        actors[actor]
            .steps
            .send((n, step))
            .expect("the actor has ended");
        busy[actor] = true;
        let mut line = format!("{n} {actor} {step:?}:");
        for (who, what) in settled(&heard, patience) {
            busy[who] = false;
            line += &format!(" {who} says {what};");
            if who == actor && matches!(step, Step::Open(_)) {
                open[actor] = what.is_empty();
            }
        }
        // An opener that waited may have returned now.
        for (who, open) in open.iter_mut().enumerate() {
            *open |= line.contains(&format!(" {who} says ;"));
        }
        if matches!(step, Step::Close) {
            open[actor] = false;
        }
        told.push(line);
    }
    end_all_waits(&heard, busy, end());
    drop(said);
    for actor in actors {
        drop(actor.steps);
        actor.thread.join().expect("the actor panicked");
    }
    told
}

/// Collects results until none comes for a while, sorted by actor.
fn settled(heard: &Receiver<(usize, String)>, patience: Duration) -> Vec<(usize, String)> {
    let mut all = Vec::new();
    while let Ok(one) = heard.recv_timeout(patience) {
        all.push(one);
    }
    all.sort();
    all
}

/// Gives each waiting actor a peer, data and room until none waits.
fn end_all_waits(
    heard: &Receiver<(usize, String)>,
    mut busy: [bool; ACTORS],
    mut end: Box<dyn End>,
) {
    let begun = Instant::now();
    while busy.contains(&true) {
        assert!(
            begun.elapsed() < Duration::from_secs(120),
            "an actor waits for ever"
        );
        end.open(O_RDWR | O_NONBLOCK).expect("an end");
        let mut room = vec![0; 1 << 17];
        // Whether or not there is data or room.
        let _some = end.read(&mut room);
        let _some = end.write(b"x");
        while let Ok((who, _)) = heard.recv_timeout(Duration::from_millis(2)) {
            busy[who] = false;
        }
        let _some = end.read(&mut room);
        end.close();
    }
}

fn ours() -> impl FnMut() -> Box<dyn End> {
    let vfs = world();
    root(&vfs).node("/p", mode::S_IFIFO | 0o666, 0);
    move || Box::new(Ours(root(&vfs)))
}

fn host(path: &Path) -> impl FnMut() -> Box<dyn End> {
    move || Box::new(Host(path.to_owned(), None))
}

#[test]
fn waits_at_a_fifo_end_as_in_the_kernel() {
    let path = std::env::temp_dir().join(format!("openpath-fifo-{}", std::process::id()));
    let made = Command::new("mkfifo").arg(&path).status().expect("mkfifo");
    assert!(made.success());
    let scripts =
        std::env::var("OPENPATH_FIFO_SCRIPTS").map_or(40, |n| n.parse().expect("a number"));
    let (mut steps, mut waits) = (0, 0);
    for seed in 0..scripts {
        let script = script(seed * 7919 + 1);
        let mut patience = Duration::from_millis(4);
        loop {
            let theirs = play(&script, patience, host(&path));
            let own = play(&script, patience, ours());
            if theirs == own {
                steps += own.len();
                waits += own.iter().filter(|line| line.ends_with(':')).count();
                break;
            }
            patience *= 4;
            assert!(
                patience < Duration::from_secs(5),
                "script {seed}: the kernel {theirs:#?}, ours {own:#?}"
            );
        }
    }
    std::fs::remove_file(&path).expect("unlink");
    assert!(waits * 8 > steps, "{waits} of {steps} steps waited");
}
