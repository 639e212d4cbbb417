package s3

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"weir/internal/output"
)

// Whether the service knows conditions on puts.
const (
	unknown int32 = iota
	supported
	unsupported
)

const (
	// maxKeys bounds how many keys are tried for one object before others get their turn.
	maxKeys = 50
	// lookAbove is the size of an object for which it is cheaper to ask whether the first
	// key of a series is free than to send it in vain.
	lookAbove = 256 << 10
	// proofBelow is the size of an object that is sent twice, once for each process, to
	// find out whether the service knows conditions.
	proofBelow = 1 << 20
)

var (
	errTaken    = errors.New("there is an object with this key already")
	errAllTaken = errors.New("other writers were faster each time")
	errSecond   = errors.New("an object was put in the same second already")
)

// place puts the object of a request under a key that is free.
func (o *Output) place(ctx context.Context, r *request, a *attempt) *output.Error {
	created, refreshed := false, false
	for range maxKeys {
		done, err := o.choose(ctx, r, a)
		if err != nil || done {
			return err
		}
		o.underway.write(r, a)
		fresh := o.conditional()
		perhaps, uerr := o.upload(ctx, r, a, fresh)
		if uerr == nil {
			o.accepted(ctx, r, a, fresh)
			return nil
		}
		switch ans := answerOf(uerr); {
		case fresh && ans.taken():
			o.support.CompareAndSwap(unknown, supported)
			if done, err := o.taken(ctx, r, a); err != nil || done {
				return err
			}
			continue
		case fresh && ans.lacksConditions() && o.support.CompareAndSwap(unknown, unsupported):
			o.warnUnsupported()
			continue
		case ans.code == "NoSuchBucket" && !created && o.p.CheckBucket && o.p.CreateBucket:
			if err := o.createBucket(ctx); err != nil {
				return o.leave(r, a, err)
			}
			created = true
			continue
		case ans.kind(uerr) == output.Credentials && !isCredentials(uerr) && !refreshed && o.refresh(ctx):
			refreshed = true
			continue
		}
		a.unsure = a.unsure || perhaps
		return o.leave(r, a, failure(r.what(), uerr))
	}
	return o.leave(r, a, &output.Error{Kind: output.Conflict, Op: r.what(), Err: errAllTaken})
}

// refresh reads the credentials again after they were refused.
func (o *Output) refresh(ctx context.Context) bool {
	used, err := o.session.Retrieve(ctx)
	return err == nil && o.session.Refresh(ctx, used)
}

// leave ends a try that has failed. An object that cannot be there gives its index back.
func (o *Output) leave(r *request, a *attempt, err *output.Error) *output.Error {
	if a.unsure {
		a.free = false // it is looked at again
	} else {
		if a.key != "" && o.inSeries() {
			o.indexes.giveBack(o.series(r), a.index)
		}
		a.key, a.free = "", false
		a.erase()
	}
	return err
}

// inSeries says whether keys are numbered and the numbers are worth remembering: with
// something random beside it the index is 0.
func (o *Output) inSeries() bool { return o.key.indexed && !o.key.unique && !o.key.random }

// series names the series of keys that the request's belongs to.
func (o *Output) series(r *request) string { return r.key }

// checked says whether a key has to be free.
func (o *Output) checked() bool {
	k := &o.key
	switch {
	case k.unique:
		return false
	case k.indexed, k.random, k.timed:
		return true
	}
	// Nothing makes this key new. With check_object it must be, unless overwrite says
	// otherwise; without, Fluentd replaces what is there.
	return o.p.CheckObject && !o.p.Overwrite
}

// conditional says whether puts carry the condition.
func (o *Output) conditional() bool { return o.checked() && o.support.Load() != unsupported }

// choose gives the attempt a key, and asks whether it is free where the put itself will not
// say that, or would be an expensive way to find out. done means that the object is there
// already.
func (o *Output) choose(ctx context.Context, r *request, a *attempt) (done bool, err *output.Error) {
	known := true
	if a.key == "" {
		a.at, a.index, a.free = o.now(), 0, false
		if o.inSeries() {
			a.index, known = o.indexes.take(o.series(r))
		}
		a.key = o.key.expand(r.key, &a.fresh)
	}
	if !o.checked() || !o.p.CheckObject || a.free {
		return false, nil
	}
	support := o.support.Load()
	if support == supported && r.spool.size <= partSize && (known || r.spool.size <= lookAbove) {
		return false, nil
	}
	there, herr := o.exists(ctx, a.key)
	switch {
	case herr != nil:
		return false, o.leave(r, a, lookFailed("look for s3://"+o.bucket+"/"+a.key, herr))
	case there:
		return o.taken(ctx, r, a)
	}
	a.free = true
	return false, nil
}

