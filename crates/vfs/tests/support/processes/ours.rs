// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives tests of locks and leases processes of openpath that make the calls of commands: a task
//! for each thread of a process, and a thread for each task.

use super::{Agents, DIR, FILES, Said};
use openpath_abi::fcntl::{
    F_GETOWN, F_GETSIG, F_SETOWN, F_SETSIG, O_ACCMODE, O_CREAT, O_DIRECTORY, O_EXCL, O_NONBLOCK,
    O_PATH, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY, SEEK_SET,
};
use openpath_abi::lock::{F_GETLEASE, F_RDLCK, F_SETLEASE, F_UNLCK, F_WRLCK};
use openpath_abi::{Errno, Flock, OFlags};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{
    Cred, Fd, Interrupter, LeaseBreaks, LeaseFlavor, LeaseInfo, LockInfo, LockKind, LockOwner,
    Task, Tuning, Vfs,
};
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Descriptors of a process by their names.
type Names = Arc<Mutex<HashMap<String, Fd>>>;

/// How many steps a thread has got, begun and done.
#[derive(Default)]
struct Progress {
    told: AtomicUsize,
    begun: AtomicUsize,
    done: AtomicUsize,
    /// Its directory in `/proc`.
    thread: OnceLock<PathBuf>,
}

impl Progress {
    /// Whether the thread has nothing to do, or sleeps in a call. It may sleep there for a lock
    /// that is held for a moment too: a difference that follows from that is not seen again.
    fn rests(&self) -> bool {
        let [told, begun, done] =
            [&self.told, &self.begun, &self.done].map(|count| count.load(Ordering::SeqCst));
        done == told || (begun > done && self.sleeps())
    }

    fn sleeps(&self) -> bool {
        let thread = self.thread.get().expect("a thread that has begun");
        let stat = fs::read_to_string(thread.join("stat")).unwrap_or_default();
        let state = stat.rsplit(") ").next();
        state.is_some_and(|state| state.starts_with('S'))
    }
}

struct Worker {
    steps: Sender<String>,
    progress: Arc<Progress>,
    interrupter: Interrupter,
    thread: JoinHandle<()>,
}

impl Worker {
    fn tell(&self, step: &str) {
        self.progress.told.fetch_add(1, Ordering::SeqCst);
        self.steps.send(step.to_owned()).expect("a thread");
    }
}

pub(crate) struct Ours {
    pub(crate) vfs: Vfs,
    workers: HashMap<String, Worker>,
    /// Forked tasks, on their way to a thread.
    born: Receiver<(String, Task, Names)>,
    said: Sender<Said>,
    heard: Receiver<Said>,
    send_born: Sender<(String, Task, Names)>,
    signals: Arc<Signals>,
}

/// The name of a process: its number is its letter.
fn called(pid: i32) -> String {
    match u8::try_from(pid) {
        Ok(letter) if letter.is_ascii_lowercase() => char::from(letter).to_string(),
        _ if pid > 0 => format!("<{pid}>"),
        _ => pid.to_string(),
    }
}

impl Ours {
    /// Starts these processes, each with this many threads.
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
        let signals = Arc::new(Signals {
            breaks: vfs.lease_breaks(),
            pending: Mutex::default(),
        });
        let mut ours = Self {
            vfs,
            workers: HashMap::new(),
            born,
            said,
            heard,
            send_born,
            signals,
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
            signals: Arc::clone(&self.signals),
        };
        let said = self.said.clone();
        let progress = Arc::<Progress>::default();
        let counts = Arc::clone(&progress);
        let thread = thread::spawn(move || {
            let own = fs::read_link("/proc/thread-self").expect("a thread");
            counts
                .thread
                .get_or_init(|| PathBuf::from("/proc").join(own));
            for step in told {
                counts.begun.fetch_add(1, Ordering::SeqCst);
                if step == "leave" {
                    agent.task = None;
                } else {
                    let done = agent.run(&step).unwrap_or_else(|errno| errno.to_string());
                    // The test may have ended.
                    let _heard = said.send((agent.who.clone(), done));
                }
                counts.done.fetch_add(1, Ordering::SeqCst);
            }
        });
        let worker = Worker {
            steps,
            progress,
            interrupter,
            thread,
        };
        self.workers.insert(who, worker);
    }

    /// Ends every process, even those that wait.
    pub(crate) fn end(mut self) {
        for (_, worker) in self.workers.drain() {
            drop(worker.steps);
            while !worker.thread.is_finished() {
                worker.interrupter.interrupt();
                thread::yield_now();
            }
            worker.thread.join().expect("a thread");
        }
        assert!(self.vfs.locks().is_empty(), "locks are left");
        assert_eq!(self.vfs.root_tenant().stats().locks, 0);
    }
}

