// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives tests of WebAssembly guests a scratch directory of root or of an ordinary user, into which
//! they write guests and in which they start `openpath run` as its user.

use serde_json::Value;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// An ordinary user, with or without an account on the machine.
const USER: u32 = 1000;

/// Calls of WASI that the guests of these tests make.
const IMPORTS: &str = r#"
    (import "wasi_snapshot_preview1" "path_open" (func $path_open
      (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_write" (func $fd_write
      (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "fd_read" (func $fd_read
      (param i32 i32 i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ_sizes_get
      (param i32 i32) (result i32)))
    (import "wasi_snapshot_preview1" "environ_get" (func $environ_get
      (param i32 i32) (result i32)))
(import "wasi_snapshot_preview1" "fd_close" (func $close (param i32) (result i32)))
    (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
    (memory (export "memory") 1)
    ;; Opens a name below a directory, as 64 KiB of memory have it from byte 256 on.
    (func $open (param $dir i32) (param $length i32) (param $how i32) (param $rights i64)
      (result i32)
      (call $path_open (local.get $dir) (i32.const 1) (i32.const 256) (local.get $length)
        (local.get $how) (local.get $rights) (i64.const 0) (i32.const 0) (i32.const 16)))
    ;; Writes bytes to a descriptor.
    (func $write (param $fd i32) (param $from i32) (param $length i32) (result i32)
      (i32.store (i32.const 0) (local.get $from))
      (i32.store (i32.const 4) (local.get $length))
      (call $fd_write (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8)))
    ;; Reads at most 4 KiB to byte 4096; how many there were.
    (func $read (param $fd i32) (result i32)
      (i32.store (i32.const 0) (i32.const 4096))
      (i32.store (i32.const 4) (i32.const 4096))
      (drop (call $fd_read (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8)))
      (i32.load (i32.const 8)))
"#;

/// A directory that is removed when the value is dropped.
pub(crate) struct Place {
    pub(crate) dir: PathBuf,
    user: bool,
}

impl Place {
    /// A directory of the user that runs the tests, or of the ordinary user.
    pub(crate) fn new(name: &str, user: bool) -> Place {
        let dir = format!("openpath-wasi-{name}-{user}-{}", std::process::id());
        let dir = std::env::temp_dir().canonicalize().unwrap().join(dir);
        std::fs::create_dir_all(&dir).unwrap();
        let place = Place { dir, user };
        place.own(".");
        place
    }

    /// One place for each of the two users; only root can become the other.
    pub(crate) fn all(name: &str) -> impl Iterator<Item = Place> {
        let root = rustix::process::geteuid().is_root();
        let all = [false, true].into_iter();
        all.filter(move |user| root || !user)
            .map(move |user| Place::new(name, user))
    }

    fn own(&self, path: &str) {
        if self.user {
            let path = self.dir.join(path);
            std::os::unix::fs::chown(path, Some(USER), Some(USER)).unwrap();
        }
    }

    pub(crate) fn write(&self, path: &str, data: impl AsRef<[u8]>) {
        std::fs::write(self.dir.join(path), data).unwrap();
        self.own(path);
    }

    pub(crate) fn make_dir(&self, path: &str) {
        std::fs::create_dir(self.dir.join(path)).unwrap();
        self.own(path);
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.dir.join(path)).unwrap_or_default()
    }

    pub(crate) fn path(&self, path: &str) -> String {
        self.dir.join(path).display().to_string()
    }

    /// A guest of this name: data at byte 256, and what `_start` does.
    pub(crate) fn guest(&self, name: &str, data: &str, start: &str) {
        let text = format!(
            "(module {IMPORTS} (data (i32.const 256) {data:?}) (func (export \"_start\") {start}))"
        );
        self.write(name, wat::parse_str(text).unwrap());
    }

    /// `openpath run` with these arguments, in this directory.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        // Otherwise the command ignores signals that the test ignores, as in a background job.
        let mut command = Command::new("env");
        command.args(["--default-signal", env!("CARGO_BIN_EXE_openpath"), "run"]);
        command.args(args).current_dir(&self.dir);
        command.env("XDG_CACHE_HOME", self.dir.join("cache"));
        command.env("XDG_STATE_HOME", self.dir.join("state"));
        command.stdin(Stdio::null());
        if self.user {
            command.uid(USER).gid(USER);
        }
        command
    }

    /// Runs [`Place::command`] to its end.
    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// The listed changes of a run below this directory: signs and paths.
    pub(crate) fn told(&self, output: &Output) -> Vec<(String, String)> {
        let text = err(output);
        let line = text.lines().find(|line| line.starts_with('{'));
        let json: Value = serde_json::from_str(line.unwrap_or(&text)).expect(&text);
        let top = format!("{}/", self.dir.display());
        let changes = json["changes"].as_array().unwrap().iter();
        let word = |change: &Value, key: &str| change[key].as_str().unwrap().to_owned();
        changes
            .map(|change| (word(change, "change"), word(change, "path")))
            .map(|(kind, path)| (kind, path.strip_prefix(&top).unwrap_or(&path).to_owned()))
            .filter(|(_, path)| *path != self.dir.display().to_string())
            .collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.dir).ok();
    }
}

/// Standard output as text.
pub(crate) fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Standard error as text.
pub(crate) fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
