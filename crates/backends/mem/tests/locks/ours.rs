// SPDX-License-Identifier: MIT OR Apache-2.0
//! Our processes: a task for each thread, and a thread for each task.

use super::{Agents, DIR, FILES, Said};
use openpath_abi::fcntl::{O_CREAT, O_PATH, O_RDONLY, O_RDWR, O_WRONLY, SEEK_SET};
use openpath_abi::lock::{F_RDLCK, F_UNLCK, F_WRLCK};
use openpath_abi::{Errno, Flock};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, Fd, Interrupter, LockInfo, LockKind, LockOwner, Task, Tuning, Vfs};
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// Descriptors of a process by their names.
type Names = Arc<Mutex<HashMap<String, Fd>>>;

struct Worker {
    steps: Sender<String>,
    interrupter: Interrupter,
    thread: JoinHandle<()>,
}

pub(crate) struct Ours {
    pub(crate) vfs: Vfs,
    workers: HashMap<String, Worker>,
    /// Tasks that a fork has made, on their way to their threads.
    born: Receiver<(String, Task, Names)>,
    said: Sender<Said>,
    heard: Receiver<Said>,
    send_born: Sender<(String, Task, Names)>,
}

/// A process as it is called: its number is its letter.
fn called(pid: i32) -> String {
    match u8::try_from(pid) {
        Ok(letter) if letter.is_ascii_lowercase() => char::from(letter).to_string(),
        _ if pid > 0 => format!("<{pid}>"),
        _ => pid.to_string(),
    }
}

impl Ours {
    /// These processes, each with so many threads.
    pub(crate) fn new(names: &str, threads: u32, tuning: Tuning) -> Self {
        let vfs = Vfs::builder().tuning(tuning);
        let vfs = vfs.build(MemFs::new(MemOptions::default())).expect("a Vfs");
        let task = vfs.task(Cred::root()).expect("a task");
        for file in FILES {
            let path = format!("/{file}");
            let fd = task.open(path.as_bytes(), O_CREAT | O_RDWR, 0o666);
            let fd = fd.expect("a file");
            task.write(fd, &[b'x'; 100]).expect("bytes");
            task.close(fd).expect("a file");
        }
        task.mkdir(format!("/{DIR}").as_bytes(), 0o777)
            .expect("a folder");
        let (said, heard) = channel();
        let (send_born, born) = channel();
        let mut ours = Self {
            vfs,
            workers: HashMap::new(),
            born,
            said,
            heard,
            send_born,
        };
        for name in names.chars() {
            let first = task.fork().expect("a task");
            first.set_pid(name as i32);
            let table = Names::default();
            for thread in 2..=threads {
                let other = first.clone_files().expect("a task");
                other.set_pid(name as i32);
                ours.begin(format!("{name}{thread}"), other, &table);
            }
            ours.begin(format!("{name}1"), first, &table);
        }
        ours
    }

    fn begin(&mut self, who: String, task: Task, names: &Names) {
        let (steps, told) = channel::<String>();
        let interrupter = task.interrupter();
        let mut agent = Agent {
            who: who.clone(),
            vfs: self.vfs.clone(),
            task: Some(task),
            names: Arc::clone(names),
            born: self.send_born.clone(),
        };
        let said = self.said.clone();
        let thread = thread::spawn(move || {
            for step in told {
                if step == "leave" {
                    agent.task = None;
                    continue;
                }
                let done = agent.run(&step).unwrap_or_else(|errno| errno.to_string());
                // Who is gone hears nothing.
                let _heard = said.send((agent.who.clone(), done));
            }
        });
        let worker = Worker {
            steps,
            interrupter,
            thread,
        };
        self.workers.insert(who, worker);
    }

    /// Ends every process, whoever waits.
    pub(crate) fn end(mut self) {
        for (_, worker) in self.workers.drain() {
            drop(worker.steps);
            while !worker.thread.is_finished() {
                worker.interrupter.interrupt();
                thread::yield_now();
            }
            worker.thread.join().expect("a thread");
        }
        assert!(self.vfs.locks().is_empty(), "nothing is left");
        assert_eq!(self.vfs.root_tenant().stats().locks, 0);
    }
}

impl Agents for Ours {
    fn tell(&mut self, who: &str, what: &str) {
        while let Ok((who, task, names)) = self.born.try_recv() {
            self.begin(who, task, &names);
        }
        if what == "exit" {
            // All of its threads end; only the one that was told says so.
            for (other, worker) in &self.workers {
                if other != who && other.starts_with(&who[..1]) {
                    worker.steps.send("leave".to_owned()).expect("a thread");
                }
            }
        }
        let worker = &self.workers[who];
        if what == "interrupt" {
            worker.interrupter.interrupt();
        } else {
            worker.steps.send(what.to_owned()).expect("a thread");
        }
    }

    fn heard(&self) -> &Receiver<Said> {
        &self.heard
    }
}

/// One thread of a process.
struct Agent {
    who: String,
    vfs: Vfs,
    task: Option<Task>,
    names: Names,
    born: Sender<(String, Task, Names)>,
}