impl Agents for Ours {
    fn tell(&mut self, who: &str, what: &str) {
        while let Ok((who, task, names)) = self.born.try_recv() {
            self.begin(who, task, &names);
        }
        if what == "exit" {
            // All of its threads end; only the one that got the command answers.
            for (other, worker) in &self.workers {
                if other != who && other.starts_with(&who[..1]) {
                    worker.tell("leave");
                }
            }
        }
        let worker = &self.workers[who];
        if what == "interrupt" {
            worker.interrupter.interrupt();
        } else {
            worker.tell(what);
        }
    }

    fn heard(&self) -> &Receiver<Said> {
        &self.heard
    }

    fn rest(&self, _inside: &BTreeSet<String>) -> bool {
        let mut workers = self.workers.values();
        workers.all(|worker| worker.progress.rests())
    }
}

/// One thread of a process.
struct Agent {
    who: String,
    vfs: Vfs,
    task: Option<Task>,
    names: Names,
    born: Sender<(String, Task, Names)>,
    signals: Arc<Signals>,
}

/// The notices to holders of leases, as the signals that a host would send.
struct Signals {
    breaks: LeaseBreaks,
    pending: Mutex<Vec<(i32, u32)>>,
}

impl Signals {
    /// Takes the signals of a process.
    fn of(&self, pid: i32) -> String {
        let mut pending = self.pending.lock().expect("signals");
        while let Some(told) = self.breaks.recv_timeout(Duration::ZERO) {
            pending.push((told.owner.pid, told.signal));
        }
        let (own, others): (Vec<_>, Vec<_>) = pending.drain(..).partition(|(to, _)| *to == pid);
        *pending = others;
        let mut names: Vec<String> = own
            .iter()
            .map(|(_, signal)| match signal {
                0 => "IO".to_owned(),
                signal => signal.to_string(),
            })
            .collect();
        names.dedup();
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(" ")
        }
    }
}

impl Agent {
    fn run(&mut self, step: &str) -> Result<String, Errno> {
        let mut words = step.split(' ');
        let what = words.next().expect("a command");
        let rest: Vec<&str> = words.collect();
        if what == "exit" {
            self.task = None;
            return Ok("0".to_owned());
        }
        let task = self.task.as_ref().expect("a task");
        let names = Arc::clone(&self.names);
        let named = |name: &str| names.lock().expect("names").get(name).copied();
        let fd = rest.first().and_then(|name| named(name)).unwrap_or(9999);
        match what {
            "locks" => return Ok(locks(&self.vfs, task)),
            "fork" => {
                let child = task.fork()?;
                child.set_pid(i32::from(rest[0].as_bytes()[0]));
                let names = Arc::new(Mutex::new(names.lock().expect("names").clone()));
                let born = (format!("{}1", rest[0]), child, names);
                self.born.send(born).expect("the parent has ended");
            }
            "open" | "openw" => {
                let fd = task.open(path_of(rest[1]).as_bytes(), mode(rest[2]), 0)?;
                self.enter(rest[0], fd);
            }
            "close" => {
                names.lock().expect("names").remove(rest[0]);
                task.close(fd)?;
            }
            "dup" => {
                self.enter(rest[1], task.dup(fd)?);
            }
            "dup2" => {
                task.dup2(fd, named(rest[1]).expect("a name"))?;
            }
            "seek" => {
                task.lseek(fd, rest[1].parse().expect("a number"), SEEK_SET)?;
            }
            "flock" => task.flock(fd, rest[1].parse().expect("a number"))?,
            _ if CALLS_OF_LEASES.contains(&what) => return self.lease_step(what, &rest),
            "view" => return Ok(view(task, fd, rest[1], rest[2].parse().expect("a number"))),
            _ => return lock(task, fd, what, &request(&rest[1..])),
        }
        Ok("0".to_owned())
    }

    /// Gives a descriptor a name.
    fn enter(&self, name: &str, fd: Fd) {
        self.names
            .lock()
            .expect("names")
            .insert(name.to_owned(), fd);
    }

