package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"
)

// rotation is when a log file is renamed and a new one begun, as Fluentd does it: beyond a
// size the files are NAME, NAME.0 (the newest), NAME.1 and so on, keep of them in all; or at
// the end of a period the file becomes NAME.YYYYMMDD, and none is ever removed. The zero
// rotation is never.
type rotation struct {
	keep   int
	size   int64
	period string // daily, weekly or monthly; "" for by size
}

// newRotation takes a checked rotate_age and a rotate_size; "" and 0 for those not set.
func newRotation(age string, size int64) rotation {
	if age == "" && size <= 0 {
		return rotation{}
	}
	r := rotation{keep: 7, size: size}
	if size <= 0 {
		r.size = 1 << 20
	}
	if n, err := strconv.Atoi(age); err == nil {
		r.keep = n
	} else if age != "" {
		r.period = age
	}
	return r
}

// next is the end of the period around t; the zero time without one.
func (r *rotation) next(t time.Time) time.Time {
	y, m, d := t.Date()
	switch r.period {
	case "daily":
		d++
	case "weekly": // until Sunday
		d += 7 - int(t.Weekday())
	case "monthly":
		m, d = m+1, 1
	default:
		return time.Time{}
	}
	return time.Date(y, m, d, 0, 0, 0, 0, t.Location())
}

// suffix names the file of the period before the one around t, by its last day.
func (r *rotation) suffix(t time.Time) string {
	y, m, d := t.Date()
	switch r.period {
	case "weekly":
		d -= int(t.Weekday())
	case "monthly":
		d = 1
	}
	return time.Date(y, m, d-1, 12, 0, 0, 0, t.Location()).Format("20060102")
}

// due says whether the file is to be renamed.
func (l *logFile) due(now time.Time) bool {
	switch {
	case now.Before(l.pause):
		return false
	case l.rotate.period != "":
		return !now.Before(l.next)
	}
	return l.rotate.keep > 0 && l.size > l.rotate.size
}

// rotateAgain is how long a rotation that has failed is not tried again.
const rotateAgain = time.Minute

// turn renames the file and begins a new one. After an error the old one goes on. Callers
// hold l.mu.
func (l *logFile) turn(now time.Time) {
	err := l.rename(now)
	if err == nil {
		err = l.open(now)
	}
	if err == nil {
		l.failed = false
		return
	}
	l.pause = now.Add(rotateAgain)
	if !l.failed {
		l.failed = true
		fmt.Fprintf(l.stderr, "weir run: the log file cannot be rotated, it goes on: %v\n", err)
	}
}

func (l *logFile) rename(now time.Time) error {
	if l.rotate.period == "" {
		for i := l.rotate.keep - 3; i >= 0; i-- {
			from := l.name + "." + strconv.Itoa(i)
			if err := os.Rename(from, l.name+"."+strconv.Itoa(i+1)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return os.Rename(l.name, l.name+".0")
	}
	old := l.name + "." + l.rotate.suffix(now)
	for i, name := 1, old; i <= 100; i++ {
		if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
			return os.Rename(l.name, name)
		}
		name = old + "." + strconv.Itoa(i)
	}
	return fmt.Errorf("%s.1 to .99 are there already", old)
}
