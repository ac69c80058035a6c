// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a commit or an undo that stops before any of its steps can be resumed to the same
//! result, and that a commit can also be rolled back.

use super::kinds::{change, populate};
use super::{Scene, StopAfter};
use openpath_commit::{Committed, abort, resume, undo};

/// More steps than there are.
const MANY: u64 = 1000;

/// A view beside its tree, or on another file system.
type Make = fn(&str) -> Scene;

/// Every fifth step, for the default suite.
const SOME: usize = 5;

#[test]
fn interrupted_commit_resumes_from_a_fifth_of_its_steps() {
    resumes(Scene::new, SOME);
}

#[test]
fn interrupted_commit_rolls_back_from_a_fifth_of_its_steps() {
    rolls_back(Scene::across, SOME);
}

#[test]
fn interrupted_undo_resumes_from_a_fifth_of_its_steps() {
    undo_resumes(Scene::new, SOME);
}

#[test]
#[ignore = "slow: 5 s"]
fn interrupted_commit_resumes_from_every_step() {
    resumes(Scene::new, 1);
}

#[test]
#[ignore = "slow: 5 s"]
fn interrupted_commit_resumes_from_every_step_across_file_systems() {
    resumes(Scene::across, 1);
}

#[test]
#[ignore = "slow: 5 s"]
fn interrupted_commit_rolls_back_from_every_step() {
    rolls_back(Scene::new, 1);
}

#[test]
#[ignore = "slow: 5 s"]
fn interrupted_commit_rolls_back_from_every_step_across_file_systems() {
    rolls_back(Scene::across, 1);
}

#[test]
#[ignore = "slow: 5 s"]
fn interrupted_undo_resumes_from_every_step() {
    undo_resumes(Scene::new, 1);
}

#[test]
#[ignore = "slow: 5 s"]
fn interrupted_undo_resumes_from_every_step_across_file_systems() {
    undo_resumes(Scene::across, 1);
}

fn resumes(make: Make, each: usize) {
    let mut steps = 0;
    for stop in (0..MANY).step_by(each) {
        let scene = make("on");
        populate(&scene);
        change(&scene);
        let wanted = scene.shown();
        let commit = scene.plan(&[]).unwrap();
        if commit.carry_out(&mut StopAfter(stop)).is_ok() {
            steps = stop;
            break;
        }
        // Once more in the middle of what is left.
        let again = resume(&scene.kept(), &mut StopAfter(3));
        if again.is_err() {
            resume(&scene.kept(), &mut StopAfter(u64::MAX)).unwrap();
        }
        assert_eq!(scene.real(), wanted, "stopped before step {stop}");
        assert_eq!(scene.shown(), wanted, "stopped before step {stop}");
        assert_eq!(
            (scene.left(), scene.kept().committed().unwrap()),
            (0, Committed::Yes)
        );
    }
    assert!(steps > 40, "{steps} steps");
}

fn rolls_back(make: Make, each: usize) {
    for stop in (0..MANY).step_by(each) {
        let scene = make("back");
        populate(&scene);
        scene.keep_apart();
        let before = scene.real();
        change(&scene);
        let wanted = scene.shown();
        if scene
            .plan(&[])
            .unwrap()
            .carry_out(&mut StopAfter(stop))
            .is_ok()
        {
            assert!(stop > 40, "{stop} steps");
            return;
        }
        if abort(&scene.kept(), false, &mut StopAfter(stop % 7)).is_err() {
            abort(&scene.kept(), false, &mut StopAfter(u64::MAX)).unwrap();
        }
        assert_eq!(scene.real(), before, "stopped before step {stop}");
        assert_eq!(scene.shown(), wanted, "stopped before step {stop}");
        assert_eq!(scene.commit(&[]), []);
        assert_eq!(scene.real(), wanted);
    }
    panic!("there are more steps than {MANY}");
}

fn undo_resumes(make: Make, each: usize) {
    for stop in (0..MANY).step_by(each) {
        let scene = make("undo");
        populate(&scene);
        scene.keep_apart();
        let before = scene.real();
        change(&scene);
        let wanted = scene.shown();
        assert_eq!(scene.commit(&[]), []);
        if undo(&scene.kept(), false, &mut StopAfter(stop)).is_ok() {
            assert!(stop > 20, "{stop} steps");
            return;
        }
        if resume(&scene.kept(), &mut StopAfter(2)).is_err() {
            resume(&scene.kept(), &mut StopAfter(u64::MAX)).unwrap();
        }
        assert_eq!(scene.real(), before, "stopped before step {stop}");
        assert_eq!(scene.shown(), wanted, "stopped before step {stop}");
    }
    panic!("there are more steps than {MANY}");
}
