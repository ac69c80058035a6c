// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who is above a tree is told what it forgets.

use super::backend::scene;
use openpath_vfs::{Caching, Inode, InvalidationListener};
use std::sync::{Arc, Mutex};

/// Writes down what it hears.
#[derive(Default)]
struct Ear(Mutex<Vec<String>>);

impl Ear {
    fn note(&self, what: String) {
        self.0.lock().expect("nobody panics with it").push(what);
    }

    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("nobody panics with it"))
    }
}

impl InvalidationListener for Ear {
    fn name(&self, dir: &Arc<Inode>, name: &[u8]) {
        self.note(format!("{} {}", dir.ino(), String::from_utf8_lossy(name)));
    }
    fn names_of(&self, dir: &Arc<Inode>) {
        self.note(format!("{} *", dir.ino()));
    }
    fn all(&self) {
        self.note("all".to_owned());
    }
    fn attributes(&self, inode: &Arc<Inode>) {
        self.note(format!("{} =", inode.ino()));
    }
}

/// Panics at whatever it hears.
struct Rage;

impl InvalidationListener for Rage {
    fn name(&self, _: &Arc<Inode>, _: &[u8]) {
        panic!("as planned");
    }
    fn names_of(&self, _: &Arc<Inode>) {}
    fn all(&self) {}
    fn attributes(&self, _: &Arc<Inode>) {}
}

#[test]
fn all_that_is_forgotten_is_told_to_whom_it_concerns() {
    let s = scene(Caching::Keep, false);
    let d = s.world.dir(&s.root, "d");
    let f = s.world.file(&d, "f");
    let (rage, one, two) = (Arc::new(Rage), Arc::new(Ear::default()), Arc::default());
    let two: Arc<Ear> = two;
    s.tree
        .tell(&(Arc::clone(&rage) as Arc<dyn InvalidationListener>));
    s.tree
        .tell(&(Arc::clone(&one) as Arc<dyn InvalidationListener>));
    s.tree
        .tell(&(Arc::clone(&two) as Arc<dyn InvalidationListener>));
    s.tree.forget_name(&d, b"f");
    s.tree.forget_names_of(&d);
    s.tree.forget_all();
    s.tree.forget_permission(&d);
    s.tree.forget_attributes(&f);
    let (d, f) = (d.ino(), f.ino());
    let all = [
        format!("{d} f"),
        format!("{d} *"),
        "all".to_owned(),
        format!("{d} ="),
        format!("{f} ="),
    ];
    assert_eq!(one.heard(), all);
    assert_eq!(two.heard(), all);
}

#[test]
fn who_has_gone_is_told_no_more() {
    let s = scene(Caching::Keep, false);
    let stays = Arc::new(Ear::default());
    s.tree
        .tell(&(Arc::clone(&stays) as Arc<dyn InvalidationListener>));
    let mut weak = Vec::new();
    for _ in 0..1000 {
        let goes: Arc<dyn InvalidationListener> = Arc::new(Ear::default());
        weak.push(Arc::downgrade(&goes));
        s.tree.tell(&goes);
    }
    assert!(weak.iter().all(|weak| weak.upgrade().is_none()));
    s.tree.forget_all();
    assert_eq!(stays.heard(), ["all"]);
}
