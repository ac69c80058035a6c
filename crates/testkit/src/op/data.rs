// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts an operation's arguments to what system calls take (contents, lengths, `struct
//! open_how`, ids), in the same way for openpath and for the host.

use super::Lens;

/// Stands for the acting process as an owner of signals.
pub const OWN: i64 = 1_000_000;

/// The bytes that a write with this seed writes at this offset.
#[must_use]
pub fn content(seed: i64, off: i64, len: i64) -> Vec<u8> {
    let start = seed.wrapping_add(off);
    let letter = |i: i64| b'a' + start.wrapping_add(i).rem_euclid(23) as u8;
    (0..len.clamp(0, 1 << 20)).map(letter).collect()
}

/// A length as a side uses it: never negative, never huge.
#[must_use]
pub fn size(len: i64) -> usize {
    usize::try_from(len.clamp(0, 1 << 20)).unwrap_or(0)
}

/// A plain `struct open_how`.
#[must_use]
pub fn how(flags: u64, mode: u64, resolve: u64) -> Vec<u8> {
    [flags, mode, resolve]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect()
}

/// The bytes of a `struct open_how` of this size; one byte of the tail is set on request.
#[must_use]
pub fn raw_how(how: &[u8], len: i64, tail: i64) -> Vec<u8> {
    let mut bytes = how.to_vec();
    bytes.resize(size(len).max(how.len()), 0);
    if let Some(byte) = usize::try_from(tail)
        .ok()
        .and_then(|t| bytes.get_mut(how.len() + t))
    {
        *byte = 1;
    }
    bytes
}

/// The data of a vectored write, split into its pieces.
#[must_use]
pub fn pieces(seed: i64, lens: &Lens) -> Vec<Vec<u8>> {
    let mut at = 0;
    let piece = |len: &i64| {
        let data = content(seed, at, *len);
        at += len;
        data
    };
    lens.0.iter().map(piece).collect()
}

/// A length to allocate: a length that the kernel would grant at the cost of hours or all memory
/// becomes small; a length that it refuses stays.
#[must_use]
pub fn space(len: i64) -> i64 {
    if (1 << 22..1 << 34).contains(&len) {
        1 << 22
    } else {
        len
    }
}

/// A user or group id as calls take it: -1 and numbers out of range leave it as it is.
pub(crate) fn id(v: i64) -> u32 {
    u32::try_from(v).unwrap_or(u32::MAX)
}

/// The low word of an argument.
pub(crate) fn low(v: u64) -> u32 {
    (v & 0xffff_ffff) as u32
}
