// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that `openpath locks` names a server that refuses to list its file locks or does not know
//! the request, and prints no locks for a server that has ended.

use serde_json::json;
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What a server does when it is asked for its locks.
#[derive(Clone, Copy)]
enum Asked {
    Refuses,
    /// It does not know the request, and hangs up.
    HangsUp,
    /// It has ended before the request.
    HasEnded,
}

/// A directory for the sockets of this test, removed when it is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let name = format!("openpath-asked-{}-{name}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let mut make = fs::DirBuilder::new();
        make.mode(0o700).recursive(true);
        make.create(dir.join("openpath")).expect("a directory");
        Self(dir)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

/// A server that answers only what it is.
fn serve(at: PathBuf, pid: u32, asked: Asked) {
    let listener = UnixListener::bind(&at).expect("a socket");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            // A client that only checks for the server sends nothing.
            let _hung_up = answer(stream.expect("a stream"), &at, pid, asked);
        }
    });
}

fn answer(mut stream: UnixStream, at: &Path, pid: u32, asked: Asked) -> std::io::Result<()> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut ask = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut ask)?;
    let told = match (&ask[..], asked) {
        (b"\"Figures\"", _) => json!({ "Figures": {
            "version": 1, "kind": "mount", "pid": pid, "name": null, "directory": "/its/place",
            "command": "mem", "begun": 0, "requests": {}, "nodes": 0,
            "cached": { "names": 0, "pending_free": 0 }, "copied_up": { "files": 0, "bytes": 0 },
            "tenants": [],
        }}),
        (_, Asked::Refuses) => json!({ "Refused": "this is no day for it" }),
        (_, _) => return Ok(()),
    };
    if matches!(asked, Asked::HasEnded) {
        fs::remove_file(at)?;
    }
    let told = told.to_string();
    stream.write_all(&(told.len() as u32).to_le_bytes())?;
    stream.write_all(told.as_bytes())
}

/// The status and the output of `openpath locks` when such a server runs.
fn locks(name: &str, asked: Asked, args: &[&str]) -> (Option<i32>, String, String) {
    let place = Scratch::new(name);
    let pid = std::process::id();
    let socket = format!("openpath/{pid}.sock");
    serve(place.0.join(socket), pid, asked);
    let mut command = Command::new(env!("CARGO_BIN_EXE_openpath"));
    command.arg("locks").args(args);
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .env("XDG_RUNTIME_DIR", &place.0)
        .output()
        .expect("run");
    let [out, err] = [stdout, stderr].map(|text| String::from_utf8(text).expect("text"));
    // Root also sees the servers of other users, which may run beside this test.
    let mine = |text: String| {
        let lines = text.lines().filter(|line| line.contains(&pid.to_string()));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    (status.code(), mine(out), mine(err))
}

#[test]
fn server_that_does_not_list_its_locks_is_named() {
    let pid = std::process::id();
    let its = |why: &str| format!("openpath: mount {pid} /its/place: {why}\n");
    let refused = locks("refuses", Asked::Refuses, &[]);
    let want = its("this is no day for it");
    assert_eq!(refused, (Some(2), String::new(), want));
    let silent = locks("hangs", Asked::HangsUp, &["--json"]);
    let want = its(&format!("{pid} does not say what is locked"));
    assert_eq!(silent, (Some(2), String::new(), want));
}

#[test]
fn server_that_has_ended_meanwhile_has_no_locks() {
    let ended = locks("ended", Asked::HasEnded, &[]);
    assert_eq!(ended, (Some(0), String::new(), String::new()));
}
