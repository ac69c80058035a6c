// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the functions of WASI preview1 (`wasi_snapshot_preview1`): all 46, written by hand.
//!
//! # Path of a call
//! The first call finds the guest's memory. Each call borrows that memory and the guest side by
//! side. Paths and data are read and written in place; only reads and writes of many buffers
//! allocate.
//!
//! # Rules
//! R1. The address of a result is checked before anything is done: a bad address ends the guest and
//!     changes nothing.
//! R2. The engine walks paths so that they stay beneath their directory
//!     ([`openpath_vfs::Beneath`]); this module only checks their text for a NUL.
//! R3. The answers are those of wasmtime-wasi, except for the differences in `docs/WASI.md`.

#![allow(
    clippy::too_many_arguments,
    reason = "the functions have the arguments that preview1 gives them"
)]

mod args;
mod clock;
mod dir;
mod fd;
mod io;
mod iovecs;
mod path;
mod poll;
mod proc;
mod random;
mod sock;

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

/// Adds the functions to a linker, for stores that hold a [`Guest`], found by `get`.
///
/// # Errors
/// The linker has one of them already and does not allow shadowing.
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

/// Makes one call; returns its error code, or the trap that ends the guest.
#[inline(always)]
fn call<T: 'static>(
    caller: &mut Caller<'_, T>,
    get: impl Fn(&mut T) -> &mut Guest,
    function: impl FnOnce(&mut Guest, &mut Memory<'_>) -> Outcome,
) -> wasmtime::Result<u32> {
    let guest = get(caller.data_mut());
    if guest.ended.get().is_some() {
        return Err(ended_by_host());
    }
    let memory = match guest.memory {
        Some(memory) => memory,
        None => find_memory(caller, &get)?,
    };
    let (bytes, data) = memory.data_and_store_mut(&mut *caller);
    match function(get(data), &mut Memory::new(bytes)) {
        Ok(()) => Ok(0),
        Err(Fault::Code(code)) => Ok(u32::from(code.raw())),
        Err(Fault::Trap(trap)) => Err(trapped(trap)),
    }
}

/// Finds the memory of the calling instance, for this call and later ones.
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
            "the guest's memory is shared, but guests with threads are not supported",
        )),
        _ => Err(wasmtime::Error::msg(
            "the guest exports no memory named \"memory\"",
        )),
    }
}

/// The error of a guest that its host has ended.
#[cold]
fn ended_by_host() -> wasmtime::Error {
    wasmtime::Error::new(crate::exit::Ended)
}

/// The error of a guest that passed a bad address.
#[cold]
fn trapped(trap: crate::memory::Trap) -> wasmtime::Error {
    tracing::debug!(%trap, "a guest ended with a trap");
    wasmtime::Error::new(trap)
}
