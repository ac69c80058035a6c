// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the tree of a round of kills and the `openpath run` view of it, and checks both
//! afterwards.

use super::{Plan, Round, SLOWLY};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// An ordinary user; the machine need not have an account for it.
pub(super) const USER: u32 = 1000;
/// Starts a program as an ordinary user, with the FUSE device set up as distributions do.
const AS_USER: &str = "mknod -m 666 \"$0\" c 10 229 && mount --bind \"$0\" /dev/fuse && rm \"$0\" \
    && exec setpriv --reuid \"$1\" --regid \"$1\" --clear-groups -- \"${@:2}\"";
/// Prints the state of a tree.
const WHOLE: &str = "find . -printf '%P %y %m %U %n %s %T@ %C@ %l\\n' | sort; \
    find . -type f | sort | xargs cksum";
/// Name of the variable that marks the processes of a round.
pub(super) const MARK: &str = "OPENPATH_KILLS";

/// The tree of a round.
pub(super) struct Scene {
    round: Round,
    openpath: PathBuf,
    /// The directory of everything that the round makes.
    folder: PathBuf,
}

impl Scene {
    /// Makes the tree.
    pub(super) fn set(plan: &Plan, round: Round) -> io::Result<Scene> {
        let folder = format!("openpath-kills-{}-{}", std::process::id(), round.number);
        let scene = Scene {
            round,
            openpath: plan.openpath.clone(),
            folder: plan.folder.join(folder),
        };
        let tree = scene.tree();
        fs::create_dir_all(&tree)?;
        let mut calls = String::new();
        let mut sum = String::new();
        for dir in 0..5 {
            fs::create_dir(tree.join(format!("d{dir}")))?;
            for file in 0..12 {
                let name = format!("f_{dir}_{file}");
                let text = format!("int {name}(void) {{ return {dir} * {file}; }}\n");
                fs::write(tree.join(format!("d{dir}/f{file}.c")), text)?;
                calls += &format!("int {name}(void);\n");
                sum += &format!(" + {name}()");
            }
        }
        let main = format!("{calls}int main(void) {{ return 0 * (0{sum}); }}\n");
        fs::write(tree.join("main.c"), main)?;
        fs::write(
            tree.join("Makefile"),
            "OBJ := $(patsubst %.c,%.o,main.c $(wildcard d*/f*.c))\nprog: $(OBJ)\n\tcc -o $@ $^\n\
            clean:\n\trm -f prog $(OBJ)\n",
        )?;
        fs::hard_link(tree.join("d0/f0.c"), tree.join("linked"))?;
        symlink("d1", tree.join("way"))?;
        scene.own()?;
        Ok(scene)
    }

    fn tree(&self) -> PathBuf {
        self.folder.join("tree")
    }

    /// The view's directory, as a name of a view.
    fn view(&self) -> String {
        format!("{}/", self.folder.join("view").display())
    }

    /// What the environment of each process of the round contains.
    pub(super) fn mark(&self) -> String {
        format!("{MARK}={}", self.folder.display())
    }

    /// Gives the tree to the user that runs the command.
    fn own(&self) -> io::Result<()> {
        fs::set_permissions(&self.folder, PermissionsExt::from_mode(0o755))?;
        if !self.round.ordinary {
            return Ok(());
        }
        chown(&self.folder, Some(USER), Some(USER))?;
        let mut give = Command::new("chown");
        give.args(["-Rh", &format!("{USER}:{USER}")]);
        succeed(give.arg(self.tree()))
    }

    /// The command under test.
    fn openpath(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.openpath);
        if self.round.ordinary {
            command = Command::new("unshare");
            command.args(["--mount", "bash", "-c", AS_USER]);
            command
                .arg(self.folder.join("device"))
                .arg(USER.to_string());
            command.arg(&self.openpath);
        }
        command.args(args).current_dir(self.tree());
        let (name, value) = (MARK, self.folder.as_os_str());
        command
            .env(name, value)
            .env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.stdin(Stdio::null());
        command
    }

    /// Starts a load in a view.
    pub(super) fn start(&self, load: &str) -> io::Result<Child> {
        let view = self.view();
        let upper = if self.round.kept {
            ["--name", &view]
        } else {
            ["--upper", "memory"]
        };
        let back: &[&str] = if self.round.back {
            &["--write-back"]
        } else {
            &[]
        };
        let load = ["--", "sh", "-c", load];
        let args = [&["run", "-q"], &upper[..], back, &load].concat();
        let mut command = self.openpath(&args);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
    }

    /// The whole state of the tree.
    pub(super) fn whole(&self) -> io::Result<String> {
        let mut look = Command::new("sh");
        let said = look.args(["-c", WHOLE]).current_dir(self.tree()).output()?;
        Ok(String::from_utf8_lossy(&said.stdout).into_owned())
    }

    /// Compares the view and runs in it again; returns the faults.
    pub(super) fn judge(&self, promises: &[String]) -> io::Result<Vec<String>> {
        let mut wrong = Vec::new();
        let view = self.view();
        if !self.folder.join("view/view.toml").exists() {
            // It was killed before there was a view.
            return Ok(if promises.is_empty() {
                wrong
            } else {
                vec!["no view".to_owned()]
            });
        }
        let by = Instant::now() + SLOWLY;
        let diff = loop {
            let diff = self.openpath(&["diff", "--stat", &view]).output()?;
            // A process that ends loses its memory, by which it is found, before its locks.
            if !said(&diff).contains("is in use") || Instant::now() > by {
                break diff;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        if !diff.status.success() {
            wrong.push(format!("diff: {}", said(&diff)));
        }
        let args = [
            "run",
            "-q",
            "--name",
            &view,
            "--",
            "sh",
            "-c",
            self.round.load.check(),
        ];
        let mut check = self.openpath(&args);
        check
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut check = check.spawn()?;
        if let Some(mut stdin) = check.stdin.take() {
            // A check that stops reading has seen enough.
            stdin
                .write_all((promises.join("\n") + "\n").as_bytes())
                .ok();
        }
        let check = check.wait_with_output()?;
        let text = said(&check);
        if !matches!(check.status.code(), Some(0 | 1)) || text.contains("LOST") {
            wrong.push(format!("kept data: {text}"));
        }
        let discard = self.openpath(&["discard", &view]).output()?;
        if !discard.status.success() || self.folder.join("view").exists() {
            wrong.push(format!("discard: {}", said(&discard)));
        }
        Ok(wrong)
    }

    /// Removes everything.
    pub(super) fn remove(self) -> io::Result<()> {
        fs::remove_dir_all(&self.folder)
    }
}

/// The output of a program, shortened.
pub(super) fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr].concat();
    let text: String = String::from_utf8_lossy(&text).chars().take(500).collect();
    format!("{}: {text}", output.status)
}

fn succeed(command: &mut Command) -> io::Result<()> {
    let status = command.status()?;
    if status.success() {
        return Ok(());
    }
    Err(io::Error::other(format!("{status}")))
}
