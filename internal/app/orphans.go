package app

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weir/internal/buffer"
	"weir/internal/deliver"
	"weir/internal/vfs"
)

// orphans finds buffer directories beside those of a plan that no output of it uses: of
// an output that was removed or renamed. They are reported, never deleted.
func orphans(plan *Plan) (dirs []string) {
	used := map[string]bool{}
	look := map[string]bool{} // patterns
	for _, o := range plan.Outputs {
		if o.dir == "" {
			continue
		}
		used[o.dir], used[filepath.Join(o.dir, ParkedDir)], used[o.backlogDir()] = true, true, true
		look[filepath.Join(escape(filepath.Dir(o.dir)), "*")] = true
	}
	if root := plan.System.RootDir; root != "" {
		look[filepath.Join(escape(root), "worker0", "*", "buffer")] = true
	}
	for pattern := range look {
		found, _ := filepath.Glob(pattern) // the pattern is well-formed
		for _, dir := range found {
			if used[dir] || !IsBuffer(dir) {
				continue
			}
			used[dir] = true
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return dirs
}

// IsBuffer tells a buffer's directory by its checkpoint, or by a segment if that is lost.
func IsBuffer(dir string) bool {
	if st, err := os.Stat(filepath.Join(dir, "checkpoint")); err == nil && st.Mode().IsRegular() {
		return true
	}
	found, _ := filepath.Glob(filepath.Join(escape(dir), strings.Repeat("[0-9a-f]", 16)+".seg")) // the pattern is well-formed
	return len(found) > 0
}

// Buffers are the buffers in the directory of an output, oldest events first: of streams that
// are parked, its own, and those of its backlog.
func Buffers(dir string) (dirs []string) {
	for _, queue := range []string{dir, filepath.Join(dir, BacklogDir)} {
		for _, d := range []string{filepath.Join(queue, ParkedDir), queue} {
			if IsBuffer(d) {
				dirs = append(dirs, d)
			}
		}
	}
	return dirs
}

// escape makes a path that stands in a pattern mean itself.
func escape(path string) string {
	out := make([]rune, 0, len(path))
	for _, r := range path {
		switch r {
		case '*', '?', '[', '\\':
			out = append(out, '\\')
		}
		out = append(out, r)
	}
	return string(out)
}

// reportOrphans logs each orphan that holds events.
func (a *App) reportOrphans(plan *Plan) {
	for _, dir := range orphans(plan) {
		if _, err := buffer.Inspect(vfs.OS{}, dir, false); err != nil {
			a.o.Log.Warn("a buffer directory belongs to no output and cannot be read", "dir", dir, "error", err)
			continue
		}
		pending := uint64(0)
		for _, d := range Buffers(dir) {
			if info, err := buffer.Inspect(vfs.OS{}, d, false); err == nil {
				pending += info.Pending
			}
		}
		if pending > 0 {
			a.o.Log.Warn("a buffer directory belongs to no output and holds events; they stay there", "dir", dir, "events", pending,
				"hint", "deliver them with: weir buffer drain -c FILE --output ID "+dir)
		}
	}
}

// ParkedTag takes the tag of a batch of a parking lot apart: its lane and, if that was kept,
// the tag that it had.
func ParkedTag(t string) (lane, tag string) { return deliver.ParkedTag(t) }