    /// Makes a call on leases.
    fn lease_step(&self, what: &str, rest: &[&str]) -> Result<String, Errno> {
        let task = self.task.as_ref().expect("a task");
        let named = |name: &str| self.names.lock().expect("names").get(name).copied();
        let fd = rest.first().and_then(|name| named(name)).unwrap_or(9999);
        match what {
            "reopen" => {
                let open = named(rest[1]).ok_or(Errno::EBADF)?;
                self.enter(rest[0], task.reopen(open, mode(rest[2]))?);
            }
            "setlease" => {
                let kind = match rest[1] {
                    "r" => 0,
                    "w" => 1,
                    "u" => 2,
                    _ => 7,
                };
                task.fcntl(fd, F_SETLEASE, kind)?;
            }
            "getlease" => {
                let kind = task.fcntl(fd, F_GETLEASE, 0)? as usize;
                return Ok(["r", "w", "u"][kind].to_owned());
            }
            "getown" => {
                let owner = task.fcntl(fd, F_GETOWN, 0)? as i32;
                return Ok(called(owner));
            }
            "setown" => {
                task.fcntl(fd, F_SETOWN, rest[1].parse().expect("a number"))?;
            }
            "getsig" => return Ok(task.fcntl(fd, F_GETSIG, 0)?.to_string()),
            "setsig" => {
                task.fcntl(fd, F_SETSIG, rest[1].parse().expect("a number"))?;
            }
            "truncate" | "truncatew" => {
                task.truncate(
                    path_of(rest[0]).as_bytes(),
                    rest[1].parse().expect("a number"),
                )?;
            }
            "ftruncate" => task.ftruncate(fd, rest[1].parse().expect("a number"))?,
            "unlink" => task.unlink(path_of(rest[0]).as_bytes())?,
            "rename" => task.rename(path_of(rest[0]).as_bytes(), path_of(rest[1]).as_bytes())?,
            "link" => task.link(path_of(rest[0]).as_bytes(), path_of(rest[1]).as_bytes())?,
            "chmod" => {
                let bits = u32::from_str_radix(rest[1], 8).expect("a mode");
                task.chmod(path_of(rest[0]).as_bytes(), bits)?;
            }
            "become" => task.set_cred({
                let id = rest[0].parse().expect("a number");
                Cred::user(id, id, &[])
            }),
            "signals" => return Ok(self.signals.of(task.pid())),
            _ => panic!("unknown call {what}"),
        }
        Ok("0".to_owned())
    }
}

/// The calls of [`Agent::lease_step`].
const CALLS_OF_LEASES: [&str; 16] = [
    "reopen",
    "setlease",
    "getlease",
    "getown",
    "setown",
    "getsig",
    "setsig",
    "truncate",
    "truncatew",
    "ftruncate",
    "unlink",
    "rename",
    "link",
    "chmod",
    "become",
    "signals",
];

fn path_of(name: &str) -> String {
    format!("/{name}")
}

fn mode(words: &str) -> OFlags {
    let one = |word| match word {
        "r" => O_RDONLY,
        "w" => O_WRONLY,
        "rw" => O_RDWR,
        "path" => O_PATH,
        "nb" => O_NONBLOCK,
        "trunc" => O_TRUNC,
        "creat" => O_CREAT,
        "excl" => O_EXCL,
        "dir" => O_DIRECTORY,
        _ => O_ACCMODE,
    };
    words
        .split('-')
        .map(one)
        .fold(O_RDONLY, |all, one| all | one)
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
        _ => panic!("unknown call {what}"),
    };
    let kind = ["r", "w", "u"][found.kind as usize];
    let pid = called(found.pid);
    Ok(format!(
        "{kind} {} {} {} {pid}",
        found.whence, found.start, found.len
    ))
}

/// The conflicts with a lock of each byte, and of the rest.
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

/// All locks in the format of `/proc/locks`, sorted.
fn locks(vfs: &Vfs, task: &Task) -> String {
    let name = |ino: u64| {
        let mut files = FILES.iter().chain([&DIR]);
        let found = files.find(|file| {
            let stat = task.stat(format!("/{file}").as_bytes());
            stat.is_ok_and(|stat| stat.ino == ino)
        });
        found.copied()
    };
    let locks = vfs.locks();
    let locks = locks
        .iter()
        .filter_map(|info| Some(words(info, name(info.ino)?)));
    let leases = vfs.leases();
    let leases = leases
        .iter()
        .filter_map(|info| Some(lease_words(info, name(info.ino)?)));
    let mut all: Vec<String> = locks.chain(leases).collect();
    all.sort();
    all.join("; ")
}

fn words(info: &LockInfo, file: &str) -> String {
    let waits = if info.waits { "-> " } else { "" };
    let owner = match info.owner {
        LockOwner::Table(_) | LockOwner::Face(..) => "POSIX",
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

fn lease_words(info: &LeaseInfo, file: &str) -> String {
    let sort = match info.flavor {
        LeaseFlavor::Lease => "LEASE",
        LeaseFlavor::Delegation => "DELEG",
    };
    let state = if info.breaking { "BREAKING" } else { "ACTIVE" };
    let kind = match info.becomes {
        Some(LockKind::Read) => "READ",
        Some(LockKind::Write) => "WRITE",
        None => "UNLCK",
    };
    format!("{sort} {state} {kind} {} {file} 0 EOF", called(info.pid))
}
