package expr

import (
	"math"
	"math/big"
	"sync"
)

// The C library's functions round nearly always to the nearest float, which those of package
// math do not: 100**1.5 would be 1000.0000000000002. So they are computed with more digits.

// precision is that of what is computed, in bits; a function counts as so many steps.
const (
	precision    = 128
	preciseSteps = 400
)

func wide(x float64) *big.Float { return new(big.Float).SetPrec(precision).SetFloat64(x) }

// atanh is the inverse hyperbolic tangent of a small z.
func atanh(z *big.Float) *big.Float {
	square, term, sum := wide(0).Mul(z, z), wide(0).Set(z), wide(0).Set(z)
	for i := 3.0; ; i += 2 {
		term.Mul(term, square)
		part := wide(0).Quo(term, wide(i))
		if part.Sign() == 0 || part.MantExp(nil) < sum.MantExp(nil)-precision {
			return sum
		}
		sum.Add(sum, part)
	}
}

// ln2 is the logarithm of 2. Nobody changes it.
var ln2 = sync.OnceValue(func() *big.Float {
	x := atanh(wide(0).Quo(wide(1), wide(3)))
	return x.Mul(x, wide(2))
})

// ln is the natural logarithm of a finite x above 0.
func ln(x float64) *big.Float {
	m, e := math.Frexp(x)
	if m < math.Sqrt2/2 {
		m, e = m*2, e-1
	}
	z := atanh(wide(0).Quo(wide(m-1), wide(0).Add(wide(m), wide(1))))
	z.Mul(z, wide(2))
	return z.Add(z, wide(0).Mul(ln2(), wide(float64(e))))
}

// exp is e to the power of x, which must be such that the result is a float.
func exp(x *big.Float) *big.Float {
	times, _ := wide(0).Quo(x, ln2()).Float64()
	k := math.Round(times)
	rest := wide(0).Sub(x, wide(0).Mul(ln2(), wide(k)))
	const halves = 8
	rest.SetMantExp(rest, -halves)
	term, sum := wide(1), wide(1)
	for i := 1.0; ; i++ {
		term.Quo(term.Mul(term, rest), wide(i))
		if term.Sign() == 0 || term.MantExp(nil) < -precision {
			break
		}
		sum.Add(sum, term)
	}
	for range halves {
		sum.Mul(sum, sum)
	}
	return sum.SetMantExp(sum, int(k))
}

// ordinary says whether a float is neither 0 nor infinite nor no number.
func ordinary(x float64) bool { return x != 0 && !math.IsInf(x, 0) && !math.IsNaN(x) }

// pow is x**y.
func pow(x, y float64) float64 {
	near := math.Pow(x, y)
	if !ordinary(x) || !ordinary(y) || !ordinary(near) || math.Abs(near) < 1e-300 || math.Abs(near) > 1e300 || x == 1 {
		return near
	}
	f, _ := exp(wide(0).Mul(ln(math.Abs(x)), wide(y))).Float64()
	return math.Copysign(f, near)
}

// precise is Math.log, log2, log10 and exp.
func precise(name string, x float64) float64 {
	switch {
	case name == "exp" && (!ordinary(x) || math.Abs(x) > 690):
		return math.Exp(x)
	case name == "exp":
		f, _ := exp(wide(x)).Float64()
		return f
	case !ordinary(x) || x < 0 || x == 1:
		return math.Log(x)
	case name == "log10":
		return log10(x)
	}
	l := ln(x)
	if name == "log2" {
		l.Quo(l, ln2())
	}
	f, _ := l.Float64()
	return f
}

// log10 is not rounded to the nearest float in C either: the logarithms of the mantissa and
// of the power of 2 are added.
func log10(x float64) float64 {
	m, e := math.Frexp(x)
	if e--; e >= 0 {
		m *= 2
	} else {
		e++
	}
	const perLn, highOf2, lowOf2 = 0.434294481903251816668, 0.301029995663611771306, 3.69423907715893078616e-13
	y := float64(e)
	return float64(y*lowOf2+float64(perLn*precise("log", m))) + float64(y*highOf2)
}

// hypot is the length of a hypotenuse.
func hypot(x, y float64) float64 {
	near := math.Hypot(x, y)
	if !ordinary(near) {
		return near
	}
	sum := wide(0).Mul(wide(x), wide(x))
	f, _ := sum.Sqrt(sum.Add(sum, wide(0).Mul(wide(y), wide(y)))).Float64()
	return f
}
