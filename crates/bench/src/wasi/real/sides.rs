// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a program as our guest, as a guest of wasmtime, and natively, with the same files in the
//! form that each needs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use openpath_abi::Errno;
use openpath_vfs::{Task, Vfs};
use openpath_wasi::{Guest, Input, OpenpathWasi, Output, exit_code};
use wasmtime::{Engine, InstancePre, Module, Store};
use wasmtime_wasi::p1::WasiP1Ctx;
use wasmtime_wasi::p2::pipe::{MemoryInputPipe, MemoryOutputPipe};
use wasmtime_wasi::{FsPerms, I32Exit, WasiCtxBuilder};

use super::load::Load;
use crate::calls::{Calls, Kernel};
use crate::error::Error;
use crate::scratch::Scratch;
use crate::wasi::hosts::{self, Blocking};
use crate::wasi::{engine, scratch};

/// The label of the process.
pub(super) const NATIVE: &str = "native";
/// The most output of a program, in bytes.
const SAID_MAX: usize = 1 << 20;
/// The names of a guest's directory: absolute and relative paths begin there.
const NAMES: [&str; 2] = [".", "/"];
/// Where Go begins relative paths.
const PWD: (&str, &str) = ("PWD", "/");

/// The end of a run: its exit status, and its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) status: i64,
    pub(super) said: Vec<u8>,
}

type Step<'a, T> = Box<dyn Fn() -> Result<T, Error> + 'a>;

/// One way to run a program.
pub(super) struct Side<'a> {
    pub(super) label: &'static str,
    /// Removes the files of the last run.
    pub(super) clear: Step<'a, ()>,
    pub(super) run: Step<'a, Ended>,
}

/// The data for all sides of one program.
pub(super) struct Program<'a> {
    load: &'a Load,
    mine: InstancePre<Guest>,
    theirs: InstancePre<WasiP1Ctx>,
    process: PathBuf,
    vfs: Vfs,
    task: Task,
    dir: Scratch,
    input: PathBuf,
}

impl<'a> Program<'a> {
    /// Compiles the program, and makes its files.
    pub(super) fn new(load: &'a Load, programs: &Path, folder: &Path) -> Result<Self, Error> {
        let of = Engine::default();
        let guest = programs.join(format!("{}.wasm", load.program));
        let module = Module::from_file(&of, &guest);
        let module = module.map_err(engine("compile the program"))?;
        let failed = engine("link the program");
        let mine = hosts::linker(&of)?.instantiate_pre(&module);
        let theirs = hosts::peer_linker(&of)?.instantiate_pre(&module);
        let vfs = crate::ours::instance()?;
        let task = crate::ours::task(&vfs)?;
        let dir = scratch(folder)?;
        let program = Self {
            load,
            mine: mine.map_err(&failed)?,
            theirs: theirs.map_err(&failed)?,
            process: programs.join(load.program),
            vfs,
            task,
            input: dir.path().join("input"),
            dir,
        };
        program.fill()?;
        Ok(program)
    }

