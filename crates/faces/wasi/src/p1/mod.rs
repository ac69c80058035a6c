// SPDX-License-Identifier: MIT OR Apache-2.0
//! WASI preview1 (`wasi_snapshot_preview1`): all 46 functions, by hand.
//!
//! # How a call goes
//! The guest's memory is known from its first call on. The call borrows that memory and the guest
//! side by side; paths and data are read and written where they lie, and nothing is allocated but
//! for reads and writes of many buffers.
//!
//! # Rules
//! R1. Where a result goes is checked before anything is done: a bad address ends the guest with
//!     nothing changed.
//! R2. Paths are walked by the engine so that they stay beneath their directory
//!     ([`openpath_vfs::Beneath`]); their text is looked at for nothing but a NUL.
//! R3. The answers are those of wasmtime-wasi, but for what `docs/WASI.md` lists.

#![allow(
    clippy::too_many_arguments,
    reason = "the functions have the arguments that preview1 gives them"
)]

mod args;
mod clock;
mod dir;
mod fd;
mod io;
mod path;
mod poll;
mod proc;
mod random;
mod sock;
mod spans;

use crate::guest::Guest;
use crate::memory::{Fault, Memory, Outcome};
use wasmtime::{Caller, Extern, Linker};

/// The module that guests import the functions from.
pub const MODULE: &str = "wasi_snapshot_preview1";

/// Links functions of the form `fn(&mut Guest, &mut Memory, ..) -> Outcome`.
macro_rules! link {
    ($linker:ident, $get:ident, $($file:ident::$name:ident($($arg:ident: $kind:ty),*);)*) => {$(
        $linker.func_wrap(
            MODULE,
            stringify!($name),
            move |mut caller: Caller<'_, T>, $($arg: $kind),*| {
                call(&mut caller, $get, |guest, memory| {
                    $file::$name(guest, memory, $($arg),*)
                })
            },
        )?;
    )*};
}

/// Adds the functions to a linker, for stores that hold a [`Guest`] where `get` says.
///
/// # Errors
/// One of them is there already, and may not be replaced.
pub fn add_to_linker<T: 'static>(
    linker: &mut Linker<T>,
    get: impl Fn(&mut T) -> &mut Guest + Copy + Send + Sync + 'static,
) -> wasmtime::Result<()> {
    link! { linker, get,
        args::args_get(argv: u32, buf: u32);
        args::args_sizes_get(count: u32, size: u32);
        args::environ_get(environ: u32, buf: u32);
        args::environ_sizes_get(count: u32, size: u32);
        clock::clock_res_get(id: u32, result: u32);
        clock::clock_time_get(id: u32, precision: u64, result: u32);
        fd::fd_advise(fd: u32, offset: u64, len: u64, advice: u32);
        fd::fd_allocate(fd: u32, offset: u64, len: u64);
        fd::fd_close(fd: u32);
        fd::fd_datasync(fd: u32);
        fd::fd_fdstat_get(fd: u32, result: u32);
        fd::fd_fdstat_set_flags(fd: u32, flags: u32);
        fd::fd_fdstat_set_rights(fd: u32, base: u64, inheriting: u64);
        fd::fd_filestat_get(fd: u32, result: u32);
        fd::fd_filestat_set_size(fd: u32, size: u64);
        fd::fd_filestat_set_times(fd: u32, atim: u64, mtim: u64, flags: u32);
        io::fd_pread(fd: u32, iovs: u32, count: u32, offset: u64, result: u32);
        dir::fd_prestat_get(fd: u32, result: u32);
        dir::fd_prestat_dir_name(fd: u32, path: u32, len: u32);
        io::fd_pwrite(fd: u32, iovs: u32, count: u32, offset: u64, result: u32);
        io::fd_read(fd: u32, iovs: u32, count: u32, result: u32);
        dir::fd_readdir(fd: u32, buf: u32, len: u32, cookie: u64, result: u32);
        fd::fd_renumber(from: u32, to: u32);
        fd::fd_seek(fd: u32, offset: i64, whence: u32, result: u32);
        fd::fd_sync(fd: u32);
        fd::fd_tell(fd: u32, result: u32);
        io::fd_write(fd: u32, iovs: u32, count: u32, result: u32);
        path::path_create_directory(fd: u32, path: u32, len: u32);
        path::path_filestat_get(fd: u32, flags: u32, path: u32, len: u32, result: u32);
        path::path_filestat_set_times(
            fd: u32, flags: u32, path: u32, len: u32, atim: u64, mtim: u64, how: u32
        );
        path::path_link(
            fd: u32, flags: u32, path: u32, len: u32, new_fd: u32, new_path: u32, new_len: u32
        );
        path::path_open(
            fd: u32, flags: u32, path: u32, len: u32, oflags: u32, base: u64, inheriting: u64,
            fdflags: u32, result: u32
        );
        path::path_readlink(fd: u32, path: u32, len: u32, buf: u32, room: u32, result: u32);
        path::path_remove_directory(fd: u32, path: u32, len: u32);
        path::path_rename(
            fd: u32, path: u32, len: u32, new_fd: u32, new_path: u32, new_len: u32
        );
        path::path_symlink(target: u32, target_len: u32, fd: u32, path: u32, len: u32);
        path::path_unlink_file(fd: u32, path: u32, len: u32);
        poll::poll_oneoff(subscriptions: u32, events: u32, count: u32, result: u32);
        proc::proc_raise(signal: u32);
        proc::sched_yield();
        random::random_get(buf: u32, len: u32);
        sock::sock_accept(fd: u32, flags: u32, result: u32);
        sock::sock_recv(
            fd: u32, iovs: u32, count: u32, flags: u32, result: u32, result_flags: u32
        );
        sock::sock_send(fd: u32, iovs: u32, count: u32, flags: u32, result: u32);
        sock::sock_shutdown(fd: u32, how: u32);
    }
    linker.func_wrap(MODULE, "proc_exit", proc::proc_exit)?;
    Ok(())
}

