// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that `openpath mount` serves a tree, by root and by an ordinary user in new namespaces, in
//! the foreground and as a daemon, until `openpath umount`. A killed server leaves no caller
//! waiting, and `stats` and `locks` show the requests and file locks of a mount.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A process that is not done after this time hangs, even on a machine under load.
const PATIENCE: Duration = Duration::from_secs(120);

fn openpath(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_openpath"));
    command.args(args);
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// Why a mount cannot be tested here; `None` if it can.
fn lacks() -> Option<&'static str> {
    let device = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/fuse");
    if device.is_err() {
        return Some("skipped: this user cannot open /dev/fuse");
    }
    if !rustix::process::geteuid().is_root() {
        return Some("skipped: mounting needs root");
    }
    None
}

/// A directory of this test, removed when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("openpath-mount-{}-{name}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        fs::create_dir_all(&dir).expect("a directory");
        Self(dir)
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("text")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _gone = openpath(&["umount", "--lazy", self.path()])
            .stderr(Stdio::null())
            .status();
        let _gone = fs::remove_dir_all(&self.0);
    }
}

/// Waits for a process to end; returns whether it did.
fn ends(child: &mut Child) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if child.try_wait().expect("a child").is_some() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    false
}

/// Unmounts a tree that no process uses. A process that another test starts may have an open file
/// of it for a moment, until it runs its program.
fn unmount(place: &Scratch) {
    let begun = Instant::now();
    loop {
        let gone = openpath(&["umount", place.path()]).output().expect("run");
        if gone.status.success() {
            return;
        }
        let early = begun.elapsed() < PATIENCE;
        assert!(early && text(&gone).contains("busy"), "{}", text(&gone));
    }
}

#[test]
fn daemon_returns_when_it_has_mounted_and_ends_with_the_mount() {
    if let Some(why) = lacks() {
        return eprintln!("{why}");
    }
    let place = Scratch::new("daemon");
    let mounted = openpath(&["mount", "mem:size=1m", place.path(), "--daemon"])
        .output()
        .expect("run");
    assert!(mounted.status.success(), "{}", text(&mounted));
    let file = place.0.join("file");
    fs::write(&file, "text").expect("written");
    assert_eq!(fs::read(&file).expect("read"), b"text");
    let busy = fs::File::open(&file).expect("opened");
    let refused = openpath(&["umount", place.path()]).output().expect("run");
    assert_eq!(refused.status.code(), Some(2), "{}", text(&refused));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    let own = format!("process {} (", std::process::id());
    assert!(said.contains(&own) && said.contains("--lazy"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    drop(busy);
    let mut sleeper = Command::new("sleep");
    let mut sleeper = sleeper
        .arg("60")
        .current_dir(place.path())
        .spawn()
        .expect("run");
    let refused = openpath(&["umount", place.path()]).output().expect("run");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        said.contains(&format!("process {} (", sleeper.id())),
        "{said}"
    );
    sleeper.kill().expect("killed");
    sleeper.wait().expect("ended");
    unmount(&place);
    assert!(!file.exists());
    let again = openpath(&["umount", place.path()]).output().expect("run");
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("nothing is mounted there"));
}

#[test]
fn tree_in_memory_without_a_size_has_half_of_the_memory() {
    if let Some(why) = lacks() {
        return eprintln!("{why}");
    }
    let place = Scratch::new("half");
    let mounted = openpath(&["mount", "mem", place.path(), "--daemon"]).output();
    assert!(mounted.expect("run").status.success());
    let room = rustix::fs::statvfs(&place.0).expect("statvfs");
    let info = rustix::system::sysinfo();
    let half = info.totalram * u64::from(info.mem_unit) / 2;
    assert_eq!(room.f_blocks, half / 4096);
    assert_eq!(room.f_files, half / 4096);
    unmount(&place);
}