impl Agent {
    fn run(&mut self, step: &str) -> Result<String, Errno> {
        let mut words = step.split(' ');
        let what = words.next().expect("what to do");
        let rest: Vec<&str> = words.collect();
        if what == "exit" {
            self.task = None;
            return Ok("0".to_owned());
        }
        let task = self.task.as_ref().expect("a task");
        let names = Arc::clone(&self.names);
        let named = |name: &str| names.lock().expect("names").get(name).copied();
        let enter = |name: &str, fd| names.lock().expect("names").insert(name.to_owned(), fd);
        let fd = rest.first().and_then(|name| named(name)).unwrap_or(9999);
        match what {
            "locks" => return Ok(locks(&self.vfs, task)),
            "fork" => {
                let child = task.fork()?;
                child.set_pid(i32::from(rest[0].as_bytes()[0]));
                let names = Arc::new(Mutex::new(names.lock().expect("names").clone()));
                let born = (format!("{}1", rest[0]), child, names);
                self.born.send(born).expect("its parent");
            }
            "open" => {
                let path = format!("/{}", rest[1]);
                let fd = task.open(path.as_bytes(), mode(rest[2]), 0)?;
                enter(rest[0], fd);
            }
            "close" => {
                names.lock().expect("names").remove(rest[0]);
                task.close(fd)?;
            }
            "dup" => {
                enter(rest[1], task.dup(fd)?);
            }
            "dup2" => {
                task.dup2(fd, named(rest[1]).expect("a name"))?;
            }
            "seek" => {
                task.lseek(fd, rest[1].parse().expect("a number"), SEEK_SET)?;
            }
            "flock" => task.flock(fd, rest[1].parse().expect("a number"))?,
            "view" => return Ok(view(task, fd, rest[1], rest[2].parse().expect("a number"))),
            _ => return lock(task, fd, what, &request(&rest[1..])),
        }
        Ok("0".to_owned())
    }
}

fn mode(word: &str) -> u32 {
    match word {
        "r" => O_RDONLY,
        "w" => O_WRONLY,
        "rw" => O_RDWR,
        "path" => O_PATH,
        _ => 3,
    }
}

fn request(words: &[&str]) -> Flock {
    let number = |at: usize| {
        words
            .get(at)
            .map_or(0, |word| word.parse().expect("a number"))
    };
    Flock {
        kind: match words[0] {
            "r" => F_RDLCK,
            "w" => F_WRLCK,
            "u" => F_UNLCK,
            _ => 7,
        },
        whence: number(1) as i16,
        start: number(2),
        len: number(3),
        pid: number(4) as i32,
    }
}

fn lock(task: &Task, fd: Fd, what: &str, ask: &Flock) -> Result<String, Errno> {
    let found = match what {
        "getlk" => task.fcntl_getlk(fd, ask)?,
        "ofd_getlk" => task.ofd_getlk(fd, ask)?,
        "setlk" => return task.fcntl_setlk(fd, ask).map(|()| "0".to_owned()),
        "setlkw" => return task.fcntl_setlkw(fd, ask).map(|()| "0".to_owned()),
        "ofd_setlk" => return task.ofd_setlk(fd, ask).map(|()| "0".to_owned()),
        "ofd_setlkw" => return task.ofd_setlkw(fd, ask).map(|()| "0".to_owned()),
        _ => panic!("what is {what}?"),
    };
    let kind = ["r", "w", "u"][found.kind as usize];
    let pid = called(found.pid);
    Ok(format!(
        "{kind} {} {} {} {pid}",
        found.whence, found.start, found.len
    ))
}

/// What is in the way of a lock of each byte, and of the rest.
fn view(task: &Task, fd: Fd, what: &str, size: i64) -> String {
    let mut seen: Vec<String> = Vec::new();
    for kind in [F_RDLCK, F_WRLCK] {
        let bytes = (0..size).map(|at| (at, 1));
        for (start, len) in bytes.chain([(size, 0), (0, 0)]) {
            let one = lock(task, fd, what, &Flock::new(kind, start, len));
            let mut one = one.unwrap_or_else(|errno| errno.to_string());
            if one.starts_with('u') {
                one = "-".to_owned();
            }
            if seen.last() != Some(&one) {
                seen.push(one);
            }
        }
    }
    seen.join(", ")
}

/// All locks, in the words of `/proc/locks`, sorted.
fn locks(vfs: &Vfs, task: &Task) -> String {
    let name = |info: &LockInfo| {
        let mut files = FILES.iter().chain([&DIR]);
        let found = files.find(|file| {
            let stat = task.stat(format!("/{file}").as_bytes());
            stat.expect("a file").ino == info.ino
        });
        *found.expect("a file of ours")
    };
    let mut all: Vec<String> = vfs
        .locks()
        .iter()
        .map(|info| words(info, name(info)))
        .collect();
    all.sort();
    all.join("; ")
}

fn words(info: &LockInfo, file: &str) -> String {
    let waits = if info.waits { "-> " } else { "" };
    let owner = match info.owner {
        LockOwner::Table(_) => "POSIX",
        LockOwner::File(_) => "OFDLCK",
        LockOwner::Flock(_) => "FLOCK",
    };
    let kind = match info.kind {
        LockKind::Read => "READ",
        LockKind::Write => "WRITE",
    };
    let end = info
        .end
        .map_or_else(|| "EOF".to_owned(), |end| end.to_string());
    let pid = called(info.pid);
    format!("{waits}{owner} {kind} {pid} {file} {} {end}", info.start)
}