/// Makes one call: the number of its code, or the trap that ends the guest.
#[inline(always)]
fn call<T: 'static>(
    caller: &mut Caller<'_, T>,
    get: impl Fn(&mut T) -> &mut Guest,
    function: impl FnOnce(&mut Guest, &mut Memory<'_>) -> Outcome,
) -> wasmtime::Result<u32> {
    let guest = get(caller.data_mut());
    if guest.over.get().is_some() {
        return Err(was_ended());
    }
    let memory = match guest.memory {
        Some(memory) => memory,
        None => find_memory(caller, &get)?,
    };
    let (bytes, data) = memory.data_and_store_mut(&mut *caller);
    match function(get(data), &mut Memory::new(bytes)) {
        Ok(()) => Ok(0),
        Err(Fault::Code(code)) => Ok(u32::from(code.raw())),
        Err(Fault::Trap(trap)) => Err(ended(trap)),
    }
}

/// Looks for the memory of the calling instance, for this call and those that follow.
#[cold]
fn find_memory<T: 'static>(
    caller: &mut Caller<'_, T>,
    get: impl Fn(&mut T) -> &mut Guest,
) -> wasmtime::Result<wasmtime::Memory> {
    match caller.get_export("memory") {
        Some(Extern::Memory(memory)) => {
            get(caller.data_mut()).memory = Some(memory);
            Ok(memory)
        }
        Some(Extern::SharedMemory(_)) => Err(wasmtime::Error::msg(
            "the guest's memory is shared: guests with threads are not hosted",
        )),
        _ => Err(wasmtime::Error::msg(
            "the guest exports no memory by the name of \"memory\"",
        )),
    }
}

/// What ends a guest that its host has ended.
#[cold]
fn was_ended() -> wasmtime::Error {
    wasmtime::Error::new(crate::exit::Ended)
}

/// What ends a guest that passed a bad address.
#[cold]
fn ended(trap: crate::memory::Trap) -> wasmtime::Error {
    tracing::debug!(%trap, "a guest was ended");
    wasmtime::Error::new(trap)
}
