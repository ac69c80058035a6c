// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that every request of a mount can come by rings of `io_uring`, that a slow request delays
//! no other, and that interrupts and the server's death end waiting calls. If `OPENPATH_RINGS` is
//! in the environment, all other tests of mounts use rings too.

mod test_mount;

use openpath_abi::{Errno, Statx};
use openpath_fuse::{ObservedFile, Observer, OnOpened, Options, Requester, Rings, Server};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, Task, Vfs};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use test_mount::{Offer, TestMount};

/// A call that takes longer hangs.
const HANG_TIMEOUT: Duration = Duration::from_secs(30);

fn task() -> Task {
    let tree = MemFs::new(MemOptions::default());
    let vfs = Vfs::builder().build(tree).expect("a Vfs");
    vfs.task(Cred::root()).expect("a task")
}

/// A mount by rings; `None`, with a message, if there are none.
fn mount_by_rings(options: Options, observer: Option<Arc<dyn Observer>>) -> Option<TestMount> {
    let offer = Offer::make()?;
    let task = task();
    let mut server = Server::new(&task, options).expect("a server");
    if let Some(observer) = observer {
        server.observe(observer);
    }
    let mount = TestMount::serving(task, server)?;
    drop(offer);
    assert_eq!(mount.session().handle().rings(), Rings::Used);
    Some(mount)
}

fn by_rings(mount: &TestMount) -> u64 {
    mount.session().stats().by_rings
}

#[test]
fn all_requests_with_replies_come_by_rings() {
    let Some(mount) = mount_by_rings(Options::default(), None) else {
        return;
    };
    fs::create_dir_all(mount.at("a/b")).expect("made");
    for n in 0..300 {
        fs::write(mount.at(&format!("a/b/{n}")), n.to_string()).expect("written");
    }
    assert!(by_rings(&mount) > 600, "{} came", by_rings(&mount));
    let listed = fs::read_dir(mount.at("a/b")).expect("listed");
    assert_eq!(listed.count(), 300);
    // Longer than one request, and than a short request.
    let data: Vec<u8> = (0..5_000_003u32).map(|n| (n % 241) as u8).collect();
    fs::write(mount.at("data"), &data).expect("written");
    assert_eq!(mount.task.stat(b"/data").expect("there").size, 5_000_003);
    let writes = mount.asked("write");
    assert!(writes >= 5, "{writes} writes");
    let name = "n".repeat(255);
    let target = "t".repeat(4095);
    std::os::unix::fs::symlink(&target, mount.at(&name)).expect("made");
    let read = fs::read_link(mount.at(&name)).expect("read");
    assert_eq!(read.as_os_str().len(), 4095);
    fs::rename(mount.at(&name), mount.at(&"m".repeat(255))).expect("moved");
    fs::remove_dir_all(mount.at("a")).expect("removed");
    let none = fs::metadata(mount.at("a")).expect_err("gone");
    assert_eq!(none.kind(), std::io::ErrorKind::NotFound);
    let all = mount.session().stats();
    let sum: u64 = all.requests.iter().map(|(_, n)| *n).sum();
    // Lookups of absent names are lookups too; requests without a reply are read.
    let kinds = ["lookup of absent names", "forget", "interrupt"];
    let others: u64 = kinds.iter().map(|kind| all.of(kind)).sum();
    assert_eq!(all.by_rings, sum - others, "{all:?}");
    mount.end();
}

#[test]
fn an_uncached_file_is_read_by_rings() {
    let Some(mount) = mount_by_rings(Options::default(), None) else {
        return;
    };
    let data: Vec<u8> = (0..3_000_001u32).map(|n| (n % 239) as u8).collect();
    let made = mount.task.creat(b"/made", 0o644).expect("made");
    for (n, part) in data.chunks(1 << 20).enumerate() {
        let offset = (n << 20) as i64;
        assert_eq!(mount.task.pwrite(made, part, offset), Ok(part.len()));
    }
    assert!(fs::read(mount.at("made")).expect("read") == data);
    assert!(mount.asked("read") > 0);
    mount.end();
}

