// Package emulator is a CloudWatch Logs endpoint for one machine: the real
// limits, the real error types and texts, faults on demand, and a page to
// read the logs on.
//
// It exists so that a log shipper can be tried, tested and measured without
// an AWS account. Three uses shaped it:
//
//   - `weir emulate` and `weir demo` run it for people;
//   - end-to-end tests run it inside the test process, inject faults with
//     SetFaults, and compare what was accepted with Events;
//   - benchmarks use it as the sink, so it has to ingest faster than the
//     program under test can send.
//
// It is an independent reading of the service's documentation. On purpose it
// shares nothing with the code that talks to the service, not even a
// constant: if both took a limit from the same place, both would be wrong
// together and no test could see it.
//
// # Life of a request
//
//	ServeHTTP ── GET ──► pages, /_weir/… (viewer.go, admin.go)
//	    │ POST / with X-Amz-Target
//	    ├─ faults that strike before the body   (faults.go)
//	    ├─ body: size bound, gzip               (body.go)
//	    ├─ signature: shape, date, secret       (sigv4.go)
//	    ├─ faults that need group or stream
//	    ├─ quotas                               (quota.go)
//	    └─ the operation                        (put.go, groups.go, streams.go, read.go)
//
// # Locks
//
// Server.mu guards the map of groups and, inside each group, its streams and
// settings. stream.mu guards one stream's events. retained.mu guards the
// queue for eviction, journal.mu the files. They are taken in that order;
// no lock is held while a lock to its left is taken.
package emulator
