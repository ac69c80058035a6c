// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the hash table finds every entry and no removed one through growth and changes of the
//! key, and that names chosen to collide neither make long chains nor many changes of the key.

use super::*;

/// Entries by number: a link, and the two words that are hashed.
struct Nodes(Vec<(Word32, [u64; 2])>);

impl Nodes {
    fn new(count: u64, words: impl Fn(u64) -> [u64; 2]) -> Self {
        Self((0..count).map(|i| (Word32::default(), words(i))).collect())
    }
}

impl Chain for Nodes {
    fn link(&self, i: u32) -> &Word32 {
        &self.0[i as usize].0
    }
    fn hash(&self, i: u32, key: HashKey) -> u64 {
        let [lo, hi] = self.0[i as usize].1;
        key.hash(lo, hi, 0)
    }
}

fn lock<'a>(table: &'a Table, nodes: &Nodes, i: u32) -> Locked<'a> {
    table.lock(|key| nodes.hash(i, key))
}

/// The result of a search without a lock.
fn search(table: &Table, nodes: &Nodes, i: u32) -> Option<bool> {
    let view = table.view();
    let mut probe = table.probe(&view, nodes.hash(i, view.key()));
    loop {
        let mut at = probe.head();
        while at != 0 {
            if at == i {
                return Some(true);
            }
            at = nodes.link(at).get();
        }
        match table.missed(&view, probe, |key| nodes.hash(i, key)) {
            Miss::Proved => return Some(false),
            Miss::Open => return None,
            Miss::Elsewhere(next) => probe = next,
        }
    }
}

fn table() -> Table {
    Table::new(1 << 16, HashKey::new([1, 2])).unwrap()
}

#[test]
fn entries_are_found_through_growth_and_absent_after_removal() {
    let nodes = Nodes::new(5000, |i| [i, 7]);
    let t = table();
    for i in 1..5000u32 {
        assert_eq!(search(&t, &nodes, i), Some(false));
        lock(&t, &nodes, i).insert(&nodes, i);
        t.grow(&nodes);
        assert_eq!(search(&t, &nodes, i), Some(true));
    }
    // A thread reports its insertions once they reach a fraction of the buckets.
    let buckets = t.census().buckets;
    assert!(
        buckets <= 4999 && buckets + buckets / REPORT_DIVISOR >= 4999,
        "{buckets}"
    );
    assert_eq!(t.len(), 4999);
    for i in 1..5000u32 {
        assert_eq!(lock(&t, &nodes, i).find(&nodes, |j| j == i), i);
        assert!(lock(&t, &nodes, i).remove(&nodes, i));
        assert!(!lock(&t, &nodes, i).remove(&nodes, i));
        assert_eq!(search(&t, &nodes, i), Some(false));
    }
    assert!(t.is_empty() && t.census().longest == 0);
}

/// Inserts as the dentry cache does: it makes room first, at worst by removing another entry.
fn insert_bounded(t: &Table, nodes: &Nodes, i: u32, secret: &mut u64) {
    let hash = |key| nodes.hash(i, key);
    while t.is_crowded(hash) {
        let fresh = || {
            *secret += 1;
            [*secret, !*secret]
        };
        if t.relieve(nodes, fresh) == ChainRelief::None {
            let mut chain = t.lock(hash);
            let head = chain.head();
            assert!(chain.remove(nodes, head));
        }
    }
    t.lock(hash).insert(nodes, i);
    t.grow(nodes);
}

#[test]
fn names_that_collide_under_the_key_cause_a_rekey() {
    let key = HashKey::new([1, 2]);
    // With the key, names can be found that share a chain whatever the size of the table.
    let mut names = (0u64..).filter(|&i| key.hash(i, 7, 0) & 0xfff == 0);
    let mut nodes = Nodes::new(400, |i| [i << 40, 9]);
    for node in &mut nodes.0[100..300] {
        node.1 = [names.next().unwrap(), 7];
    }
    let (t, mut secret) = (table(), 5);
    for i in 1..400 {
        insert_bounded(&t, &nodes, i, &mut secret);
        assert!(t.census().longest < CHAIN_CAP);
        assert!((1..=i).all(|j| search(&t, &nodes, j) == Some(true)), "{i}");
    }
    assert_eq!((t.len(), t.census().rekeys), (399, 1));
}

#[test]
fn names_that_collide_under_every_key_keep_chains_short_with_few_rekeys() {
    let nodes = Nodes::new(5000, |i| if i % 2 == 0 { [i, 1] } else { [3, 3] });
    let (t, mut secret) = (table(), 5);
    for i in 1..5000 {
        insert_bounded(&t, &nodes, i, &mut secret);
        assert!(t.is_crowded(|_| 0) || t.census().longest < CHAIN_CAP);
    }
    let census = t.census();
    assert!(census.longest < CHAIN_CAP && census.crowded > 2000);
    assert!(census.rekeys < 40, "{census:?}");
    let kept = (2..5000)
        .step_by(2)
        .filter(|&i| search(&t, &nodes, i) == Some(true));
    assert!(kept.count() > 2000);
}