#[test]
fn locks_that_the_kernel_keeps_work_by_rings() {
    let Some(mount) = mount_by_rings(Options::default(), None) else {
        return;
    };
    fs::write(mount.at("file"), "").expect("made");
    let first = File::open(mount.at("file")).expect("open");
    first.lock().expect("locked");
    let path = mount.at("file");
    let waits = thread::spawn(move || {
        let second = File::open(path).expect("open");
        assert!(second.try_lock().is_err());
        second.lock().expect("locked");
    });
    thread::sleep(Duration::from_millis(50));
    assert!(!waits.is_finished());
    drop(first);
    waits.join().expect("got it");
    mount.end();
}

#[test]
fn rings_are_not_used_if_disabled_or_with_locks() {
    let Some(_offer) = Offer::make() else { return };
    let ways = [(false, false, Rings::Disabled), (true, true, Rings::Locks)];
    for (rings, locks, want) in ways {
        let options = Options::default().rings(rings).locks(locks);
        let task = task();
        let server = Server::new(&task, options).expect("a server");
        let dir = dir(&format!("not-{rings}"));
        let Ok(session) = server.mount(&dir) else {
            return;
        };
        assert_eq!(session.handle().rings(), want);
        fs::write(dir.join("file"), "text").expect("written");
        assert_eq!(session.stats().by_rings, 0);
        test_mount::end(session);
        let _gone = fs::remove_dir(&dir);
    }
}

/// A directory to mount at.
fn dir(name: &str) -> PathBuf {
    let name = format!("openpath-rings-{}-{name}", std::process::id());
    let dir = std::env::temp_dir().join(name);
    fs::create_dir_all(&dir).expect("a directory");
    dir
}

/// Blocks callers that look up a name with the prefix `slow`, until a message comes.
struct Slow {
    came: SyncSender<()>,
    go: openpath_sync::Mutex<Receiver<()>, openpath_vfs::lock_order::FuseTold>,
}

impl Observer for Slow {
    fn name(
        &self,
        _: Requester,
        _: &ObservedFile<'_>,
        name: &[u8],
        _: Result<&Statx, Errno>,
    ) -> bool {
        if name.starts_with(b"slow") {
            let _heard = self.came.send(());
            // With a limit, so that a failing test ends.
            let _told = self.go.lock().recv_timeout(HANG_TIMEOUT);
        }
        true
    }

    fn attributes(&self, _: Requester, _: &ObservedFile<'_>) {}

    fn opening<'a>(
        &'a self,
        _: Requester,
        _: &ObservedFile<'_>,
        _: Option<&'a [u8]>,
        _: openpath_abi::OFlags,
    ) -> Option<OnOpened<'a>> {
        None
    }
}

/// Looks up a path on the first CPU; returns the error, if any.
fn lookup_in_thread(path: PathBuf) -> (JoinHandle<()>, Receiver<Option<i32>>) {
    let (says, said) = channel();
    let body = move || {
        let mut set = CpuSet::new();
        set.set(0);
        sched_setaffinity(None, &set).expect("the first processor");
        let found = fs::symlink_metadata(&path);
        let error = found.err().map(|why| why.raw_os_error().unwrap_or(0));
        let _said = says.send(error);
    };
    (thread::spawn(body), said)
}

#[test]
fn a_slow_request_delays_no_other_on_its_cpu() {
    let (came, comes) = sync_channel(8);
    let (tell, go) = channel();
    let observer = Slow {
        came,
        go: openpath_sync::Mutex::new(go),
    };
    let options = Options::default().threads(2);
    let Some(mount) = mount_by_rings(options, Some(Arc::new(observer))) else {
        return;
    };
    let (slow, said) = lookup_in_thread(mount.at("slow"));
    comes.recv_timeout(HANG_TIMEOUT).expect("it came");
    for n in 0..20 {
        let (quick, said) = lookup_in_thread(mount.at(&format!("quick{n}")));
        let found = said.recv_timeout(HANG_TIMEOUT / 3).expect("it is answered");
        assert_eq!(found, Some(Errno::ENOENT.raw()));
        quick.join().expect("ended");
    }
    assert!(said.try_recv().is_err(), "it still waits");
    // A request that comes while all threads of the CPU are busy waits for one of them.
    let (second, also) = lookup_in_thread(mount.at("slow2"));
    comes.recv_timeout(HANG_TIMEOUT).expect("it came");
    let (third, last) = lookup_in_thread(mount.at("quick"));
    assert!(last.recv_timeout(Duration::from_millis(50)).is_err());
    tell.send(()).expect("who waits");
    tell.send(()).expect("who waits");
    for said in [said, also, last] {
        assert_eq!(
            said.recv_timeout(HANG_TIMEOUT),
            Ok(Some(Errno::ENOENT.raw()))
        );
    }
    for thread in [slow, second, third] {
        thread.join().expect("ended");
    }
    mount.end();
}

