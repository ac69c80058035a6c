// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that openpath's ring completes some batches of entries as the kernel's `io_uring` does,
//! with one documented difference; `cargo xtask uring` compares very many.

use openpath_testkit::uring::{Back, available, check, check_within, named, scene, soft};
use std::time::Duration;

/// Whether the kernel gives a ring; prints the reason if not.
fn is_there() -> bool {
    let there = available();
    if let Err(why) = &there {
        eprintln!("skipped: the kernel gives no ring: {why}");
    }
    there.is_ok()
}

#[test]
fn named_scenes_match_the_kernel() {
    if !is_there() {
        return;
    }
    for (name, scene) in named() {
        for back in [Back::Mem, Back::Host] {
            if let Err(text) = check(&scene, back) {
                panic!("{name}, over {back:?}\n{scene}{text}");
            }
        }
    }
}

#[test]
fn failed_name_call_breaks_chain_and_silence_only_here() {
    if !is_there() {
        return;
    }
    let [chain, silent] = soft();
    let text = check(&chain, Back::Mem).expect_err("L23");
    assert!(text.contains("result: Err(ECANCELED)"), "{text}");
    // A completion that the kernel does not give has not to be waited for long.
    let text = check_within(&silent, Back::Mem, Duration::from_millis(200)).expect_err("L23");
    assert!(text.contains("gave 1 of 2 completions"), "{text}");
}

#[test]
fn random_scenes_match_the_kernel() {
    if !is_there() {
        return;
    }
    for seed in 0..300 {
        let (scene, back) = (scene(seed), [Back::Mem, Back::Host][seed as usize % 2]);
        if let Err(text) = check(&scene, back) {
            panic!("seed {seed}, over {back:?}\n{scene}{text}");
        }
    }
}