#[test]
fn rekey_proceeds_in_steps_and_hides_no_entry() {
    let nodes = Nodes::new(20_000, |i| [i, 7]);
    let t = table();
    for i in 1..10_000 {
        lock(&t, &nodes, i).insert(&nodes, i);
        t.grow(&nodes);
    }
    for round in 1..=3u64 {
        while t.relieve(&nodes, || [round, 3]) != ChainRelief::Changed {}
        let mut steps = 1;
        while t.census().rekeys < round {
            for i in [1, 77, 5000, 9999] {
                assert_eq!(search(&t, &nodes, i), Some(true));
                assert_eq!(lock(&t, &nodes, i).find(&nodes, |j| j == i), i);
            }
            let i = 10_000 + steps;
            assert_eq!(search(&t, &nodes, i), Some(false));
            lock(&t, &nodes, i).insert(&nodes, i);
            assert_eq!(search(&t, &nodes, i), Some(true));
            t.grow(&nodes);
            assert!(lock(&t, &nodes, i).remove(&nodes, i));
            assert_eq!(search(&t, &nodes, i), Some(false));
            steps += 1;
        }
        assert!(steps > (9999 - 9999 / REPORT_DIVISOR) / 128, "{steps}");
        assert!((1..10_000).all(|i| search(&t, &nodes, i) == Some(true)));
    }
    assert_eq!(t.len(), 9999);
}

#[test]
fn a_certificate_holds_until_its_bucket_changes() {
    const NAMES: u32 = 3000;
    let nodes = Nodes::new(u64::from(NAMES), |i| [i, 7]);
    let t = table();
    let absent = |i: u32| {
        let view = t.view();
        let probe = t.probe(&view, nodes.hash(i, view.key()));
        assert!(t.unchanged(&view, probe));
        probe.certificate(&view)
    };
    let c = absent(1);
    assert!(t.certifies(&c));
    let other = (2..NAMES).find(|&i| absent(i).place != c.place).unwrap();
    lock(&t, &nodes, other).insert(&nodes, other);
    drop(lock(&t, &nodes, 1));
    assert!(t.certifies(&c));
    lock(&t, &nodes, 1).insert(&nodes, 1);
    assert!(!t.certifies(&c));
    assert!(lock(&t, &nodes, 1).remove(&nodes, 1));
    assert!(!t.certifies(&c));
    // A bucket that splits while it is empty, and one that moves, become other buckets.
    let c = absent(1);
    for i in (2..NAMES).filter(|&i| i != other) {
        lock(&t, &nodes, i).insert(&nodes, i);
        t.grow(&nodes);
    }
    assert!(!t.certifies(&c));
    assert!(lock(&t, &nodes, other).remove(&nodes, other));
    let c = absent(other);
    while t.census().rekeys == 0 {
        let _more = t.relieve(&nodes, || [9, 9]);
    }
    assert!(!t.certifies(&c));
}

#[test]
fn wrapping_version_raises_the_generation() {
    let nodes = Nodes::new(3, |i| [i, 7]);
    let t = table();
    let view = t.view();
    let probe = t.probe(&view, nodes.hash(1, view.key()));
    let c = probe.certificate(&view);
    for _ in 0..(1u64 << (64 - VERSION_SHIFT)) / 2 {
        lock(&t, &nodes, 1).insert(&nodes, 1);
        assert!(lock(&t, &nodes, 1).remove(&nodes, 1));
    }
    assert_eq!(
        t.probe(&t.view(), nodes.hash(1, view.key())).word,
        probe.word
    );
    assert!(!t.certifies(&c) && !t.unchanged(&view, probe));
}

#[test]
fn concurrent_insert_remove_and_rekey_lose_no_entry() {
    const EACH: u32 = 2000;
    let nodes = Nodes::new(u64::from(4 * EACH) + 1, |i| [i % 97, i]);
    let t = table();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (t, nodes) = (&t, &nodes);
            scope.spawn(move || {
                let mine = thread * EACH + 1..(thread + 1) * EACH + 1;
                for round in 0..3u64 {
                    for i in mine.clone() {
                        assert_ne!(search(t, nodes, i), Some(true));
                        lock(t, nodes, i).insert(nodes, i);
                        t.grow(nodes);
                        assert_ne!(search(t, nodes, i), Some(false), "was inserted");
                        if i % 500 == 0 {
                            let _done = t.relieve(nodes, || [u64::from(i), round]);
                        }
                    }
                    for i in mine.clone() {
                        assert_ne!(search(t, nodes, i), Some(false), "is still there");
                        assert!(lock(t, nodes, i).remove(nodes, i));
                        assert_ne!(search(t, nodes, i), Some(true));
                    }
                }
            });
        }
    });
    assert!(t.is_empty() && t.census().longest == 0 && t.census().rekeys > 0);
}
