// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the calls on sockets: `sock_*`. A guest has no sockets, so every open descriptor is
//! `ENOTSOCK`.

use crate::errno::Code;
use crate::guest::Guest;
use crate::memory::{Memory, Outcome};

fn not_a_socket(guest: &Guest, fd: u32) -> Outcome {
    guest.table.get(fd)?;
    Err(Code::Notsock.into())
}

pub(super) fn sock_accept(
    guest: &mut Guest,
    _: &mut Memory<'_>,
    fd: u32,
    _flags: u32,
    _result: u32,
) -> Outcome {
    not_a_socket(guest, fd)
}

pub(super) fn sock_recv(
    guest: &mut Guest,
    _: &mut Memory<'_>,
    fd: u32,
    _iovs: u32,
    _count: u32,
    _flags: u32,
    _result: u32,
    _result_flags: u32,
) -> Outcome {
    not_a_socket(guest, fd)
}

pub(super) fn sock_send(
    guest: &mut Guest,
    _: &mut Memory<'_>,
    fd: u32,
    _iovs: u32,
    _count: u32,
    _flags: u32,
    _result: u32,
) -> Outcome {
    not_a_socket(guest, fd)
}

pub(super) fn sock_shutdown(guest: &mut Guest, _: &mut Memory<'_>, fd: u32, _how: u32) -> Outcome {
    not_a_socket(guest, fd)
}
