package main

import (
	"flag"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// fromEnvironment sets the flags that were not given from WEIR_ variables: --spool-limit
// from WEIR_SPOOL_LIMIT. An empty variable counts as none: a plugin's has to exist to be
// settable.
func fromEnvironment(fs *flag.FlagSet, lookup func(string) (string, bool)) error {
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	var first error
	fs.VisitAll(func(f *flag.Flag) {
		name := variableOf(f.Name)
		text, ok := lookup(name)
		if !ok || text == "" || given[f.Name] || first != nil {
			return
		}
		if err := fs.Set(f.Name, text); err != nil {
			first = fmt.Errorf("variable %s is %q: %w", name, text, err)
		}
	})
	return first
}

func variableOf(flag string) string {
	return "WEIR_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// sizeFlag is a flag that takes sizes: 512m, 4g, 4GiB, bytes without a unit.
type sizeFlag int64

// String implements flag.Value.
func (s *sizeFlag) String() string {
	if s == nil || *s == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*s), 10)
}

// Set implements flag.Value.
func (s *sizeFlag) Set(text string) error {
	t := strings.ToLower(strings.TrimSpace(text))
	t = strings.TrimSuffix(strings.TrimSuffix(t, "b"), "i")
	shift := 0
	if n := len(t); n > 0 {
		if i := strings.IndexByte("kmgt", t[n-1]); i >= 0 {
			shift, t = 10*(i+1), t[:n-1]
		}
	}
	n, err := strconv.ParseInt(t, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64>>shift {
		return fmt.Errorf("%q is no size: write for example 512m or 4g", text)
	}
	*s = sizeFlag(n << shift)
	return nil
}
