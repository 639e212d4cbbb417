package expr

import "testing"

// TestBoundsHitEachTimeHoldNobodyUp: an expression that runs into its bounds for every
// event is not tried each time, and one good event makes it well again.
func TestBoundsHitEachTimeHoldNobodyUp(t *testing.T) {
	p, err := Compile(`x = ENV["N"].to_i; (1..x).map { |i| (1..x).map { |j| (i * j).to_s }.join }.join.length`)
	if err != nil {
		t.Fatal(err)
	}
	n := "2000"
	env := &Env{Lookup: func(string) (string, bool) { return n, true }}
	tries := 0
	for range 1000 {
		if p.excess.Load() < maxExcess || p.skips.Load() <= 0 {
			tries++
		}
		if _, _, err := p.Eval(env); err == nil {
			t.Fatal("no bound was hit")
		}
	}
	if tries > maxExcess+1000/maxUnseen {
		t.Errorf("1000 events were tried %d times", tries)
	}
	n = "3"
	well := 0
	for range maxUnseen + 10 {
		if _, _, err := p.Eval(env); err == nil {
			well++
		}
	}
	if well < 9 {
		t.Errorf("%d evaluations succeed afterwards", well)
	}
}