#[test]
fn failed_mount_says_why_in_one_sentence() {
    if let Some(why) = lacks() {
        return eprintln!("{why}");
    }
    for (spec, dir, words) in [
        ("mem", "/nowhere/at/all", "/nowhere/at/all"),
        ("host:/nowhere", "/tmp", "/nowhere"),
        ("disk", "/tmp", "no tree is called"),
    ] {
        for more in [&["--daemon"][..], &[]] {
            let args = [&["mount", spec, dir], more].concat();
            let said = openpath(&args).output().expect("run");
            assert_eq!(said.status.code(), Some(2), "{spec}: {}", text(&said));
            assert!(text(&said).contains(words), "{spec}: {}", text(&said));
        }
    }
}

/// Starts a server in the foreground; returns when it has mounted.
fn serve(place: &Path, options: &[&str]) -> Child {
    let mut server = openpath(&["mount", "mem", place.to_str().expect("text")])
        .args(options)
        .stderr(Stdio::piped())
        .spawn()
        .expect("run");
    let said = server.stderr.take().expect("a pipe");
    let mut line = String::new();
    let heard = BufReader::new(said).read_line(&mut line);
    assert!(heard.is_ok() && line.starts_with("mounted"), "{line}");
    server
}

#[test]
fn killed_server_leaves_no_caller_waiting() {
    if let Some(why) = lacks() {
        return eprintln!("{why}");
    }
    for round in 0..20u64 {
        let place = Scratch::new(&format!("killed-{round}"));
        let mut server = serve(&place.0, &[]);
        let work = "cd \"$1\" || exit; n=0; \
            while mkdir \"$2$n\" && echo text > \"$2$n/file\" && cat \"$2$n/file\" && ls . && \
            mv \"$2$n\" \"$2-$n\"; do n=$((n + 1)); done";
        let start = |name: &str| {
            Command::new("sh")
                .args(["-c", work, "sh", place.path(), name])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .expect("a shell")
        };
        let mut users = [start("a"), start("b"), start("c")];
        std::thread::sleep(Duration::from_millis(3 + 7 * round));
        server.kill().expect("killed");
        server.wait().expect("ended");
        for user in &mut users {
            assert!(ends(user), "round {round}: a user hangs");
        }
        let after = fs::write(place.0.join("new"), "");
        assert!(after.is_err(), "round {round}: the killed server answered");
        unmount(&place);
    }
}

#[test]
fn ordinary_user_mounts_in_own_namespaces() {
    if let Some(why) = lacks() {
        return eprintln!("{why}");
    }
    let place = Scratch::new("user");
    // The device of the machine may be open to root only; this one is open to all users.
    let work = "set -e; cd \"$1\"; chmod 755 .; mknod -m 666 fuse c 10 229; mkdir d; \
        chown 1000:1000 d; cp \"$2\" ./program; exec setpriv --reuid=1000 --regid=1000 \
        --clear-groups unshare -Urm sh -e -c ' \
            mount --bind fuse /dev/fuse; ./program mount mem d --daemon; cd d; \
            echo text > file; mkdir dir; mv file dir/name; ln -s dir/name link; cat link; \
            chmod 700 dir; stat -c %u:%g:%a dir; cd ..; ./program umount d; ls d'";
    let done = Command::new("sh")
        .args(["-c", work, "sh", place.path()])
        .arg(env!("CARGO_BIN_EXE_openpath"))
        .output()
        .expect("a shell");
    let said = text(&done);
    if said.contains("unshare failed") || said.contains("not found") {
        return eprintln!("skipped: no user namespaces here ({said})");
    }
    assert_eq!(said, "text\n0:0:700\n");
    assert!(done.status.success());
}

