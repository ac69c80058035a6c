// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the calls by which a guest of preview1 reads its arguments and environment: `args_*`,
//! `environ_*`.

use crate::errno::Code;
use crate::guest::Guest;
use crate::memory::{Memory, Outcome, Trap};

pub(super) fn args_get(guest: &mut Guest, memory: &mut Memory<'_>, argv: u32, buf: u32) -> Outcome {
    put(memory, &guest.args, argv, buf)
}

pub(super) fn args_sizes_get(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    count: u32,
    size: u32,
) -> Outcome {
    put_sizes(memory, &guest.args, count, size)
}

pub(super) fn environ_get(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    environ: u32,
    buf: u32,
) -> Outcome {
    put(memory, &guest.env, environ, buf)
}

pub(super) fn environ_sizes_get(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    count: u32,
    size: u32,
) -> Outcome {
    put_sizes(memory, &guest.env, count, size)
}

/// Writes the strings to `buf`, and the address of each to `heads`.
fn put(memory: &mut Memory<'_>, strings: &[Box<[u8]>], mut heads: u32, mut buf: u32) -> Outcome {
    for string in strings {
        memory.put_u32(heads, buf)?;
        memory.put(buf, string, 1)?;
        heads = heads.checked_add(4).ok_or(Trap::OutOfBounds)?;
        // The string fit into the memory, so its length fits 32 bits.
        buf = buf
            .checked_add(string.len() as u32)
            .ok_or(Trap::OutOfBounds)?;
    }
    Ok(())
}

/// Writes the number of strings and of all bytes.
fn put_sizes(memory: &mut Memory<'_>, strings: &[Box<[u8]>], count: u32, size: u32) -> Outcome {
    let bytes = strings.iter().map(|string| string.len()).sum::<usize>();
    let number = |n: usize| u32::try_from(n).map_err(|_| Code::Overflow);
    memory.put_u32(count, number(strings.len())?)?;
    memory.put_u32(size, number(bytes)?)?;
    Ok(())
}
