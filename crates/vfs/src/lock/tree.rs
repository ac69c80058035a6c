// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the spans of many owners in one tree, and finds the first that blocks a request.
//!
//! # Kernel analogue
//! The list `flc_posix`, which Linux reads from its begin. The tree finds what comes first there:
//! the lock of the earliest owner, and of that owner's the lowest.
//!
//! # Shape
//! A tree balanced by height, ordered by start and then by owner, in one array whose numbers are
//! its links. Each node sums up what is below it, once for all spans and once for those that
//! exclude: the highest end, and the two earliest owners.
//!
//! # Guarantees
//! G1. It is at most 1.45 log2(n) + 2 levels high, and so are its recursions.
//! G2. [`Tree::insert`] and [`Tree::remove`] take O(log n). [`Tree::first`] looks first where the
//!     earliest owner is. It skips what ends too early, what is only the asking owner's, and what
//!     comes after what it has found. Where all spans have some of the range it takes O(log n) too.

/// The owner of a span, by the order in which owners came; `NO_OWNER`: none.
pub(super) type Rank = u64;
/// No owner.
pub(super) const NO_OWNER: Rank = u64::MAX;

const NIL: u32 = u32::MAX;

/// A span in the tree. Both ends are in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct TreeSpan {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) rank: Rank,
    /// Whether it excludes other owners.
    pub(super) write: bool,
}

impl TreeSpan {
    fn key(&self) -> (i64, Rank) {
        (self.start, self.rank)
    }
}

/// What is below a node.
#[derive(Clone, Copy)]
struct SubtreeSummary {
    /// The highest end, or -1.
    end: i64,
    /// The lowest rank.
    first: Rank,
    /// The lowest rank but that.
    second: Rank,
}

const EMPTY: SubtreeSummary = SubtreeSummary {
    end: -1,
    first: NO_OWNER,
    second: NO_OWNER,
};

impl SubtreeSummary {
    fn add(&mut self, other: Self) {
        self.end = self.end.max(other.end);
        for rank in [other.first, other.second] {
            if rank < self.first {
                self.second = self.first;
                self.first = rank;
            } else if rank > self.first && rank < self.second {
                self.second = rank;
            }
        }
    }

    /// The earliest owner, except `me`.
    fn first_but(&self, me: Rank) -> Rank {
        if self.first == me {
            self.second
        } else {
            self.first
        }
    }
}

#[derive(Clone, Copy)]
struct Node {
    piece: TreeSpan,
    left: u32,
    right: u32,
    height: u8,
    all: SubtreeSummary,
    writes: SubtreeSummary,
}

/// The tree. See the module head.
pub(super) struct Tree {
    nodes: Vec<Node>,
    /// The first of the nodes that are free, each the next one's `left`.
    free: u32,
    root: u32,
    len: usize,
}

/// What is looked for.
#[derive(Clone, Copy)]
struct Query {
    start: i64,
    end: i64,
    write: bool,
    me: Rank,
}

impl Query {
    fn is_met_by(&self, piece: &TreeSpan) -> bool {
        piece.start <= self.end
            && piece.end >= self.start
            && piece.rank != self.me
            && (self.write || piece.write)
    }
}

/// What a question has found so far.
#[derive(Default)]
struct QueryResult {
    best: Option<TreeSpan>,
    /// How many nodes were looked at.
    #[cfg(test)]
    seen: usize,
}

impl QueryResult {
    /// Whether something of this rank, not before `start`, would come before what was found.
    fn is_worse_than(&self, rank: Rank, start: i64) -> bool {
        let best = self
            .best
            .map_or((NO_OWNER, 0), |piece| (piece.rank, piece.start));
        rank != NO_OWNER && (rank, start) < best
    }
}

impl Default for Tree {
    fn default() -> Self {
        Self {
            nodes: Vec::new(),
            free: NIL,
            root: NIL,
            len: 0,
        }
    }
}