#[test]
fn each_write_is_a_request_unless_writes_are_kept_back() {
    use std::io::Write as _;
    if let Some(why) = lacks() {
        eprintln!("{why}");
        return;
    }
    // Each has its own directory: after an unmount the server is found by it until it has ended.
    let writes = |name: &str, option: &[&str]| {
        let place = Scratch::new(name);
        let args = [&["mount", "mem", place.path(), "--daemon"], option].concat();
        let mounted = openpath(&args).output().expect("run");
        assert!(mounted.status.success(), "{}", text(&mounted));
        let mut file = fs::File::create(place.0.join("file")).expect("made");
        for _ in 0..100 {
            file.write_all(b"x").expect("written");
        }
        drop(file);
        let told = openpath(&["stats", place.path(), "--json"]).output();
        let told = told.expect("run");
        assert!(told.status.success(), "{}", text(&told));
        let told: serde_json::Value = serde_json::from_slice(&told.stdout).expect("JSON");
        unmount(&place);
        told["requests"]["write"].as_u64().expect("a number")
    };
    assert_eq!(writes("writes", &[]), 100);
    let kept = writes("writes-kept", &["--write-back"]);
    assert!(kept < 100, "{kept}");
}

#[test]
fn stats_count_the_requests_to_a_mount() {
    if let Some(why) = lacks() {
        eprintln!("{why}");
        return;
    }
    let place = Scratch::new("figures");
    let mounted = openpath(&["mount", "mem", place.path(), "--daemon"]).output();
    let mounted = mounted.expect("run");
    assert!(mounted.status.success(), "{}", text(&mounted));
    let ask = || {
        let told = openpath(&["stats", place.path(), "--json"]).output();
        let told = told.expect("run");
        assert!(told.status.success(), "{}", text(&told));
        serde_json::from_slice::<serde_json::Value>(&told.stdout).expect("JSON")
    };
    let creates = |told: &serde_json::Value| told["requests"]["create"].as_u64();
    let told = ask();
    assert_eq!(
        (&told["kind"], &told["command"]),
        (&"mount".into(), &"mem".into())
    );
    assert_eq!(creates(&told), Some(0));
    fs::write(place.0.join("a"), "").expect("written");
    assert_eq!(creates(&ask()), Some(1));
    // `stats` finds the mount by its process too, and no longer after the mount.
    let pid = told["pid"].as_u64().expect("a number").to_string();
    assert!(text(&openpath(&["stats", &pid]).output().expect("run")).contains(place.path()));
    let entered = openpath(&["exec", &pid, "true"]).output().expect("run");
    assert_eq!(entered.status.code(), Some(125));
    unmount(&place);
    let begun = Instant::now();
    while openpath(&["stats", &pid])
        .output()
        .expect("run")
        .status
        .success()
    {
        assert!(begun.elapsed() < PATIENCE);
    }
}

/// Locks the file `f`, prints that, and waits to be killed.
fn locks(place: &Scratch, line: &str) -> (Child, BufReader<std::process::ChildStdout>) {
    let script = "
import fcntl, sys, time
f = open(sys.argv[1] + '/f', 'a+b')
print('begun', flush=True)
try:
    exec(sys.argv[2])
    print('locked', flush=True)
    time.sleep(1000)
except OSError as why:
    print(why.errno, flush=True)
";
    let mut child = Command::new("python3")
        .args(["-c", script, place.path(), line])
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3");
    let mut said = BufReader::new(child.stdout.take().expect("a pipe"));
    assert_eq!(heard(&mut said), "begun");
    (child, said)
}

fn heard(said: &mut BufReader<std::process::ChildStdout>) -> String {
    let mut line = String::new();
    said.read_line(&mut line).expect("a line");
    line.trim_end().to_owned()
}

/// The listed locks, once there are so many lines.
fn listed(place: &Scratch, count: usize) -> Vec<String> {
    let begun = Instant::now();
    loop {
        let told = openpath(&["locks", place.path()]).output().expect("run");
        assert!(told.status.success(), "{}", text(&told));
        let lines: Vec<String> = text(&told).lines().map(str::to_owned).collect();
        if lines.len() == count {
            return lines;
        }
        assert!(begun.elapsed() < PATIENCE, "{lines:?}");
    }
}

