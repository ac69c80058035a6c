;; SPDX-License-Identifier: MIT OR Apache-2.0
;; A component that copies "greeting" in its first preopened directory to "copy", both by streams. It
;; returns the number of bytes, or a negative number for the step that failed.
(component
  (import "wasi:io/error@0.2.0" (instance $error
    (export "error" (type (sub resource)))
  ))
  (alias export $error "error" (type $io-error))
  (import "wasi:io/streams@0.2.0" (instance $streams
    (export "input-stream" (type $in (sub resource)))
    (export "output-stream" (type $out (sub resource)))
    (alias outer 1 $io-error (type $outer-error))
    (export "error" (type $e (eq $outer-error)))
    (type $why (variant (case "last-operation-failed" (own $e)) (case "closed")))
    (export "stream-error" (type $stream-error (eq $why)))
    (export "[method]input-stream.blocking-read" (func
      (param "self" (borrow $in)) (param "len" u64)
      (result (result (list u8) (error $stream-error)))))
    (export "[method]output-stream.blocking-write-and-flush" (func
      (param "self" (borrow $out)) (param "contents" (list u8))
      (result (result (error $stream-error)))))
  ))
  (alias export $streams "input-stream" (type $input))
  (alias export $streams "output-stream" (type $output))
  (import "wasi:filesystem/types@0.2.0" (instance $types
    (export "descriptor" (type $d (sub resource)))
    (alias outer 1 $input (type $outer-in))
    (export "input-stream" (type $in (eq $outer-in)))
    (alias outer 1 $output (type $outer-out))
    (export "output-stream" (type $out (eq $outer-out)))
    (type $codes (enum
      "access" "would-block" "already" "bad-descriptor" "busy" "deadlock" "quota" "exist"
      "file-too-large" "illegal-byte-sequence" "in-progress" "interrupted" "invalid" "io"
      "is-directory" "loop" "too-many-links" "message-size" "name-too-long" "no-device" "no-entry"
      "no-lock" "insufficient-memory" "insufficient-space" "not-directory" "not-empty"
      "not-recoverable" "unsupported" "no-tty" "no-such-device" "overflow" "not-permitted" "pipe"
      "read-only" "invalid-seek" "text-file-busy" "cross-device"))
    (export "error-code" (type $code (eq $codes)))
    (type $df (flags "read" "write" "file-integrity-sync" "data-integrity-sync"
      "requested-write-sync" "mutate-directory"))
    (export "descriptor-flags" (type $descriptor-flags (eq $df)))
    (type $pf (flags "symlink-follow"))
    (export "path-flags" (type $path-flags (eq $pf)))
    (type $of (flags "create" "directory" "exclusive" "truncate"))
    (export "open-flags" (type $open-flags (eq $of)))
    (export "[method]descriptor.open-at" (func
      (param "self" (borrow $d)) (param "path-flags" $path-flags) (param "path" string)
      (param "open-flags" $open-flags) (param "flags" $descriptor-flags)
      (result (result (own $d) (error $code)))))
    (export "[method]descriptor.read-via-stream" (func
      (param "self" (borrow $d)) (param "offset" u64)
      (result (result (own $in) (error $code)))))
    (export "[method]descriptor.write-via-stream" (func
      (param "self" (borrow $d)) (param "offset" u64)
      (result (result (own $out) (error $code)))))
  ))
  (alias export $types "descriptor" (type $descriptor))
  (import "wasi:filesystem/preopens@0.2.0" (instance $preopens
    (alias outer 1 $descriptor (type $outer-d))
    (export "descriptor" (type $d (eq $outer-d)))
    (export "get-directories" (func (result (list (tuple (own $d) string)))))
  ))

  (core module $memory
    (memory (export "memory") 4)
    (global $top (mut i32) (i32.const 4096))
    ;; Never gives the same memory twice.
    (func (export "realloc") (param $old i32) (param $size i32) (param $align i32) (param $new i32)
      (result i32)
      (local $at i32)
      (local.set $at (i32.and (i32.add (global.get $top) (i32.const 7)) (i32.const -8)))
      (global.set $top (i32.add (local.get $at) (local.get $new)))
      (local.get $at))
  )
  (core instance $m (instantiate $memory))
  (alias core export $m "memory" (core memory $mem))
  (alias core export $m "realloc" (core func $realloc))

  (core func $dirs (canon lower (func $preopens "get-directories")
    (memory $mem) (realloc $realloc)))
  (core func $open (canon lower (func $types "[method]descriptor.open-at")
    (memory $mem) (realloc $realloc)))
  (core func $read-via (canon lower (func $types "[method]descriptor.read-via-stream")
    (memory $mem)))
  (core func $write-via (canon lower (func $types "[method]descriptor.write-via-stream")
    (memory $mem)))
  (core func $read (canon lower (func $streams "[method]input-stream.blocking-read")
    (memory $mem) (realloc $realloc)))
  (core func $write (canon lower (func $streams "[method]output-stream.blocking-write-and-flush")
    (memory $mem)))
  (core func $drop-d (canon resource.drop $descriptor))
  (core func $drop-in (canon resource.drop $input))
  (core func $drop-out (canon resource.drop $output))

  (core module $program
    (import "m" "memory" (memory 4))
    (import "f" "dirs" (func $dirs (param i32)))
    (import "f" "open" (func $open (param i32 i32 i32 i32 i32 i32 i32)))
    (import "f" "read-via" (func $read-via (param i32 i64 i32)))
    (import "f" "write-via" (func $write-via (param i32 i64 i32)))
    (import "f" "read" (func $read (param i32 i64 i32)))
    (import "f" "write" (func $write (param i32 i32 i32 i32)))
    (import "f" "drop-d" (func $drop-d (param i32)))
    (import "f" "drop-in" (func $drop-in (param i32)))
    (import "f" "drop-out" (func $drop-out (param i32)))
    (data (i32.const 64) "greeting")
    (data (i32.const 80) "copy")
    (func (export "run") (result i32)
      (local $dir i32) (local $file i32) (local $stream i32) (local $at i32) (local $len i32)
      (call $dirs (i32.const 0))
      (if (i32.eqz (i32.load (i32.const 4))) (then (return (i32.const -1))))
      (local.set $dir (i32.load (i32.load (i32.const 0))))
      ;; Opens "greeting" for reading
      (call $open (local.get $dir) (i32.const 1) (i32.const 64) (i32.const 8) (i32.const 0)
        (i32.const 1) (i32.const 0))
      (if (i32.load8_u (i32.const 0)) (then (return (i32.const -2))))
      (local.set $file (i32.load (i32.const 4)))
      (call $read-via (local.get $file) (i64.const 0) (i32.const 0))
      (if (i32.load8_u (i32.const 0)) (then (return (i32.const -3))))
      (local.set $stream (i32.load (i32.const 4)))
      ;; The stream holds the file itself.
      (call $drop-d (local.get $file))
      (call $read (local.get $stream) (i64.const 1000) (i32.const 0))
      (if (i32.load8_u (i32.const 0)) (then (return (i32.const -4))))
      (local.set $at (i32.load (i32.const 4)))
      (local.set $len (i32.load (i32.const 8)))
      (call $drop-in (local.get $stream))
      ;; Creates "copy" for writing
      (call $open (local.get $dir) (i32.const 0) (i32.const 80) (i32.const 4) (i32.const 1)
        (i32.const 2) (i32.const 0))
      (if (i32.load8_u (i32.const 0)) (then (return (i32.const -5))))
      (local.set $file (i32.load (i32.const 4)))
      (call $write-via (local.get $file) (i64.const 0) (i32.const 0))
      (if (i32.load8_u (i32.const 0)) (then (return (i32.const -6))))
      (local.set $stream (i32.load (i32.const 4)))
      (call $write (local.get $stream) (local.get $at) (local.get $len) (i32.const 0))
      (if (i32.load8_u (i32.const 0)) (then (return (i32.const -7))))
      (call $drop-out (local.get $stream))
      (call $drop-d (local.get $file))
      (call $drop-d (local.get $dir))
      (local.get $len))
  )
  (core instance $p (instantiate $program
    (with "m" (instance $m))
    (with "f" (instance
      (export "dirs" (func $dirs))
      (export "open" (func $open))
      (export "read-via" (func $read-via))
      (export "write-via" (func $write-via))
      (export "read" (func $read))
      (export "write" (func $write))
      (export "drop-d" (func $drop-d))
      (export "drop-in" (func $drop-in))
      (export "drop-out" (func $drop-out))))))
  (func (export "run") (result s32) (canon lift (core func $p "run")))
)
