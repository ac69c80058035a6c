// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives tests of locks and leases processes of the running kernel, which Python (`agent.py`)
//! starts and which make the calls of commands, and tells from `/proc` which threads sleep in a
//! call.

use super::{Agents, DIR, FILES, Said};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};

/// The numbers of calls that may wait: open, fcntl, flock, truncate, openat.
const WAITS: [&str; 5] = ["2", "72", "73", "76", "257"];

/// What the processes said about themselves.
#[derive(Default)]
struct Known {
    /// The name of each process by its number, as `<123>`.
    names: HashMap<String, String>,
    /// The directory in `/proc` of each thread that has made a call, by its name.
    threads: HashMap<String, String>,
}

impl Known {
    /// The directory in `/proc` of a process.
    fn process(&self, name: &str) -> Option<String> {
        let found = self.names.iter().find(|(_, called)| *called == name);
        found.map(|(pid, _)| format!("/proc/{}", &pid[1..pid.len() - 1]))
    }
}

/// A Python that starts and ends processes.
struct Python {
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

/// Those that have ended their processes: a new one takes longer to start.
static IDLE: Mutex<Vec<Python>> = Mutex::new(Vec::new());

impl Python {
    #[expect(clippy::zombie_processes, reason = "it ends after this process")]
    fn take() -> Self {
        let idle = IDLE.lock().expect("a list").pop();
        idle.unwrap_or_else(|| {
            // It ends when this process has, and with it its standard input.
            let mut child = Command::new("python3")
                .args(["-I", "-c", include_str!("agent.py")])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("python3");
            let stdin = child.stdin.take().expect("an input");
            let stdout = BufReader::new(child.stdout.take().expect("an output"));
            Self { stdin, stdout }
        })
    }
}

pub(crate) struct Host {
    folder: PathBuf,
    stdin: Option<ChildStdin>,
    heard: Receiver<Said>,
    /// A message for each signal that was sent.
    signalled: Receiver<()>,
    known: Arc<Mutex<Known>>,
    /// The directories in `/proc` of processes that were told to exit.
    leaving: Vec<String>,
    reader: Option<JoinHandle<BufReader<ChildStdout>>>,
}

impl Host {
    /// Starts these processes, in a directory of their own.
    pub(crate) fn new(names: &str) -> Self {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("openpath-locks-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(folder.join(DIR)).expect("a folder");
        for file in FILES {
            fs::write(folder.join(file), [b'x'; 100]).expect("a file");
        }
        let Python {
            mut stdin,
            mut stdout,
        } = Python::take();
        writeln!(stdin, "begin {} {names}", folder.display()).expect("a Python");
        let (said, heard) = channel();
        let (hello, hellos) = channel();
        let (signal, signalled) = channel();
        let known: Arc<Mutex<Known>> = Arc::default();
        let table = Arc::clone(&known);
        let reader = thread::spawn(move || {
            let mut line = String::new();
            loop {
                line.clear();
                stdout.read_line(&mut line).expect("text");
                // An answer may be empty.
                let line = line.trim_end_matches('\n');
                let (who, what) = line.split_once(' ').expect("an actor and a message");
                if who == "-" {
                    return stdout;
                } else if let Some(pid) = what.strip_prefix("hello ") {
                    let mut table = table.lock().expect("a table");
                    table.names.insert(pid.to_owned(), who.to_owned());
                    // A later process is not waited for.
                    let _told = hello.send(());
                } else if let Some(tid) = what.strip_prefix("thread ") {
                    let mut table = table.lock().expect("a table");
                    let process = table.process(&who[..1]).expect("a process");
                    let thread = format!("{process}/task/{tid}");
                    table.threads.insert(who.to_owned(), thread);
                } else if what == "signalled" {
                    // The test may have ended.
                    let _told = signal.send(());
                } else {
                    // The test may have ended.
                    let _heard = said.send((who.to_owned(), what.to_owned()));
                }
            }
        });
        for _ in names.chars() {
            hellos.recv().expect("a process");
        }
        Self {
            folder,
            stdin: Some(stdin),
            heard,
            signalled,
            known,
            leaving: Vec::new(),
            reader: Some(reader),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("a table")
    }
}

/// The state of a thread, by its directory in `/proc`; `None` if it has ended.
fn state(thread: &str) -> Option<char> {
    let stat = fs::read_to_string(format!("{thread}/stat")).ok()?;
    let state = stat.rsplit(") ").next()?.chars().next();
    state.filter(|state| !"ZX".contains(*state))
}

/// Whether a thread sleeps in a call that may wait, or has ended.
fn rests(thread: &str) -> bool {
    let Some(state) = state(thread) else {
        return true;
    };
    // For a thread that runs there is no number.
    let call = fs::read_to_string(format!("{thread}/syscall")).unwrap_or_default();
    let number = call.split(' ').next().unwrap_or_default();
    state == 'S' && WAITS.contains(&number)
}

/// Whether a process has closed its files, with its last thread.
fn has_ended(process: &str) -> bool {
    let threads = fs::read_dir(format!("{process}/task"));
    let mut threads = threads.into_iter().flatten().flatten();
    threads.all(|thread| state(&thread.path().to_string_lossy()).is_none())
}

impl Agents for Host {
    fn tell(&mut self, who: &str, what: &str) {
        let to = self.stdin.as_mut().expect("no input");
        writeln!(to, "{who} {what}").expect("the processes have ended");
        to.flush().expect("a process");
        match what {
            "interrupt" => self.signalled.recv().expect("a signal"),
            "exit" => {
                let process = self.known().process(&who[..1]);
                self.leaving.extend(process);
            }
            _ => {}
        }
    }

    fn heard(&self) -> &Receiver<Said> {
        &self.heard
    }

    fn rest(&self, inside: &BTreeSet<String>) -> bool {
        let known = self.known();
        let mut threads = inside.iter().map(|who| known.threads.get(who));
        let has_ended = |process: &String| has_ended(process);
        self.leaving.iter().all(has_ended)
            && threads.all(|thread| thread.is_some_and(|thread| rests(thread)))
    }

    fn named(&self, mut what: String) -> String {
        for (pid, name) in &self.known().names {
            what = what.replace(pid, name);
        }
        what
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let (stdin, reader) = (self.stdin.take(), self.reader.take());
        if let (Some(mut stdin), Some(reader)) = (stdin, reader)
            && writeln!(stdin, "end").is_ok()
            && let Ok(stdout) = reader.join()
            && let Ok(mut idle) = IDLE.lock()
        {
            idle.push(Python { stdin, stdout });
        }
        let _gone = fs::remove_dir_all(&self.folder);
    }
}
