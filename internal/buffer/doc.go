// Package buffer is the bounded queue between acceptance and delivery: a segment log per
// output, on disk or in memory, that survives crashes and keeps books. docs/buffer-format.md
// has the bytes, and why they are as they are.
//
// Positions are numbers. Every batch gets a Seq when it is appended; being stored, being
// delivered and being behind somebody are comparisons of Seqs.
//
// # Words
//
//   - A frame is what the committer stores with one write: some batches, a header, check sums. The
//     open frame takes batches meanwhile.
//   - A segment is a file of frames. The tail is the one that is written to, the spare the next one,
//     condemned are those whose files are to be removed.
//   - The mark is the first batch of which something has not ended. Behind it, what the reader has
//     handed out and what has not ended is in the window, a held for each frame.
//   - A drop is a run of batches that were given up or found damaged. A miss is a drop of events that
//     never came in; it has a Seq for its place and no batch. The reader is told of either as a Gap.
//   - The door is where events are turned away: filtered, refused, missed. Its file can be written when
//     nothing else can. What it has instead of the journal is owed.
//   - The journal has what has ended; the checkpoint stands in where the journal is torn.
//
// # Where things are
//
// From the outside: buffer.go (Options, Seq, errors, Part, Ref, Gap, Stats), state.go (Buffer and its
// fields), open.go (Open, Seal, Close), inspect.go (a directory that may be in use).
//
// In: append.go (Reserve, Commit, what happens without room), commit.go (the committer: write, sync,
// segments), frame.go (frames and their memory), spare.go (room is reserved before it is needed), wait.go
// (who waits for a Seq), disk.go (a full disk), share.go (a limit that several buffers have together).
//
// Out: read.go (Next), live.go (what of a batch has not ended), view.go (a Ref's bytes), rewind.go (once
// more, for another reader), window.go and settle.go (what has ended, the mark, segments that can go).
//
// Losses: giveup.go (the oldest segment), drop.go (drops, and damage), miss.go (events that never came in),
// door.go (the door file).
//
// On disk beside segments: keep.go (journal and checkpoint, written), remember.go (read), recover.go
// (segments at Open: the tail is cut, numbering found), repeats.go (messages that are known from before).
package buffer
