// SPDX-License-Identifier: MIT OR Apache-2.0
//! The running kernel's processes: those of `agent.py`, one for each name.

use super::{Agents, DIR, FILES, Said};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

pub(crate) struct Host {
    folder: PathBuf,
    child: Child,
    stdin: Option<ChildStdin>,
    heard: Receiver<Said>,
    /// The name of each process by its number.
    names: Arc<Mutex<HashMap<String, String>>>,
    reader: Option<JoinHandle<()>>,
}

impl Host {
    /// Starts these processes, in a directory of their own.
    pub(crate) fn new(names: &str) -> Self {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("openpath-locks-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(folder.join(DIR)).expect("a folder");
        for file in FILES {
            std::fs::write(folder.join(file), [b'x'; 100]).expect("a file");
        }
        let mut child = Command::new("python3")
            .args(["-c", include_str!("agent.py")])
            .arg(&folder)
            .arg(names)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3");
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("no output");
        let (said, heard) = channel();
        let (hello, hellos) = channel();
        let known: Arc<Mutex<HashMap<String, String>>> = Arc::default();
        let table = Arc::clone(&known);
        let reader = thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let line = line.expect("text");
                let (who, what) = line.split_once(' ').expect("an actor and a message");
                if let Some(pid) = what.strip_prefix("hello ") {
                    let mut table = table.lock().expect("a table");
                    table.insert(pid.to_owned(), who.to_owned());
                    // A later process is not waited for.
                    let _told = hello.send(());
                } else if said.send((who.to_owned(), what.to_owned())).is_err() {
                    return;
                }
            }
        });
        for _ in names.chars() {
            hellos.recv().expect("a process");
        }
        Self {
            folder,
            child,
            stdin,
            heard,
            names: known,
            reader: Some(reader),
        }
    }
}

impl Agents for Host {
    fn tell(&mut self, who: &str, what: &str) {
        let to = self.stdin.as_mut().expect("no input");
        writeln!(to, "{who} {what}").expect("the processes have ended");
        to.flush().expect("a process");
    }

    fn heard(&self) -> &Receiver<Said> {
        &self.heard
    }

    fn named(&self, mut what: String) -> String {
        for (pid, name) in &*self.names.lock().expect("a table") {
            what = what.replace(pid, name);
        }
        what
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _ended = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ended = reader.join();
        }
        let _gone = std::fs::remove_dir_all(&self.folder);
    }
}
