// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that in all interleavings each message posted to a list is taken once and complete, and
//! that a post wakes an owner that falls asleep.

use crate::{Canary, fault_with, model};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use openpath_sync::{Message, MessageList};
use std::sync::Arc;

/// A message with a canary that its poster has used.
fn filled() -> Message<Canary> {
    let canary = Canary::new();
    canary.touch();
    Message::new(canary)
}

#[test]
fn taken_messages_are_filled_and_taken_once() {
    model(|| {
        let list = Arc::new(MessageList::default());
        let posts = [(); 2].map(|()| {
            let list = Arc::clone(&list);
            thread::spawn(move || assert!(!list.post(filled())))
        });
        let mut count = 0;
        for message in list.take() {
            message.open().free();
            count += 1;
        }
        for post in posts {
            post.join().expect("a thread");
        }
        list.take().for_each(|message| {
            message.open().free();
            count += 1;
        });
        assert_eq!(count, 2);
    });
}

#[test]
fn concurrent_takes_share_the_messages() {
    model(|| {
        let list = Arc::new(MessageList::default());
        assert!(!list.post(filled()));
        let taker = Arc::clone(&list);
        let taker = thread::spawn(move || {
            assert!(!taker.post(filled()));
            taker.take().map(|message| message.open().free()).count()
        });
        let mine = list.take().map(|message| message.open().free()).count();
        let theirs = taker.join().expect("a thread");
        assert_eq!(mine + theirs, 2);
    });
}

/// Where the owner sleeps until there is a message.
#[derive(Default)]
struct Bell {
    woken: Mutex<bool>,
    wake: Condvar,
}

/// An owner that sleeps until there is a message, and two threads that post one each.
fn sleep_and_post(looks_when_arming: bool) {
    let both = Arc::new((MessageList::default(), Bell::default()));
    if !looks_when_arming {
        // The report of a deadlock unwinds, and the model takes no more steps then.
        std::mem::forget(Arc::clone(&both));
    }
    let posts = [(); 2].map(|()| {
        let both = Arc::clone(&both);
        thread::spawn(move || {
            if both.0.post(filled()) {
                *both.1.woken.lock().expect("a lock") = true;
                both.1.wake.notify_one();
            }
        })
    });
    let mut count = 0;
    while count < 2 {
        let mut woken = both.1.woken.lock().expect("a lock");
        *woken = false;
        if both.0.arm() || !looks_when_arming {
            while !*woken {
                woken = both.1.wake.wait(woken).expect("a lock");
            }
        }
        drop(woken);
        count += both.0.take().map(|message| message.open().free()).count();
    }
    for post in posts {
        post.join().expect("a thread");
    }
}

#[test]
fn armed_owner_is_woken() {
    model(|| sleep_and_post(true));
}

#[test]
fn sleeping_on_a_nonempty_list_is_found() {
    fault_with("deadlock", || sleep_and_post(false));
}