// exists asks whether a key is in use. Without the permission to list a bucket S3 does not
// say that something is missing; where puts carry the condition that does not matter.
func (o *Output) exists(ctx context.Context, key string) (bool, error) {
	out, err := o.head(ctx, key)
	if err != nil && answerOf(err).status == http.StatusForbidden && o.support.Load() == supported {
		return false, nil
	}
	return out != nil, err
}

// lookFailed is the error of a question about a key.
func lookFailed(what string, err error) *output.Error {
	e := failure(what, err)
	if e.Kind == output.Denied {
		e.Hint = "allow s3:GetObject and s3:ListBucket, or write %{uuid_flush} or ${chunk_id} into s3_object_key_format"
	}
	return e
}

// taken deals with an attempt whose key is in use: by its own object, if an answer was
// lost, else it gets another key.
func (o *Output) taken(ctx context.Context, r *request, a *attempt) (done bool, err *output.Error) {
	if a.unsure {
		same, cerr := o.ours(ctx, r, a)
		if same {
			o.accepted(ctx, r, a, false)
			return true, nil
		}
		if ans := answerOf(cerr); cerr != nil && ans.status != http.StatusForbidden {
			return false, failure("compare s3://"+o.bucket+"/"+a.key, cerr) // it stays unsure
		}
		a.unsure = false
	}
	a.free = false
	k := &o.key
	switch {
	case o.inSeries():
		return false, o.nextIndex(ctx, r, a)
	case k.random:
		again := newFresh()
		again.at = o.now()
		a.fresh = again
		a.key = k.expand(r.key, &a.fresh)
		return false, nil
	case k.timed:
		return false, o.leave(r, a, &output.Error{Kind: output.Conflict, Op: r.what(), Err: errSecond})
	}
	return false, o.leave(r, a, &output.Error{
		Kind: output.Denied, Op: r.what(), Err: errTaken,
		Hint: "write %{index}, %{uuid_flush} or ${chunk_id} into s3_object_key_format, or overwrite true",
	})
}

// nextIndex gives the attempt the next free index of its series. The first that is free is
// looked for in steps that double, then between the last two: a thousand objects of an
// earlier run cost twenty requests.
func (o *Output) nextIndex(ctx context.Context, r *request, a *attempt) *output.Error {
	at := func(n int) (bool, error) {
		f := a.fresh
		f.index = n
		return o.exists(ctx, o.key.expand(r.key, &f))
	}
	last := a.index // in use
	free := last + 1
	for step := 1; ; step *= 2 {
		there, err := at(free)
		if err != nil {
			a.key = ""
			return lookFailed("look for the next index of s3://"+o.bucket+"/"+o.key.pattern(r.key), err)
		}
		if !there {
			break
		}
		last, free = free, free+step
	}
	for free-last > 1 {
		mid := last + (free-last)/2
		there, err := at(mid)
		if err != nil {
			a.key = ""
			return lookFailed("look for the next index of s3://"+o.bucket+"/"+o.key.pattern(r.key), err)
		}
		if there {
			last = mid
		} else {
			free = mid
		}
	}
	o.indexes.put(o.series(r), last)
	a.index = o.indexes.reserve(o.series(r), free)
	a.free = a.index == free
	a.key = o.key.expand(r.key, &a.fresh)
	return nil
}

// accepted is called when an object is there.
func (o *Output) accepted(ctx context.Context, r *request, a *attempt, fresh bool) {
	if o.inSeries() {
		o.indexes.put(o.series(r), a.index)
	}
	if fresh && o.p.CheckObject && o.support.Load() == unknown && r.spool.size <= proofBelow {
		o.prove(ctx, r, a)
	}
	o.setLifecycle(ctx)
}

// prove puts an object a second time under the condition that it is not there. A service
// that accepts it ignores the condition; it has then replaced the object by the same.
func (o *Output) prove(ctx context.Context, r *request, a *attempt) {
	_, err := o.upload(ctx, r, a, true)
	switch ans := answerOf(err); {
	case err == nil || ans.lacksConditions():
		if o.support.CompareAndSwap(unknown, unsupported) {
			o.warnUnsupported()
		}
	case ans.taken():
		o.support.CompareAndSwap(unknown, supported)
	}
}

func (o *Output) warnUnsupported() {
	if !o.p.CheckObject || strings.Contains(o.p.KeyFormat, "%{uuid_flush}") {
		return
	}
	o.log.Warn("the service does not know If-None-Match: each key is asked for before it is put, and two writers can still overwrite each other",
		"endpoint", o.host, "hint", "write %{uuid_flush} or ${chunk_id} into s3_object_key_format if more than one weir writes there")
}
