// SPDX-License-Identifier: MIT OR Apache-2.0
//! One request, whichever way it came: from its bytes to its answer.
//!
//! # Rules
//! R1. What is no request is answered where it says whom (`EINVAL`; `EIO` where its length lies),
//!     counted, and said in the log; the thread goes on.
//! R2. An interrupt may be heard before its request has begun: it is noted first and the seats are
//!     looked at after that, as the request takes its seat first and looks at the notes after that.

use crate::answer::{Asked, Clerk};
use crate::wire::fields::Malformed;
use crate::wire::{Answer, Header, Reply, Request};
use crate::worker::Worker;
use openpath_abi::Errno;
use std::sync::Arc;

/// Answers one message, with the body in `room`; nothing where there is no answer, or none yet.
pub(crate) fn one(
    clerk: &Clerk,
    worker: &mut Worker,
    message: &[u8],
    room: &mut [u8],
) -> Option<Reply> {
    let (header, body) = match Header::of(message) {
        Ok(parts) => parts,
        Err(why) => {
            strange(clerk, None, why);
            return None;
        }
    };
    let mut answer = Answer::new(room, header.unique);
    let (errno, why) = match body {
        Ok(body) => match Request::of(&header, body, clerk.terms()) {
            Ok(request) => {
                let seat = Arc::clone(&worker.seat);
                seat.begin(header.unique, header.pid);
                if clerk.was_interrupted(header.unique) {
                    // R2
                    seat.interrupt(header.unique);
                }
                let mut asked = Asked {
                    w: worker,
                    header,
                    answer,
                };
                let answered = clerk.answer(&mut asked, request);
                seat.end();
                return answered.then(|| asked.answer.done());
            }
            Err(why) => (Errno::EINVAL, why),
        },
        Err(why) => (Errno::EIO, why),
    };
    strange(clerk, Some(&header), why);
    answer.fail(errno);
    header.is_answered().then(|| answer.done())
}

fn strange(clerk: &Clerk, header: Option<&Header>, why: Malformed) {
    clerk.count(crate::stats::Request::Malformed);
    tracing::warn!(target: "openpath::fuse", ?header, %why, "what came is no request");
}

#[cfg(test)]
mod tests;