    /// The folder of the files on the host, beside the input.
    fn tree(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    fn fill(&self) -> Result<(), Error> {
        Kernel.make_file(&bytes(&self.input), self.load.input.as_bytes())?;
        let tree = self.tree();
        let sides: [(&dyn Calls, &Path); 2] = [(&Kernel, &tree), (&self.task, Path::new("/"))];
        for (side, root) in sides {
            side.make_dir(&bytes(root))?;
            for (name, content) in &self.load.files {
                let parents = name.ancestors().skip(1).collect::<Vec<_>>();
                for dir in parents.into_iter().rev() {
                    side.make_dir(&bytes(&root.join(dir)))?;
                }
                side.make_file(&bytes(&root.join(name)), content)?;
            }
        }
        Ok(())
    }

    /// Ours first, then wasmtime's by default and blocking, then the process.
    pub(super) fn sides(&self) -> [Side<'_>; 4] {
        let theirs = |way: Blocking| Side {
            label: way.label(),
            clear: Box::new(|| self.clear_host()),
            run: Box::new(move || self.run_theirs(way)),
        };
        [
            Side {
                label: "ours",
                clear: Box::new(|| self.clear_memory()),
                run: Box::new(|| self.run_mine()),
            },
            theirs(Blocking::Pool),
            theirs(Blocking::InPlace),
            Side {
                label: NATIVE,
                clear: Box::new(|| self.clear_host()),
                run: Box::new(|| self.run_process()),
            },
        ]
    }

    fn clear_memory(&self) -> Result<(), Error> {
        let Some(name) = self.load.leaves else {
            return Ok(());
        };
        let path = bytes(&Path::new("/").join(name));
        let gone = match self.task.unlink(&path) {
            Err(Errno::EISDIR) => self.task.rmdir(&path),
            gone => gone,
        };
        match gone {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(errno) => Err(Error::setup("remove what the program left", errno)),
        }
    }

    fn clear_host(&self) -> Result<(), Error> {
        let Some(name) = self.load.leaves else {
            return Ok(());
        };
        let path = self.tree().join(name);
        let gone = match path.is_dir() {
            true => fs::remove_dir(&path),
            false => fs::remove_file(&path),
        };
        match gone {
            Err(why) if why.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::host("remove what the program left", why))
            }
            _ => Ok(()),
        }
    }

    fn run_mine(&self) -> Result<Ended, Error> {
        let (stdout, said) = Output::captured(SAID_MAX);
        let mut guest = OpenpathWasi::builder()
            .task(crate::ours::task(&self.vfs)?)
            .arg(self.load.program)
            .args(self.load.args)
            .env(PWD.0, PWD.1)
            .stdin(Input::bytes(self.load.input.as_str()))
            .stdout(stdout);
        for name in NAMES {
            guest = guest.preopen(name, "/");
        }
        let guest = guest.build();
        let guest = guest.map_err(|errno| Error::setup("make a guest", errno))?;
        let status = exit_code(start(&self.mine, guest)).map_err(engine("run the guest"))?;
        Ok(Ended {
            status: status.into(),
            said: said.take(),
        })
    }

    fn run_theirs(&self, way: Blocking) -> Result<Ended, Error> {
        let said = MemoryOutputPipe::new(SAID_MAX);
        let mut builder = WasiCtxBuilder::new();
        // Directories that are opened before this call keep the old setting.
        builder.allow_blocking_current_thread(way == Blocking::InPlace);
        builder
            .arg(self.load.program)
            .args(self.load.args)
            .env(PWD.0, PWD.1)
            .stdin(MemoryInputPipe::new(self.load.input.clone()))
            .stdout(said.clone());
        for name in NAMES {
            let opened = builder.preopened_dir(self.tree(), name, FsPerms::ReadWrite);
            opened.map_err(engine("open the directory"))?;
        }
        let status = match start(&self.theirs, builder.build_p1()) {
            Ok(()) => 0,
            Err(why) => match why.downcast_ref::<I32Exit>() {
                Some(exit) => exit.0,
                None => return Err(engine("run the guest")(why)),
            },
        };
        Ok(Ended {
            status: status.into(),
            said: said.contents().to_vec(),
        })
    }

    fn run_process(&self) -> Result<Ended, Error> {
        let failed = |why| Error::host("run the program", why);
        let output = Command::new(&self.process)
            .args(self.load.args)
            .current_dir(self.tree())
            .stdin(File::open(&self.input).map_err(failed)?)
            .stderr(Stdio::null())
            .output()
            .map_err(failed)?;
        let status = output.status.code();
        let status = status.ok_or_else(|| Error::setup("run the program", output.status))?;
        Ok(Ended {
            status: status.into(),
            said: output.stdout,
        })
    }
}

fn bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_encoded_bytes().to_vec()
}

/// Runs a guest from its instance to its end.
fn start<T: 'static>(program: &InstancePre<T>, data: T) -> wasmtime::Result<()> {
    let mut store = Store::new(program.module().engine(), data);
    let instance = program.instantiate(&mut store)?;
    let start = instance.get_typed_func::<(), ()>(&mut store, "_start")?;
    start.call(&mut store, ())
}
