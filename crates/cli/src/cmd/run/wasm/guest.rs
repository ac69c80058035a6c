// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles a WebAssembly guest, or takes it from the cache, runs it on a thread of its own, and
//! reports how it ended.

use super::limits::Limits;
use super::{Args, GuestEvent, say};
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

/// The function that a guest exports as its start.
const START: &str = "_start";
/// Exit status of a guest that trapped, as a shell shows abort(3).
const TRAPPED: u8 = 134;
/// Exit status if the host panicked.
const FAILED: u8 = 125;
/// The stack of a guest, in bytes: the default of a process.
const STACK: usize = 8 << 20;
/// The part of the thread's stack for the host's calls, in bytes.
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
    /// Compiles a module, or takes it from the cache, and links it with its imports.
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
            // No guest uses an async stack, but wasmtime wants it no smaller than the wasm stack.
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

    /// The handle that ends the guest.
    pub(super) fn interrupt(&self) -> Interrupt {
        self.store.data().guest.interrupt()
    }

    /// Runs the guest until it ends, with its start function; returns its exit status.
    ///
    /// # Errors
    /// The guest cannot be started: none of its code has run.
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
            // The signal that ended the guest sets the exit status.
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

/// Whether code of the guest failed, and not a step before it.
fn has_run(why: &wasmtime::Error) -> bool {
    why.is::<Exit>() || why.is::<Trap>() || why.is::<WasmBacktrace>()
}

/// Gives the guest its arguments, environment, directories and streams.
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
    let failed = |why| Refusal::step("the directories of the guest cannot be opened", why);
    guest.build().map_err(failed)
}

/// Runs a guest on a thread with room for its stack, and reports how it ended, also after a panic.
pub(super) fn spawn(
    run: impl FnOnce() -> Result<u8, Refusal> + Send + 'static,
    tell: Sender<GuestEvent>,
) -> Result<(), Refusal> {
    let thread = std::thread::Builder::new().name("guest".into());
    let started = thread.stack_size(STACK + HOST_STACK).spawn(move || {
        let ended = catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
            say("the host of the guest panicked: this is a bug in openpath");
            Ok(FAILED)
        });
        tell.send(GuestEvent::Over(ended)).ok();
    });
    started
        .map(drop)
        .map_err(|why| Refusal::step("no thread can be started for the guest", why))
}

#[cfg(test)]
mod tests {
    use super::{FAILED, GuestEvent, spawn};
    use std::sync::mpsc::channel;

    #[test]
    fn panic_of_the_host_is_reported_as_the_end() {
        let (tell, events) = channel();
        let _waits_for_signals = tell.clone();
        spawn(|| std::panic::panic_any("a fault"), tell).unwrap();
        assert!(matches!(events.recv(), Ok(GuestEvent::Over(Ok(FAILED)))));
    }
}
