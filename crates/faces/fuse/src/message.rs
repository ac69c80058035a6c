// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers one request of the kernel, from its bytes to its reply, whether it came from `/dev/fuse`
//! or by a ring.
//!
//! # Rules
//! R1. A malformed request is counted and logged, and the thread goes on. If its header can be
//!     read, it is answered: with `EINVAL`, or with `EIO` if its length is wrong.
//! R2. An interrupt may be read before its request has begun. So an interrupt is noted first, and
//!     then the requests in flight are searched; a request is marked in flight first, and then
//!     takes its note.

use crate::dispatch::{Dispatcher, RequestContext};
use crate::wire::fields::Malformed;
use crate::wire::{Header, Reply, ReplyBuilder, Request};
use crate::worker::Worker;
use openpath_abi::Errno;
use std::sync::Arc;

/// Answers one message; the body of the reply goes into `room`. `None`: there is no reply, or none
/// yet.
pub(crate) fn answer_message(
    dispatcher: &Dispatcher,
    worker: &mut Worker,
    message: &[u8],
    room: &mut [u8],
) -> Option<Reply> {
    let (header, body) = match Header::of(message) {
        Ok(parts) => parts,
        Err(why) => {
            log_malformed(dispatcher, None, why);
            return None;
        }
    };
    let mut reply = ReplyBuilder::new(room, header.unique);
    let (errno, why) = match body {
        Ok(body) => match Request::of(&header, body, dispatcher.terms()) {
            Ok(request) => {
                let in_flight = Arc::clone(&worker.in_flight);
                in_flight.begin(header.unique, header.pid);
                if dispatcher.was_interrupted(header.unique) {
                    // R2
                    in_flight.interrupt(header.unique);
                }
                let mut cx = RequestContext {
                    w: worker,
                    header,
                    reply,
                };
                let answered = dispatcher.answer(&mut cx, request);
                in_flight.end();
                return answered.then(|| cx.reply.done());
            }
            Err(why) => (Errno::EINVAL, why),
        },
        Err(why) => (Errno::EIO, why),
    };
    log_malformed(dispatcher, Some(&header), why);
    reply.fail(errno);
    header.is_answered().then(|| reply.done())
}

fn log_malformed(dispatcher: &Dispatcher, header: Option<&Header>, why: Malformed) {
    dispatcher.count(crate::stats::Request::Malformed);
    tracing::warn!(target: "openpath::fuse", ?header, %why, "malformed request");
}

#[cfg(test)]
mod tests;
