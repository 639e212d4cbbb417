package s3

import (
	"crypto/md5"
	"sync"
)

// attempt is an object on its way: what its key is made of, and whether an earlier attempt
// to send it may have been accepted.
type attempt struct {
	fresh
	key    string // "" while it has none
	free   bool   // the key was looked at and nothing is there
	unsure bool   // the object may be there already: an answer was lost, or the process was killed
	note   string // file that says so to the process after this one; "" for none
	events int    // of its object, while it is kept
}

// maxAttempts and maxSeries bound what is remembered. A forgotten attempt may cost a
// repeat, a forgotten series a few requests to find its next index.
const (
	maxAttempts = 1024
	maxSeries   = 4096
)

// attempts remembers objects whose sending failed. Delivery fills a new request for the
// retry; the same bytes in the same lane are the same object, whose key must stay.
type attempts struct {
	mu sync.Mutex // guards m
	m  map[attemptKey]*attempt
}

type attemptKey struct {
	lane string
	sum  [md5.Size]byte
}

// take returns the attempt of a complete object; again says that an earlier one may have
// been accepted.
func (as *attempts) take(r *request) (a *attempt, again bool) {
	k := attemptKey{r.lane, r.spool.total()}
	as.mu.Lock()
	defer as.mu.Unlock()
	if a = as.m[k]; a != nil {
		delete(as.m, k)
		return a, a.unsure
	}
	for old, a := range as.m { // one of as many other events will not come again
		if old.lane == r.lane && a.events == r.count {
			a.erase()
			delete(as.m, old)
		}
	}
	if a = r.o.underway.resume(r, &r.o.key); a != nil {
		return a, true
	}
	return &attempt{fresh: newFresh()}, false
}

// unsure is how many events the object of a lane has that may be there already: the next one
// ends at the same event. Delivery sees to that, but for a lane that is parked meanwhile. 0: there is none.
func (as *attempts) unsure(lane string) int {
	as.mu.Lock()
	defer as.mu.Unlock()
	for k, a := range as.m {
		if k.lane == lane && a.unsure {
			return a.events
		}
	}
	return 0
}

// keep remembers a failed attempt.
func (as *attempts) keep(r *request, a *attempt) {
	as.mu.Lock()
	defer as.mu.Unlock()
	a.events = r.count
	if as.m == nil {
		as.m = map[attemptKey]*attempt{}
	}
	for _, all := range []bool{false, true} { // those that cannot be there first
		for k, old := range as.m {
			if len(as.m) >= maxAttempts && (all || !old.unsure) {
				old.erase()
				delete(as.m, k)
			}
		}
	}
	as.m[attemptKey{r.lane, r.spool.total()}] = a
}

// indexes remembers the next index of each series of keys, so that neither two threads take
// the same one nor the service is asked again and again.
type indexes struct {
	mu    sync.Mutex // guards what follows
	m     map[string]*series
	clock int64 // counts uses, to find the series that was used longest ago
}

type series struct {
	next  int
	known bool // something was put there by us, or its end was looked for
	used  int64
}

func (x *indexes) get(name string) *series {
	s := x.m[name]
	if s == nil {
		if x.m == nil {
			x.m = map[string]*series{}
		}
		if len(x.m) >= maxSeries {
			x.forget()
		}
		s = &series{}
		x.m[name] = s
	}
	x.clock++
	s.used = x.clock
	return s
}

// forget drops the series that was used longest ago.
func (x *indexes) forget() {
	oldest, name := (*series)(nil), ""
	for n, s := range x.m {
		if oldest == nil || s.used < oldest.used {
			oldest, name = s, n
		}
	}
	delete(x.m, name)
}

// take reserves the next index.
func (x *indexes) take(name string) (n int, known bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.get(name)
	n = s.next
	s.next++
	return n, s.known
}

// reserve reserves the first index from n on.
func (x *indexes) reserve(name string, n int) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.get(name)
	n = max(n, s.next)
	s.next = n + 1
	return n
}

// put notes that an index is in use.
func (x *indexes) put(name string, n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.get(name)
	s.next, s.known = max(s.next, n+1), true
}

// giveBack returns an index that was not used, if no later one was reserved meanwhile.
func (x *indexes) giveBack(name string, n int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if s := x.get(name); s.next == n+1 {
		s.next = n
	}
}
