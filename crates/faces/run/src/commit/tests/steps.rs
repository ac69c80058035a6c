// SPDX-License-Identifier: MIT OR Apache-2.0
//! A commit, and its undoing, stopped before each of its steps and gone on with or back from.

use super::kinds::{change, furnish};
use super::{Scene, Until};
use openpath_commit::{Committed, abort, resume, undo};

/// More steps than there are.
const MANY: u64 = 1000;

/// A view beside its tree, or on another file system.
type Make = fn(&str) -> Scene;

/// Every fifth step, for the default suite.
const SOME: usize = 5;

#[test]
fn a_commit_goes_on_from_a_fifth_of_its_steps() {
    goes_on(Scene::new, SOME);
}

#[test]
fn a_commit_goes_back_from_a_fifth_of_its_steps() {
    goes_back(Scene::across, SOME);
}

#[test]
fn undoing_goes_on_from_a_fifth_of_its_steps() {
    undoing_goes_on(Scene::new, SOME);
}

#[test]
#[ignore = "slow: 5 s"]
fn a_commit_goes_on_from_every_step() {
    goes_on(Scene::new, 1);
}

#[test]
#[ignore = "slow: 5 s"]
fn a_commit_goes_on_from_every_step_across() {
    goes_on(Scene::across, 1);
}

#[test]
#[ignore = "slow: 5 s"]
fn a_commit_goes_back_from_every_step() {
    goes_back(Scene::new, 1);
}

#[test]
#[ignore = "slow: 5 s"]
fn a_commit_goes_back_from_every_step_across() {
    goes_back(Scene::across, 1);
}

#[test]
#[ignore = "slow: 5 s"]
fn undoing_goes_on_from_every_step() {
    undoing_goes_on(Scene::new, 1);
}

#[test]
#[ignore = "slow: 5 s"]
fn undoing_goes_on_from_every_step_across() {
    undoing_goes_on(Scene::across, 1);
}

fn goes_on(make: Make, each: usize) {
    let mut steps = 0;
    for stop in (0..MANY).step_by(each) {
        let scene = make("on");
        furnish(&scene);
        change(&scene);
        let wanted = scene.shown();
        let commit = scene.plan(&[]).unwrap();
        if commit.carry_out(&mut Until(stop)).is_ok() {
            steps = stop;
            break;
        }
        // Once more in the middle of what is left.
        let again = resume(&scene.kept(), &mut Until(3));
        if again.is_err() {
            resume(&scene.kept(), &mut Until(u64::MAX)).unwrap();
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

fn goes_back(make: Make, each: usize) {
    for stop in (0..MANY).step_by(each) {
        let scene = make("back");
        furnish(&scene);
        scene.keep_apart();
        let before = scene.real();
        change(&scene);
        let wanted = scene.shown();
        if scene.plan(&[]).unwrap().carry_out(&mut Until(stop)).is_ok() {
            assert!(stop > 40, "{stop} steps");
            return;
        }
        if abort(&scene.kept(), false, &mut Until(stop % 7)).is_err() {
            abort(&scene.kept(), false, &mut Until(u64::MAX)).unwrap();
        }
        assert_eq!(scene.real(), before, "stopped before step {stop}");
        assert_eq!(scene.shown(), wanted, "stopped before step {stop}");
        assert_eq!(scene.commit(&[]), []);
        assert_eq!(scene.real(), wanted);
    }
    panic!("there are more steps than {MANY}");
}

fn undoing_goes_on(make: Make, each: usize) {
    for stop in (0..MANY).step_by(each) {
        let scene = make("undo");
        furnish(&scene);
        scene.keep_apart();
        let before = scene.real();
        change(&scene);
        let wanted = scene.shown();
        assert_eq!(scene.commit(&[]), []);
        if undo(&scene.kept(), false, &mut Until(stop)).is_ok() {
            assert!(stop > 20, "{stop} steps");
            return;
        }
        if resume(&scene.kept(), &mut Until(2)).is_err() {
            resume(&scene.kept(), &mut Until(u64::MAX)).unwrap();
        }
        assert_eq!(scene.real(), before, "stopped before step {stop}");
        assert_eq!(scene.shown(), wanted, "stopped before step {stop}");
    }
    panic!("there are more steps than {MANY}");
}