#[test]
fn locks_of_a_mount_are_listed_and_a_killed_server_leaves_no_waiter() {
    if let Some(why) = lacks() {
        return eprintln!("{why}");
    }
    let place = Scratch::new("locks");
    let mut server = serve(&place.0, &["--locks"]);
    assert_eq!(listed(&place, 0), [""; 0]);
    let (mut holder, mut said) = locks(&place, "fcntl.lockf(f, fcntl.LOCK_EX, 10, 5)");
    assert_eq!(heard(&mut said), "locked");
    let (mut waiter, mut answer) = locks(&place, "fcntl.lockf(f, fcntl.LOCK_EX)");
    let (mut other, mut whole) = locks(&place, "fcntl.flock(f, fcntl.LOCK_SH)");
    assert_eq!(heard(&mut whole), "locked");
    let lines = listed(&place, 3);
    let ino = fs::metadata(place.0.join("f")).expect("there");
    let ino = std::os::unix::fs::MetadataExt::ino(&ino);
    let [held, waits, shared] = [&holder, &waiter, &other].map(Child::id);
    let told = openpath(&["locks", place.path(), "--json"]).output();
    let told = told.expect("run").stdout;
    let told = serde_json::from_slice::<serde_json::Value>(&told).expect("JSON");
    assert_eq!(told["answered"], true);
    // The device is that of the tree, and not that of the mount on the host.
    let dev = told["locks"][0]["dev"].as_u64().expect("a number");
    let file = format!("{:02x}:{:02x}:{ino}", dev >> 8, dev & 0xff);
    let want = [
        format!("1: POSIX  ADVISORY  WRITE {held} {file} 5 14"),
        format!("1: -> POSIX  ADVISORY  WRITE {waits} {file} 0 EOF"),
        format!("2: FLOCK  ADVISORY  READ  {shared} {file} 0 EOF"),
    ];
    assert_eq!(lines, want);
    let row = &told["locks"][1];
    assert_eq!((&row["number"], &row["waits"]), (&1.into(), &true.into()));
    assert_eq!(
        (&row["sort"], &row["kind"]),
        (&"posix".into(), &"write".into())
    );
    assert_eq!(
        (&row["pid"], &row["end"]),
        (&waits.into(), &serde_json::Value::Null)
    );
    let all = openpath(&["locks"]).output().expect("run");
    assert!(text(&all).contains(&format!("{}:\n{}", place.path(), want[0])));
    server.kill().expect("killed");
    server.wait().expect("ended");
    let errno = heard(&mut answer).parse::<i32>().expect("a number");
    let gone = [rustix::io::Errno::CONNABORTED, rustix::io::Errno::NOTCONN];
    assert!(
        gone.iter().any(|one| one.raw_os_error() == errno),
        "{errno}"
    );
    assert!(ends(&mut waiter), "the waiter hangs");
    for child in [&mut holder, &mut other] {
        child.kill().expect("killed");
        assert!(ends(child), "the holder hangs");
    }
    unmount(&place);
}

#[test]
fn mount_without_locks_option_says_that_the_kernel_keeps_them() {
    if let Some(why) = lacks() {
        return eprintln!("{why}");
    }
    let place = Scratch::new("unlocked");
    let mounted = openpath(&["mount", "mem", place.path(), "--daemon"]).output();
    assert!(mounted.expect("run").status.success());
    let (mut holder, mut said) = locks(&place, "fcntl.lockf(f, fcntl.LOCK_EX)");
    assert_eq!(heard(&mut said), "locked");
    assert!(listed(&place, 1)[0].contains("/proc/locks"));
    holder.kill().expect("killed");
    assert!(ends(&mut holder));
    unmount(&place);
    let none = openpath(&["locks", "/nowhere/at/all"])
        .output()
        .expect("run");
    assert_eq!(none.status.code(), Some(2));
}

/// An ext4 file system in a file, mounted at a directory; unmounted when it is dropped.
struct Disk(PathBuf);

