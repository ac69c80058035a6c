// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the server answers random messages, which no kernel would send, without harm, and
//! refuses messages of a wrong length before any effect.

use super::answer_message;
use crate::dispatch::Dispatcher;
use crate::fs::FuseFs;
use crate::options::{Opens, Options};
use crate::wire::ReplyBuffer;
use crate::wire::init::Negotiated;
use crate::wire::numbers::op;
use crate::worker::Worker;
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, Vfs};
use std::sync::Arc;

/// Numbers that are the same in each run (xorshift64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

fn dispatcher(opens: Opens) -> (Dispatcher, Worker) {
    let tree = MemFs::new(MemOptions::default().size(1 << 22).inodes(1 << 10));
    let vfs = Vfs::builder().build(tree).expect("a Vfs");
    let task = vfs.task(Cred::root()).expect("a task");
    let options = Options {
        opens,
        locks: opens == Opens::Each,
        lock_waits_max: 4,
        threads: 1,
        nodes_max: 500,
        ..Options::default()
    };
    let (view, mut workers) = FuseFs::new(&task, &options).expect("a view");
    let dispatcher = Dispatcher::new(Arc::new(view), &options, Negotiated::default());
    (dispatcher, workers.remove(0))
}

/// A plausible message: an opcode, a node that may exist, and a length that is mostly right.
fn message(numbers: &mut Numbers) -> Vec<u8> {
    let mut body: Vec<u8> = (0..numbers.below(96))
        .map(|_| match numbers.below(4) {
            0 => b'a' + numbers.below(3) as u8,
            1 => numbers.next() as u8,
            2 => numbers.below(4) as u8,
            _ => 0,
        })
        .collect();
    if numbers.below(2) == 0 {
        body.extend(b"a\0b\0");
    }
    let len = match numbers.below(8) {
        0 => numbers.below(200) as u32,
        _ => 40 + body.len() as u32,
    };
    let opcode = numbers.below(60) as u32;
    let mut message = Vec::new();
    message.extend(len.to_ne_bytes());
    message.extend(opcode.to_ne_bytes());
    message.extend(numbers.below(9).to_ne_bytes());
    message.extend(numbers.below(9).to_ne_bytes());
    message.extend([0; 16]);
    message.extend(body);
    if numbers.below(16) == 0 {
        message.truncate(numbers.below(60) as usize);
    }
    message
}

#[test]
fn random_messages_are_answered_without_harm() {
    for opens in [Opens::Never, Opens::Each] {
        let (dispatcher, mut worker) = dispatcher(opens);
        let mut buffer = ReplyBuffer::new();
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        let mut answers = 0;
        for _ in 0..60_000 {
            let message = message(&mut numbers);
            if let Some(reply) = answer_message(&dispatcher, &mut worker, &message, buffer.body()) {
                let sent = buffer.message(&reply);
                assert_eq!(sent[..4], (sent.len() as u32).to_ne_bytes());
                assert_eq!(sent[8..16], message[8..16], "another request's number");
                answers += 1;
            }
        }
        assert!(answers > 30_000, "{answers} answers");
    }
}

#[test]
fn wrong_lengths_are_refused_before_any_effect() {
    let (dispatcher, mut worker) = dispatcher(Opens::Never);
    let mut buffer = ReplyBuffer::new();
    let mut send = |opcode: u32, len: Option<u32>, body: &[u8]| {
        let mut message = Vec::new();
        message.extend(len.unwrap_or(40 + body.len() as u32).to_ne_bytes());
        message.extend(opcode.to_ne_bytes());
        message.extend(2u64.to_ne_bytes());
        message.extend(1u64.to_ne_bytes());
        message.extend([0; 16]);
        message.extend(body);
        let reply = answer_message(&dispatcher, &mut worker, &message, buffer.body())?;
        let errno = reply.head[4..8].try_into().expect("four bytes");
        Some(i32::from_ne_bytes(errno))
    };
    assert_eq!(send(op::LOOKUP, None, b"name"), Some(-22));
    assert_eq!(send(op::LOOKUP, Some(41), b"name\0"), Some(-5));
    assert_eq!(send(op::LOOKUP, None, b"name\0"), Some(0));
    // Data that is shorter than announced.
    let mut write = [0; 48];
    write[16..20].copy_from_slice(&9u32.to_ne_bytes());
    assert_eq!(send(op::WRITE, None, &write), Some(-22));
    // More nodes than there are bytes for: none is given back, and there is no reply.
    let mut forgets = [0; 24];
    forgets[..4].copy_from_slice(&u32::MAX.to_ne_bytes());
    assert_eq!(send(op::BATCH_FORGET, None, &forgets), None);
    assert_eq!(send(4711, None, b""), Some(-38));
}
