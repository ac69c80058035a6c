// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs one asynchronous task of the soak (very many operations on rings and futures): random calls
//! whose futures are polled, dropped and awaited. No wake-up may be lost.

use super::Report;
use super::wake_queue::{QueueWaker, WakeQueue};
use super::world::World;
use crate::rng::Rng;
use openpath_abi::Errno;
use openpath_abi::fcntl::{O_CREAT, O_RDONLY, O_RDWR};
use openpath_ring::{AsyncTask, Local, Pool, RingOptions};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

type Call<'a> = Pin<Box<dyn Future<Output = Result<i32, Errno>> + 'a>>;

/// Makes a random call; it returns a descriptor if it opened one, else -1.
fn call<'a>(local: Local<'a>, rng: &mut Rng) -> Call<'a> {
    let n = rng.below(8);
    match rng.below(6) {
        0 | 1 => Box::pin(async move {
            let path = format!("/d/f{n}");
            local.open(path.as_bytes(), O_RDONLY, 0).await
        }),
        2 | 3 => Box::pin(async move {
            let path = format!("/bad/x{n}");
            let fd = local.open(path.as_bytes(), O_RDONLY, 0).await?;
            let mut buf = [0; 10];
            let _read = local.read(fd, &mut buf).await;
            Ok(fd)
        }),
        4 => Box::pin(async move {
            let path = format!("/new/{n}");
            local.open(path.as_bytes(), O_CREAT | O_RDWR, 0o644).await
        }),
        _ => Box::pin(async move {
            let path = format!("/bad/a{n}");
            local.stat(path.as_bytes()).await.map(|_| -1)
        }),
    }
}

/// Makes some hundred calls on an asynchronous task.
pub(super) fn round(
    world: &World,
    pool: &Pool,
    rng: &mut Rng,
    report: &mut Report,
) -> Result<(), Errno> {
    let mut options = RingOptions::default();
    options.entries = 1 << rng.below(5);
    options.inline = !rng.one_in(4);
    let task = AsyncTask::new(world.task()?, pool, options)?;
    let queue = WakeQueue::default();
    let mut calls: Vec<Option<Call<'_>>> = Vec::new();
    for _ in 0..rng.below(300) {
        let at = calls.len();
        calls.push(Some(call(task.local(), rng)));
        report.futures += 1;
        poll(&task, &mut calls, at, &queue, report);
        if rng.one_in(3) {
            let other = rng.below(calls.len());
            poll(&task, &mut calls, other, &queue, report);
        }
        if rng.one_in(4) {
            let other = rng.below(calls.len());
            // A dropped call of two steps may have left its descriptor.
            calls[other] = None;
        }
    }
    if rng.one_in(3) {
        report.dropped += 1;
        calls.clear();
    }
    while calls.iter().any(Option::is_some) {
        let Some(at) = queue.next(Duration::from_secs(60)) else {
            report.note("a wake-up was lost");
            break;
        };
        poll(&task, &mut calls, at, &queue, report);
    }
    drop(calls);
    drop(task.into_task());
    Ok(())
}

/// Polls a call with a waker of its own, and closes what it opened.
fn poll(
    task: &AsyncTask,
    calls: &mut [Option<Call<'_>>],
    at: usize,
    queue: &WakeQueue,
    report: &mut Report,
) {
    let waker = Waker::from(Arc::new(QueueWaker(queue.clone(), at)));
    let Some(call) = calls.get_mut(at).and_then(Option::as_mut) else {
        return;
    };
    report.polls += 1;
    let Poll::Ready(answer) = call.as_mut().poll(&mut Context::from_waker(&waker)) else {
        return;
    };
    calls[at] = None;
    match answer {
        Ok(fd) if fd >= 0 && task.task().close(fd).is_err() => {
            report.note(format!("descriptor {fd} was not open"));
        }
        Ok(_) => report.completed += 1,
        Err(_) => report.failed[1] += 1,
    }
}