#[test]
fn an_interrupt_finds_the_request_that_came_by_a_ring() {
    // More than one request copies.
    const LEN: usize = 100 << 20;
    let Some(mount) = mount_by_rings(Options::default(), None) else {
        return;
    };
    const COPIES: &str = "fallocate, lseek, copy_file_range";
    fs::write(mount.at("from"), vec![b'x'; LEN]).expect("written");
    // The kill may come too early or too late.
    for _ in 0..50 {
        let _gone = fs::remove_file(mount.at("to"));
        let before = mount.asked(COPIES);
        let mut copying = Command::new("cp")
            .arg("--sparse=never")
            .args([mount.at("from"), mount.at("to")])
            .spawn()
            .expect("begun");
        while mount.asked(COPIES) == before && copying.try_wait().expect("a child").is_none() {
            thread::yield_now();
        }
        copying.kill().expect("killed");
        copying.wait().expect("ended");
        let len = fs::metadata(mount.at("to")).map_or(0, |m| m.len());
        let is_part = !len.is_multiple_of(64 << 20) && len < LEN as u64;
        if mount.asked("interrupt") > 0 && is_part {
            return mount.end();
        }
    }
    panic!("no copy was interrupted");
}

/// The directory to serve, if this is the server process of the next test.
const SERVE: &str = "OPENPATH_TEST_SERVE";

#[test]
fn a_killed_server_leaves_no_caller_waiting() {
    if let Some(dir) = std::env::var_os(SERVE) {
        return serve_until_killed(Path::new(&dir));
    }
    let Some(offer) = Offer::make() else { return };
    let dir = dir("killed");
    let name = thread::current().name().map(str::to_owned);
    let mut server = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "--nocapture"])
        .args(name)
        .env(SERVE, &dir)
        .stdout(Stdio::piped())
        .spawn()
        .expect("begun");
    let said = BufReader::new(server.stdout.take().expect("a pipe"));
    let mut lines = said.lines().map_while(Result::ok);
    let way = lines.find_map(|line| line.split_once("way: ").map(|(_, way)| way.to_owned()));
    drop(offer);
    assert_eq!(way.as_deref(), Some("by rings"));
    let (slow, said) = lookup_in_thread(dir.join("slow"));
    assert!(lines.any(|line| line.contains("it came")));
    assert!(said.try_recv().is_err(), "it waits");
    server.kill().expect("killed");
    server.wait().expect("ended");
    let error = said
        .recv_timeout(HANG_TIMEOUT)
        .expect("nobody waits")
        .unwrap_or(0);
    let gone = [Errno::ENOTCONN.raw(), Errno::ECONNABORTED.raw()];
    assert!(gone.contains(&error), "{error}");
    slow.join().expect("ended");
    let later = fs::metadata(dir.join("later")).expect_err("nobody serves");
    assert_eq!(later.raw_os_error(), Some(Errno::ENOTCONN.raw()));
    openpath_fuse::detach(&dir, true).expect("taken away");
    fs::remove_dir(&dir).expect("removed");
}

fn serve_until_killed(dir: &Path) {
    let (came, comes) = sync_channel(1);
    let (_tell, go) = channel();
    let observer = Slow {
        came,
        go: openpath_sync::Mutex::new(go),
    };
    let task = task();
    let mut server = Server::new(&task, Options::default()).expect("a server");
    server.observe(Arc::new(observer));
    let session = server.mount(dir).expect("mounted");
    println!("way: {}", session.handle().rings());
    comes.recv_timeout(HANG_TIMEOUT).expect("a request");
    println!("it came");
    // It is killed before that.
    thread::sleep(HANG_TIMEOUT);
}
