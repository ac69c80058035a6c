;; SPDX-License-Identifier: MIT OR Apache-2.0
;; The guest of `bench wasi`: one loop for each call, over paths that the host has put in its
;; memory. A loop is given how often, and where the table of paths begins (64 times address and
;; length); it answers how many results were wrong. Descriptor 3 is the directory of the tree.
;;
;; Memory: 0 results, 64 a vector of one buffer, 128 what a call filled in, 1024 tables,
;; 8192 paths, 65536 the buffer.
(module
  (import "wasi_snapshot_preview1" "fd_prestat_get"
    (func $fd_prestat_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_close" (func $fd_close (param i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_filestat_get"
    (func $path_filestat_get (param i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_filestat_get"
    (func $fd_filestat_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read"
    (func $fd_read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_pread"
    (func $fd_pread (param i32 i32 i32 i64 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_readdir"
    (func $fd_readdir (param i32 i32 i32 i64 i32) (result i32)))
  (memory (export "memory") 3)
  (global $at (mut i32) (i32.const 0))
  (global $open (mut i32) (i32.const -1))

  ;; The next place in a table.
  (func $next (param $table i32) (result i32)
    (local $place i32)
    (local.set $place (i32.add (local.get $table) (i32.shl (global.get $at) (i32.const 3))))
    (global.set $at (i32.and (i32.add (global.get $at) (i32.const 1)) (i32.const 63)))
    (local.get $place))

  ;; Opens for reading and asking; follows links, as C programs do.
  (func $path (param $place i32) (param $oflags i32) (result i32)
    (call $path_open (i32.const 3) (i32.const 1)
      (i32.load (local.get $place)) (i32.load offset=4 (local.get $place))
      (local.get $oflags) (i64.const 0x204006) (i64.const 0) (i32.const 0) (i32.const 0)))

  (func (export "floor") (param $ops i32) (param $table i32) (result i32)
    (local $wrong i32)
    (loop $again
      (local.set $wrong (i32.add (local.get $wrong)
        (i32.ne (call $fd_prestat_get (i32.const 3) (i32.const 128)) (i32.const 0))))
      (br_if $again (local.tee $ops (i32.sub (local.get $ops) (i32.const 1)))))
    (local.get $wrong))

  (func (export "open-close") (param $ops i32) (param $table i32) (result i32)
    (local $wrong i32)
    (loop $again
      (if (call $path (call $next (local.get $table)) (i32.const 0))
        (then (local.set $wrong (i32.add (local.get $wrong) (i32.const 1))))
        (else (local.set $wrong (i32.add (local.get $wrong)
          (i32.ne (call $fd_close (i32.load (i32.const 0))) (i32.const 0))))))
      (br_if $again (local.tee $ops (i32.sub (local.get $ops) (i32.const 1)))))
    (local.get $wrong))

  ;; 44: there is no such file.
  (func (export "failed-open") (param $ops i32) (param $table i32) (result i32)
    (local $wrong i32)
    (loop $again
      (local.set $wrong (i32.add (local.get $wrong)
        (i32.ne (call $path (call $next (local.get $table)) (i32.const 0)) (i32.const 44))))
      (br_if $again (local.tee $ops (i32.sub (local.get $ops) (i32.const 1)))))
    (local.get $wrong))

  (func (export "stat") (param $ops i32) (param $table i32) (result i32)
    (local $wrong i32) (local $place i32)
    (loop $again
      (local.set $place (call $next (local.get $table)))
      (if (call $path_filestat_get (i32.const 3) (i32.const 1)
            (i32.load (local.get $place)) (i32.load offset=4 (local.get $place)) (i32.const 128))
        (then (local.set $wrong (i32.add (local.get $wrong) (i32.const 1))))
        (else (local.set $wrong (i32.add (local.get $wrong)
          (i64.ne (i64.load (i32.const 160)) (i64.const 4096))))))
      (br_if $again (local.tee $ops (i32.sub (local.get $ops) (i32.const 1)))))
    (local.get $wrong))

  ;; Opens one file, which stays open, for those below that need one.
  (func (export "keep") (param $table i32) (result i32)
    (local $errno i32)
    (local.set $errno (call $path (local.get $table) (i32.const 0)))
    (global.set $open (i32.load (i32.const 0)))
    (local.get $errno))

  (func (export "fstat") (param $ops i32) (param $table i32) (result i32)
    (local $wrong i32)
    (loop $again
      (local.set $wrong (i32.add (local.get $wrong)
        (i32.ne (call $fd_filestat_get (global.get $open) (i32.const 128)) (i32.const 0))))
      (br_if $again (local.tee $ops (i32.sub (local.get $ops) (i32.const 1)))))
    (local.get $wrong))

  (func $vector
    (i32.store (i32.const 64) (i32.const 65536))
    (i32.store (i32.const 68) (i32.const 4096)))

  (func (export "pread") (param $ops i32) (param $table i32) (result i32)
    (local $wrong i32)
    (call $vector)
    (loop $again
      (local.set $wrong (i32.add (local.get $wrong) (i32.or
        (i32.ne (call $fd_pread (global.get $open) (i32.const 64) (i32.const 1) (i64.const 0)
          (i32.const 4)) (i32.const 0))
        (i32.ne (i32.load (i32.const 4)) (i32.const 4096)))))
      (br_if $again (local.tee $ops (i32.sub (local.get $ops) (i32.const 1)))))
    (local.get $wrong))

  ;; Opens, reads all of it, closes.
  (func (export "read") (param $ops i32) (param $table i32) (result i32)
    (local $wrong i32) (local $fd i32)
    (call $vector)
    (loop $again
      (if (call $path (call $next (local.get $table)) (i32.const 0))
        (then (local.set $wrong (i32.add (local.get $wrong) (i32.const 1))))
        (else
          (local.set $fd (i32.load (i32.const 0)))
          (local.set $wrong (i32.add (local.get $wrong) (i32.or
            (i32.ne (call $fd_read (local.get $fd) (i32.const 64) (i32.const 1) (i32.const 4))
              (i32.const 0))
            (i32.ne (i32.load (i32.const 4)) (i32.const 4096)))))
          (local.set $wrong (i32.add (local.get $wrong)
            (i32.ne (call $fd_close (local.get $fd)) (i32.const 0))))))
      (br_if $again (local.tee $ops (i32.sub (local.get $ops) (i32.const 1)))))
    (local.get $wrong))

  ;; The whole entries among the first $used bytes of the buffer; the cookie after them is left
  ;; at 16.
  (func $entries (param $used i32) (result i32)
    (local $from i32) (local $end i32) (local $next i32) (local $count i32)
    (local.set $from (i32.const 65536))
    (local.set $end (i32.add (local.get $from) (local.get $used)))
    (block $done
      (loop $again
        (br_if $done (i32.gt_u (i32.add (local.get $from) (i32.const 24)) (local.get $end)))
        (local.set $next (i32.add (local.get $from)
          (i32.add (i32.const 24) (i32.load offset=16 (local.get $from)))))
        (br_if $done (i32.gt_u (local.get $next) (local.get $end)))
        (i64.store (i32.const 16) (i64.load (local.get $from)))
        (local.set $count (i32.add (local.get $count) (i32.const 1)))
        (local.set $from (local.get $next))
        (br $again)))
    (local.get $count))

  ;; Opens a directory, lists it by 32 KiB at a time, closes it: 1,000 names, and the two dots.
  (func (export "readdir") (param $ops i32) (param $table i32) (result i32)
    (local $wrong i32) (local $fd i32) (local $count i32)
    (loop $again
      (if (call $path (call $next (local.get $table)) (i32.const 2))
        (then (local.set $wrong (i32.add (local.get $wrong) (i32.const 1))))
        (else
          (local.set $fd (i32.load (i32.const 0)))
          (local.set $count (i32.const 0))
          (i64.store (i32.const 16) (i64.const 0))
          (loop $more
            (if (call $fd_readdir (local.get $fd) (i32.const 65536) (i32.const 32768)
                  (i64.load (i32.const 16)) (i32.const 8))
              (then (local.set $wrong (i32.add (local.get $wrong) (i32.const 1))))
              (else
                (local.set $count (i32.add (local.get $count)
                  (call $entries (i32.load (i32.const 8)))))
                (br_if $more (i32.eq (i32.load (i32.const 8)) (i32.const 32768))))))
          (local.set $wrong (i32.add (local.get $wrong) (i32.or
            (i32.ne (local.get $count) (i32.const 1002))
            (i32.ne (call $fd_close (local.get $fd)) (i32.const 0)))))))
      (br_if $again (local.tee $ops (i32.sub (local.get $ops) (i32.const 1)))))
    (local.get $wrong)))
