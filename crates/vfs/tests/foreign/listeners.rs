// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a subscriber to a tree is notified of each invalidation in it.

use super::backend::scene;
use openpath_vfs::{Caching, Inode, InvalidationListener};
use std::sync::{Arc, Mutex};

/// Records each event.
#[derive(Default)]
struct Recorder(Mutex<Vec<String>>);

impl Recorder {
    fn note(&self, what: String) {
        self.0
            .lock()
            .expect("no test panics with the lock")
            .push(what);
    }

    fn events(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().expect("no test panics with the lock"))
    }
}

impl InvalidationListener for Recorder {
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

/// Panics at an event.
struct Panics;

impl InvalidationListener for Panics {
    fn name(&self, _: &Arc<Inode>, _: &[u8]) {
        panic!("as planned");
    }
    fn names_of(&self, _: &Arc<Inode>) {}
    fn all(&self) {}
    fn attributes(&self, _: &Arc<Inode>) {}
}

#[test]
fn subscribers_hear_each_invalidation() {
    let s = scene(Caching::Keep, false);
    let d = s.world.dir(&s.root, "d");
    let f = s.world.file(&d, "f");
    let (rage, one, two) = (
        Arc::new(Panics),
        Arc::new(Recorder::default()),
        Arc::default(),
    );
    let two: Arc<Recorder> = two;
    s.tree
        .add_listener(&(Arc::clone(&rage) as Arc<dyn InvalidationListener>));
    s.tree
        .add_listener(&(Arc::clone(&one) as Arc<dyn InvalidationListener>));
    s.tree
        .add_listener(&(Arc::clone(&two) as Arc<dyn InvalidationListener>));
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
    assert_eq!(one.events(), all);
    assert_eq!(two.events(), all);
}

#[test]
fn a_dropped_subscriber_hears_nothing_more() {
    let s = scene(Caching::Keep, false);
    let stays = Arc::new(Recorder::default());
    s.tree
        .add_listener(&(Arc::clone(&stays) as Arc<dyn InvalidationListener>));
    let mut weak = Vec::new();
    for _ in 0..1000 {
        let goes: Arc<dyn InvalidationListener> = Arc::new(Recorder::default());
        weak.push(Arc::downgrade(&goes));
        s.tree.add_listener(&goes);
    }
    assert!(weak.iter().all(|weak| weak.upgrade().is_none()));
    s.tree.forget_all();
    assert_eq!(stays.events(), ["all"]);
}
