// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles a guest, starts it, and says how it ended.

use super::limits::Limits;
use super::{Args, Told, say};
use openpath_run::Refusal;
use openpath_vfs::Task;
use openpath_wasi::cache::Cache;
use openpath_wasi::{Ended, Exit, Guest, Interrupt, OpenpathWasi, exit_code, p1};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc::Sender;
use wasmtime::{
    Config, Engine, ExternType, InstancePre, Linker, Module, Store, Trap, WasmBacktrace,
};

/// What a command exports to be started.
const START: &str = "_start";
/// Exit status of one that trapped, as a shell shows abort(3).
const TRAPPED: u8 = 134;
/// Exit status of one whose host failed.
const FAILED: u8 = 125;
/// The stack of a guest, in bytes: what a process has unless told.
const STACK: usize = 8 << 20;
/// What the host's calls have of the thread's stack, in bytes.
const HOST_STACK: usize = 2 << 20;

/// What a guest's store holds.
struct State {
    guest: Guest,
    limits: Limits,
}

/// A guest that is about to start.
pub(super) struct Ready {
    store: Store<State>,
    instance: InstancePre<State>,
    name: OsString,
}

impl Ready {
    /// Compiles a module, or takes it from the cache, and gives it all that it is to have.
    pub(super) fn new(
        args: &Args,
        cwd: &Path,
        task: Task,
        wasm: &[u8],
        cache: Option<&Cache>,
    ) -> Result<Ready, Refusal> {
        let command = &args.command[0];
        let failed =
            |why: wasmtime::Error| Refusal::not_executable(command, format_args!("{why:#}"));
        let options = &args.wasm;
        let mut config = Config::new();
        config
            .consume_fuel(options.fuel.is_some())
            .max_wasm_stack(STACK)
            // No guest has such a stack, but none may be smaller than its own.
            .async_stack_size(STACK + HOST_STACK);
        let engine = Engine::new(&config).map_err(failed)?;
        let module = match cache {
            Some(cache) => cache.module(&engine, wasm),
            None => Module::new(&engine, wasm),
        };
        let module = module.map_err(failed)?;
        let state = State {
            guest: guest(args, cwd, task)?,
            limits: Limits::new(options.memory),
        };
        let mut store = Store::new(&engine, state);
        store.limiter(|state| &mut state.limits);
        if let Some(fuel) = options.fuel {
            store.set_fuel(fuel).map_err(failed)?;
        }
        let mut linker = Linker::<State>::new(&engine);
        p1::add_to_linker(&mut linker, |state| &mut state.guest).map_err(failed)?;
        let instance = linker.instantiate_pre(&module).map_err(failed)?;
        if !matches!(module.get_export(START), Some(ExternType::Func(_))) {
            let why = format_args!("it exports no function `{START}`");
            return Err(Refusal::not_executable(command, why));
        }
        Ok(Ready {
            store,
            instance,
            name: command.clone(),
        })
    }

    /// What ends it.
    pub(super) fn interrupt(&self) -> Interrupt {
        self.store.data().guest.interrupt()
    }

    /// Runs it until it ends; its exit status. Its start function is a part of it.
    ///
    /// # Errors
    /// It cannot be started: no code of it has run.
    pub(super) fn run(mut self) -> Result<u8, Refusal> {
        let instance = match self.instance.instantiate(&mut self.store) {
            Ok(instance) => instance,
            Err(why) if has_run(&why) => return Ok(self.ended(Err(why))),
            Err(why) => return Err(self.refused(&why)),
        };
        let start = instance.get_typed_func::<(), ()>(&mut self.store, START);
        let start = start.map_err(|why| self.refused(&why))?;
        let ended = start.call(&mut self.store, ());
        Ok(self.ended(ended))
    }

    fn ended(&self, ended: wasmtime::Result<()>) -> u8 {
        match exit_code(ended) {
            // As exit(3) does.
            Ok(code) => u8::try_from(code & 0xff).unwrap_or(u8::MAX),
            // It dies of the signal for which it was ended.
            Err(why) if why.is::<Ended>() => TRAPPED,
            Err(trap) => {
                say(format_args!("{}: {trap:?}", self.name.display()));
                TRAPPED
            }
        }
    }

    fn refused(&self, why: &wasmtime::Error) -> Refusal {
        Refusal::not_executable(&self.name, format_args!("{why:#}"))
    }
}

/// Whether it was code of the guest that failed, and not what comes before it.
fn has_run(why: &wasmtime::Error) -> bool {
    why.is::<Exit>() || why.is::<Trap>() || why.is::<WasmBacktrace>()
}

/// The guest: arguments, environment, directories and streams.
fn guest(args: &Args, cwd: &Path, task: Task) -> Result<Guest, Refusal> {
    let mut guest = OpenpathWasi::builder().task(task).inherit_stdio();
    for word in &args.command {
        guest = guest.arg(word.as_bytes());
    }
    for (name, value) in args.wasm.environment(cwd) {
        guest = guest.env(name.as_bytes(), value.as_bytes());
    }
    for (name, path) in args.wasm.directories(cwd) {
        guest = guest.preopen(name.as_bytes(), path.as_bytes());
    }
    let failed = |why| Refusal::step("the guest cannot be given its directories", why);
    guest.build().map_err(failed)
}

/// Runs a guest on a thread with room for its stack, and tells how it ended, whatever happens.
pub(super) fn spawn(
    run: impl FnOnce() -> Result<u8, Refusal> + Send + 'static,
    tell: Sender<Told>,
) -> Result<(), Refusal> {
    let thread = std::thread::Builder::new().name("guest".into());
    let started = thread.stack_size(STACK + HOST_STACK).spawn(move || {
        let ended = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
            say("the host of the guest failed");
            Ok(FAILED)
        });
        tell.send(Told::Over(ended)).ok();
    });
    started
        .map(drop)
        .map_err(|why| Refusal::step("there is no thread for the guest", why))
}

#[cfg(test)]
mod tests {
    use super::{FAILED, Told, spawn};
    use std::sync::mpsc::channel;

    #[test]
    fn a_failure_of_the_host_is_told_as_an_end() {
        let (tell, told) = channel();
        let _waits_for_signals = tell.clone();
        spawn(|| std::panic::panic_any("a fault"), tell).unwrap();
        assert!(matches!(told.recv(), Ok(Told::Over(Ok(FAILED)))));
    }
}
