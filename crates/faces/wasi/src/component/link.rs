// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds `wasi:filesystem`, alone or with wasmtime-wasi's other interfaces, to wasmtime's linker.
//!
//! The host's store type says by [`FilesView`] where a guest's files are.

use super::bindings::wasi::filesystem::{preopens, types};
use super::files::Files;
use std::fmt;
use wasmtime::component::{HasData, Linker, ResourceTable};
use wasmtime_wasi::WasiView;
use wasmtime_wasi::cli::{WasiCli, WasiCliView};
use wasmtime_wasi::clocks::{WasiClocks, WasiClocksView};
use wasmtime_wasi::p2::bindings::{cli, clocks, random, sockets};
use wasmtime_wasi::random::{WasiRandom, WasiRandomView};
use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsView};
use wasmtime_wasi_io::bindings::wasi::io;

/// What the calls on files need of a guest.
pub struct FilesCtx<'a> {
    /// Its files.
    pub files: &'a mut Files,
    /// Its handles, in the same table as those of wasmtime-wasi's interfaces.
    pub table: &'a mut ResourceTable,
}

impl fmt::Debug for FilesCtx<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FilesCtx").finish_non_exhaustive()
    }
}

/// Gives this crate access to the files of a store's guest.
pub trait FilesView: Send {
    /// The files of the guest, and its handles.
    fn files(&mut self) -> FilesCtx<'_>;
}

struct HasFiles;

impl HasData for HasFiles {
    type Data<'a> = FilesCtx<'a>;
}

struct HasTable;

impl HasData for HasTable {
    type Data<'a> = &'a mut ResourceTable;
}

/// Adds `wasi:filesystem/types` and `wasi:filesystem/preopens` to a linker that gets the other
/// interfaces elsewhere.
///
/// # Errors
/// The linker has them already.
pub fn add_to_linker<T: FilesView + 'static>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    types::add_to_linker::<T, HasFiles>(linker, T::files)?;
    preopens::add_to_linker::<T, HasFiles>(linker, T::files)
}

/// Adds all of `wasi:cli/imports`: the files from here, the rest from wasmtime-wasi.
///
/// # Errors
/// The linker has some of them already.
pub fn add_all_to_linker<T>(linker: &mut Linker<T>) -> wasmtime::Result<()>
where
    T: FilesView + WasiView + 'static,
{
    let l = linker;
    add_to_linker(l)?;
    io::error::add_to_linker::<T, HasTable>(l, |t| t.ctx().table)?;
    io::poll::add_to_linker::<T, HasTable>(l, |t| t.ctx().table)?;
    io::streams::add_to_linker::<T, HasTable>(l, |t| t.ctx().table)?;
    clocks::wall_clock::add_to_linker::<T, WasiClocks>(l, T::clocks)?;
    clocks::monotonic_clock::add_to_linker::<T, WasiClocks>(l, T::clocks)?;
    random::random::add_to_linker::<T, WasiRandom>(l, T::random)?;
    random::insecure::add_to_linker::<T, WasiRandom>(l, T::random)?;
    random::insecure_seed::add_to_linker::<T, WasiRandom>(l, T::random)?;
    cli::exit::add_to_linker::<T, WasiCli>(l, T::cli)?;
    cli::environment::add_to_linker::<T, WasiCli>(l, T::cli)?;
    cli::stdin::add_to_linker::<T, WasiCli>(l, T::cli)?;
    cli::stdout::add_to_linker::<T, WasiCli>(l, T::cli)?;
    cli::stderr::add_to_linker::<T, WasiCli>(l, T::cli)?;
    cli::terminal_input::add_to_linker::<T, WasiCli>(l, T::cli)?;
    cli::terminal_output::add_to_linker::<T, WasiCli>(l, T::cli)?;
    cli::terminal_stdin::add_to_linker::<T, WasiCli>(l, T::cli)?;
    cli::terminal_stdout::add_to_linker::<T, WasiCli>(l, T::cli)?;
    cli::terminal_stderr::add_to_linker::<T, WasiCli>(l, T::cli)?;
    let options = sockets::network::LinkOptions::default();
    sockets::tcp::add_to_linker::<T, WasiSockets>(l, T::sockets)?;
    sockets::udp::add_to_linker::<T, WasiSockets>(l, T::sockets)?;
    sockets::tcp_create_socket::add_to_linker::<T, WasiSockets>(l, T::sockets)?;
    sockets::udp_create_socket::add_to_linker::<T, WasiSockets>(l, T::sockets)?;
    sockets::instance_network::add_to_linker::<T, WasiSockets>(l, T::sockets)?;
    sockets::network::add_to_linker::<T, WasiSockets>(l, &options, T::sockets)?;
    sockets::ip_name_lookup::add_to_linker::<T, WasiSockets>(l, T::sockets)
}
