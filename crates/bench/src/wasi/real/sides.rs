// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a program as our guest, as a guest of wasmtime, and natively, with the same files in the
//! form that each needs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use openpath_wasi::{Guest, Input, OpenpathWasi, Output, exit_code};
use wasmtime::{Engine, InstancePre, Module, Store};
use wasmtime_wasi::I32Exit;
use wasmtime_wasi::p1::WasiP1Ctx;
use wasmtime_wasi::p2::pipe::{MemoryInputPipe, MemoryOutputPipe};

use super::load::Load;
use crate::common::*;
use crate::wasi::hosts::{self, Blocking};
use crate::wasi::{engine, scratch};

/// The most output of a program, in bytes.
const SAID_MAX: usize = 1 << 20;
/// The names of a guest's directory: absolute and relative paths begin there.
const NAMES: [&str; 2] = [".", "/"];
/// Where Go begins relative paths.
const PWD: (&str, &str) = ("PWD", "/");
const RUN: &str = "run the program";
const REMOVE: &str = "remove what the program left";

/// The end of a run: its exit status, and its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ended(pub(super) i64, pub(super) Vec<u8>);

/// One way to run a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Ours,
    Theirs(Blocking),
    Process,
}

/// All ways, with their labels; ours first.
pub(super) const SIDES: [(Way, &str); 4] = [
    (Way::Ours, "ours"),
    (Way::Theirs(Blocking::Pool), "default"),
    (Way::Theirs(Blocking::InPlace), "blocking"),
    (Way::Process, "native"),
];

/// The data for all sides of one program.
pub(super) struct Program<'a> {
    load: &'a Load,
    mine: InstancePre<Guest>,
    theirs: InstancePre<WasiP1Ctx>,
    process: PathBuf,
    vfs: Vfs,
    task: Task,
    _dir: Scratch,
    /// The folder of the files on the host, beside the input.
    tree: PathBuf,
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
        let vfs = ours::instance()?;
        let dir = scratch(folder)?;
        let program = Self {
            load,
            mine: mine.map_err(&failed)?,
            theirs: theirs.map_err(&failed)?,
            process: programs.join(load.program),
            task: ours::task(&vfs)?,
            vfs,
            tree: dir.path().join("tree"),
            input: dir.path().join("input"),
            _dir: dir,
        };
        Kernel.make_file(&bytes(&program.input), load.input.as_bytes())?;
        program.fill(&Kernel, &program.tree)?;
        program.fill(&program.task, Path::new("/"))?;
        Ok(program)
    }

    fn fill(&self, side: &impl Calls, root: &Path) -> Result<(), Error> {
        side.make_dir(&bytes(root))?;
        for (name, content) in &self.load.files {
            let parents: Vec<&Path> = name.ancestors().skip(1).collect();
            for dir in parents.into_iter().rev() {
                side.make_dir(&bytes(&root.join(dir)))?;
            }
            side.make_file(&bytes(&root.join(name)), content)?;
        }
        Ok(())
    }

    /// Removes the files of the last run.
    pub(super) fn clear(&self, way: Way) -> Result<(), Error> {
        let Some(name) = self.load.leaves else {
            return Ok(());
        };
        if way == Way::Ours {
            let path = bytes(&Path::new("/").join(name));
            return match self.task.unlink(&path) {
                Err(Errno::EISDIR) => self.task.rmdir(&path).setup(REMOVE),
                Err(Errno::ENOENT) => Ok(()),
                gone => gone.setup(REMOVE),
            };
        }
        let path = self.tree.join(name);
        let gone = match path.is_dir() {
            true => fs::remove_dir(&path),
            false => fs::remove_file(&path),
        };
        match gone {
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => Ok(()),
            gone => gone.host(REMOVE),
        }
    }

    /// Runs it from its making to its end.
    pub(super) fn run(&self, way: Way) -> Result<Ended, Error> {
        match way {
            Way::Ours => self.run_ours(),
            Way::Theirs(way) => self.run_theirs(way),
            Way::Process => self.run_process(),
        }
    }

    fn run_ours(&self) -> Result<Ended, Error> {
        let (stdout, said) = Output::captured(SAID_MAX);
        let mut guest = OpenpathWasi::builder()
            .task(ours::task(&self.vfs)?)
            .arg(self.load.program)
            .args(self.load.args)
            .env(PWD.0, PWD.1)
            .stdin(Input::bytes(self.load.input.as_str()))
            .stdout(stdout);
        for name in NAMES {
            guest = guest.preopen(name, "/");
        }
        let guest = guest.build().setup("make a guest")?;
        let status = exit_code(start(&self.mine, guest)).map_err(engine(RUN))?;
        Ok(Ended(status.into(), said.take()))
    }

    fn run_theirs(&self, way: Blocking) -> Result<Ended, Error> {
        let said = MemoryOutputPipe::new(SAID_MAX);
        let mut builder = hosts::builder(way, &self.tree, &NAMES)?;
        builder
            .arg(self.load.program)
            .args(self.load.args)
            .env(PWD.0, PWD.1)
            .stdin(MemoryInputPipe::new(self.load.input.clone()))
            .stdout(said.clone());
        let status = match start(&self.theirs, builder.build_p1()) {
            Ok(()) => 0,
            Err(why) => match why.downcast_ref::<I32Exit>() {
                Some(exit) => exit.0,
                None => return Err(engine(RUN)(why)),
            },
        };
        Ok(Ended(status.into(), said.contents().to_vec()))
    }

    fn run_process(&self) -> Result<Ended, Error> {
        let mut process = Command::new(&self.process);
        process.args(self.load.args).current_dir(&self.tree);
        process.stdin(File::open(&self.input).host(RUN)?);
        let output = process.stderr(Stdio::null()).output().host(RUN)?;
        let status = output.status.code().ok_or(output.status).setup(RUN)?;
        Ok(Ended(status.into(), output.stdout))
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
