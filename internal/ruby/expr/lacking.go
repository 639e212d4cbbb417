package expr

// lacking says whether Ruby's class has a method that we know of other classes only. It is
// then no NoMethodError, which could be rescued, but something that weir cannot do.
func lacking(k Kind, name string) bool {
	switch name {
	case "hash":
		return true
	case "to_r":
		return k == Nil || k == Int || k == Uint || k == Float || k == String
	case "names", "named_captures", "~", "encoding":
		return k == RegexpKind || k == Symbol && name == "encoding"
	case "to_proc":
		return k == HashKind
	case "to_a":
		return k == TimeKind
	case "<<", ">>":
		return k == ProcKind
	case "compact":
		return k == RangeKind
	}
	return false
}

// mustHaveBlock says whether a method called with so many arguments and without a block gives
// an Enumerator, or raises, whatever its receiver is.
func mustHaveBlock(name string, args int) bool {
	switch name {
	case "select", "filter", "reject", "sort_by", "group_by", "partition", "flat_map", "collect_concat", "filter_map", "take_while", "drop_while", "find_all",
		"select!", "filter!", "reject!", "sort_by!", "map!", "collect!", "delete_if", "keep_if", "each_key", "each_value", "tap", "then", "yield_self",
		"find_index", "index", "rindex", "transform_values", "transform_keys", "transform_values!", "transform_keys!":
		return args == 0
	case "find", "detect", "min_by", "max_by", "each_with_object":
		return true
	}
	return false
}
