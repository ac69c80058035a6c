// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a command under `openpath run` in a terminal is interrupted, stopped, continued and
//! hung up as without a run.

use crate::place::{OPENPATH, PATIENCE, Place, err};
use crate::process::{long, number_of};
use rustix::pty::OpenptFlags;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};

/// A shell in its own terminal.
pub(crate) struct Shell {
    terminal: File,
    shell: Child,
    heard: Receiver<Vec<u8>>,
    said: String,
}

impl Shell {
    /// `None`, with a printed line, if no terminal can be made.
    pub(crate) fn start(place: &Place) -> Option<Shell> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let opened = rustix::pty::openpt(flags).and_then(|fd| {
            rustix::pty::grantpt(&fd)?;
            rustix::pty::unlockpt(&fd)?;
            let name = rustix::pty::ptsname(&fd, Vec::new())?;
            Ok((File::from(fd), name.to_string_lossy().into_owned()))
        });
        let (terminal, name) = match opened {
            Ok(opened) => opened,
            Err(why) => {
                eprintln!("skipped: no terminal to be had here ({why})");
                return None;
            }
        };
        let slave = || File::options().read(true).write(true).open(&name).unwrap();
        let run = place.openpath(["run", "-q", "--"]);
        // The shell of the terminal is outside; `run` is what a user would type.
        let words = std::iter::once(run.get_program()).chain(run.get_args());
        let typed: Vec<_> = words.map(|word| format!("'{}'", word.display())).collect();
        let mut shell = Command::new("setsid");
        // The test process may ignore signals, and then no shell can trap them.
        shell.args(["--ctty", "env", "--default-signal"]);
        shell.args(["bash", "--norc", "--noprofile", "-i"]);
        shell.env("PS1", "READY ").env("RUN", "");
        shell.stdin(slave()).stdout(slave()).stderr(slave());
        let shell = shell.current_dir(&place.dir).spawn().unwrap();
        let (tell, heard) = channel();
        let mut reader = terminal.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut buf = [0; 4096];
            while let Ok(got @ 1..) = reader.read(&mut buf) {
                if tell.send(buf[..got].to_vec()).is_err() {
                    break;
                }
            }
        });
        let mut shell = Shell {
            terminal,
            shell,
            heard,
            said: String::new(),
        };
        shell.expect("READY ");
        shell.send(&format!("run() {{ {} \"$@\"; }}\n", typed.join(" ")));
        shell.expect("READY ");
        Some(shell)
    }

    pub(crate) fn send(&mut self, text: &str) {
        self.terminal.write_all(text.as_bytes()).unwrap();
    }

    /// Waits until `text` was printed; returns all output until there.
    pub(crate) fn expect(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.said.find(text) {
                return self.said.drain(..at + text.len()).collect();
            }
            match self.heard.recv_timeout(PATIENCE) {
                Ok(more) => self.said += &String::from_utf8_lossy(&more),
                Err(why) => panic!("no `{text}` ({why}) in {:?}", self.said),
            }
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.shell.kill().ok();
        self.shell.wait().ok();
    }
}

#[test]
fn interrupt_is_handled_by_the_command() {
    for place in Place::all("interrupt") {
        let Some(mut shell) = Shell::start(&place) else {
            return;
        };
        shell.send(
            "run sh -c 'trap \"echo inter''rupted; exit 5\" INT; echo o''n; \
             while :; do sleep 0.05; done'\n",
        );
        shell.expect("on\r");
        shell.send("\x03");
        shell.expect("interrupted\r");
        shell.send("echo code=$?.\n");
        shell.expect("code=5.");
        shell.send("run sh -c 'echo o''n; while :; do sleep 0.05; done'\n");
        shell.expect("on\r");
        shell.send("\x03");
        shell.send("echo code=$?.\n");
        shell.expect("code=130.");
    }
}

#[test]
fn command_stops_and_continues_with_its_front() {
    for place in Place::all("stop") {
        let Some(mut shell) = Shell::start(&place) else {
            return;
        };
        // The line starts no program: a shell that waits for its vfork(2) does not stop.
        shell.send("run sh -c 'echo o''n; read word; echo do''ne'\n");
        shell.expect("on\r");
        shell.send("\x1a");
        shell.expect("Stopped");
        shell.expect("READY ");
        shell.send("fg\n");
        // The shell prints which job continues.
        shell.expect("\"$@\"");
        shell.send("word\n");
        shell.expect("done\r");
        shell.send("echo code=$?.\n");
        shell.expect("code=0.");
    }
}

#[test]
fn program_that_stops_its_process_group_stops_its_front() {
    for place in Place::all("suspend") {
        let Some(mut shell) = Shell::start(&place) else {
            return;
        };
        // Editors that read Ctrl-Z themselves do this.
        let line = "import os; os.kill(0, 20); print(\"ba\" + \"ck\")";
        shell.send(&format!("run python3 -c '{line}'\n"));
        shell.expect("Stopped");
        shell.expect("READY ");
        shell.send("fg\n");
        shell.expect("back\r");
        shell.send("echo code=$?.\n");
        shell.expect("code=0.");
    }
}

#[test]
fn shell_inside_has_its_own_jobs() {
    for place in Place::all("within") {
        let Some(mut shell) = Shell::start(&place) else {
            return;
        };
        shell.send("run env PS1='WITH''IN ' bash --norc --noprofile -i\n");
        shell.expect("WITHIN ");
        let time = long(&place, 1006);
        shell.send(&format!("sleep {time}\n"));
        number_of(&time);
        shell.send("\x1a");
        shell.expect("Stopped");
        shell.send("kill -9 %1; disown -a; suspend\n");
        shell.expect("Stopped");
        shell.expect("READY ");
        shell.send("fg\n");
        shell.send("echo in''side\n");
        shell.expect("inside\r");
        shell.send("exit 9\n");
        shell.send("echo code=$?.\n");
        shell.expect("code=9.");
    }
}

/// Starts a program as the session leader of a terminal, closes that, and prints how it ended.
const HANGUP: &str = r#"
import os, pty, sys, time
pid, master = pty.fork()
if pid == 0:
    os.dup2(os.open("messages", os.O_CREAT | os.O_WRONLY), 2)
    os.execv(sys.argv[1], sys.argv[1:])
while b"begun" not in os.read(master, 1000):
    pass
os.close(master)
for _ in range(6000):
    ended, status = os.waitpid(pid, os.WNOHANG)
    if ended:
        if os.WIFSIGNALED(status):
            sys.exit(f"signal {os.WTERMSIG(status)}")
        sys.exit(f"exit {os.WEXITSTATUS(status)}: {open('messages').read()}")
    time.sleep(0.02)
os.kill(pid, 9)
sys.exit("still there")
"#;

#[test]
fn hangup_of_the_terminal_ends_a_run_that_leads_its_session() {
    for place in Place::all("hangup") {
        place.write("hangup.py", HANGUP);
        let line = format!("python3 hangup.py '{OPENPATH}' run -q -- sh -c 'echo begun; sleep 60'");
        let output = place.plain(&line);
        assert_eq!(err(&output), "signal 1\n");
    }
}
