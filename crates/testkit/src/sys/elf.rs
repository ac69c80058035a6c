// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds two programs of a few instructions, for tests where no file system has one to load: one
//! waits, the other reports which of its descriptors are open.

/// The load address.
const BASE: u64 = 0x40_0000;
/// Length of the file's header and of its only segment's.
const HEAD: u64 = 64 + 56;

/// A program that only waits.
pub(super) fn which_waits() -> Vec<u8> {
    linked(&[
        0xb8, 34, 0, 0, 0, // again: mov eax, pause
        0x0f, 0x05, // syscall
        0xeb, 0xf7, // jmp again
    ])
}

/// A program whose exit status has a bit for each open one of `count` descriptors from `first` on.
pub(super) fn which_are_open(first: u8, count: u8) -> Vec<u8> {
    linked(&[
        0xbb, first, 0, 0, 0, // mov ebx, first
        0x31, 0xed, // xor ebp, ebp
        0x45, 0x31, 0xe4, // xor r12d, r12d
        0x89, 0xdf, // again: mov edi, ebx
        0x44, 0x01, 0xe7, // add edi, r12d
        0xbe, 1, 0, 0, 0, // mov esi, F_GETFD
        0xb8, 72, 0, 0, 0, // mov eax, fcntl
        0x0f, 0x05, // syscall
        0x85, 0xc0, // test eax, eax
        0x78, 12, // js closed
        0x44, 0x89, 0xe1, // mov ecx, r12d
        0xb8, 1, 0, 0, 0, // mov eax, 1
        0xd3, 0xe0, // shl eax, cl
        0x09, 0xc5, // or ebp, eax
        0x41, 0xff, 0xc4, // closed: inc r12d
        0x41, 0x83, 0xfc, count, // cmp r12d, count
        0x7c, 0xd6, // jl again
        0x89, 0xef, // mov edi, ebp
        0xb8, 231, 0, 0, 0, // mov eax, exit_group
        0x0f, 0x05, // syscall
    ])
}

/// An executable file with this code.
fn linked(code: &[u8]) -> Vec<u8> {
    let mut file = vec![0x7f, b'E', b'L', b'F', 2, 1, 1];
    file.resize(16, 0);
    let half = |file: &mut Vec<u8>, v: u16| file.extend(v.to_le_bytes());
    let word = |file: &mut Vec<u8>, v: u32| file.extend(v.to_le_bytes());
    let long = |file: &mut Vec<u8>, v: u64| file.extend(v.to_le_bytes());
    half(&mut file, 2); // an executable
    half(&mut file, 62); // x86-64
    word(&mut file, 1);
    long(&mut file, BASE + HEAD); // entry
    long(&mut file, 64); // segments
    long(&mut file, 0); // no sections
    word(&mut file, 0);
    for v in [64, 56, 1, 64, 0, 0] {
        half(&mut file, v);
    }
    word(&mut file, 1); // loaded
    word(&mut file, 5); // read and executed
    long(&mut file, 0);
    long(&mut file, BASE);
    long(&mut file, BASE);
    let length = HEAD + code.len() as u64;
    long(&mut file, length);
    long(&mut file, length);
    long(&mut file, 4096);
    file.extend_from_slice(code);
    file
}
