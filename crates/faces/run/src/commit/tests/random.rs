// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a commit of random changes to a random tree gives the tree that the view showed, and
//! that its undo gives the tree from before.

use super::{Scene, StopAfter, put};
use openpath_abi::XattrFlags;
use openpath_abi::mode;
use openpath_abi::{fcntl::AT_FDCWD, rename::RENAME_EXCHANGE};
use openpath_commit::{Committed, abort, resume, undo};
use openpath_vfs::Task;

/// Seeded random numbers (splitmix64).
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % n as u64).unwrap()
    }

    fn path(&mut self) -> String {
        let names = ["a", "b", "c", "d"];
        let depth = 1 + self.below(3);
        let parts: Vec<_> = (0..depth).map(|_| names[self.below(4)]).collect();
        parts.join("/")
    }
}

fn populate(scene: &Scene, rng: &mut Rng) {
    for number in 0..30 {
        let path = scene.base(&rng.path());
        match rng.below(5) {
            0 | 1 => drop(std::fs::create_dir(&path)),
            2 | 3 => drop(std::fs::write(&path, format!("base {number}"))),
            _ => drop(std::fs::hard_link(scene.base(&rng.path()), &path)),
        }
    }
}

/// One call, which may fail.
fn call(scene: &Scene, task: &Task, rng: &mut Rng, number: usize) {
    let a = scene.at(&rng.path());
    let b = scene.at(&rng.path());
    let _tried = match rng.below(16) {
        0 | 1 => task.mkdir(&a, 0o755),
        2..=4 => put(task, &a, &format!("view {number}")),
        5 => task.unlink(&a),
        6 => task.rmdir(&a),
        7..=10 => task.rename(&a, &b),
        11 => task.renameat2(AT_FDCWD, &a, AT_FDCWD, &b, RENAME_EXCHANGE),
        12 => task.link(&a, &b),
        13 => task.chmod(&a, [0o700, 0o755, 0o644, 0o600][rng.below(4)]),
        14 => task.lsetxattr(
            &a,
            b"user.test",
            &[b'0' + u8::try_from(rng.below(9)).unwrap()],
            XattrFlags::empty(),
        ),
        _ => match rng.below(2) {
            0 => task.symlink(b"somewhere", &a),
            _ => task.mknod(&a, mode::S_IFIFO | 0o600, 0),
        },
    };
}

fn case(seed: u64) {
    let scene = Scene::new(&format!("random-{seed}"));
    let mut rng = Rng(seed);
    populate(&scene, &mut rng);
    let before = scene.real();
    for _ in 0..1 + rng.below(2) {
        let calls = 1 + rng.below(40);
        scene.view(|task| {
            for number in 0..calls {
                call(&scene, task, &mut rng, number);
            }
        });
    }
    let wanted = scene.shown();
    assert_eq!(scene.real(), before);
    let stop = rng.below(60) as u64;
    let commit = scene.plan(&[]).unwrap();
    assert_eq!(commit.conflicts(), [], "seed {seed}");
    if let Err(why) = commit.carry_out(&mut StopAfter(stop)) {
        assert!(why.to_string().contains("stopped"), "seed {seed}: {why}");
        if rng.below(3) == 0 {
            abort(&scene.kept(), false, &mut StopAfter(u64::MAX)).unwrap();
            assert_eq!(scene.real(), before, "seed {seed}, back from step {stop}");
            assert_eq!(scene.shown(), wanted, "seed {seed}, back from step {stop}");
            assert_eq!(scene.commit(&[]), [], "seed {seed}");
        } else {
            resume(&scene.kept(), &mut StopAfter(u64::MAX)).unwrap();
        }
    }
    assert_eq!(scene.real(), wanted, "seed {seed}");
    assert_eq!(
        (scene.left(), scene.shown()),
        (0, wanted.clone()),
        "seed {seed}"
    );
    if scene.kept().committed().unwrap() == Committed::No {
        assert_eq!(wanted, before, "seed {seed}: there was nothing to commit");
        return;
    }
    let undone = undo(&scene.kept(), false, &mut StopAfter(u64::MAX)).unwrap();
    assert_eq!(undone.conflicts, [], "seed {seed}");
    assert_eq!(scene.real(), before, "seed {seed}, undone");
    assert_eq!(scene.shown(), wanted, "seed {seed}, undone");
}

#[test]
fn some_random_views_are_committed_and_undone() {
    (1..=10).for_each(case);
}

#[test]
#[ignore = "slow: 5 s"]
fn random_views_are_committed_and_undone() {
    let (first, count) = match std::env::var("OPENPATH_COMMIT_SEEDS") {
        Ok(text) => {
            let (first, count) = text.split_once('+').unwrap();
            (first.parse().unwrap(), count.parse().unwrap())
        }
        Err(_) => (1, 60),
    };
    (first..first + count).for_each(case);
}