impl Disk {
    /// `None`: no such file system can be made or mounted here.
    fn new(dir: &Path) -> Option<Self> {
        let (image, at) = (dir.join("image"), dir.join("disk"));
        fs::create_dir_all(&at).expect("a directory");
        let file = fs::File::create(&image).expect("a file");
        file.set_len(8 << 20).expect("a length");
        let runs = |command: &mut Command| {
            let run = command.stderr(Stdio::null()).status();
            run.is_ok_and(|status| status.success())
        };
        let made = runs(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image))
            && runs(
                Command::new("mount")
                    .args(["-o", "loop"])
                    .args([&image, &at]),
            );
        made.then_some(Self(at))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _gone = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn new_file_with_the_inode_number_of_an_open_one_is_read() {
    if let Some(why) = lacks() {
        return eprintln!("{why}");
    }
    let place = Scratch::new("reused");
    let Some(disk) = Disk::new(&place.0) else {
        return eprintln!("skipped: no ext4 can be made and mounted here");
    };
    let shown = Scratch::new("reused-shown");
    let spec = format!("host:{}", disk.0.display());
    let mounted = openpath(&["mount", &spec, shown.path(), "--daemon"]).output();
    let mounted = mounted.expect("run");
    assert!(mounted.status.success(), "{}", text(&mounted));
    fs::write(disk.0.join("a"), "first").expect("written");
    let number = fs::metadata(disk.0.join("a")).expect("there").ino();
    // Open but not read: the server has no descriptor of it, which would keep the number in use.
    let held = fs::File::open(shown.0.join("a")).expect("opened");
    fs::remove_file(disk.0.join("a")).expect("removed");
    let mut reused = false;
    for n in 0..12 {
        let name = format!("new-{n}");
        fs::write(disk.0.join(&name), &name).expect("written");
        reused |= fs::metadata(disk.0.join(&name)).expect("there").ino() == number;
        let read = fs::read_to_string(shown.0.join(&name));
        assert_eq!(read.ok().as_deref(), Some(&name[..]));
        let attr = fs::metadata(shown.0.join(&name)).expect("attributes");
        assert_eq!((attr.len(), attr.nlink()), (name.len() as u64, 1));
    }
    assert!(reused, "no new file got the number of the old one");
    drop(held);
    unmount(&shown);
}

#[test]
fn command_reads_a_new_file_with_the_inode_number_of_an_open_one() {
    if let Some(why) = lacks() {
        return eprintln!("{why}");
    }
    let place = Scratch::new("reused-run");
    let Some(disk) = Disk::new(&place.0) else {
        return eprintln!("skipped: no ext4 can be made and mounted here");
    };
    fs::write(disk.0.join("a"), "first").expect("written");
    let number = fs::metadata(disk.0.join("a")).expect("there").ino();
    let line = "exec 3<a; echo ready; while read -r name; do cat \"$name\"; done";
    let mut run = openpath(&["run", "-q", "--engine", "fuse", "--", "sh", "-c", line]);
    run.current_dir(&disk.0);
    run.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut run = run.spawn().expect("run");
    let mut asked = run.stdin.take().expect("a pipe");
    let mut said = BufReader::new(run.stdout.take().expect("a pipe")).lines();
    assert_eq!(said.next().expect("a line").expect("text"), "ready");
    fs::remove_file(disk.0.join("a")).expect("removed");
    let mut reused = false;
    for n in 0..12 {
        let name = format!("new-{n}");
        fs::write(disk.0.join(&name), format!("{name}\n")).expect("written");
        reused |= fs::metadata(disk.0.join(&name)).expect("there").ino() == number;
        writeln!(asked, "{name}").expect("asked");
        assert_eq!(said.next().expect("a line").expect("text"), name);
    }
    assert!(reused, "no new file got the number of the old one");
    drop(asked);
    assert!(run.wait().expect("ended").success());
}