impl Tree {
    /// How many spans there are.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.len
    }

    /// Adds a span. Its owner has none yet that starts there.
    pub(super) fn insert(&mut self, piece: TreeSpan) {
        let node = Node {
            piece,
            left: NIL,
            right: NIL,
            height: 1,
            all: EMPTY,
            writes: EMPTY,
        };
        let new = self.place(node);
        self.sum_up(new);
        self.root = self.put(self.root, new);
        self.len += 1;
    }

    /// Takes the span of this owner that starts there out; whether there was one.
    pub(super) fn remove(&mut self, start: i64, rank: Rank) -> bool {
        let mut taken = NIL;
        self.root = self.take(self.root, (start, rank), &mut taken);
        if taken == NIL {
            return false;
        }
        self.nodes[taken as usize].left = self.free;
        self.free = taken;
        self.len -= 1;
        if self.len == 0 {
            // What many spans took goes when none is left.
            *self = Self::default();
        }
        true
    }

    /// The first span that has some of `start..=end` and is not `me`'s: any, if `write`, else of
    /// those that exclude.
    pub(super) fn first(&self, start: i64, end: i64, write: bool, me: Rank) -> Option<TreeSpan> {
        let query = Query {
            start,
            end,
            write,
            me,
        };
        self.find(&query).best
    }

    fn find(&self, query: &Query) -> QueryResult {
        let mut found = QueryResult::default();
        self.seek(self.root, 0, query, &mut found);
        found
    }

    /// The earliest owner below a node that the query allows, or `NO_OWNER`.
    fn least(&self, at: u32, query: &Query) -> Rank {
        self.nodes.get(at as usize).map_or(NO_OWNER, |node| {
            let sum = if query.write { &node.all } else { &node.writes };
            if sum.end < query.start {
                return NO_OWNER;
            }
            sum.first_but(query.me)
        })
    }

    /// Shows every span that has some of `start..=end`, by start.
    pub(super) fn each(&self, start: i64, end: i64, show: &mut dyn FnMut(&TreeSpan)) {
        self.until(start, end, true, &mut |piece| {
            show(piece);
            false
        });
    }

    /// Shows the spans that have some of `start..=end`, by start, until `show` says that it is
    /// enough: any, if `write`, else those that exclude.
    pub(super) fn until(
        &self,
        start: i64,
        end: i64,
        write: bool,
        show: &mut dyn FnMut(&TreeSpan) -> bool,
    ) {
        let query = Query {
            start,
            end,
            write,
            me: NO_OWNER,
        };
        self.visit(self.root, &query, show);
    }

    /// Looks below a node, where nothing starts before `low`.
    fn seek(&self, at: u32, low: i64, query: &Query, found: &mut QueryResult) {
        let Some(node) = self.nodes.get(at as usize) else {
            return;
        };
        #[cfg(test)]
        {
            found.seen += 1;
        }
        let piece = &node.piece;
        if query.is_met_by(piece) && found.is_worse_than(piece.rank, piece.start) {
            found.best = Some(*piece);
        }
        let right = (node.right, piece.start);
        let mut sides = [(node.left, low), right].map(|(side, low)| {
            let beyond = low > query.end;
            let least = if beyond {
                NO_OWNER
            } else {
                self.least(side, query)
            };
            (least, low, side)
        });
        if sides[1].0 < sides[0].0 {
            sides.swap(0, 1);
        }
        for (least, low, side) in sides {
            if found.is_worse_than(least, low) {
                self.seek(side, low, query, found);
            }
        }
    }

    /// Whether it was enough.
    fn visit(&self, at: u32, query: &Query, show: &mut dyn FnMut(&TreeSpan) -> bool) -> bool {
        if self.least(at, query) == NO_OWNER {
            return false;
        }
        let Node {
            piece, left, right, ..
        } = self.nodes[at as usize];
        self.visit(left, query, show)
            || piece.start <= query.end
                && (query.is_met_by(&piece) && show(&piece) || self.visit(right, query, show))
    }

    /// A free slot for a new node.
    fn place(&mut self, node: Node) -> u32 {
        if self.free == NIL {
            self.nodes.push(node);
            return self.nodes.len() as u32 - 1;
        }
        let at = self.free;
        self.free = self.nodes[at as usize].left;
        self.nodes[at as usize] = node;
        at
    }

    fn put(&mut self, at: u32, new: u32) -> u32 {
        if at == NIL {
            return new;
        }
        let node = self.nodes[at as usize];
        if self.nodes[new as usize].piece.key() < node.piece.key() {
            self.nodes[at as usize].left = self.put(node.left, new);
        } else {
            self.nodes[at as usize].right = self.put(node.right, new);
        }
        self.balance(at)
    }

    fn take(&mut self, at: u32, key: (i64, Rank), taken: &mut u32) -> u32 {
        if at == NIL {
            return NIL;
        }
        let node = self.nodes[at as usize];
        match key.cmp(&node.piece.key()) {
            core::cmp::Ordering::Less => {
                self.nodes[at as usize].left = self.take(node.left, key, taken);
            }
            core::cmp::Ordering::Greater => {
                self.nodes[at as usize].right = self.take(node.right, key, taken);
            }
            core::cmp::Ordering::Equal => {
                *taken = at;
                if node.left == NIL || node.right == NIL {
                    return if node.left == NIL {
                        node.right
                    } else {
                        node.left
                    };
                }
                let mut next = NIL;
                let right = self.take_least(node.right, &mut next);
                self.nodes[next as usize].left = node.left;
                self.nodes[next as usize].right = right;
                return self.balance(next);
            }
        }
        self.balance(at)
    }

    /// Takes the leftmost node out.
    fn take_least(&mut self, at: u32, taken: &mut u32) -> u32 {
        let node = self.nodes[at as usize];
        if node.left == NIL {
            *taken = at;
            return node.right;
        }
        self.nodes[at as usize].left = self.take_least(node.left, taken);
        self.balance(at)
    }

    fn height(&self, at: u32) -> u8 {
        self.nodes.get(at as usize).map_or(0, |node| node.height)
    }

    /// Whether the left side is higher, or the right one.
    fn lean(&self, at: u32) -> i16 {
        let node = &self.nodes[at as usize];
        i16::from(self.height(node.left)) - i16::from(self.height(node.right))
    }

    /// Sums up what is below a node, whose sides are right.
    fn sum_up(&mut self, at: u32) {
        let node = self.nodes[at as usize];
        let piece = node.piece;
        let own = SubtreeSummary {
            end: piece.end,
            first: piece.rank,
            second: NO_OWNER,
        };
        let (mut all, mut writes) = (own, if piece.write { own } else { EMPTY });
        for side in [node.left, node.right] {
            if let Some(side) = self.nodes.get(side as usize) {
                all.add(side.all);
                writes.add(side.writes);
            }
        }
        let height = 1 + self.height(node.left).max(self.height(node.right));
        let node = &mut self.nodes[at as usize];
        (node.all, node.writes, node.height) = (all, writes, height);
    }

    /// Makes the sides of a node differ in height by 1 at most, where they do by 2; the node that
    /// is in its place.
    fn balance(&mut self, at: u32) -> u32 {
        let node = self.nodes[at as usize];
        match self.lean(at) {
            2 => {
                if self.lean(node.left) < 0 {
                    self.nodes[at as usize].left = self.turn_left(node.left);
                }
                self.turn_right(at)
            }
            -2 => {
                if self.lean(node.right) > 0 {
                    self.nodes[at as usize].right = self.turn_right(node.right);
                }
                self.turn_left(at)
            }
            _ => {
                self.sum_up(at);
                at
            }
        }
    }

    fn turn_right(&mut self, at: u32) -> u32 {
        let up = self.nodes[at as usize].left;
        self.nodes[at as usize].left = self.nodes[up as usize].right;
        self.nodes[up as usize].right = at;
        self.sum_up(at);
        self.sum_up(up);
        up
    }

    fn turn_left(&mut self, at: u32) -> u32 {
        let up = self.nodes[at as usize].right;
        self.nodes[at as usize].right = self.nodes[up as usize].left;
        self.nodes[up as usize].left = at;
        self.sum_up(at);
        self.sum_up(up);
        up
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn height_is_bounded(tree: &Tree) {
        let bound = 1.45 * ((tree.len() + 1) as f64).log2() + 2.0;
        assert!(f64::from(tree.height(tree.root)) <= bound);
    }

    #[test]
    fn spans_in_order_make_no_list() {
        let mut tree = Tree::default();
        let piece = |start: i64| TreeSpan {
            start,
            end: start,
            rank: 0,
            write: true,
        };
        for start in 0..100_000 {
            tree.insert(piece(2 * start));
        }
        height_is_bounded(&tree);
        for start in 0..99_000 {
            assert!(tree.remove(2 * start, 0));
            assert!(!tree.remove(2 * start, 0));
        }
        height_is_bounded(&tree);
        assert_eq!(tree.len(), 1000);
        assert_eq!(tree.first(0, i64::MAX, true, 0), None);
        assert_eq!(tree.first(0, i64::MAX, true, 1), Some(piece(198_000)));
    }
    #[test]
    fn the_first_of_many_is_found_in_few_steps_wherever_it_is() {
        const MANY: u64 = 100_000;
        let starts: [fn(u64) -> u64; 3] = [
            |rank| rank,
            |rank| MANY - rank,
            // In no order: this has no factor in common with `MANY`.
            |rank| rank * 48_271 % MANY,
        ];
        for start in starts {
            let piece = |rank: u64| TreeSpan {
                start: 2 * start(rank).cast_signed(),
                end: 2 * start(rank).cast_signed(),
                rank,
                write: true,
            };
            let mut tree = Tree::default();
            for rank in 0..MANY {
                tree.insert(piece(rank));
            }
            let most = 2 * usize::from(tree.height(tree.root));
            for (me, first) in [(NO_OWNER, 0), (7, 0), (0, 1)] {
                for write in [false, true] {
                    let found = tree.find(&Query {
                        start: 0,
                        end: i64::MAX,
                        write,
                        me,
                    });
                    assert_eq!(found.best, Some(piece(first)));
                    assert!(found.seen <= most, "{} of {most}", found.seen);
                }
            }
        }
    }

    #[test]
    fn of_one_owner_the_lowest_is_found() {
        let piece = |start: i64| TreeSpan {
            start,
            end: start,
            rank: 1,
            write: true,
        };
        let mut tree = Tree::default();
        for start in 0..1000 {
            tree.insert(piece(2 * start));
        }
        for at in 0..1990 {
            let found = tree.find(&Query {
                start: at,
                end: i64::MAX,
                write: true,
                me: 0,
            });
            assert_eq!(found.best, Some(piece((at + 1) & !1)));
            assert!(found.seen <= 2 * usize::from(tree.height(tree.root)));
        }
    }
}
