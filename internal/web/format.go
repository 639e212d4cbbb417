package web

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// count writes a number with its digits in groups: 12 345 678, with narrow no-break spaces.
func count[T uint64 | int64 | int](n T) string {
	s := strconv.FormatInt(int64(n), 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "−", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return sign + s
}

// perSecond writes a rate with as many digits as matter.
func perSecond(r float64) string {
	switch {
	case r == 0:
		return "0"
	case r < 10:
		return strconv.FormatFloat(r, 'f', 1, 64)
	}
	return count(int64(math.Round(r)))
}

// size writes bytes: 512 B, 1.5 KiB, 12 MiB.
func size[T uint64 | int64 | int | float64](n T) string {
	v := float64(n)
	if v < 1024 {
		return fmt.Sprintf("%.0f B", v)
	}
	unit := 0
	for v >= 1024 && unit < 6 {
		v /= 1024
		unit++
	}
	digits := 0
	if v < 10 {
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + " " + "KMGTPE"[unit-1:unit] + "iB"
}

// duration writes at most two units: 350 ms, 12.3 s, 4m 10s, 3h 5m, 2d 4h.
func duration(d time.Duration) string {
	switch {
	case d <= 0:
		return "0 s"
	case d < time.Millisecond:
		return "under 1 ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm %ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh %dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd %dh", int(d.Hours())/24, int(d.Hours())%24)
}

func seconds(s float64) string { return duration(time.Duration(s * float64(time.Second))) }
