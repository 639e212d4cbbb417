package filter

// grepLegacy holds the numbered parameters that came before the sections: "key pattern".
type grepLegacy struct {
	Regexp1   string `conf:"regexp1" doc:"key and pattern that must match"`
	Regexp2   string `conf:"regexp2" doc:"key and pattern that must match"`
	Regexp3   string `conf:"regexp3" doc:"key and pattern that must match"`
	Regexp4   string `conf:"regexp4" doc:"key and pattern that must match"`
	Regexp5   string `conf:"regexp5" doc:"key and pattern that must match"`
	Regexp6   string `conf:"regexp6" doc:"key and pattern that must match"`
	Regexp7   string `conf:"regexp7" doc:"key and pattern that must match"`
	Regexp8   string `conf:"regexp8" doc:"key and pattern that must match"`
	Regexp9   string `conf:"regexp9" doc:"key and pattern that must match"`
	Regexp10  string `conf:"regexp10" doc:"key and pattern that must match"`
	Regexp11  string `conf:"regexp11" doc:"key and pattern that must match"`
	Regexp12  string `conf:"regexp12" doc:"key and pattern that must match"`
	Regexp13  string `conf:"regexp13" doc:"key and pattern that must match"`
	Regexp14  string `conf:"regexp14" doc:"key and pattern that must match"`
	Regexp15  string `conf:"regexp15" doc:"key and pattern that must match"`
	Regexp16  string `conf:"regexp16" doc:"key and pattern that must match"`
	Regexp17  string `conf:"regexp17" doc:"key and pattern that must match"`
	Regexp18  string `conf:"regexp18" doc:"key and pattern that must match"`
	Regexp19  string `conf:"regexp19" doc:"key and pattern that must match"`
	Regexp20  string `conf:"regexp20" doc:"key and pattern that must match"`
	Exclude1  string `conf:"exclude1" doc:"key and pattern that must not match"`
	Exclude2  string `conf:"exclude2" doc:"key and pattern that must not match"`
	Exclude3  string `conf:"exclude3" doc:"key and pattern that must not match"`
	Exclude4  string `conf:"exclude4" doc:"key and pattern that must not match"`
	Exclude5  string `conf:"exclude5" doc:"key and pattern that must not match"`
	Exclude6  string `conf:"exclude6" doc:"key and pattern that must not match"`
	Exclude7  string `conf:"exclude7" doc:"key and pattern that must not match"`
	Exclude8  string `conf:"exclude8" doc:"key and pattern that must not match"`
	Exclude9  string `conf:"exclude9" doc:"key and pattern that must not match"`
	Exclude10 string `conf:"exclude10" doc:"key and pattern that must not match"`
	Exclude11 string `conf:"exclude11" doc:"key and pattern that must not match"`
	Exclude12 string `conf:"exclude12" doc:"key and pattern that must not match"`
	Exclude13 string `conf:"exclude13" doc:"key and pattern that must not match"`
	Exclude14 string `conf:"exclude14" doc:"key and pattern that must not match"`
	Exclude15 string `conf:"exclude15" doc:"key and pattern that must not match"`
	Exclude16 string `conf:"exclude16" doc:"key and pattern that must not match"`
	Exclude17 string `conf:"exclude17" doc:"key and pattern that must not match"`
	Exclude18 string `conf:"exclude18" doc:"key and pattern that must not match"`
	Exclude19 string `conf:"exclude19" doc:"key and pattern that must not match"`
	Exclude20 string `conf:"exclude20" doc:"key and pattern that must not match"`
}

func (l *grepLegacy) regexps() []string {
	return []string{
		l.Regexp1, l.Regexp2, l.Regexp3, l.Regexp4, l.Regexp5, l.Regexp6, l.Regexp7, l.Regexp8, l.Regexp9, l.Regexp10,
		l.Regexp11, l.Regexp12, l.Regexp13, l.Regexp14, l.Regexp15, l.Regexp16, l.Regexp17, l.Regexp18, l.Regexp19, l.Regexp20,
	}
}

func (l *grepLegacy) excludes() []string {
	return []string{
		l.Exclude1, l.Exclude2, l.Exclude3, l.Exclude4, l.Exclude5, l.Exclude6, l.Exclude7, l.Exclude8, l.Exclude9, l.Exclude10,
		l.Exclude11, l.Exclude12, l.Exclude13, l.Exclude14, l.Exclude15, l.Exclude16, l.Exclude17, l.Exclude18, l.Exclude19, l.Exclude20,
	}
}
