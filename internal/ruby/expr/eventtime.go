package expr

import (
	"time"

	"weir/internal/event"
)

// eventTime is the point in time that an ext holds, if it is Fluentd's EventTime.
func (v Value) eventTime() (t event.Time, ok bool) {
	if v.kind != RawKind || len(v.o.raw) == 0 {
		return 0, false
	}
	t, _, err := event.ReadTime(v.o.raw, 0)
	return t, err == nil
}

// eventTimeMethods are those of an EventTime: it passes to its seconds what it does not know.
// Another ext has none of them.
func eventTimeMethods() map[string]*method {
	out := map[string]*method{}
	for name, f := range numberMethods() {
		out[name] = ofSeconds(f)
	}
	out["=="] = ofSeconds(&method{fn: objectEqual, least: 1, most: 1})
	for _, name := range []string{"to_f", "sec", "nsec", "to_time"} {
		out[name] = &method{fn: ofEventTime}
	}
	return out
}

// ofSeconds is a method of a number for an EventTime.
func ofSeconds(f *method) *method {
	g := *f
	g.fn = func(m *Machine, n *call, v Value, a []Value) (Value, error) {
		t, ok := v.eventTime()
		if !ok {
			return Value{}, m.noMethod(n, v)
		}
		for i := range a {
			if w, ok := a[i].eventTime(); ok {
				a[i] = intValue(w.Seconds())
			}
		}
		return f.fn(m, n, intValue(t.Seconds()), a)
	}
	return &g
}

func ofEventTime(m *Machine, n *call, v Value, _ []Value) (Value, error) {
	t, ok := v.eventTime()
	if !ok {
		return Value{}, m.noMethod(n, v)
	}
	nsec := int64(t) - t.Seconds()*int64(time.Second)
	switch n.name {
	case "to_f":
		return floatValue(float64(t.Seconds()) + float64(nsec)/1e9), nil
	case "nsec":
		return intValue(nsec), nil
	case "to_time":
		w := Value{kind: TimeKind, bits: uint64(t), o: m.objects.get()}
		w.o.loc = m.local
		return w, nil
	}
	return intValue(t.Seconds()), nil
}
